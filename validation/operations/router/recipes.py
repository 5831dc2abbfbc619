"""The named ways of making data of the router."""

from __future__ import annotations

from validation.core.recipe import NamedRecipe

_ROWS = (
    NamedRecipe(
        "router_bell",
        "Plain logits: the softmax over the chosen ones, and the order of the choice.",
        "router",
    ),
    NamedRecipe(
        "router_equal",
        "All logits of a token equal: the smallest ids, with one weight.",
        "router",
    ),
    NamedRecipe(
        "router_ties",
        "Logits of five levels, zeros of both signs among them: ties at every rank and at the cut.",
        "router",
    ),
    NamedRecipe(
        "router_close",
        "Logits one float32 step apart, whose exponentials may be equal: the larger is chosen, not the smaller id.",
        "router",
    ),
    NamedRecipe(
        "router_dominant",
        "One logit far above, some far below all others: weights of 1 and 0, and no overflow.",
        "router",
    ),
    NamedRecipe(
        "router_broken",
        "NaN and infinities among the logits, a token of nothing else: counted, and weights stay finite.",
        "router",
    ),
    NamedRecipe(
        "router_ladder",
        "The spread of a token's logits from 2**-140 to 2**120, closer from 2**-24 to 2**8, every second token's far "
        "below zero: the exponent of a share goes from nothing over the subnormals to far beyond the last that is not "
        "zero. An exponential cut short near zero, a limit of logits and a finite stand-in for minus infinity show.",
        "router",
        edition=2,
    ),
    NamedRecipe(
        "router_sizes",
        "Experts and ranks on both sides of a warp's lanes and of the most there may be; on lanes 2**31 tokens.",
        "router",
        edition=2,
        far=True,
    ),
    NamedRecipe(
        "router_edge",
        "Logits below the largest by as much as makes a share zero, from two octaves beside it to one float32 step, on "
        "both sides: a share that is cut short too early or too late shows.",
        "router",
        edition=2,
    ),
    NamedRecipe(
        "router_counts",
        "Tokens of nothing but NaN, of nothing but infinities, and of both so that each lane has a number of its own, "
        "from one to all that it may hold: each number is added whole.",
        "router",
        edition=2,
    ),
)

RECIPES: dict[str, NamedRecipe] = {recipe.name: recipe for recipe in _ROWS}
