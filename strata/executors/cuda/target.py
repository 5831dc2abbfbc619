"""What an image is compiled for, and whether the loaded image is that one.

A cubin (`sm_90`) is machine code and runs on its own major architecture; PTX (`compute_75`) is compiled by
the driver for whatever newer card it meets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strata.executors.base import ExecutorUnavailable, LaunchError


def plan(target: str | None, capability: int, archs: Sequence[int], compiler: str) -> str:
    """The architecture to compile for.

    Parameters
    ----------
    target
        None for the card's own cubin; `compute_NN` for PTX; `sm_NN` for that cubin where the card can run it, else its
        PTX.
    capability
        The compute capability of the card, times ten.
    archs
        The compute capabilities, times ten, that the compiler knows.
    compiler
        What messages call the compiler.

    Returns
    -------
    str
        `sm_NN` for a cubin, `compute_NN` for PTX.

    Raises
    ------
    ExecutorUnavailable
        When the card or the compiler cannot serve the target.
    """
    known = f"{compiler} compiles for {', '.join(map(str, archs))}"
    if target is None:
        if capability in archs:
            return f"sm_{capability}"
        older = [arch for arch in archs if arch < capability]
        advice = f"name an older target, e.g. compute_{older[-1]}" if older else "a card this old needs an older CUDA"
        raise ExecutorUnavailable(f"this card is sm_{capability} and {known}: {advice}")
    match = re.fullmatch(r"(sm|compute)_([0-9]{2,3})", target)
    if match is None:
        raise ExecutorUnavailable(f"target {target!r}: expected sm_NN or compute_NN, e.g. sm_75")
    number = int(match.group(2))
    if number > capability:
        raise ExecutorUnavailable(f"target {target} is newer than this card, which is sm_{capability}")
    if number not in archs:
        raise ExecutorUnavailable(f"target {target}: {known}")
    if match.group(1) == "sm" and number // 10 == capability // 10:
        return f"sm_{number}"
    return f"compute_{number}"


def confirm(arch: str, binary: int, ptx: int, capability: int, label: str) -> str:
    """What really runs, for the witness.

    Parameters
    ----------
    arch
        What the image was compiled for.
    binary, ptx
        The loaded function's own attributes: the capabilities of its machine code and of its PTX, times ten.
    capability
        The compute capability of the card, times ten.
    label
        The kernel, for messages.

    Returns
    -------
    str
        `sm_90`, or `compute_75 on sm_90` for PTX that the driver compiled.

    Raises
    ------
    LaunchError
        When the attributes are not those of `arch`.
    """
    asked = int(arch.rpartition("_")[2])
    if arch.startswith("sm_"):
        right, loaded = binary == asked, f"sm_{binary}"
    else:
        # The driver writes code for the card, or for an older one of the card's family.
        right = ptx == asked and binary // 10 == capability // 10 and asked <= binary <= capability
        loaded = f"compute_{ptx} on sm_{binary}"
    if not right:
        raise LaunchError(f"{label}: the image asked for is {arch}, the one loaded says {loaded}")
    return loaded
