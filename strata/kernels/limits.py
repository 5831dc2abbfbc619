"""What the machine code of a kernel may use, whatever compiled it: read by `python -m validation static`."""

from __future__ import annotations

from dataclasses import dataclass

from strata.kernels import tiers
from strata.kernels.path import Path


@dataclass(frozen=True)
class Limits:
    """The limits of one kernel.

    Parameters
    ----------
    shared_bytes
        Shared memory of a block, static and dynamic.
    spill_bytes
        Registers spilled, in bytes of a thread.
    spill_majors
        Major compute capabilities on which `spill_bytes` counts, those that run the path by choice.
    needs, forbids
        Beginnings of opcodes that must occur, and of those that must not.
    """

    shared_bytes: int
    spill_bytes: int
    spill_majors: tuple[int, ...]
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()


def _of(tier: tiers.Tier, matrix: tiers.Matrix, spilled: int) -> Limits:
    return Limits(tier.shared_bytes, spilled, tier.majors, matrix.needs, matrix.forbids)


def without_matrix(spilled: int = 0) -> Limits:
    """Limits of a kernel without a matrix instruction, in whatever tier its path is.

    Parameters
    ----------
    spilled
        Bytes of a thread that may be spilled.
    """
    tier = tiers.find("simt")
    return _of(tier, tier.fp16, spilled)


def fp16_products(path: Path, spilled: int = 0) -> Limits:
    """Limits of a product of FP16 with FP32 sums.

    Parameters
    ----------
    path
        The path, whose tier decides.
    spilled
        Bytes of a thread that may be spilled.
    """
    tier = tiers.find(path.tier)
    return _of(tier, tier.fp16, spilled)


def int8_products(path: Path, arch: int, spilled: int = 0) -> Limits:
    """Limits of a product of int8.

    Parameters
    ----------
    path
        The path, whose tier decides.
    arch
        Compute capability, times ten, that the machine code is for.
    spilled
        Bytes of a thread that may be spilled.
    """
    tier = tiers.find(path.tier)
    return _of(tier, tier.int8.at(arch), spilled)
