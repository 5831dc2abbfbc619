"""Which experts tokens name: int32 [tokens, top], drawn as a recipe says."""

from __future__ import annotations

import numpy as np

from strata.executors.base import StrataError
from validation.core.random_streams import Stream
from validation.operations.experts.recipes import Routing

#: Rows of a tile of the grouping, the tiles of the two work shapes, and so many pairs of an expert in turn: nothing,
#: one, and one below, at and above each tile's edge.
TILES = (64, 128)
EDGE_COUNTS = (0, 1, *(tile + step for tile in TILES for step in (-1, 0, 1)))
#: Ids that are no expert's besides the number of experts itself.
STRAY = (-1, -(1 << 31), (1 << 31) - 1)
#: A token names a hot expert first with this probability, in quarters.
_HOT_QUARTERS = 3


def edge_tokens(experts: int, top: int) -> int:
    """How many tokens EDGES takes for so many experts: every count in turn, filled up to whole tokens."""
    pairs = sum(EDGE_COUNTS[expert % len(EDGE_COUNTS)] for expert in range(experts))
    return -(-pairs // top)


def unused(experts: int) -> int:
    """How many of the last experts HOT leaves without a pair."""
    return max(experts // 16, 1) if experts > 1 else 0


def _distinct(stream: Stream, tokens: int, experts: int, top: int) -> np.ndarray:
    """Distinct ids in every row; where there are fewer experts than ranks, they come again."""
    order = np.argsort(stream.words((tokens, experts)), axis=1, kind="stable")
    return np.resize(order.T, (top, tokens)).T if experts < top else order[:, :top]


def draw(stream: Stream, routing: Routing, tokens: int, experts: int, top: int) -> np.ndarray:
    """int32 [tokens, top]. Raises StrataError where EDGES is asked of another number of tokens than it takes."""
    ids = _distinct(stream.child("even"), tokens, experts, top)
    if routing is Routing.HOT:
        used = experts - unused(experts)
        ids = _distinct(stream.child("used"), tokens, used, top)
        hot = stream.child("hot").below(4, tokens) < _HOT_QUARTERS
        first = stream.child("which").below(min(2, used), tokens)
        for token in np.flatnonzero(hot).tolist():  # the hot one changes places with the first
            row = ids[token]
            row[row == first[token]] = row[0]
            row[0] = first[token]
    elif routing is Routing.ONE:
        ids = np.full((tokens, top), stream.child("one").below(experts, ()))
    elif routing is Routing.REPEATED:
        kinds = np.arange(tokens) % 3
        ids[kinds == 0, -1] = ids[kinds == 0, 0]  # one rank again
        ids[kinds == 1] = ids[kinds == 1, :1]  # all of them
        ids[kinds == 2, top // 2 :] = ids[kinds == 2, :1]
    elif routing is Routing.STRAY:
        strays = np.array([experts, *STRAY])
        stray = stream.child("stray").below(3, ids.shape) == 0
        stray[0], stray[-1] = True, False  # a token of strays alone, where there are several
        ids = np.where(stray, strays[stream.child("which").below(len(strays), ids.shape)], ids)
    elif routing is Routing.NOBODY:
        strays = np.array([experts, *STRAY])
        ids = strays[stream.child("which").below(len(strays), ids.shape)]
    elif routing is Routing.ENDS:
        ids = np.where(stream.child("end").below(2, ids.shape) == 0, 0, experts - 1)
    elif routing is Routing.EDGES:
        ids = _edges(stream, tokens, experts, top)
    return ids.astype(np.int32)


def _edges(stream: Stream, tokens: int, experts: int, top: int) -> np.ndarray:
    due = edge_tokens(experts, top)
    if tokens != due:
        raise StrataError(f"case: tokens is {tokens}, and the tiles' edges of {experts} experts need {due}")
    counts = [EDGE_COUNTS[expert % len(EDGE_COUNTS)] for expert in range(experts)]
    pairs = np.repeat(np.arange(experts), counts)
    filled = np.concatenate([pairs, np.full(tokens * top - len(pairs), experts)])  # what is over is nobody's
    return np.asarray(filled[stream.child("order").permutation(len(filled))].reshape(tokens, top))
