"""What stands for a path of an author's kernel: it has no formats and no tiers, and its name is the kernel's."""

from __future__ import annotations

from dataclasses import dataclass

from strata.kernels.path import Path


@dataclass(frozen=True)
class OwnPath(Path):
    """The one path of an author's kernel, `operation` its name."""

    mode: str = ""
    tier: str = ""
    min_capability: int = 0

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.operation
