"""Experts of a prompt, grouped, on int8 tensor cores: one row for each (token, rank) pair, not yet weighted.

For a token x and an expert with rows Wg, Wu [ff, n] and Wd [n, ff] in their blocks:

    h = swiglu(Wg x, Wu x),  row = Wd h,  swiglu(g, u) = g / (1 + e^-g) * u

x and h are int8 with a scale for 32 values (include/activation.cuh), x once for each token. Each 32 values of a weight
row are int8 codes and one exact scale, or two of 16 values. Dots are exact, and every operation is rounded to FP32:

    one scale:   acc = fma(d_x, d_w dot, acc)
    two scales:  acc = fma(d_x, fma(d_w1, dot1, d_w0 dot0), acc)

over blocks of 32 in the order of K from acc = +0. A product d_w dot that is zero counts as +0; an infinite d_w gives
NaN. Exponentials are the project's own (include/exp2.cuh). So a row's
bits depend on its token and its expert alone: not on the tier, the work shape, how experts are cut into launches, the
order of rows or tokens, or the device. A NaN or infinity in x or h makes its block, and every output that uses it, NaN,
and is counted; it never becomes a number again. A token of zeros gives +0.

Grouping happens on the device and nothing waits for the host between the launches: quantise and group, then for each
cut of experts gate and up with SwiGLU and int8 h, then down. Ids that name no expert are counted and give
rows of +0.

Work shapes: 256 weight rows by 64 routed rows, or 128 by 128. A block of threads takes one such tile of an expert, each
warp 16 or 32 weight rows and all routed rows; weights are decoded from their blocks into matrix fragments in registers,
once for a tile, and no decoded weight passes through shared memory. Tiers: `sm80` m16n8k32 (m16n8k16 for two scales),
blocks of weights, and activations in four stages, by cp.async; `sm75` m8n8k16, four (two) for one of those,
activations through registers in two stages.

References
----------
N. Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202, 2020: SwiGLU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Argument, Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import FORMATS, device_table
from strata.kernels.counts import counted
from strata.kernels.descriptor import Descriptor, SwitchRule
from strata.kernels.experts import (
    BLOCK,
    DOWN,
    EXPERT_MODES,
    GATE_UP,
    MAX_EXPERTS,
    STAGES,
    Experts,
    Geometry,
    PlacedExperts,
    Routed,
    check_tokens,
    formats_of,
    place,
)
from strata.kernels.limits import Limits, int8_products, without_matrix
from strata.kernels.path import Path
from strata.kernels.required import Required
from strata.switches import FUSED, FUSED_NATIVE, FUSED_SM75

#: Work shapes by the number of 64-row units of weights: (weight rows, routed rows) of a block.
SHAPES = {4: (256, 64), 2: (128, 128)}
LARGE, SMALL = SHAPES
#: 16-row fragments of a warp, and the blocks whose registers a multiprocessor must hold, by tier and shape. 64 sums and
#: more a thread need up to 255 registers: 8 warps a multiprocessor.
_FRAGMENTS = {(80, 4): 1, (80, 2): 2, (75, 4): 1, (75, 2): 1}
_MIN_BLOCKS = {(80, 4): 1, (80, 2): 2, (75, 4): 1, (75, 2): 1}
#: Two scales for 32 values and 128 sums are too much for a thread.
_ONE_FRAGMENT = (("iq2_s", 80, 2),)
#: Stages of activations in shared memory; three where four would take more than the 99 KiB of an RTX 30.
_STAGES = {75: 2, 80: 4}
_THREE_STAGES = (("iq4_xs", 80, 4),)
#: Passes in which sums of gate and up go through shared memory.
_PASSES = {75: 2, 80: 1}
#: Values and bytes of a unit of activations, see include/activation.cuh.
_UNIT_VALUES, _UNIT_BYTES = 64, 80
#: Bytes of them that 32-bit numbers of 16-byte pieces reach.
_MOST_UNITS = 16 << 32
#: Blocks of a launch on an executor that is no card.
_LANES_BLOCKS = 4
#: Formats whose activations lie in PAIRED order, see include/expert_fragments.cuh.
_PAIRED = ("iq3_xxs", "iq3_s", "iq2_xxs")
_SCANS = 3
#: Formats whose codebook is in shared memory with every combination of four signs.
_SIGNED_GRID, _SIGNS = ("iq3_xxs",), 16


def stages_of(form: str, tier: int, shape: int) -> int:
    """Stages of activations, of 64 values each, in shared memory.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    shape
        The work shape, a key of `SHAPES`.
    """
    return 3 if (form, tier, shape) in _THREE_STAGES else _STAGES[tier]


def shared_bytes(form: str, tier: int, shape: int) -> int:
    """Dynamic shared memory of a block, in bytes: the sum that `struct Shape` of the source makes.

    It holds stages of activations (a unit a column), on sm80 buffers of whole blocks of weights (in 16-byte pieces, in
    eight rows an odd number each or one more), or, after them, sums of gate and up; for down a number for each column;
    and the codebook.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    shape
        The work shape, a key of `SHAPES`.
    """
    weight_rows, columns = SHAPES[shape]
    stages = stages_of(form, tier, shape) * columns * _UNIT_BYTES
    if tier >= 80:
        chunk, buffers = (128, 3) if form == "iq4_nl" and weight_rows == 256 else (256, 2)
        pieces = (chunk // FORMATS[form].values * FORMATS[form].nbytes + 29) // 16
        pieces += pieces % 4 == 0
        stages += buffers * weight_rows // 8 * (8 * pieces + (pieces % 2 == 0)) * 16
    h, pairs = (0, columns * 4) if form in DOWN else (columns // _PASSES[tier] * (weight_rows + 4) * 4, 0)
    return max(stages, h) + pairs + device_table(form).nbytes * (_SIGNS if form in _SIGNED_GRID else 1)


def fragments_and_blocks(form: str, tier: int, shape: int) -> tuple[int, int]:
    """16-row fragments of a warp, and blocks that a multiprocessor holds.

    Parameters
    ----------
    form
        The format of the weights.
    tier
        75 or 80.
    shape
        The work shape, a key of `SHAPES`.
    """
    if (form, tier, shape) in _ONE_FRAGMENT:
        return 1, 1
    return _FRAGMENTS[tier, shape], _MIN_BLOCKS[tier, shape]


@cache
def kernel(form: str, tier: int, shape: int) -> Kernel:
    """The product of a format.

    Parameters
    ----------
    form
        The format of the weights, of gate and up or of down.
    tier
        75 or 80.
    shape
        The work shape, a key of `SHAPES`: 4 or 2.

    Raises
    ------
    StrataError
        For another format, tier or shape.
    """
    if form not in (*GATE_UP, *DOWN) or tier not in _STAGES or shape not in SHAPES:
        raise StrataError(
            f"expert_fused: {form}, tier {tier}, shape {shape}; expected one of {', '.join((*GATE_UP, *DOWN))},"
            f" 75 or 80, and one of {', '.join(map(str, SHAPES))}"
        )
    weight_rows, columns = SHAPES[shape]
    fragments, resident = fragments_and_blocks(form, tier, shape)
    size = shared_bytes(form, tier, shape)
    return Kernel(
        "expert_fused",
        "expert_down" if form in DOWN else "expert_gate_up",
        32 * weight_rows // (16 * fragments),
        size,
        (
            ("TIER", tier),
            ("FORMAT", FORMATS[form].ggml_type),
            ("WEIGHT_ROWS", weight_rows),
            ("COLUMNS", columns),
            ("FRAGMENTS", fragments),
            ("STAGES", stages_of(form, tier, shape)),
            ("SHARED_BYTES", size),
            ("MIN_BLOCKS", resident),
        ),
    )


@cache
def prepare_kernel() -> Kernel:
    """Quantising and grouping, the same for every tier."""
    shared = 4 * (MAX_EXPERTS + _SCANS * MAX_EXPERTS // 32 + 1)
    return Kernel("expert_prepare", "expert_prepare", MAX_EXPERTS, shared, (("TIER", 75), ("EXPERTS", MAX_EXPERTS)))


def kernels(path: Path, shapes: Sequence[int] | None = None) -> Iterator[Kernel]:
    """Every kernel that a path may launch in some work shapes.

    Parameters
    ----------
    path
        A path of this operation.
    shapes
        Work shapes, None for those that the path takes unless another is asked for.
    """
    usual = tuple(SHAPES) if path.tier_number >= 80 else (SMALL,)
    yield prepare_kernel()
    for form in formats_of(path.mode):
        for shape in usual if shapes is None else shapes:
            yield kernel(form, path.tier_number, shape)


def shape_for(pairs: int, experts: int) -> int:
    """The work shape by rows an expert: 128 routed rows at a time where two tiles of 64 would be needed, 64 below, and
    above, where tiles of 64 leave less of the last one empty.

    Parameters
    ----------
    pairs
        Routed rows.
    experts
        Experts of the layer.
    """
    return 2 if 56 * experts < pairs <= 112 * experts else 4


def default_shape(tier: int, pairs: int, experts: int) -> int:
    """The work shape that is served unless another is asked for: on sm75 the small one, whatever the rows.

    Parameters
    ----------
    tier
        75 or 80.
    pairs
        Routed rows.
    experts
        Experts of the layer.
    """
    return shape_for(pairs, experts) if tier >= 80 else SMALL


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs, workspaces and the result on an executor; `launch` fills them and waits for nothing.

    The counts of `status` and `ignored` begin at zero and `status` adds up over launches, modulo 2^32; all else is
    written anew.

    Parameters
    ----------
    executor
        Where the buffers lie.
    path
        The path that they are for.
    placed
        The experts.
    tokens, top
        Tokens, and ranks of a token.
    shape
        The work shapes of gate and up, and of down.
    cuts
        First expert of each launch, and the one after its last.
    multiprocessors
        Multiprocessors of the card, None on lanes.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top].
    units
        uint8 [tokens, n / 64, unit], x as int8 codes with their scales.
    h
        uint8 [pairs, ff / 64, unit], h likewise, in the order of grouped rows.
    rows
        float32 [tokens, top, n], the result.
    trace
        float32 [pairs, 2 ff], gate and up in the order of grouped rows; None where it was not asked for.
    slot
        int32 [pairs], the grouped row of each pair, -1 without one.
    pairs
        int32 [pairs], the pair of each grouped row.
    offsets
        int32 [experts + 1], where each expert's rows begin.
    tile_of
        int32 [experts + 1] by rows of a tile (64, 128): each expert's first tile.
    tiles
        int32 [tiles, 2] by rows of a tile.
    status
        int32 [3], how many values are not finite, by `STAGES`.
    ignored
        int32 [1], how many ids name no expert.
    tables
        Codebooks by format.
    """

    executor: Executor
    path: Path
    placed: PlacedExperts
    tokens: int
    top: int
    shape: tuple[int, int]
    cuts: tuple[tuple[int, int], ...]
    multiprocessors: int | None
    x: Buffer
    ids: Buffer
    units: Buffer
    h: Buffer
    rows: Buffer
    trace: Buffer | None
    slot: Buffer
    pairs: Buffer
    offsets: Buffer
    tile_of: dict[int, Buffer]
    tiles: dict[int, Buffer]
    status: Buffer
    ignored: Buffer
    tables: dict[str, Buffer]

    def buffers(self) -> list[Buffer]:
        """All of them but the experts'."""
        single = (
            self.x, self.ids, self.units, self.h, self.rows, self.slot, self.pairs,
            self.offsets, self.status, self.ignored,
        )  # fmt: skip
        traced = () if self.trace is None else (self.trace,)
        return [*single, *traced, *self.tile_of.values(), *self.tiles.values(), *self.tables.values()]

    def group(self) -> Witness:
        """Quantise tokens and group pairs."""
        per_block = MAX_EXPERTS * 4
        grid = (1 + -(-self.tokens * self.placed.experts.geometry.n // per_block), 1, 1)
        return self.executor.launch(prepare_kernel(), grid, self.group_arguments())

    def group_arguments(self) -> list[Argument]:
        """What the kernel of `group` is launched with."""
        experts = self.placed.experts
        n = experts.geometry.n
        return [
            self.x, self.ids, self.units, self.rows, self.offsets, self.tile_of[64], self.tiles[64],
            self.tile_of[128], self.tiles[128], self.slot, self.pairs, self.status, self.ignored, np.int32(self.tokens),
            np.int32(n), np.int32(self.top), np.int32(self.placed.count), np.int32(experts.gate_up in _PAIRED),
        ]  # fmt: skip

    def gate_up(self, cut: tuple[int, int]) -> Witness:
        """Gate, up, SwiGLU and h of the experts cut[0] .. cut[1] - 1."""
        return self._product(self.placed.experts.gate_up, self.shape[0], cut, self.units)

    def down(self, cut: tuple[int, int]) -> Witness:
        """Rows of the same experts."""
        return self._product(self.placed.experts.down, self.shape[1], cut, self.h)

    def _product(self, form: str, shape: int, cut: tuple[int, int], units: Buffer) -> Witness:
        experts = self.placed.experts
        program = kernel(form, self.path.tier_number, shape)
        weight_rows, columns = SHAPES[shape]
        rows = experts.geometry.n if form in DOWN else 2 * experts.geometry.ff
        # More tiles than this there cannot be: a full one for every `columns` pairs, and a last one for each expert.
        most = (self.tokens * self.top // columns + cut[1] - cut[0]) * -(-rows // weight_rows)
        args: list[Argument] = [
            self.placed.table, self.tiles[columns], self.tile_of[columns], self.offsets, self.pairs, units,
            self.tables.get(form), self.h, self.rows, self.trace, self.status, np.int64(experts.layout.down),
            np.int32(experts.geometry.n), np.int32(experts.geometry.ff), np.int32(self.top), np.int32(cut[0]),
            np.int32(cut[1]),
        ]  # fmt: skip
        grid = (max(1, min(most, self._resident(form, shape))), 1, 1)
        return self.executor.launch(program, grid, args, reached=self.placed.blobs)

    def _resident(self, form: str, shape: int) -> int:
        """Blocks that run at the same time; each takes one work item after another."""
        if self.multiprocessors is None:
            return _LANES_BLOCKS
        return self.multiprocessors * fragments_and_blocks(form, self.path.tier_number, shape)[1]

    def launch(self) -> list[Witness]:
        """Everything, in order."""
        witnesses = [self.group()]
        for cut in self.cuts:
            witnesses += [self.gate_up(cut), self.down(cut)]
        return witnesses

    def result(self, witnesses: list[Witness]) -> Routed:
        """What a launch left, in the order of pairs.

        Parameters
        ----------
        witnesses
            One for each launch.

        Raises
        ------
        StrataError
            For a pair whose grouped row does not exist.
        """
        experts, pairs = self.placed.experts, self.tokens * self.top
        ff = experts.geometry.ff
        slot = self.slot.host()
        outside = np.flatnonzero((slot < -1) | (slot >= pairs))
        if outside.size:
            raise StrataError(f"the row of pair {outside[0]} is {slot[outside[0]]}, expected -1 to {pairs - 1}")
        named = slot >= 0
        of_pair = slot[named]

        def by_pair(grouped: np.ndarray) -> np.ndarray:
            out = np.zeros((pairs, grouped.shape[1]), grouped.dtype)
            out[named] = grouped[of_pair]
            return out.reshape(self.tokens, self.top, -1)

        offsets = self.offsets.host()
        gate = up = None
        if self.trace is not None:
            both = by_pair(self.trace.host())
            gate, up = both[..., :ff], both[..., ff:]
        status = counted(self.status)
        units = self.h.host()
        h_codes, h_scales = units[..., :_UNIT_VALUES], units[..., _UNIT_VALUES : _UNIT_VALUES + 8]
        return Routed(
            rows=self.rows.host(),
            witnesses=witnesses,
            guards_ok=all(b.guards_intact() for b in [*self.buffers(), self.placed.table, *self.placed.blobs]),
            ignored=counted(self.ignored)[0],
            status=(status[0], status[1], status[2]),
            h_codes=by_pair(h_codes.reshape(pairs, ff).view(np.int8)),
            h_scales=by_pair(np.ascontiguousarray(h_scales).view(np.float32).reshape(pairs, ff // BLOCK)),
            slot=slot,
            source=self.pairs.host()[: int(offsets[-1])] // self.top,
            offsets=offsets,
            gate=gate,
            up=up,
        )


def cuts_of(experts: int, cuts: Sequence[tuple[int, int]] | None = None) -> tuple[tuple[int, int], ...]:
    """The experts of each launch.

    Parameters
    ----------
    experts
        How many experts there are.
    cuts
        First expert of each launch, and the one after its last; None for all in one.

    Raises
    ------
    StrataError
        For cuts that do not cover 0 .. experts - 1 in order and without gaps.
    """
    if cuts is None:
        return ((0, experts),)
    ends = [0, *(end for _, end in cuts)]
    if [begin for begin, _ in cuts] != ends[:-1] or ends[-1] != experts or any(b > e for b, e in cuts):
        raise StrataError(f"cuts {list(cuts)}: expected 0 to {experts} without gaps")
    return tuple((int(begin), int(end)) for begin, end in cuts)


def prepare(
    executor: Executor,
    path: Path,
    placed: PlacedExperts,
    x: np.ndarray,
    ids: np.ndarray,
    shape: int | tuple[int, int] | None = None,
    cuts: Sequence[tuple[int, int]] | None = None,
    trace: bool = False,
) -> Prepared:
    """Inputs and workspaces for `launch`.

    Parameters
    ----------
    executor
        Where they are made.
    path
        A path of this operation and of the experts' mode.
    placed
        The experts, on the same executor.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], any values.
    shape
        The work shape, or one for gate and up and one for down; None for that of `default_shape`.
    cuts
        Experts of each launch, see `cuts_of`.
    trace
        Whether gate and up are kept.

    Raises
    ------
    StrataError
        For a path, arrays, a shape or cuts that do not fit, and for more activations than one call takes.
    """
    experts = placed.experts
    if path.operation != "expert_fused" or path.mode != experts.mode:
        raise StrataError(f"{path.name} cannot run on {experts.mode} experts as expert_fused")
    check_tokens(experts, x, ids)
    tokens, top = ids.shape
    pairs, count = tokens * top, placed.count
    chosen = default_shape(path.tier_number, pairs, count) if shape is None else shape
    both = (chosen, chosen) if isinstance(chosen, int) else chosen
    if any(each not in SHAPES for each in both):
        raise StrataError(f"work shape {shape}: expected one of {', '.join(map(str, SHAPES))}")
    n, ff = experts.geometry.n, experts.geometry.ff
    units = max(tokens * n, pairs * ff) // _UNIT_VALUES * _UNIT_BYTES
    if units > _MOST_UNITS:
        raise StrataError(f"{units} bytes of int8 activations, expected at most {_MOST_UNITS}: fewer tokens at a time")

    def work(size: Sequence[int], dtype: type, name: str) -> Buffer:
        return executor.empty(size, dtype, poison=POISON_WORKSPACE, name=name)

    tables = {form: device_table(form) for form in (experts.gate_up, experts.down)}
    return Prepared(
        executor, path, placed, tokens, top, both, cuts_of(count, cuts), executor.describe().get("multiprocessors"),
        x=executor.array(x, "x"),
        ids=executor.array(ids, "ids"),
        units=work((tokens, n // _UNIT_VALUES, _UNIT_BYTES), np.uint8, "units of x"),
        h=work((pairs, ff // _UNIT_VALUES, _UNIT_BYTES), np.uint8, "units of h"),
        rows=executor.empty((tokens, top, n), np.float32, name="rows"),
        trace=executor.empty((pairs, 2 * ff), np.float32, name="trace") if trace else None,
        slot=work((pairs,), np.int32, "slot"),
        pairs=work((pairs,), np.int32, "pairs"),
        offsets=work((count + 1,), np.int32, "offsets"),
        tile_of={size: work((count + 1,), np.int32, f"first tiles of {size}") for size in (64, 128)},
        tiles={size: work((pairs // size + min(count, pairs), 2), np.int32, f"tiles of {size}") for size in (64, 128)},
        status=executor.array(np.zeros(len(STAGES), np.int32), "status", written=True),
        ignored=executor.array(np.zeros(1, np.int32), "ignored", written=True),
        tables={form: executor.array(table, f"codebook of {form}") for form, table in tables.items() if table.size},
    )  # fmt: skip


def run(
    executor: Executor,
    path: Path,
    experts: Experts,
    x: np.ndarray,
    ids: np.ndarray,
    shape: int | tuple[int, int] | None = None,
    cuts: Sequence[tuple[int, int]] | None = None,
    trace: bool = False,
) -> Routed:
    """One run of host arrays.

    Parameters
    ----------
    executor
        Where it runs.
    path
        A path of this operation and of the experts' mode.
    experts
        The experts, on the host.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], any values.
    shape, cuts, trace
        See `prepare`.

    Raises
    ------
    StrataError
        As `prepare`, and as `Prepared.result`.
    """
    prepared = prepare(executor, path, place(executor, experts), x, ids, shape, cuts, trace)
    return prepared.result(prepared.launch())


def _limits(path: Path, entry: str, arch: int) -> Limits:
    """Of the products, which have integer instructions, and of the grouping, which has none.

    Two spills are known, for compute capability 12.0 alone: of the grouping, by NVRTC 12.9, which one block does once a
    layer; and of gate and up in iq2_xs on sm80, where 128 sums and two scales for 32 values are much for a thread.
    """
    if entry not in ("expert_gate_up", "expert_down"):
        return without_matrix(spilled={("expert_prepare", 120): 460}.get((entry, arch), 0))
    known = {("expert_gate_up", "iq2_xs", "sm80", 120): 16}
    return int8_products(path, arch, known.get((entry, formats_of(path.mode)[0], path.tier, arch), 0))


def _required() -> tuple[Required, ...]:
    """The published size, where a block takes 64 rows of an expert at a time, and one with 56 to 112 rows an expert,
    where it takes 128: between them every kernel that a path may launch. Then data on which experts go wrong that are
    right on numbers at random, each at a small size: NaN and infinities, ids that name no expert, experts with as many
    rows as a tile and one more or less, values between two codes, and blocks as quantisers write them."""
    keys, usual, small = ("tokens", "experts", "top", "n", "ff"), Geometry(), (9, 7, 3, 256, 128)
    hostile = {
        "experts_broken": small,
        "experts_stray": small,
        "experts_edges": (577, 8, 1, 256, 128),
        "experts_ties": small,
        "experts_golden": small,
    }
    published = tuple((*routed, usual.n, usual.ff) for routed in ((256, 64, 10), (150, 4, 2)))
    return (
        Required("experts_decades", keys, published),
        *(Required(recipe, keys, (size,)) for recipe, size in hostile.items()),
    )


DESCRIPTOR = Descriptor(
    name="expert_fused",
    takes="experts",
    modes=EXPERT_MODES,
    tiers=("sm75", "sm80"),
    kernels=lambda path: list(kernels(path)),
    all_kernels=lambda path: list(kernels(path, tuple(SHAPES))),
    limits=_limits,
    replaces="expert_mmq",
    required=_required(),
    codebooks=formats_of,
    vetoes=(SwitchRule(FUSED_NATIVE, "0"),),
    requests=(SwitchRule(FUSED, "1"), SwitchRule(FUSED_SM75, "1", tier="sm75")),
)
