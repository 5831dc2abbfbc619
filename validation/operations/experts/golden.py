"""Blocks that ggml quantised: the files of `fixtures/blocks`, which a wheel has beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from strata.executors.base import StrataError
from strata.formats import FORMATS
from validation.core.arrays import frozen

_HERE = Path(__file__).resolve().parent
_FOLDERS = (_HERE, _HERE.parents[2] / "fixtures" / "blocks")


def folder(folders: tuple[Path, ...] = _FOLDERS) -> Path:
    """Where `experts.npz` and `blocks.npz` lie. Raises StrataError when the package came without them."""
    for one in folders:
        if (one / "experts.npz").is_file() and (one / "blocks.npz").is_file():
            return one
    raise StrataError(f"blocks.npz and experts.npz are not in {folders[0]}: install the package again")


@cache
def blocks(form: str) -> np.ndarray:
    """uint8 [blocks, bytes of one] of a format, read-only: those of small experts and those of hostile rows, without
    the few whose scale is not finite."""
    size = FORMATS[form].nbytes
    with np.load(folder() / "experts.npz") as file:
        parts = [file[name].reshape(-1, size) for name in sorted(file.files) if name.startswith(f"{form}_")]
    with np.load(folder() / "blocks.npz") as file:
        parts.append(file[f"{form}_blocks"].reshape(-1, size))
    found = np.unique(np.concatenate(parts), axis=0)
    half = np.ascontiguousarray(found[:, :2]).view("<f2")[:, 0]
    return frozen(np.asarray(found[np.isfinite(half)]))
