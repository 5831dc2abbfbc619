"""How many processors this process may use: what every count of threads and processes here begins from.

A machine may have more than a process may use: `taskset` and job schedulers give it some of them, a container a
share of their time. Standard library only.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def usable() -> int:
    """Processors that this process may keep busy, at least 1: those of its affinity, and no more than its control
    groups' share of processor time, rounded up. `PYTHON_CPU_COUNT` says otherwise from Python 3.13 on."""
    allowed = _allowed()
    share = quota()
    return max(1, allowed if share is None else min(allowed, math.ceil(share)))


def _allowed() -> int:
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quota(own: Path = _OWN_CGROUP, root: Path = _CGROUPS) -> float | None:
    """Processors' worth of time that the control groups of this process allow it.

    Parameters
    ----------
    own
        The file that names the groups of the process.
    root
        The directory where control groups are mounted.

    Returns
    -------
    float or None
        The smallest limit on the way from a group up to the root, because a limit holds for all groups below its own;
        None without a limit, and on systems without control groups.

    References
    ----------
    The Linux kernel, Documentation/admin-guide/cgroup-v2.rst (`cpu.max`) and cgroup-v1 (`cpu.cfs_quota_us`,
    `cpu.cfs_period_us`).
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None  # not Linux
    shares = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        place = base / path.lstrip("/")
        for folder in (place, *place.parents):
            shares.append(_version_1(folder) if controllers else _version_2(folder))
            if folder == base:
                break
    return min((share for share in shares if share is not None), default=None)


def _version_2(folder: Path) -> float | None:
    """Of `cpu.max`: microseconds of processor time in a period of microseconds, or `max` for all of it."""
    try:
        most, period = (folder / "cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None  # the root has none, nor a group without the controller


def _version_1(folder: Path) -> float | None:
    try:
        most, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return None if most < 0 else most / period
    except (OSError, ValueError, ZeroDivisionError):
        return None
