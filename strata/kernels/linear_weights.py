"""Weights of dense products: a matrix of whole blocks on an executor, and the formats that the products take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from strata.executors.base import Buffer, Executor, StrataError
from strata.formats import BlockFormat, block_format, device_table

#: Formats that linear products take, and so the modes of their paths. They stand in include/linear_formats.cuh.
LINEAR_FORMATS = (
    "q8_0", "q4_0", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl",
    "iq4_xs", "q2_0",
)  # fmt: skip

#: The most values of a row, and the most rows: a kernel counts them in 32 bits.
MOST = (1 << 31) - 1


class Weights(NamedTuple):
    """A matrix of block weights on an executor.

    Parameters
    ----------
    format
        One of `LINEAR_FORMATS`.
    blocks
        uint8 [outputs, row bytes].
    table
        uint32 words of the codebook, None for a format that has none.
    outputs, width
        Rows of the matrix, and values of a row.
    """

    format: str
    blocks: Buffer
    table: Buffer | None
    outputs: int
    width: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.blocks.shape[1]

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers that it has."""
        return [self.blocks] if self.table is None else [self.blocks, self.table]


def linear_format(name: str) -> BlockFormat:
    """The format of a name.

    Raises
    ------
    StrataError
        For a name that linear products do not take.
    """
    if name not in LINEAR_FORMATS:
        raise StrataError(f"format {name!r} of a linear product: expected one of {', '.join(LINEAR_FORMATS)}")
    return block_format(name)


def upload(executor: Executor, format: str, blocks: np.ndarray, width: int) -> Weights:
    """Put a matrix on an executor.

    Parameters
    ----------
    executor
        Where it goes.
    format
        One of `LINEAR_FORMATS`.
    blocks
        uint8 [outputs, row bytes], every row whole blocks.
    width
        Values of a row.

    Raises
    ------
    StrataError
        For another format, and for blocks that are not what a matrix of `width` values a row is.
    """
    row_bytes = linear_format(format).row_bytes(width)
    if blocks.dtype != np.uint8 or blocks.ndim != 2 or not 1 <= len(blocks) <= MOST or blocks.shape[1] != row_bytes:
        raise StrataError(
            f"weights of {format} are {blocks.dtype} {blocks.shape}, expected uint8 [outputs, {row_bytes}]"
            f" of {width} values a row"
        )
    words = device_table(format)
    table = executor.array(words, f"codebook of {format}") if words.size else None
    return Weights(format, executor.array(blocks, f"weights of {format}"), table, len(blocks), width)
