"""Blocks that ggml quantised, from the fixtures."""

from __future__ import annotations

from functools import cache

import numpy as np

from fixtures.blocks import EXPERTS, golden
from strata.formats import FORMATS
from validation.core.arrays import frozen


@cache
def blocks(form: str) -> np.ndarray:
    """uint8 [blocks, bytes of one] of a format, read-only: those of small experts and those of hostile rows, without
    the few whose scale is not finite."""
    size = FORMATS[form].nbytes
    with np.load(EXPERTS) as file:
        parts = [file[name].reshape(-1, size) for name in sorted(file.files) if name.startswith(f"{form}_")]
    parts.append(golden(form).blocks.reshape(-1, size))
    found = np.unique(np.concatenate(parts), axis=0)
    half = np.ascontiguousarray(found[:, :2]).view("<f2")[:, 0]
    return frozen(np.asarray(found[np.isfinite(half)]))
