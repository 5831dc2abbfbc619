"""Whether a fused expert kernel can be used on a device in a work shape, asked of the device itself, format by format.

A shape is tried as it would be used: the image's attributes are read, its shared memory is asked for, blocks that fit a
multiprocessor are counted, and a small expert is computed whose bits are known. What fails leaves that format at the
small shape, with the reason; a small shape that fails closes the path (`expert_shapes`). A trial that faults takes the
card's context along, so nothing is tried after it and every path is closed in this process, with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from strata.executors.base import ContextLostError, Kernel, StrataError
from strata.kernels.device_reading import Reading, refusal
from strata.kernels.expert_fused import LARGE, SHAPES, SMALL, kernel
from strata.kernels.expert_trial import KNOWN, answer
from strata.kernels.experts import DOWN, GATE_UP


@dataclass(frozen=True)
class Probed:
    """One kernel that was tried on a device.

    Parameters
    ----------
    form
        The format of its weights.
    shape
        Its work shape.
    reason
        Why it cannot be used, empty when it can.
    notes
        What was odd.
    lost
        Whether the card's context went along, so that no kernel of any path runs in this process.
    wrong
        Whether it was launched and its rows are not those that are known.
    """

    form: str
    shape: int
    reason: str = ""
    notes: tuple[str, ...] = ()
    lost: bool = False
    wrong: bool = False

    @property
    def passed(self) -> bool:
        """Whether the kernel can be used."""
        return not self.reason


class Device(Protocol):
    """What a probe needs of a device."""

    def read(self, program: Kernel) -> Reading:
        """Raises StrataError when the kernel cannot even be loaded."""
        ...

    def trial(self, form: str, tier: int, shape: int) -> str:
        """Launch a kernel on the small expert.

        Parameters
        ----------
        form
            The format of its weights.
        tier
            75 or 80.
        shape
            Its work shape.

        Returns
        -------
        str
            What went wrong, "" for nothing.

        Raises
        ------
        StrataError
            For a fault.
        """
        ...


def probe(device: Device, form: str, tier: int, shape: int) -> Probed:
    """Try one kernel.

    An error of the device is a reason and is not raised; the loss of its context is told as such.

    Parameters
    ----------
    device
        The device.
    form
        The format of the kernel's weights.
    tier
        75 or 80.
    shape
        The kernel's work shape.

    Raises
    ------
    StrataError
        For a kernel that does not exist.
    """
    program = kernel(form, tier, shape)
    try:
        reason, note = refusal(program, device.read(program))
        wrong = "" if reason else device.trial(form, tier, shape)
    except ContextLostError as error:
        return Probed(form, shape, str(error), lost=True)
    except StrataError as error:
        return Probed(form, shape, str(error))
    return Probed(form, shape, reason or wrong, (note,) if note else (), wrong=bool(wrong))


class Probes:
    """Probes of one device, each made once; after the context was lost, none is made.

    Parameters
    ----------
    device
        The device.
    tier
        75 or 80.
    """

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


class Card:
    """The card of a CudaExecutor as a probe sees it.

    Parameters
    ----------
    executor
        The executor.
    """

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def read(self, program: Kernel) -> Reading:
        """The loaded function's own attributes."""
        return Reading(**self._executor.attributes(program))

    def trial(self, form: str, tier: int, shape: int) -> str:
        """Launch a kernel on the small expert, with the other product in the small shape.

        Parameters
        ----------
        form
            The format of its weights.
        tier
            75 or 80.
        shape
            Its work shape.

        Returns
        -------
        str
            How the rows differ from those that are known, "" when they do not.

        Raises
        ------
        StrataError
            For a fault.
        """
        down = form in DOWN
        mode = f"iq4_xs/{form}" if down else f"{form}/q2_0"
        got = answer(self._executor, mode, tier, (SMALL, shape) if down else (shape, SMALL))
        return "" if got == KNOWN[mode] else f"the trial's rows have the digest {got}, expected {KNOWN[mode]}"
