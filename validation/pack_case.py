"""Runs one case of a packing path: every stored byte against the reference packers, and the rotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from strata.kernels.pool import MODE_FORMATS, Pool
from validation import pack_values, planes
from validation.bounds import kv_pack as bounds
from validation.cases import Case
from validation.findings import Findings
from validation.planes import Cells
from validation.pools import page_table, place
from validation.recipes import find
from validation.reference import kv_pack as reference
from validation.settings import Settings
from validation.verdict import Check, holds, identical, within


def pack(
    executor: Executor, mode: str, k: np.ndarray, v: np.ndarray, *, page_size: int, table: np.ndarray
) -> Pool:
    """The pool that the kernel under test makes of float32 k and v [cells, kv, 256]."""
    from strata.kernels import kv_pack

    return kv_pack.pack(executor, mode, k, v, page_size=page_size, table=table)


def run(case: Case, path: Path, executor: Executor, settings: Settings) -> Findings:
    raise NotImplementedError
