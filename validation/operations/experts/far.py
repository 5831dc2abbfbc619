"""Fused experts far away: tokens, grouped rows and pairs at the end of as many as the kernels take, blobs across 4 GiB,
and grouping alone of more than 2^16 pairs and of every number of experts at which its scans change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Buffer
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_fused
from strata.kernels.expert_fused import SHAPES, Prepared
from strata.kernels.experts import MAX_EXPERTS, PlacedExperts
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import ALIGN, Mapped
from validation.core.random_streams import Stream
from validation.core.verdict import Check, holds
from validation.operations.experts import inputs as made
from validation.operations.experts import kernels
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.recipes import find

#: Numbers that the kernels keep in 31 bits (pairs, rows, tokens times ranks) and in 32 (16-byte pieces of activations).
MOST, MOST_PIECES = 1 << 31, 1 << 32
#: Bytes of a buffer: what an address space has room for beside others.
MOST_BYTES = 1 << 44
#: Values and bytes of a unit of activations, of which the last 8 bytes are nobody's; pieces of 16 bytes.
UNIT, USED, PIECES = 64, 72, 5
#: Pairs that are grouped alone: no 16-bit number counts them, and the last round of threads is not full.
MANY_PAIRS = 67_001
_WARP = 32
#: The checks of fused experts, by recipe: grouping knows nothing of formats, so it is asked of its own recipe.
NAMES = {"experts_far": ("far products", "far blobs", "far quantise"), "experts_crowd": ("many pairs",)}
#: Numbers of experts on both sides of every power of two from a warp on, up to as many as there are threads.
MANY_EXPERTS = sorted(
    {1, 2, MAX_EXPERTS}
    | {
        count + step
        for count in (_WARP, 64, 128, 256, 512, MAX_EXPERTS)
        for step in (-1, 0, 1)
        if count + step <= MAX_EXPERTS
    }
)


def parts(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """What is asked of a fused path."""
    data = made.build(case, path.mode)

    def every(name: str, ask: Callable[[LanesExecutor, Path, Inputs, int], Check]) -> Part:
        def shapes() -> Check:
            found = [ask(executor, path, data, shape) for shape in SHAPES]
            return next((check for check in found if not check.verdict.passes), found[-1])

        return Part(name, shapes)

    asked = {
        "far products": every("far products", _products),
        "far blobs": every("far blobs", _blobs),
        "far quantise": Part("far quantise", lambda: _quantise(executor, path, data)),
        "many pairs": Part("many pairs", lambda: _many(case, executor)),
    }
    return [asked[name] for name in NAMES[case.recipe]]


def _ready(executor: LanesExecutor, path: Path, data: Inputs, shape: int) -> Prepared:
    """A case after one run."""
    ready = expert_fused.prepare(executor, path, kernels.placed(executor, data), data.x, data.ids, shape, trace=True)
    ready.launch()
    return ready


def _products(executor: LanesExecutor, path: Path, data: Inputs, shape: int) -> Check:
    """Both products with their tokens, grouped rows and pairs moved to the end."""
    near = _ready(executor, path, data, shape)
    trace = near.trace
    assert trace is not None
    rows = int(near.offsets.host()[-1])
    tokens = min(MOST // data.top, MOST_PIECES // (data.n // UNIT * PIECES)) - data.pairs
    grouped = min(MOST, MOST_PIECES // (data.ff // UNIT * PIECES)) - data.pairs
    shift = tokens * data.top
    units = Mapped((tokens + len(data.x), *near.units.shape[1:]), np.uint8, "units of x")
    units.view()[tokens:] = near.units.host()
    pairs = Mapped((grouped + data.pairs,), np.int32, "pairs")
    pairs.view()[grouped : grouped + rows] = near.pairs.host()[:rows] + shift
    h = Mapped((grouped + data.pairs, *near.h.shape[1:]), np.uint8, "units of h")
    out = Mapped((shift + data.pairs, data.n), np.float32, "rows")
    traced = Mapped((grouped + data.pairs, 2 * data.ff), np.float32, "trace")
    tiles = {size: _shifted(executor, buffer, grouped) for size, buffer in near.tiles.items()}
    offsets = executor.array(near.offsets.host() + np.int32(grouped), "offsets")
    far = replace(near, units=units, pairs=pairs, h=h, rows=out, trace=traced, tiles=tiles, offsets=offsets)
    for cut in far.cuts:
        far.gate_up(cut)
        far.down(cut)
    named = near.slot.host() >= 0
    here = slice(grouped, grouped + rows)
    compared = [
        ("h", h.view()[here, :, :USED], near.h.host()[:rows, :, :USED]),
        ("gate and up", traced.view()[here], trace.host()[:rows]),
        ("rows", out.view()[shift:][named], near.rows.host().reshape(-1, data.n)[named]),
    ]
    return same("far products", compared, [units, pairs, h, out, traced])


def _shifted(executor: LanesExecutor, tiles: Buffer, by: int) -> Buffer:
    """Tiles whose first rows lie `by` rows later."""
    values = tiles.host()
    values[:, 1] += np.int32(by)
    return executor.array(values, "tiles")


def _blobs(executor: LanesExecutor, path: Path, data: Inputs, shape: int) -> Check:
    near = _ready(executor, path, data, shape)
    named, compared, buffers = near.slot.host() >= 0, [], []
    for turn in range(2):
        placed = across(executor, data, turn)
        far = replace(near, placed=placed, rows=executor.empty(near.rows.shape, np.float32, name="rows"))
        for cut in far.cuts:
            far.gate_up(cut)
            far.down(cut)
        got, due = (buffer.host().reshape(-1, data.n)[named] for buffer in (far.rows, near.rows))
        compared.append((f"rows, placement {turn}", got, due))
        buffers += placed.blobs
    return same("far blobs", compared, buffers)


def across(executor: LanesExecutor, data: Inputs, turn: int) -> PlacedExperts:
    """The experts, each across a multiple of 4 GiB: at another part of its bytes for each expert, evenly spread, and in
    the second turn the other way round."""
    experts = kernels.placed(executor, data).experts
    count, offsets = len(experts.blobs), experts.offsets or [0] * len(experts.blobs)
    buffers, addresses = [], []
    for expert, (blob, offset) in enumerate(zip(experts.blobs, offsets, strict=True)):
        place = expert + 1 if turn == 0 else count - expert
        before = place * blob.nbytes // (count + 1) // ALIGN * ALIGN
        lead = np.full(offset, 0xA5, np.uint8)
        buffer = Mapped.holding(np.concatenate([lead, blob]), f"expert {expert}", before)
        buffers.append(buffer)
        addresses.append(buffer.address + offset)
    table = executor.array(np.array(addresses, np.uint64), "expert addresses")
    return PlacedExperts(experts, list(buffers), table)


def _quantise(executor: LanesExecutor, path: Path, data: Inputs) -> Check:
    """Tokens to int8, and zeros for the rows of nobody, at the last tokens; every second id is nobody's."""
    near = _ready(executor, path, data, next(iter(SHAPES)))
    count, top, n = len(data.x), data.top, data.n
    tokens = min(MOST // top, MOST_BYTES // (4 * top * n))
    ids = np.where(np.arange(data.pairs) % 2 == 0, -1, 0).astype(np.int32).reshape(count, top)
    held = {
        "x": Mapped((tokens, n), np.float32, "x"),
        "ids": Mapped((tokens, top), np.int32, "ids"),
        "units": Mapped((tokens, *near.units.shape[1:]), np.uint8, "units of x"),
        "rows": Mapped((tokens, top, n), np.float32, "rows"),
    }
    held["x"].view()[-count:], held["ids"].view()[-count:], held["rows"].view()[-count:] = data.x, ids, 1
    far = replace(near, tokens=tokens, x=held["x"], ids=held["ids"], units=held["units"], rows=held["rows"])
    per_block = MAX_EXPERTS * 4
    grid = 1 + -(-tokens * n // per_block)
    executor.launch_end(
        expert_fused.prepare_kernel(), (grid, 1, 1), far.group_arguments(), 1 + (tokens - count) * n // per_block
    )
    due = np.broadcast_to((ids >= 0).astype(np.float32)[..., None], (count, top, n))
    compared = [
        ("units", held["units"].view()[-count:, :, :USED], near.units.host()[:, :, :USED]),
        ("rows of nobody", held["rows"].view()[-count:], due),
    ]
    return same("far quantise", compared, held.values())


def _many(case: ExpertCase, executor: LanesExecutor) -> Check:
    """Grouping alone: block 0 of the kernel that quantises as well."""
    stream = case.stream("many pairs")
    found = ""
    tokens = -(-MANY_PAIRS // case.top)
    for experts, count in [(case.experts, tokens), *((number, -(-2 * number // case.top)) for number in MANY_EXPERTS)]:
        found = found or _grouped(executor, stream.child(experts, count), experts, count, case.top)
    return holds("many pairs", not found, found, {"pairs": tokens * case.top})


def _grouped(executor: LanesExecutor, stream: Stream, experts: int, tokens: int, top: int) -> str:
    """What is wrong with the grouping of random ids, strays among them; "" for nothing."""
    pairs = tokens * top
    ids = stream.child("ids").below(experts + 1, (tokens, top)).astype(np.int32)
    size = {
        "offsets": experts + 1,
        "tile_of_64": experts + 1,
        "tile_of_128": experts + 1,
        "slot": pairs,
        "pairs": pairs,
    }
    work = {name: executor.empty((count,), np.int32, name=name) for name, count in size.items()}
    tiles = {
        rows: executor.empty((pairs // rows + min(experts, pairs), 2), np.int32, name=f"tiles of {rows}")
        for rows in (64, 128)
    }
    counts = {
        name: executor.array(np.zeros(n, np.int32), name, written=True) for name, n in (("status", 3), ("ignored", 1))
    }
    none = executor.array(np.zeros(1, np.float32), "nothing")
    args = (
        none, executor.array(ids, "ids"), none, none, work["offsets"], work["tile_of_64"], tiles[64],
        work["tile_of_128"], tiles[128], work["slot"], work["pairs"], counts["status"], counts["ignored"],
        np.int32(tokens), np.int32(256), np.int32(top), np.int32(experts), np.int32(0),
    )  # fmt: skip
    executor.launch(expert_fused.prepare_kernel(), (1, 1, 1), args)
    flat = ids.reshape(-1)
    named = flat < experts
    rows_of = np.bincount(flat[named], minlength=experts)
    offsets = np.concatenate([[0], np.cumsum(rows_of)])
    said = f"{pairs} pairs of {experts} experts"
    if not np.array_equal(work["offsets"].host(), offsets):
        return f"{said}: the first rows of experts are others"
    slot, back = work["slot"].host(), work["pairs"].host()
    if not (slot[~named] == -1).all() or int(counts["ignored"].host()[0]) != int((~named).sum()):
        return f"{said}: ids of nobody have rows, or are counted otherwise"
    place, own = slot[named], flat[named]
    if (place < offsets[own]).any() or (place >= offsets[own + 1]).any():
        return f"{said}: a pair lies outside of its expert's rows"
    if not np.array_equal(back[place], np.flatnonzero(named)):
        return f"{said}: rows and pairs do not name each other"
    for rows, buffer in tiles.items():
        first = np.concatenate([[0], np.cumsum(-(-rows_of // rows))])
        due = [(expert, row) for expert in range(experts) for row in range(offsets[expert], offsets[expert + 1], rows)]
        listed = buffer.host()[: len(due)]
        if not np.array_equal(work[f"tile_of_{rows}"].host(), first) or not np.array_equal(listed, due or listed):
            return f"{said}: the tiles of {rows} rows are others"
    beside = [buffer for buffer in (*work.values(), *tiles.values(), *counts.values()) if not buffer.guards_intact()]
    return f"{said}: memory around {len(beside)} buffers was overwritten" if beside else ""


def names(recipe: str) -> tuple[str, ...]:
    """The checks that cases of a recipe are asked of the fused path on lanes."""
    return NAMES[recipe] if find(recipe).far else ()
