"""What an operation says of itself to everything that is not its kernel: the table of paths, the gate, dispatch, the
static check and validation.

Each operation's module defines one, as `DESCRIPTOR`, and `strata.kernels.registry` finds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from strata.executors.base import Kernel, StrataError
from strata.kernels import tiers
from strata.kernels.limits import Limits
from strata.kernels.path import Path
from strata.kernels.required import Required


@dataclass(frozen=True)
class SwitchRule:
    """A value of a switch that decides whether paths or their baselines serve.

    Parameters
    ----------
    switch, value
        The name of a switch in `strata.switches`, and the value.
    modes
        The modes that it concerns, all of them when empty.
    tier
        The tier that it concerns, None for each.
    """

    switch: str
    value: str
    modes: tuple[str, ...] = ()
    tier: str | None = None

    def concerns(self, path: Path) -> bool:
        """Whether the rule is about a path of its operation."""
        return (not self.modes or path.mode in self.modes) and self.tier in (None, path.tier)


def _no_formats(mode: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Descriptor:
    """One operation.

    Parameters
    ----------
    name
        Of the operation, and so of its .cu and its .py.
    takes
        What it takes in, by the folder of `validation/operations` that makes such inputs: operations that take the
        same are judged on the same cases.
    modes, tiers
        Every pair of them is a path.
    kernels
        Every kernel that a path launches unless another work shape is asked for: a record must show all of them.
    limits
        Limits of the machine code of a path, by entry and compute capability, times ten.
    all_kernels
        Those of every work shape that may be asked for, None where `kernels` are all.
    replaces
        The operation whose paths are the baselines of this one's. An operation that replaces another is gated: it
        serves where a record proves it.
    lowest
        The lowest compute capability, times ten, where it is above that of the tier.
    required
        Cases that a record must hold for each path. A gated operation requires some.
    codebooks
        Formats of a mode whose codebooks the host uploads.
    rounded_sums
        Whether bits depend on how tensor cores round sums, which differs between architectures.
    vetoes
        Values of switches that keep paths on the baseline.
    requests
        Values of switches without which paths do not serve.

    Raises
    ------
    StrataError
        For a tier that does not exist, and for a gated operation that requires no case.
    """

    name: str
    takes: str
    modes: tuple[str, ...]
    tiers: tuple[str, ...]
    kernels: Callable[[Path], Sequence[Kernel]]
    limits: Callable[[Path, str, int], Limits]
    all_kernels: Callable[[Path], Sequence[Kernel]] | None = None
    replaces: str | None = None
    lowest: int = 0
    required: tuple[Required, ...] = ()
    codebooks: Callable[[str], tuple[str, ...]] = field(default=_no_formats)
    rounded_sums: bool = False
    vetoes: tuple[SwitchRule, ...] = ()
    requests: tuple[SwitchRule, ...] = ()

    def __post_init__(self) -> None:
        for tier in self.tiers:
            tiers.find(tier)
        if self.gated != bool(self.required):
            expected = "some, because a record opens it" if self.gated else "none, because it needs no record"
            raise StrataError(f"{self.name} requires {len(self.required)} cases of a record, expected {expected}")

    @property
    def gated(self) -> bool:
        """Whether its paths serve only where a record proves them."""
        return self.replaces is not None

    def compiled(self, path: Path) -> list[Kernel]:
        """Every kernel that a path may launch, whatever is asked for."""
        return list((self.all_kernels or self.kernels)(path))

    def path(self, mode: str, tier: str, base: Descriptor | None) -> Path:
        """The path of a mode and a tier.

        Parameters
        ----------
        mode, tier
            A mode and a tier of the descriptor's.
        base
            The descriptor of `replaces`. The baseline is its path of the same mode and tier, or of its only tier.

        Raises
        ------
        StrataError
            Where `base` has several tiers and not this one: then nobody can say which path is replaced.
        """
        lowest = max(self.lowest, tiers.find(tier).number)
        if base is None:
            return Path(self.name, mode, tier, lowest)
        if tier not in base.tiers and len(base.tiers) != 1:
            raise StrataError(f"{self.name}/{mode}/{tier} replaces {base.name}, expected one of its tiers {base.tiers}")
        own = tier if tier in base.tiers else base.tiers[0]
        return Path(self.name, mode, tier, lowest, f"{base.name}/{mode}/{own}")
