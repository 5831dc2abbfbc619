"""The named ways of making data of the router and of combining."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AroundRecipe:
    """operation: `router` or `combine`; edition: of the plans, from which on it is planned; far: whether lanes are
    asked the checks of `validation.run.far` besides."""

    name: str
    motivation: str
    operation: str
    edition: int = 1
    far: bool = False

    @property
    def ladder(self) -> bool:
        """Whether each token has a size of its own, so that it takes many of them."""
        return self.name.endswith("_ladder")


_ROWS = (
    AroundRecipe(
        "router_bell",
        "Plain logits: the softmax over the chosen ones, and the order of the choice.",
        "router",
    ),
    AroundRecipe(
        "router_equal",
        "All logits of a token equal: the smallest ids, with one weight.",
        "router",
    ),
    AroundRecipe(
        "router_ties",
        "Logits of five levels, zeros of both signs among them: ties at every rank and at the cut.",
        "router",
    ),
    AroundRecipe(
        "router_close",
        "Logits one float32 step apart, whose exponentials may be equal: the larger is chosen, not the smaller id.",
        "router",
    ),
    AroundRecipe(
        "router_dominant",
        "One logit far above, some far below all others: weights of 1 and 0, and no overflow.",
        "router",
    ),
    AroundRecipe(
        "router_broken",
        "NaN and infinities among the logits, a token of nothing else: counted, and weights stay finite.",
        "router",
    ),
    AroundRecipe(
        "combine_decades",
        "Rows of sizes of their own over decades, and the shared expert behind gates from shut to open.",
        "combine",
    ),
    AroundRecipe(
        "combine_alone",
        "No shared expert: the sum of the ranks alone.",
        "combine",
    ),
    AroundRecipe(
        "combine_cancelling",
        "A large row, small ones, and the large one again with the other sign: the order of the sum shows.",
        "combine",
    ),
    AroundRecipe(
        "combine_broken",
        "A NaN, and infinities under a weight of 0: kept and counted, other tokens keep their bits.",
        "combine",
    ),
    # Both sweep scales over the whole range of a float, token by token: every intermediate crosses each threshold.
    AroundRecipe(
        "router_ladder",
        "The spread of a token's logits from 2**-140 to 2**120, closer from 2**-24 to 2**8, every second token's far "
        "below zero: the exponent of a share goes from nothing over the subnormals to far beyond the last that is not "
        "zero. An exponential cut short near zero, a limit of logits and a finite stand-in for minus infinity show.",
        "router",
        edition=2,
    ),
    AroundRecipe(
        "combine_ladder",
        "Rows from 2**-140 to 2**60, weights that fall by 2**8 from rank to rank over rows that rise as fast, and "
        "gates of both signs from 2**-140 to 2**14: tiny weights and rows count, products are subnormal, and the "
        "sigmoid goes from a half over all its thresholds to 0 and 1.",
        "combine",
        edition=2,
    ),
    AroundRecipe(
        "router_sizes",
        "Experts and ranks on both sides of a warp's lanes and of the most there may be; on lanes 2**31 tokens.",
        "router",
        edition=2,
        far=True,
    ),
    AroundRecipe(
        "combine_sizes",
        "Ranks on both sides of powers of two, up to the most there may be; on lanes more than 2**33 outputs.",
        "combine",
        edition=2,
        far=True,
    ),
    AroundRecipe(
        "router_edge",
        "Logits below the largest by as much as makes a share zero, from two octaves beside it to one float32 step, on "
        "both sides: a share that is cut short too early or too late shows.",
        "router",
        edition=2,
    ),
    AroundRecipe(
        "router_counts",
        "Tokens of nothing but NaN, of nothing but infinities, and of both so that each lane has a number of its own, "
        "from one to all that it may hold: each number is added whole.",
        "router",
        edition=2,
    ),
    AroundRecipe(
        "combine_gates",
        "Gates of both signs at which the exponential of a sigmoid becomes infinite, from two octaves beside it to one "
        "float32 step, on both sides, over a shared expert so large that a subnormal sigmoid counts.",
        "combine",
        edition=2,
    ),
    AroundRecipe(
        "combine_counts",
        "One, two, three and four of a thread's four columns not finite, each as often again as the one before: every "
        "number of them is added whole.",
        "combine",
        edition=2,
    ),
)

RECIPES: dict[str, AroundRecipe] = {recipe.name: recipe for recipe in _ROWS}
