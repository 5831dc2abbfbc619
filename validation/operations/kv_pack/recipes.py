"""The named ways of making data, each with its motivation. A recipe is data; `pools.py` carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from validation.core.recipe import unknown_recipe


class Sign(Enum):
    """Signs of scales (of values, for FP16 pools)."""

    RANDOM = "random"
    #: By (KV head, group): a third all negative, a third all positive, a third random.
    BY_GROUP = "by group"


class Kind(Enum):
    """How one of K and V is drawn."""

    PUBLISHED = "published"  # like the published parity program
    SCALED = "scaled"  # full-range codes under independent scales over `low`..`high`
    EXTREMES = "extremes"  # scales from the list of special FP16 values
    BELL = "bell"  # float values, then packed: a plain bell curve
    OUTLIERS = "outliers"  # float values, then packed: outlier channels and outlier cells
    SAME = "same"  # float values, then packed: one row repeated for all cells
    CLIMBING = "climbing"  # float values, then packed: later cells larger along one sign vector
    SHINING = "shining"  # float values, then packed: one row for all cells, twice that for the first or the last one
    LADDER = "ladder"  # float values, then packed: sizes rise from 2**low to 2**high along the cells, or fall so
    STAIRS = "stairs"  # float values, then packed: sizes of 2**high and 2**low in turn, 64 cells each


@dataclass(frozen=True)
class Plane:
    """K or V. low, high: powers of two between which the magnitudes of SCALED, LADDER and STAIRS values lie. LADDER
    rises along the cells in KV heads 0, 2, 4 ... and falls in the others; SHINING has its large cell first in the
    former, last in the latter. For packed kinds, KV heads taking turns: levels: a power of two of all values; slopes:
    powers of two from one step of 32 dims to the next."""

    kind: Kind = Kind.SCALED
    sign: Sign = Sign.RANDOM
    low: int = -6
    high: int = 1
    levels: tuple[int, ...] = ()
    slopes: tuple[int, ...] = ()


class Aim(Enum):
    """What q points at."""

    NOTHING = "nothing"
    CELL = "cell"  # each query head follows the signs of one cell of its list
    CLIMB = "climb"  # along the sign vector of a CLIMBING or SHINING K, which all heads of a KV head have in common
    TURNS = "turns"  # like CLIMB in KV heads 0, 2, 4 ..., against it in the others, whose scores fall
    SINK = "sink"  # against the signs of one cell of its list: its score is far below zero


@dataclass(frozen=True)
class Query:
    """q of deviation 2**exponent. loud: one head of each KV head is 2**loud times larger;
    spike: one element of each head, at a place of its own, is 2**spike times larger; zero_rows: query 0
    and head 1 of every query are exactly zero; ladders, KV heads taking turns: in place of `exponent` its first and
    last value, between which the heads of all queries of a KV head lie at even steps of quarters, head after head."""

    exponent: int = 1
    aim: Aim = Aim.NOTHING
    loud: int = 0
    spike: int = 0
    zero_rows: bool = False
    ladders: tuple[tuple[int, int], ...] = ()


class Pages(Enum):
    """The page table. Each has poisoned physical pages that no resident cell lives in."""

    SHUFFLED = "shuffled"
    IN_ORDER = "in order"  # from page 0 on; where the last page is ragged the table ends with it
    SHARED = "shared"  # widely spaced, and every fourth page the same physical page as the one before
    ABSENT = "absent"  # cells 0..63 and 128..191 and a quarter of the other pages are -1
    NONE = "none"  # every page is -1
    PATCHY = "patchy"  # like SHARED, and every fifth page -1


class Widths(Enum):
    """How many ids each query has."""

    CAUSAL = "causal"
    EDGES = "edges"  # the edges of the kernels' tiles, one after another
    BEYOND = "beyond"  # one more than the blocks selected hold, and past the widest row that is served
    ZERO = "zero"
    SELECTED = "selected"  # of the cells that block selection chooses; queries of any length


@dataclass(frozen=True)
class Recipe:
    """One way of making data. operation: what it is for; relations: whether every metamorphic relation must hold on it;
    edition: of the plans, from which on it is planned. One of a later edition stands behind all earlier ones;
    far: whether lanes are asked the checks of `validation.run.far` besides."""

    name: str
    motivation: str
    k: Plane = field(default_factory=Plane)
    v: Plane = field(default_factory=Plane)
    q: Query = field(default_factory=Query)
    pages: Pages = Pages.SHUFFLED
    widths: Widths = Widths.CAUSAL
    operation: str = "prompt_attention"
    relations: bool = False
    edition: int = 1
    far: bool = False

    @property
    def any_size(self) -> bool:
        """Whether every profile has it at its own sizes."""
        sized = self.widths in (Widths.BEYOND, Widths.SELECTED)
        return not (self.relations or self.far or sized or self.name == "captured")


_ATTENTION = (
    Recipe(
        "uniform",
        "The spirit of the published generator: plain codes under mild scales, so that a failure here is no subtlety.",
        k=Plane(Kind.PUBLISHED),
        v=Plane(Kind.PUBLISHED),
    ),
    Recipe(
        "signed_decades",
        "Signed scales over two decades per block, K and V independent: one-sided data hides sign, scale and layout.",
    ),
    Recipe(
        "all_negative",
        "Groups whose scales are all negative: a V bound taken over positive scales gives zeros or overflow there.",
        k=Plane(sign=Sign.BY_GROUP),
        v=Plane(sign=Sign.BY_GROUP),
    ),
    Recipe(
        "outliers",
        "A few channels and cells far larger than the rest, as in real keys: small elements must survive beside them, "
        "and one element a head of q, which alone decides what q may be scaled by.",
        k=Plane(Kind.OUTLIERS),
        v=Plane(Kind.OUTLIERS),
        q=Query(exponent=-2, spike=5),
    ),
    Recipe(
        "scale_extremes",
        "V scales of every FP16 class (zeros of both signs, subnormals, powers of two, the largest) in one chunk.",
        k=Plane(low=-24, high=1),
        v=Plane(Kind.EXTREMES),
    ),
    Recipe(
        "faint",
        "Scales of K and V among the FP16 subnormals, under a q that makes them count: flushed ones change the output.",
        k=Plane(low=-24, high=-8),
        v=Plane(low=-24, high=-8),
        q=Query(exponent=10),
    ),
    Recipe(
        "small_q",
        "Nearly equal scores with absent pages: a masked cell that is scored 0 then takes as much weight as any other.",
        q=Query(exponent=-6),
        pages=Pages.ABSENT,
    ),
    Recipe(
        "peaked",
        "Each head aims at one cell: the output is that cell's V row, so a misrouted row or head shows at once.",
        k=Plane(Kind.BELL),
        q=Query(exponent=1, aim=Aim.CELL),
    ),
    Recipe(
        "flat",
        "All keys equal: every cell weighs the same, so a lost, doubled or invented cell moves every output.",
        k=Plane(Kind.SAME),
        v=Plane(Kind.BELL),
    ),
    Recipe(
        "sunken",
        "Equal scores near -300 beside masked cells: a finite mask, or a maximum that starts at 0, outweighs them all.",
        k=Plane(Kind.SAME),
        v=Plane(Kind.BELL),
        q=Query(exponent=5, aim=Aim.SINK),
        pages=Pages.ABSENT,
    ),
    Recipe(
        "climbing",
        "Scores that rise all along the list: the running maximum moves in every chunk and rescales all before it.",
        k=Plane(Kind.CLIMBING),
        v=Plane(Kind.BELL),
        q=Query(exponent=2, aim=Aim.CLIMB),
    ),
    Recipe(
        "absent_pages",
        "Pages of -1, the first chunk and whole later chunks among them: absent cells get no weight anywhere.",
        v=Plane(low=-2, high=6),
        q=Query(exponent=-2),
        pages=Pages.ABSENT,
    ),
    Recipe(
        "all_absent",
        "No page is resident: the output is zeros, not 0/0 and not the mean of what lies in front of the pool.",
        pages=Pages.NONE,
    ),
    Recipe(
        "shuffled",
        "Widely spaced physical pages, some shared by two logical ones: the page table is used, for every cell.",
        pages=Pages.SHARED,
    ),
    Recipe(
        "in_order",
        "The identity page table, page 0 and the table's last entry in use: it hides most, so that a failure of the "
        "others points at the table, but not a page 0 taken for absent nor an entry read past the end.",
        pages=Pages.IN_ORDER,
    ),
    Recipe(
        "huge_q",
        "q near 2**60 aimed at one cell: scores of 1e18 neither overflow nor turn a weight into NaN.",
        k=Plane(Kind.BELL),
        q=Query(exponent=60, aim=Aim.CELL),
    ),
    Recipe(
        "tiny_q",
        "q near 2**-130, subnormals and whole zero rows, and one head near 2**-115: the power of two "
        "that raises q exists for each of them, and none divides by zero.",
        q=Query(exponent=-130, loud=14, zero_rows=True),
    ),
    Recipe(
        "outlier_head",
        "One head 4,096 times louder than its neighbours: a scale for all would cost the quiet heads their bits.",
        q=Query(exponent=0, loud=12),
    ),
    Recipe(
        "zeros",
        "Empty lists: the output is zeros, although every id behind the width points at poison.",
        widths=Widths.ZERO,
    ),
    Recipe(
        "width_edges",
        "Widths one below, at and one above the tiles, primes, 1 and 0: tails, empty chunks and neighbours' rows.",
        widths=Widths.EDGES,
    ),
    Recipe(
        "laws",
        "Mild numbers that stay normal under exact changes (signs, powers of two, moved pages): every law applies.",
        k=Plane(low=-4, high=1),
        v=Plane(low=-4, high=1),
        q=Query(exponent=0, aim=Aim.CLIMB),
        pages=Pages.PATCHY,
        relations=True,
    ),
    Recipe(
        "captured",
        "q, K and V of a real model after rope (--capture FILE): outlier channels no generator here would draw.",
    ),
    # Each sweeps a scale over its whole range, so that every intermediate crosses each threshold it might be asked for.
    Recipe(
        "q_ladder",
        "q over the whole range of a float, a step a head, over a K of subnormal scales that rises and one near the "
        "largest that falls, V of small and of large scales: spreads of scores, and so rises of the maximum and "
        "arguments of exp2, go from 2**-20 to 2**16 and, falling, from nothing to 2**120. A rescale or exponential "
        "cut short near zero, a limit of scores and a finite stand-in for minus infinity show.",
        k=Plane(Kind.CLIMBING, levels=(-12, 12)),
        v=Plane(Kind.CLIMBING, levels=(-8, 10)),
        q=Query(aim=Aim.TURNS, ladders=((-12, 24), (-140, 100))),
        edition=2,
    ),
    Recipe(
        "v_ladder",
        "All cells weigh the same beside one, first or last, that outweighs each of them by 2**0.5 to 2**60 and has "
        "the smallest V: hundreds of tiny weights decide the output. A weight that is flushed, left out of a sum or "
        "kept from falling, a sum that a large rise of the maximum drops, and a low half of p that is lost show.",
        k=Plane(Kind.SHINING),
        v=Plane(Kind.LADDER, low=-4, high=6),
        q=Query(aim=Aim.CLIMB, ladders=((-5, 2), (-5, 2))),
        edition=2,
    ),
    Recipe(
        "k_ladder",
        "K grows by 2 or 4 powers of two every 32 dims, up to 2**14, and q falls as fast, so that all dims count "
        "alike: elements of q go down to 2**-28 of their head's largest, where the low half of the split is "
        "subnormal, then gone, and the high one subnormal. The unit of V falls and rises by 2**24 from chunk to "
        "chunk.",
        k=Plane(Kind.BELL, slopes=(2, 4)),
        v=Plane(Kind.STAIRS, low=-12, high=12),
        q=Query(ladders=((-8, 4), (-14, -4))),
        edition=2,
    ),
    Recipe(
        "sunken_ladder",
        "Equal scores from -3 to -30,000 beside masked cells, under a K of ordinary size and one near the largest: in "
        "units of q and of the raised q they lie below every finite number that might stand for minus infinity.",
        k=Plane(Kind.SAME, levels=(0, 13)),
        v=Plane(Kind.BELL),
        q=Query(aim=Aim.SINK, ladders=((-1, 12), (-14, -1))),
        pages=Pages.ABSENT,
        edition=2,
    ),
    Recipe(
        "width_beyond",
        "A width of 2,049, and some past the widest row that is served: nothing stops at the cells of 512 blocks.",
        widths=Widths.BEYOND,
        edition=2,
    ),
    Recipe(
        "far",
        "On lanes also a pool's last rows of 2**31 and the last queries of 2**29: 64 bits of offset, carries included.",
        edition=2,
        far=True,
    ),
    Recipe(
        "selected",
        "Ids that block selection wrote a moment ago, on the device, for queries of any length, in no order, over "
        "absent pages: a query that reads its neighbour's ids, a cell too few or ids from elsewhere shows.",
        pages=Pages.ABSENT,
        widths=Widths.SELECTED,
        edition=3,
    ),
)

_PACK = (
    Recipe("pack_bell", "Plain values: the layout of codes and scales, page by page.", operation="kv_pack"),
    Recipe(
        "pack_decades",
        "Magnitudes over forty powers of two, group by group: scales subnormal, zero and near the largest FP16.",
        operation="kv_pack",
    ),
    Recipe(
        "pack_ties",
        "Blocks whose largest magnitude occurs with both signs: the element met first decides the sign of the scale.",
        pages=Pages.IN_ORDER,
        operation="kv_pack",
    ),
    Recipe(
        "pack_halfway",
        "Values between two codes, scales between two FP16 ones, exactly or a float32 step beside: roundings count.",
        operation="kv_pack",
    ),
    Recipe(
        "pack_sparse",
        "All-zero groups and groups of one non-zero element, zeros of both signs; rows of absent pages are left out.",
        pages=Pages.ABSENT,
        operation="kv_pack",
    ),
    Recipe(
        "pack_lost",
        "NaN, infinities, scales beyond FP16 and rows of subnormals: each counted once, no neighbour's byte changed.",
        pages=Pages.ABSENT,
        operation="kv_pack",
    ),
    Recipe(
        "pack_far",
        "On lanes the last rows of 2**31 as well, packed at the end of such a pool: offsets have 64 bits.",
        operation="kv_pack",
        edition=2,
        far=True,
    ),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (*_ATTENTION, *_PACK)}


def find(name: str) -> Recipe:
    """The recipe of a name. Raises StrataError where none has it."""
    if name in RECIPES:
        return RECIPES[name]
    raise unknown_recipe(name, RECIPES)


def of_operation(operation: str) -> list[Recipe]:
    """The recipes of `prompt_attention` or `kv_pack`, in table order."""
    return [recipe for recipe in RECIPES.values() if recipe.operation == operation]
