"""The planes of a pool as named outputs, and two pools compared byte for byte."""

from __future__ import annotations

from dataclasses import replace

from strata.kernels.pool import Pool
from validation.core.outcome import Arrays
from validation.core.verdict import Check, combine, holds, identical

_PLANES = ("k", "v", "k_scale", "v_scale")


def planes_of(pool: Pool) -> Arrays:
    """The planes that a pool has, by name, each [pages, kv, page_size, row]."""
    return {name: plane for name in _PLANES if (plane := getattr(pool, name)) is not None}


def same_pool(name: str, got: Pool, want: Pool) -> Check:
    """EXACT when all planes of two pools have the same bytes; the reason names the plane."""
    return same_planes(name, planes_of(got), planes_of(want))


def same_planes(name: str, got: Arrays, want: Arrays) -> Check:
    """As `same_pool`, of planes by name."""
    checks: list[Check] = []
    for plane in dict.fromkeys((*want, *got)):
        if plane not in got or plane not in want:
            checks.append(holds(name, False, f"{plane} is there on one side only"))
            continue
        check = identical(name, got[plane], want[plane])
        checks.append(replace(check, reason=f"{plane} {check.reason}" if check.reason else ""))
    verdict = combine(checks)
    worst = next(check for check in checks if check.verdict is verdict)
    figures = {key: sum(int(check.figures.get(key, 0)) for check in checks) for key in ("compared", "differing")}
    return Check(name, verdict, worst.reason, dict(figures))
