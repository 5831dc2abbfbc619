"""Which work shape the fused expert kernels take on a device, asked of the device itself, format by format.

A shape is tried as it would be used: the image's attributes are read, its shared memory is asked for, blocks that fit a
multiprocessor are counted, and a small expert is computed whose bits are known. What fails leaves that format at the
small shape, with the reason; a small shape that fails closes the path. A trial that faults takes the card's context
along, so nothing is tried after it and every path is closed in this process, with the error.

On compute capability 7.5 the small shape is the rule, and `adaptive` allows the large one where its probe passes, for
gate and up and for down each. From 8.0 on both shapes must pass, and rows an expert decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from strata.executors.base import ContextLostError, Executor, Kernel, StrataError
from strata.formats import FORMATS
from strata.kernels.expert_fused import LARGE, SHAPES, SMALL, kernel, run, shape_for
from strata.kernels.experts import DOWN, GATE_UP, Experts, Geometry, formats_of, layout
from strata.kernels.paths import Path

#: Shared memory of a block that every device gives, and the most that any gives, in bytes.
_EVERY, _ANY = 48 << 10, 228 << 10
#: The most a block may ask for, by compute capability times ten.
SHARED_LIMITS = {75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 90: 227 << 10, 120: 99 << 10}
#: First digits of the SHA-256 of the rows of `trial_inputs`, by mode: the same on every device. A format of gate and up
#: is tried with q2_0, one of down with iq4_xs.
KNOWN = {
    "iq3_xxs/q2_0": "e7738fb9125c5bbc",
    "iq3_s/q2_0": "5c71ad630da306ca",
    "iq4_xs/q2_0": "16ce492c18262fe9",
    "iq2_xxs/q2_0": "6a1a2945465a0dda",
    "iq2_xs/q2_0": "eecb046833a61673",
    "iq2_s/q2_0": "0cd09ebd9c0f9713",
    "iq4_xs/iq4_nl": "2d56e0d58dc931c7",
}
_TRIAL = Geometry(512, 128)


@dataclass(frozen=True)
class Reading:
    """What a device says of a kernel. threads: the most a block may have; local_bytes: of a thread, spills among them;
    shared_limit: of a block, as the driver reports it; resident: blocks of a multiprocessor."""

    capability: int
    threads: int
    local_bytes: int
    shared_limit: int
    resident: int


@dataclass(frozen=True)
class Probed:
    """One kernel tried on a device. reason: why it cannot be used, empty when it can; notes: what was odd;
    lost: the card's context went along, so no kernel of any path runs in this process; wrong: it was launched, and its
    rows are not those that are known."""

    form: str
    shape: int
    reason: str = ""
    notes: tuple[str, ...] = ()
    lost: bool = False
    wrong: bool = False

    @property
    def passed(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Shapes:
    """gate_up, down: the work shape of each product, None when the path cannot be used; report: a line for every probe
    that failed or was odd; lost: as of a probe."""

    gate_up: int | None
    down: int | None
    report: tuple[str, ...]
    lost: bool = False

    @property
    def usable(self) -> bool:
        return self.gate_up is not None and self.down is not None


def shared_limit(reported: int, capability: int) -> tuple[int, str]:
    """Bytes of shared memory that a block may be given, and what was wrong with the driver's number.

    A driver has reported 100000001 (hexadecimal): numbers that no device has are replaced by what every device of the
    capability gives, or every device at all, and larger ones than the capability's are cut to it.
    """
    known = SHARED_LIMITS.get(capability, _EVERY)
    if not _EVERY <= reported <= _ANY:
        return known, f"the driver reports {reported} bytes of shared memory a block; {known} are assumed"
    if capability in SHARED_LIMITS and reported > known:
        return known, f"the driver reports {reported} bytes of shared memory a block, this capability has {known}"
    return reported, ""


def refusal(program: Kernel, reading: Reading) -> tuple[str, str]:
    """Why a kernel cannot be launched on the device of a reading, empty when nothing speaks against it; and a note."""
    limit, note = shared_limit(reading.shared_limit, reading.capability)
    if program.shared_bytes > limit:
        return f"{program.shared_bytes} bytes of shared memory a block, the device gives {limit}", note
    if program.block > reading.threads:
        return f"{program.block} threads a block, its registers allow {reading.threads}", note
    if reading.resident < 1:
        return "no block fits a multiprocessor", note
    if reading.local_bytes and reading.capability < 80:
        return f"{reading.local_bytes} bytes of a thread lie in local memory", note
    return "", note


class Device(Protocol):
    """What a probe needs of a device."""

    def read(self, program: Kernel) -> Reading:
        """Raises StrataError when the kernel cannot even be loaded."""
        ...

    def trial(self, form: str, tier: int, shape: int) -> str:
        """Launch the kernel on the small expert; what went wrong, or nothing. Raises StrataError for a fault."""
        ...


def probe(device: Device, form: str, tier: int, shape: int) -> Probed:
    """Try one kernel. An error of the device is a reason, not an error; the loss of its context is told as such."""
    program = kernel(form, tier, shape)
    try:
        reason, note = refusal(program, device.read(program))
        wrong = "" if reason else device.trial(form, tier, shape)
    except ContextLostError as error:
        return Probed(form, shape, str(error), lost=True)
    except StrataError as error:
        return Probed(form, shape, str(error))
    return Probed(form, shape, reason or wrong, (note,) if note else (), wrong=bool(wrong))


def choose(
    mode: str,
    tier: int,
    capability: int,
    pairs: int,
    experts: int,
    adaptive: bool,
    tried: Callable[[str, int], Probed],
) -> Shapes:
    """The shapes of a mode. tried: the probe of a format in a shape, on this device; pairs and experts: of the layer,
    for the rule that holds from capability 8.0 on."""
    report: list[str] = []
    lost = False

    def passes(form: str, shape: int) -> bool:
        nonlocal lost
        if lost:
            return False
        found = tried(form, shape)
        report.extend(f"{form}, shape {shape}: {line}" for line in (found.reason, *found.notes) if line)
        lost = found.lost
        return found.passed

    forms = formats_of(mode)
    if capability >= 80 and tier >= 80:
        good = [passes(form, shape) for form in forms for shape in (SMALL, LARGE)]
        shape = shape_for(pairs, experts) if all(good) else None
        return Shapes(shape, shape, tuple(report), lost)
    small = [passes(form, SMALL) for form in forms]
    if not all(small):
        return Shapes(None, None, tuple(report), lost)
    gate_up, down = (LARGE if adaptive and passes(form, LARGE) else SMALL for form in forms)
    if lost:
        return Shapes(None, None, tuple(report), lost)
    return Shapes(gate_up, down, tuple(report))


class Probes:
    """Probes of one device for a tier, each made once; after the context was lost, none is."""

    def __init__(self, device: Device, tier: int) -> None:
        self._device, self._tier = device, tier
        self._found: dict[tuple[str, int], Probed] = {}
        self._lost: Probed | None = None

    def __call__(self, form: str, shape: int) -> Probed:
        """The probe of a format in a work shape."""
        if self._lost is not None:
            return Probed(form, shape, self._lost.reason, lost=True)
        found = self._found.get((form, shape))
        if found is None:
            found = self._found[form, shape] = probe(self._device, form, self._tier, shape)
            if found.lost:
                self._lost = found
        return found


def lines(tried: Callable[[str, int], Probed]) -> Iterator[str]:
    """What the probe says of every format in both shapes, a line each, as each is tried; the last one is that which
    lost the context, where one did."""
    for form in (*GATE_UP, *DOWN):
        for shape in (SMALL, LARGE):
            found, (rows, columns) = tried(form, shape), SHAPES[shape]
            said = "; ".join((found.reason or "passes", *found.notes))
            yield f"{form} at {rows} x {columns}: {said}"
            if found.lost:
                return


def trial_inputs(mode: str) -> tuple[Experts, np.ndarray, np.ndarray]:
    """Two small experts, tokens and ids, made of integers: the same bytes everywhere."""
    gate_up, down = formats_of(mode)
    size = layout(gate_up, down, _TRIAL)
    blobs = []
    for e in range(2):
        state = np.arange(size.nbytes, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(977 * e + 1)
        state ^= state >> np.uint32(15)
        state *= np.uint32(2246822519)
        blob = (state >> np.uint32(13)).astype(np.uint8)
        for form, begin, end in ((gate_up, 0, size.down), (down, size.down, size.nbytes)):
            blocks = blob[begin:end].reshape(-1, FORMATS[form].nbytes)
            # d between 2^-13 and 2^-10, either sign
            blocks[:, 1] = (blocks[:, 1] & 0x83) | np.uint8(0x08) + (blocks[:, 0] & 0x04)
        blobs.append(blob)
    tokens = np.arange(7 * _TRIAL.n, dtype=np.int64).reshape(7, _TRIAL.n)
    x = ((tokens * 7919 % 2039 - 1019) / 512).astype(np.float32)
    x[3] = 0
    ids = np.array([[0, 1], [1, 0], [1, 1], [0, 1], [2, 0], [1, -1], [0, 0]], np.int32)
    return Experts(gate_up, down, _TRIAL, blobs, (0, 2)), x, ids


def answer(executor: Executor, mode: str, tier: int, shapes: tuple[int, int]) -> str:
    """First digits of the digest of the rows that an executor gives for `trial_inputs`."""
    experts, x, ids = trial_inputs(mode)
    routed = run(executor, Path("expert_fused", mode, f"sm{tier}", tier), experts, x, ids, shape=shapes)
    return hashlib.sha256(routed.rows.tobytes()).hexdigest()[:16]


class Card:
    """The card of a CudaExecutor as a probe sees it."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def read(self, program: Kernel) -> Reading:
        """The loaded function's own attributes."""
        return Reading(**self._executor.attributes(program))

    def trial(self, form: str, tier: int, shape: int) -> str:
        """The trial's rows, with the other product in the small shape."""
        down = form in DOWN
        mode = f"iq4_xs/{form}" if down else f"{form}/q2_0"
        got = answer(self._executor, mode, tier, (SMALL, shape) if down else (shape, SMALL))
        return "" if got == KNOWN[mode] else f"the trial's rows have the digest {got}, expected {KNOWN[mode]}"
