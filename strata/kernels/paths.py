"""The table of paths: every operation, mode and tier that exists, and what it needs.

A path is written `operation/mode/tier`, for example `prompt_attention/q4_0/sm75`. It is the unit
that is validated and gated.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from strata.arguments import shown
from strata.nearest import hint

#: Modes of attention and of packing in the order in which the project lists them.
MODES = ("fp16", "int8", "k8v4", "q4_0")
#: Formats of gate and up, and of down, whose experts the grouped paths compute; a mode is `gate_up/down`.
GATE_UP = ("iq3_xxs", "iq3_s", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s")
DOWN = ("iq4_nl", "q2_0")
EXPERT_MODES = tuple(f"{gate_up}/{down}" for gate_up in GATE_UP for down in DOWN)
#: Operations on experts, and what comes before and after them.
EXPERTS = ("expert_fused", "expert_mmq", "expert_decode")
AROUND = ("router", "combine")


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


@dataclass(frozen=True)
class Limits:
    """What the machine code of a path may use, whatever compiled it.

    shared_bytes: shared memory of a block, static and dynamic; spill_bytes: registers spilled, of a thread, on
    compute capabilities of `spill_majors`, those that run the path by choice; needs: beginnings of opcodes that
    must occur; forbids: of opcodes that must not.
    """

    shared_bytes: int
    spill_bytes: int
    spill_majors: tuple[int, ...]
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()


#: Spills that are known: a few bytes a chunk of 64 cells, which cost less than a block fewer a multiprocessor.
_SPILLS = {"prompt_attention/k8v4/sm80": 16}
#: The same by entry and architecture: NVRTC 12.9 alone, in the grouping, which one block does once a layer.
_ENTRY_SPILLS = {("expert_prepare", 120): 460}
#: And of products, by entry, format of gate and up, and architecture: 128 sums and two scales for 32 values a thread.
_PRODUCT_SPILLS = {("expert_gate_up", "iq2_xs", 120): 16}


#: Entries whose work is an integer matrix product; the others of expert paths have no matrix instruction.
_PRODUCTS = ("expert_gate_up", "expert_down", "expert_mmq")
_ASYNC = ("LDGSTS", "LDGDEPBAR")


def limits(path: Path, entry: str = "", arch: int | None = None) -> Limits:
    """The limits of a path's kernel; entry: which of several, where they differ; arch: the compute capability, times
    ten, that the machine code is for, where that makes a difference; None for any up to 9.x.

    sm75: Turing has 64 KiB of shared memory a block, no cp.async (LDGSTS) and no m16n8k16; its one FP16 matrix
    instruction with FP32 sums is m16n8k8 (HMMA.1688). sm80: 99 KiB, what compute capability 8.6 and 8.9 give a
    block. simt: no matrix instruction at all, and 48 KiB, what any card gives without being asked.
    """
    if path.operation in EXPERTS:
        return _expert_limits(path, entry, arch or 75)
    if path.tier == "sm75":
        return Limits(64 << 10, 0, (7,), ("HMMA.1688.F32",), ("LDGSTS", "LDGDEPBAR", "HMMA.16816", "HMMA.884"))
    spills = _SPILLS.get(path.name, 0)
    if path.tier == "sm80":
        return Limits(99 << 10, spills, (8, 9, 10, 12), ("HMMA.16816.F32", "LDGSTS"), ("HMMA.1688.", "HMMA.884"))
    return Limits(48 << 10, spills, (7, 8, 9, 10, 12), (), ("HMMA", "IMMA", "LDGSTS"))


def _expert_limits(path: Path, entry: str, arch: int) -> Limits:
    """Integer products: m8n8k16 (IMMA.8816) on Turing, m16n8k32 or, for a scale of 16 values, m16n8k16 later.

    Compute capability 10.0 and later has no m8n8k16: the assembler makes a larger instruction of it there.
    """
    if entry not in _PRODUCTS:
        spills = _ENTRY_SPILLS.get((entry, arch), 0)
        return Limits(48 << 10, spills, (7, 8, 9, 10, 12), (), ("HMMA", "IMMA", "LDGSTS"))
    if path.tier == "sm75" and arch >= 100:
        return Limits(64 << 10, 0, (7,), ("IMMA",), (*_ASYNC, "HMMA"))
    if path.tier == "sm75":
        return Limits(64 << 10, 0, (7,), ("IMMA.8816.S8.S8",), (*_ASYNC, "HMMA", "IMMA.16"))
    spills = _PRODUCT_SPILLS.get((entry, path.mode.partition("/")[0], arch), 0)
    return Limits(99 << 10, spills, (8, 9, 10, 12), ("IMMA.168", "LDGSTS"), ("HMMA", "IMMA.8816"))


def _table() -> dict[str, Path]:
    return {path.name: path for path in (*_attention(), *_experts())}


def _attention() -> list[Path]:
    rows: list[Path] = []
    for mode in MODES:
        base = Path("decode_attention", mode, "simt", 60)
        rows.append(base)
        rows.append(Path("prompt_attention", mode, "sm75", 75, base.name))
        rows.append(Path("prompt_attention", mode, "sm80", 80, base.name))
        rows.append(Path("kv_pack", mode, "simt", 60))
    return rows


def _experts() -> list[Path]:
    """A fused path replaces the older kernels of its own tier, which have the same instructions."""
    rows: list[Path] = []
    for mode in EXPERT_MODES:
        for tier, capability in (("sm75", 75), ("sm80", 80)):
            base = Path("expert_mmq", mode, tier, capability)
            rows += [base, Path("expert_fused", mode, tier, capability, base.name)]
        rows.append(Path("expert_decode", mode, "simt", 61))
    return rows + [Path(operation, "fp32", "simt", 60) for operation in AROUND]


PATHS: dict[str, Path] = _table()


def select(pattern: str) -> list[Path]:
    """Paths whose name matches the shell pattern, in table order.

    Raises ValueError naming the pattern, and a known name when one is near, when nothing matches.
    """
    found = [path for name, path in PATHS.items() if fnmatchcase(name, pattern)]
    if found:
        return found
    said = hint(pattern, PATHS, "see `python -m validation paths`")
    raise ValueError(f"no path matches {shown(pattern)}; {said}")
