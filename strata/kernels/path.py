"""A path: one operation over one mode in one tier, the unit that is validated and gated."""

from __future__ import annotations

from dataclasses import dataclass

from strata.kernels import tiers


@dataclass(frozen=True)
class Path:
    """One row of the table of paths, written `operation/mode/tier`, for example `prompt_attention/q4_0/sm75`.

    Parameters
    ----------
    operation
        What is computed.
    mode
        The format of the data.
    tier
        A name of `tiers.TIERS`: `sm75`, `sm80`, or `simt` for plain FP32 kernels that run on any card.
    min_capability
        The lowest compute capability, times ten, whose machine code can hold the path.
    baseline
        The path that this one replaces, compared with it in every parity run; None where it replaces none.
    """

    operation: str
    mode: str
    tier: str
    min_capability: int
    baseline: str | None = None

    @property
    def name(self) -> str:
        """Its name, `operation/mode/tier`."""
        return f"{self.operation}/{self.mode}/{self.tier}"

    @property
    def tier_number(self) -> int:
        """The macro `TIER` of the path's kernels. Raises StrataError for a tier that does not exist."""
        return tiers.find(self.tier).number
