"""Tiers: the instruction levels that kernels are written for, with the facts of each, written here alone.

A new tier is a row here and the kernels written for it. Nothing else tells tiers apart by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from strata.executors.base import StrataError

#: Higher than any compute capability: the end of an open range.
NEWEST = 9_999


@dataclass(frozen=True)
class Matrix:
    """One kind of matrix product of a tier, and how its machine code shows.

    Parameters
    ----------
    k
        Values that one instruction sums, 0 where the tier has no such instruction.
    needs, forbids
        Beginnings of opcodes that must occur in the machine code, and of those that must not.
    later
        A compute capability, times ten, from which on the assembler makes another instruction of it, and that one.
    """

    k: int
    needs: tuple[str, ...]
    forbids: tuple[str, ...]
    later: tuple[int, Matrix] | None = None

    def at(self, arch: int) -> Matrix:
        """What it is in machine code for a compute capability, times ten."""
        return self if self.later is None or arch < self.later[0] else self.later[1]


@dataclass(frozen=True)
class Tier:
    """What holds of every path of a tier. Compute capabilities are times ten, and both ends of a range are included.

    Parameters
    ----------
    name
        As in paths.
    number
        The macro `TIER` of its kernels, which is the lowest compute capability that has its instructions.
    serves
        The devices that the tier is for.
    recorded
        The devices that a record of its paths may name. Only paths that replace others need one.
    shared_bytes
        Shared memory that a block may have.
    majors
        Major compute capabilities that run the tier by choice, on which spills of registers count.
    fp16
        Products of FP16 with FP32 sums, whose bits follow the rule of the tensor core.
    int8
        Products of int8, which are exact.
    hardware
        The architecture, where the tier is for one alone.
    """

    name: str
    number: int
    serves: tuple[int, int]
    recorded: tuple[int, int]
    shared_bytes: int
    majors: tuple[int, ...]
    fp16: Matrix
    int8: Matrix
    hardware: str = ""

    @property
    def tensor_cores(self) -> bool:
        """Whether kernels of the tier have matrix instructions."""
        return self.fp16.k > 0


_ASYNC = ("LDGSTS", "LDGDEPBAR")
_NO_MATRIX = Matrix(0, (), ("HMMA", "IMMA", "LDGSTS"))

_ROWS = (
    # Turing has 64 KiB of shared memory a block, no cp.async (LDGSTS) and no m16n8k16; its one FP16 instruction with
    # FP32 sums is m16n8k8 (HMMA.1688), its int8 one m8n8k16 (IMMA.8816), of which
    # the assembler makes a larger one from 10.0 on. It is 7.5 alone.
    Tier(
        "sm75",
        75,
        (75, 79),
        (75, 75),
        64 << 10,
        (7,),
        Matrix(8, ("HMMA.1688.F32",), (*_ASYNC, "HMMA.16816", "HMMA.884")),
        Matrix(16, ("IMMA.8816.S8.S8",), (*_ASYNC, "HMMA", "IMMA.16"), (100, Matrix(32, ("IMMA",), (*_ASYNC, "HMMA")))),
        "Turing",
    ),
    # 99 KiB are what compute capability 8.6 and 8.9 give a block. Its code runs on everything later, and its record
    # may name any of it. int8 is m16n8k32, or m16n8k16 where a scale is of 16 values.
    Tier(
        "sm80",
        80,
        (80, NEWEST),
        (80, NEWEST),
        99 << 10,
        (8, 9, 10, 12),
        Matrix(16, ("HMMA.16816.F32", "LDGSTS"), ("HMMA.1688.", "HMMA.884")),
        Matrix(32, ("IMMA.168", "LDGSTS"), ("HMMA", "IMMA.8816")),
    ),
    # Plain FP32 kernels that run on any card, with the 48 KiB that any gives without being asked. Each operation is one
    # IEEE rounding in a fixed order, so the bits are the same on every card and a record of any opens such a path on
    # all: of 7.0 or newer, which have the scheduling of threads, each with its own counter, that later ones have.
    Tier("simt", 60, (60, NEWEST), (70, NEWEST), 48 << 10, (7, 8, 9, 10, 12), _NO_MATRIX, _NO_MATRIX),
)

TIERS: Mapping[str, Tier] = MappingProxyType({row.name: row for row in _ROWS})


def find(name: str) -> Tier:
    """The tier of a name.

    Raises
    ------
    StrataError
        For a name that no tier has.
    """
    if name not in TIERS:
        raise StrataError(f"tier {name!r}: expected one of {', '.join(TIERS)}")
    return TIERS[name]


def of_capability(capability: int | None) -> Tier:
    """The tier whose tensor-core kernels a device would run.

    Parameters
    ----------
    capability
        Compute capability, times ten; None for a device that is no card.

    Returns
    -------
    Tier
        The highest one that the device has the instructions of, else the lowest, whose kernels lanes run.
    """
    tensor = sorted((tier for tier in TIERS.values() if tier.tensor_cores), key=lambda tier: tier.number)
    return next((tier for tier in reversed(tensor) if tier.number <= (capability or 0)), tensor[0])
