"""The named ways of making data of expert operations, each with its motivation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strata.arguments import shown
from strata.executors.base import StrataError
from validation.core.recipe import unknown_recipe


class Weights(Enum):
    """How the blocks of experts are made. All bytes but the FP16 scale of a block are uniformly random."""

    PLAIN = "plain"  # positive scales within a factor of 8
    DECADES = "decades"  # signed scales over ten powers of two, each expert shifted and signed by its number
    EXTREMES = "extremes"  # every class of FP16 number as a scale
    GOLDEN = "golden"  # blocks that ggml quantised, dealt out at random
    FAINT = "faint"  # subnormal scales alone
    LADDER = "ladder"  # scales of gate and down rise with the row over the whole range of FP16, those of up fall


class Routing(Enum):
    """Which experts a token names."""

    EVEN = "even"  # distinct, at random
    HOT = "hot"  # two hot experts, the last sixteenth (at least one) unused
    ONE = "one"  # one expert for every pair
    REPEATED = "repeated"  # ids repeated within a token: one rank, several, all
    STRAY = "stray"  # some ids below 0, at and beyond the number of experts
    NOBODY = "nobody"  # no id is an expert's
    EDGES = "edges"  # as many pairs of each expert as the tiles' edges say
    ENDS = "ends"  # the first and the last expert alone


class Values(Enum):
    """What x is."""

    BELL = "bell"  # bell-shaped, one in 200 values 12 times larger, one token all zeros
    DECADES = "decades"  # each block of 32 of a size of its own over 30 powers of two
    OUTLIERS = "outliers"  # a few channels 2**10 times larger in every token
    ONE_SIDED = "one sided"  # 1e4..1e5, all of a token of one sign
    ZEROS = "zeros"  # zero tokens, zero blocks, zeros of both signs
    TIES = "ties"  # values half way between two codes
    TINY = "tiny"  # blocks around the amax whose reciprocal overflows, alone and beside others
    BROKEN = "broken"  # NaN and infinities in some blocks of some tokens
    ONE_HOT = "one hot"  # one value a token, walking over the channels
    LADDER = "ladder"  # sizes of tokens rise from 2**-115 to 2**40


@dataclass(frozen=True)
class ExpertRecipe:
    """One way of making data. operation: `expert`, `router` or `combine`; edition: of the plans, from which on it is
    planned. One of a later edition stands behind all earlier ones; far: whether lanes are asked the checks of
    `validation.run.far` besides."""

    name: str
    motivation: str
    weights: Weights = Weights.DECADES
    routing: Routing = Routing.EVEN
    values: Values = Values.BELL
    operation: str = "expert"
    edition: int = 1
    far: bool = False


_ROWS = (
    ExpertRecipe(
        "experts_plain",
        "The spirit of the published test: positive scales, two hot experts, unused ones, a zero token; a failure here "
        "is no subtlety.",
        Weights.PLAIN,
        Routing.HOT,
    ),
    ExpertRecipe(
        "experts_decades",
        "Signed scales over decades, others for each expert: a wrong expert, block or scale shows at once.",
        values=Values.DECADES,
    ),
    ExpertRecipe(
        "experts_golden",
        "Blocks written by ggml's quantisers: indices, signs and sub-scales as models have them, not as chance does.",
        Weights.GOLDEN,
    ),
    ExpertRecipe(
        "experts_extremes",
        "Block scales of every FP16 class (zeros of both signs, subnormals, the largest): products far from 1.",
        Weights.EXTREMES,
    ),
    ExpertRecipe(
        "experts_faint",
        "Subnormal block scales alone: flushed ones leave zeros.",
        Weights.FAINT,
        values=Values.ONE_SIDED,
    ),
    ExpertRecipe(
        "experts_outliers",
        "A few channels far above the rest, as in real activations: the codes beside them are small and still count.",
        values=Values.OUTLIERS,
    ),
    ExpertRecipe(
        "experts_one_sided",
        "Values of 1e4 to 1e5 of one sign: sums of codes or activations kept in FP16 overflow.",
        values=Values.ONE_SIDED,
    ),
    ExpertRecipe(
        "experts_zeros",
        "Zero tokens and zero blocks beside others: 127 / 0 is nowhere computed, and zeros give zeros.",
        values=Values.ZEROS,
    ),
    ExpertRecipe(
        "experts_ties",
        "Values exactly between two codes: to even, not away from zero, not cut.",
        values=Values.TIES,
    ),
    ExpertRecipe(
        "experts_tiny",
        "Blocks so small that their reciprocal overflows, and just not: they count as zeros, and no NaN comes of it.",
        values=Values.TINY,
    ),
    ExpertRecipe(
        "experts_broken",
        "NaN and infinities in some tokens: these rows are NaN and counted, never zeros; all others keep their bits.",
        values=Values.BROKEN,
    ),
    ExpertRecipe(
        "experts_one_hot",
        "One value a token, walking over the channels: each output is one column of the weights, so a swapped lane "
        "or nibble names itself.",
        Weights.PLAIN,
        values=Values.ONE_HOT,
    ),
    ExpertRecipe(
        "experts_one",
        "Every pair on one expert, the others empty: the largest group there can be, and groups of none.",
        routing=Routing.ONE,
    ),
    ExpertRecipe(
        "experts_repeated",
        "Experts that a token names twice or in every rank: a row for each pair, not for each expert.",
        routing=Routing.REPEATED,
    ),
    ExpertRecipe(
        "experts_stray",
        "Ids of -1, of the number of experts and far beyond: their rows are zeros, counted, and read no weight.",
        routing=Routing.STRAY,
    ),
    ExpertRecipe(
        "experts_nobody",
        "No id is an expert's: nothing is read, every row is zero.",
        routing=Routing.NOBODY,
    ),
    ExpertRecipe(
        "experts_edges",
        "As many pairs of an expert as the edges of the tiles: 0, 1, 63, 64, 65, 127, 128, 129.",
        routing=Routing.EDGES,
    ),
    ExpertRecipe(
        "experts_many",
        "More experts than a warp has lanes and more pairs than a block has threads: sums and loops that stop short.",
    ),
    ExpertRecipe(
        "experts_ends",
        "The first and the last expert alone: the last one ends where its memory ends.",
        Weights.PLAIN,
        Routing.ENDS,
    ),
    ExpertRecipe(
        "experts_ladder",
        "Tokens from 2**-115 to 2**40, and scales from the smallest subnormal to the largest FP16 from row to row, up "
        "against gate: scales of activations cross 2**-100, sums and gates go from subnormals over 2**-20, 30, 80 and "
        "88 to far beyond, so that SwiGLU takes each of its ways, and h crosses 2**-100 and is flushed.",
        Weights.LADDER,
        values=Values.LADDER,
        edition=2,
    ),
    ExpertRecipe(
        "experts_crowd",
        "More experts than 128, and as many ranks as may be; on lanes also 67,001 pairs and 1,024 experts are grouped.",
        edition=2,
        far=True,
    ),
    ExpertRecipe(
        "experts_far",
        "On lanes also the last pairs and rows of 2**31, and blobs across 4 GiB: 64 bits of offset, carries included.",
        edition=2,
        far=True,
    ),
)

RECIPES: dict[str, ExpertRecipe] = {recipe.name: recipe for recipe in _ROWS}


#: Before the three parts of a composed recipe's name.
_COMPOSED = "experts"


def composed(weights: Weights, routing: Routing, values: Values) -> ExpertRecipe:
    """Any weights with any routing and tokens, under a name of the three parts: `experts:decades:hot:one_sided`."""
    words = (_COMPOSED, *(part.value.replace(" ", "_") for part in (weights, routing, values)))
    return ExpertRecipe(":".join(words), "Parts of other recipes put together.", weights, routing, values)


def find(name: str) -> ExpertRecipe:
    """The recipe of a name, composed ones too. Raises StrataError for a name that none has."""
    if name in RECIPES:
        return RECIPES[name]
    first, *words = name.split(":")
    if first == _COMPOSED and len(words) == len(_PARTS):
        parts = [_part(kind, word) for kind, word in zip(_PARTS, words, strict=True)]
        return composed(*parts)  # type: ignore[arg-type]
    if words:
        form = ":".join((_COMPOSED, *(kind.__name__.upper() for kind in _PARTS)))
        raise StrataError(f"no recipe is called {shown(name)}; one that is put together is {form}")
    raise unknown_recipe(name, RECIPES)


_PARTS = (Weights, Routing, Values)


def _part(kind: type[Enum], word: str) -> Enum:
    known = {part.value.replace(" ", "_"): part for part in kind}
    if word not in known:
        raise StrataError(f"{kind.__name__.lower()} {word!r} of an expert recipe: expected one of {', '.join(known)}")
    return known[word]
