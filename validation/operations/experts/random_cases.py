"""Small cases of the expert operations at drawn sizes: what a soak runs.

Every size is one that a user may ask for, and every recipe keeps its promise at it: nothing here avoids a size because
a check would not stand it.
"""

from __future__ import annotations

from collections.abc import Sequence

from strata.kernels.experts import MAX_TOP
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.recipes import ExpertRecipe, Routing, Values, Weights, composed, find
from validation.operations.experts.routing import EDGE_COUNTS, edge_tokens

#: Words that a case is drawn from, its seed besides.
WORDS = 5
#: Multiply-adds of one product of all pairs: a case then takes well under a second on lanes.
MOST_WORK = 1 << 22
TOKENS = 130
#: Tokens at the edges of warps and tiles, which half of the cases have.
EDGES = (1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130)
#: Small sizes come more often, for with them there is room for many tokens.
HIDDEN = (256, 256, 256, 512, 768, 1024)
FEATURES = (64, 64, 64, 128, 192, 320)
EXPERTS = 12
#: Values of the rows of a sum of experts.
SUMMED = 1 << 17
TOPS = (1, 1, 2, 3, 4, 5, 8, 10, MAX_TOP)
#: `experts_many`: more than a warp has lanes.
MANY = (33, 64)


def recipe(words: Sequence[int]) -> ExpertRecipe:
    """Parts of the expert recipes, put together as three words choose."""
    weights, routing, values = list(Weights), list(Routing), list(Values)
    return composed(weights[words[0] % len(weights)], routing[words[1] % len(routing)], values[words[2] % len(values)])


def tokens(word: int, most: int) -> int:
    """1 .. most, at an edge in half of the cases."""
    which, word = word % 2, word // 2
    wanted = EDGES[word % len(EDGES)] if which else 1 + word % TOKENS
    return max(1, min(wanted, most))


def sizes(words: Sequence[int], most: int = MOST_WORK) -> tuple[int, int, int, int, int]:
    """tokens, experts, top, n and ff; most: multiply-adds of a product of all pairs, where there are several tokens."""
    n, ff = HIDDEN[words[0] % len(HIDDEN)], FEATURES[words[1] % len(FEATURES)]
    experts, top = 1 + words[2] % EXPERTS, TOPS[words[3] % len(TOPS)]
    return tokens(words[4], most // (top * n * ff)), experts, top, n, ff


def case(recipe: str, seed: int, words: Sequence[int]) -> ExpertCase:
    """The case of a recipe whose sizes some words choose."""
    tokens, experts, top, n, ff = sizes(words)
    if find(recipe).routing is Routing.EDGES:  # so many tokens are due, and at least one pair
        experts = 2 + words[2] % (len(EDGE_COUNTS) - 1)
        tokens, n, ff = edge_tokens(experts, top), HIDDEN[0], FEATURES[0]
    elif recipe == "experts_many":
        low, high = MANY
        experts, n, ff = low + words[2] % (high - low + 1), HIDDEN[0], FEATURES[0]
    return ExpertCase(recipe, seed, tokens, experts, top, n, ff)
