"""Which experts there are, how they are numbered and how many bytes each one has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from strata.executors.base import StrataError


class RowFormat(Protocol):
    """A block format, as far as sizes go."""

    def row_bytes(self, k: int) -> int:
        """Bytes of a row of k values."""
        ...


def blob_bytes(n: int, ff: int, gate_up: RowFormat, down: RowFormat) -> int:
    """Packed bytes of one expert: gate and up of [ff, n] values each, then down of [n, ff].

    With n = 2560, ff = 640, IQ3_XXS and IQ4_NL: 2 * 640 * 980 + 2560 * 360 = 2,176,000.

    Parameters
    ----------
    n
        The hidden size.
    ff
        Features of the expert.
    gate_up, down
        What tells the bytes of a row of gate and up, and of down.
    """
    return 2 * ff * gate_up.row_bytes(n) + n * down.row_bytes(ff)


@dataclass(frozen=True)
class ExpertGeometry:
    """Sizes of the experts of a model.

    The row of expert e of layer l is l * experts + e.

    Parameters
    ----------
    layers
        How many layers there are.
    experts
        Experts of a layer.
    blobs
        Bytes of an expert, by layer.

    Raises
    ------
    StrataError
        For sizes below 1, and for 2^31 experts or more.
    """

    layers: int
    experts: int
    blobs: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.layers < 1 or self.experts < 1:
            raise StrataError(f"geometry of {self.layers} layers x {self.experts} experts: expected at least 1 x 1")
        if len(self.blobs) != self.layers or min(self.blobs) < 1:
            raise StrataError(f"geometry: blob bytes {self.blobs}, expected {self.layers} numbers of at least 1")
        if self.rows >= 1 << 31:
            raise StrataError(f"geometry: {self.rows} experts, expected fewer than 2^31: rows are int32")

    @classmethod
    def uniform(cls, layers: int, experts: int, blob: int) -> ExpertGeometry:
        """The geometry of layers that all have experts of one size.

        Parameters
        ----------
        layers
            How many layers there are.
        experts
            Experts of a layer.
        blob
            Bytes of an expert.
        """
        return cls(layers, experts, (blob,) * max(layers, 0))

    @property
    def rows(self) -> int:
        """How many experts there are in all."""
        return self.layers * self.experts

    @property
    def max_blob(self) -> int:
        """Bytes of the largest expert."""
        return max(self.blobs)

    def row(self, layer: int, expert: int) -> int:
        """The row of an expert.

        Parameters
        ----------
        layer, expert
            The layer, and the expert in it.

        Raises
        ------
        StrataError
            For an expert that does not exist.
        """
        if not (0 <= layer < self.layers and 0 <= expert < self.experts):
            raise StrataError(f"expert ({layer}, {expert}): expected one of {self.layers} x {self.experts}")
        return layer * self.experts + expert

    def expert(self, row: int) -> tuple[int, int]:
        """(layer, expert) of a row. Raises StrataError for one that does not exist."""
        if not 0 <= row < self.rows:
            raise StrataError(f"row {row}: expected 0 to {self.rows - 1}")
        return row // self.experts, row % self.experts

    def blob(self, row: int) -> int:
        """Bytes of the expert of a row."""
        return self.blobs[self.expert(row)[0]]

    def profile(self, experts: Sequence[tuple[int, int]]) -> list[int]:
        """Rows of a profile, hottest first; one that is listed twice counts where it stands first."""
        return list(dict.fromkeys(self.row(layer, expert) for layer, expert in experts))
