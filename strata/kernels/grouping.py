"""Grouping (token, rank) pairs by expert on the host, in pair order: what the baseline expert kernels work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strata.executors.base import StrataError


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows in the order in which experts take them.

    Pair i is (token i / top, rank i % top).

    Parameters
    ----------
    pairs
        int32 [rows], the pair of each row, ascending within an expert.
    slot
        int32 [rows], the row of each pair.
    source
        int32 [rows], the token of each row.
    offsets
        int32 [experts + 1], where each expert's rows begin.
    """

    pairs: np.ndarray
    slot: np.ndarray
    source: np.ndarray
    offsets: np.ndarray

    def tiles(self, most: int, experts: range) -> np.ndarray:
        """The rows of some experts in pieces.

        Parameters
        ----------
        most
            Rows of a piece at most.
        experts
            The experts.

        Returns
        -------
        int32 array [tiles, 3]
            Expert, first row and number of rows of each piece.
        """
        made = [
            (expert, row, min(most, int(self.offsets[expert + 1]) - row))
            for expert in experts
            for row in range(int(self.offsets[expert]), int(self.offsets[expert + 1]), most)
        ]
        return np.array(made, np.int32).reshape(-1, 3)


def group(ids: np.ndarray, experts: int) -> Grouping:
    """Group the pairs of tokens by their experts.

    A token may name an expert several times: each is a row.

    Parameters
    ----------
    ids
        int32 [tokens, top], each an expert.
    experts
        How many experts there are.

    Raises
    ------
    StrataError
        For an id outside 0 .. experts - 1.
    """
    flat = ids.reshape(-1)
    invalid = np.flatnonzero((flat < 0) | (flat >= experts))
    if invalid.size:
        token, rank = divmod(int(invalid[0]), ids.shape[1])
        raise StrataError(
            f"token {token} rank {rank} names expert {int(flat[invalid[0]])}, expected 0 to {experts - 1};"
            f" {invalid.size} such ids"
        )
    pairs = np.argsort(flat, kind="stable").astype(np.int32)
    slot = np.empty_like(pairs)
    slot[pairs] = np.arange(len(pairs), dtype=np.int32)
    offsets = np.zeros(experts + 1, np.int32)
    offsets[1:] = np.cumsum(np.bincount(flat, minlength=experts))
    return Grouping(pairs, slot, pairs // np.int32(ids.shape[1]), offsets)
