"""Devices that are not there, as a probe of expert kernels asks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from strata.executors.base import ContextLostError, Kernel, LaunchError
from strata.kernels.device_reading import Reading
from strata.kernels.expert_fused import LARGE

TURING = Reading(75, 1024, 0, 64 << 10, 1)


@dataclass
class Fake:
    """A device whose readings a test changes; trials: what went wrong, by form and shape."""

    change: Callable[[Kernel, Reading], Reading] = lambda program, reading: reading
    trials: dict[tuple[str, int], str] = field(default_factory=dict)
    launched: list[tuple[str, int]] = field(default_factory=list)
    fault: str = ""
    lost: str = ""

    def read(self, program: Kernel) -> Reading:
        return self.change(program, TURING)

    def trial(self, form: str, tier: int, shape: int) -> str:
        self.launched.append((form, shape))
        if self.fault:
            raise LaunchError(self.fault)
        if (form, shape) == ("iq2_s", LARGE) and self.lost:
            raise ContextLostError(self.lost)
        return self.trials.get((form, shape), "")
