"""Which work shape the fused expert kernels take on a device: what its probes say, put together for a mode.

On compute capability 7.5 the small shape is the rule, and `adaptive` allows the large one where its probe passes, for
gate and up and for down each. From 8.0 on both shapes must pass, and rows an expert decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata.kernels.expert_fused import LARGE, SMALL, shape_for
from strata.kernels.expert_probe import Probed
from strata.kernels.experts import formats_of


@dataclass(frozen=True)
class Shapes:
    """The work shapes of a mode on a device.

    Parameters
    ----------
    gate_up, down
        The work shape of each product, None when the path cannot be used.
    report
        A line for every probe that failed or was odd.
    lost
        Whether a probe cost the card's context, so that no kernel runs in this process.
    """

    gate_up: int | None
    down: int | None
    report: tuple[str, ...]
    lost: bool = False

    @property
    def usable(self) -> bool:
        """Whether the path can be used."""
        return self.gate_up is not None and self.down is not None


def choose(
    mode: str,
    tier: int,
    capability: int,
    pairs: int,
    experts: int,
    adaptive: bool,
    tried: Callable[[str, int], Probed],
) -> Shapes:
    """The shapes of a mode on a device.

    Parameters
    ----------
    mode
        Formats of gate and up, and of down.
    tier
        The number of the path's tier, 75 or 80.
    capability
        The compute capability of the device, times ten.
    pairs, experts
        Routed rows of the call and experts of the layer, for the rule that holds from capability 8.0 on.
    adaptive
        Whether the large shape is allowed below capability 8.0.
    tried
        The probe of a format in a shape, on this device.

    Raises
    ------
    StrataError
        For a mode that does not exist.
    """
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
