"""What checks in common use would say of a kernel: NMSE <= 5e-4 and allclose(1e-2) on friendly data.

Mutants are tried on them besides, to show what they let through. An operation may have others in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import Executor
from strata.kernels.paths import Path
from validation.core.random_streams import Stream

#: The two limits. The first is that of a widespread backend test, the second a customary pair of rtol and atol.
NMSE = 5e-4
CLOSE = 1e-2

_GRID_BITS = 16


@dataclass(frozen=True)
class Conventional:
    """What they ask of an operation.

    Parameters
    ----------
    run
        What they say of a path on an executor, on data of a seed: `nmse`, and of each check `..._passes`.
    second
        The checks beside that of NMSE.
    flavor
        The build on lanes.
    """

    run: Callable[[Path, Executor, int], dict[str, Any]]
    second: tuple[str, ...] = ("allclose_passes",)
    flavor: str = "fast"


def judge(got: np.ndarray, want: np.ndarray) -> dict[str, Any]:
    """Both checks.

    Returns
    -------
    nmse, the sum of squared errors over that of `want`, None when not finite; and which of the two checks pass.
    """
    with np.errstate(all="ignore"):
        nmse = float(np.square(got.astype(np.float64) - want).sum() / np.square(want).sum())
        close = bool(np.allclose(got, want, rtol=CLOSE, atol=CLOSE))
    known = bool(np.isfinite(nmse))
    return {"nmse": nmse if known else None, "nmse_passes": known and nmse <= NMSE, "allclose_passes": close}


def stream_of(seed: int) -> Stream:
    """Where friendly data come from."""
    return Stream.of(seed, "usual")


def uniform(stream: Stream, shape: tuple[int, ...]) -> np.ndarray:
    """float32 multiples of 2**-15 in [-1, 1)."""
    return ((stream.below(1 << _GRID_BITS, shape) - (1 << _GRID_BITS - 1)) / (1 << _GRID_BITS - 1)).astype(np.float32)
