"""The table of paths: every operation, mode and tier that exists, and what it needs.

A path is written `operation/mode/tier`, for example `prompt_attention/q4_0/sm75`. It is the unit
that is validated and gated.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

#: Modes in the order in which the project lists them.
MODES = ("fp16", "int8", "k8v4", "q4_0")


@dataclass(frozen=True)
class Path:
    """One row. tier: `sm75`, `sm80`, or `simt` for plain FP32 kernels that run on any card.
    min_capability: the lowest compute capability, times ten, whose machine code can hold the path.
    baseline: the path that this one replaces, compared with it in every parity run."""

    operation: str
    mode: str
    tier: str
    min_capability: int
    baseline: str | None = None

    @property
    def name(self) -> str:
        return f"{self.operation}/{self.mode}/{self.tier}"


def _table() -> dict[str, Path]:
    rows: list[Path] = []
    for mode in MODES:
        base = Path("decode_attention", mode, "simt", 60)
        rows.append(base)
        rows.append(Path("prompt_attention", mode, "sm75", 75, base.name))
        rows.append(Path("prompt_attention", mode, "sm80", 80, base.name))
        rows.append(Path("kv_pack", mode, "simt", 60))
    return {path.name: path for path in rows}


PATHS: dict[str, Path] = _table()


def select(pattern: str) -> list[Path]:
    """Paths whose name matches the shell pattern, in table order.

    Raises ValueError naming the pattern and the nearest known name when nothing matches.
    """
    found = [path for name, path in PATHS.items() if fnmatchcase(name, pattern)]
    if found:
        return found
    from difflib import get_close_matches

    near = get_close_matches(pattern, PATHS, n=1, cutoff=0.0)
    raise ValueError(f"no path matches {pattern!r}; the nearest is {near[0]!r} (see `python -m validation paths`)")
