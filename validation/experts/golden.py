"""Blocks that ggml quantised, from the fixtures."""

from __future__ import annotations

import numpy as np


def blocks(form: str) -> np.ndarray:
    """uint8 [blocks, bytes of one] of a format."""
    raise NotImplementedError(form)
