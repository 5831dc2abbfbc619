"""Which path serves an operation on a device, and why: the one place where that is decided.

A switch asks, the gate grants, the compiler at hand must have machine code for the device; whatever fails first sends
the call to the next lower tier of the operation and at last to the baseline, with the reason. Machine code is asked for
because records are about it: what a driver makes of PTX comes from a compiler that nobody pinned and no record covers.
So a later minor of a known major is served by the nearest lower machine code, which CUDA promises to run, and an
unknown major by the baseline through PTX until the project's compiler knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strata.device import Device, dotted
from strata.executors.base import StrataError
from strata.executors.cuda.driver import OLDEST_CUDA
from strata.gates.gate import Decision
from strata.gates.policy import POLICY
from strata.kernels import registry, tiers
from strata.kernels.path import Path
from strata.kernels.paths import PATHS
from strata.switches import Switches

Gate = Callable[[Path, Device], Decision]


@dataclass(frozen=True)
class Refused:
    """A path that does not serve.

    Parameters
    ----------
    path
        Its name.
    cause
        What refused it: `switch`, `compiler` or `gate`.
    why
        One line.
    """

    path: str
    cause: str
    why: str


@dataclass(frozen=True)
class Served:
    """Which path serves a call, and why.

    Parameters
    ----------
    path
        The name of the path that serves, None when none can.
    reason
        One line.
    target
        What to compile the path for: `sm_NN`, or `compute_NN` for PTX; None on the CPU, or without a path.
    instead_of
        The name of the first path that was refused, else None.
    cause
        What refused it: as of `Refused`, or, of experts, `layer` or `probe`; else None.
    refused
        All paths that were refused, in order. The reason tells why each one was.
    """

    path: str | None
    reason: str
    target: str | None = None
    instead_of: str | None = None
    cause: str | None = None
    refused: tuple[Refused, ...] = ()


def serve(operation: str, mode: str, device: Device, switches: Switches, gate: Gate) -> Served:
    """The path that serves an operation over a mode on a device.

    Parameters
    ----------
    operation, mode
        Names, as in paths.
    device
        The device that asks.
    switches
        What the environment asks for.
    gate
        The decision for a path and a device.

    Returns
    -------
    Served
        The path of the highest tier that the device runs and that switches, compiler and gate let serve, else the
        baseline; without a path where nothing can run on the device.

    Raises
    ------
    StrataError
        For an operation or a mode that does not exist.
    """
    tried, base = _candidates(operation, mode, device)
    if device.capability is None:
        return Served(base.name, f"{base.name}: {device.name} is no card, so no {_kinds(operation)} is proved for it")
    unable = _unable(device, base)
    if unable:
        return Served(None, f"no path of {operation}/{mode} can run: {unable}")
    code = device.machine_code
    target = f"compute_{device.ptx}" if code is None else f"sm_{code}"
    if not tried:
        why = (
            "it is the only one" if base.operation == operation else f"compute capability {device.dotted} has no other"
        )
        return Served(base.name, f"{base.name}: {why}", target)
    refused: list[Refused] = []
    for path in tried:
        found = _refused(path, device, switches, gate)
        if found is None:
            return _served(path, gate(path, device).reason, target, refused)
        refused.append(Refused(path.name, *found))
    return _served(base, "", target, refused)


def _served(path: Path, opened: str, target: str, refused: Sequence[Refused]) -> Served:
    """A path in place of those that were refused. opened: what the gate says of it, "" of a baseline."""
    if not refused:
        return Served(path.name, f"{path.name}: {opened}", target)
    said = f"{path.name} " + ", and ".join(f"instead of {one.path}: {one.why}" for one in refused)
    if opened:
        said = f"{said}; {path.name} is {opened}"
    return Served(path.name, said, target, refused[0].path, refused[0].cause, tuple(refused))


def _candidates(operation: str, mode: str, device: Device) -> tuple[list[Path], Path]:
    """The paths that a record opens on the device, those of the highest tier first, and the baseline."""
    modes = registry.find(operation).modes
    if mode not in modes:
        raise StrataError(f"{operation}: mode {mode!r}, expected one of {', '.join(modes)}")
    rows = [path for path in PATHS.values() if (path.operation, path.mode) == (operation, mode)]
    own = [path for path in rows if path.baseline is not None]
    bases = [PATHS[str(path.baseline)] for path in own] or rows
    able = [path for path in bases if device.capability is not None and path.min_capability <= device.capability]
    tried = [path for path in own if _serves(path, device.capability)]
    return sorted(tried, key=lambda path: -path.tier_number), (able or bases[:1])[-1]


def _kinds(operation: str) -> str:
    """What a record opens of an operation."""
    one = registry.find(operation)
    return "path" if one.gated and not all(tiers.find(tier).tensor_cores for tier in one.tiers) else "tensor-core path"


def _serves(path: Path, capability: int | None) -> bool:
    lowest, highest = POLICY.rules[path.tier].serves
    return capability is not None and lowest <= capability <= highest


def _unable(device: Device, base: Path) -> str:
    """Why nothing can run on a card; "" when something can."""
    if device.capability is None or device.capability < base.min_capability:
        return f"compute capability {device.dotted}, {base.name} needs {dotted(base.min_capability)}"
    if device.driver is None or device.driver < OLDEST_CUDA:
        runs = "no CUDA" if device.driver is None else f"CUDA {device.driver[0]}.{device.driver[1]}"
        return f"its driver runs {runs}, expected {OLDEST_CUDA[0]}.{OLDEST_CUDA[1]} or newer (driver 525)"
    if device.compiler is None:
        return "there is no NVRTC; the extras cuda12x and cuda13x bring one"
    if device.compiler > device.driver[0]:
        return f"its driver runs CUDA {device.driver[0]}, the compiler is of CUDA {device.compiler}: use cuda12x"
    if device.ptx is None:
        known = f"{dotted(min(device.archs))} and newer" if device.archs else "nothing"
        return f"the compiler (CUDA {device.compiler}) knows {known}, this is {device.dotted}: use cuda12x"
    return ""


def _refused(fast: Path, device: Device, switches: Switches, gate: Gate) -> tuple[str, str] | None:
    """Cause and reason why a path that the device runs does not serve; None when it does."""
    operation = registry.find(fast.operation)
    for veto in operation.vetoes:
        if veto.concerns(fast) and switches.value(veto.switch) == veto.value:
            return "switch", f"{veto.switch}={veto.value} asks for it"
    for request in operation.requests:
        if request.concerns(fast) and switches.value(request.switch) != request.value:
            asked = f"{request.switch}={request.value}"
            return "switch", f"it serves only where {asked} asks; the gate says {gate(fast, device).line}"
    code = device.machine_code
    if code is None or code < fast.min_capability:
        return "compiler", (
            f"the compiler (CUDA {device.compiler}) has no machine code for compute capability {device.dotted}, "
            "and no record covers what a driver makes of PTX; a newer NVRTC opens the way"
        )
    decision = gate(fast, device)
    return None if decision.open else ("gate", decision.line)
