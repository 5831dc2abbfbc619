"""The older expert kernels far away: their passes over values and their products at the end of as many rows as they
take, and blobs across 4 GiB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from strata.executors.base import Buffer, Kernel
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_decode, expert_mmq
from strata.kernels.experts_baseline import PASS_THREADS
from strata.kernels.grouping import group
from strata.kernels.paths import Path
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check, holds
from validation.operations.experts import inputs as made
from validation.operations.experts import kernels
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.far import MANY_PAIRS, MOST, across
from validation.operations.experts.inputs import Inputs

#: Bytes of one buffer of a pass, and of a product.
_MOST_BYTES = 1 << 43
#: The recipe whose cases are grouped alone.
CROWD = "experts_crowd"
_WARPS = PASS_THREADS // 32


def mmq(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """What is asked of the baseline."""
    if case.recipe == CROWD:
        return [Part("many pairs", lambda: _grouped(case))]
    data, tier = made.build(case, path.mode), path.tier_number
    near = expert_mmq.prepare(executor, path, kernels.placed(executor, data), data.x, data.ids)
    expert_mmq.launch(executor, path, near)

    def passes() -> Check:
        compared: list[Any] = []
        buffers: list[Buffer] = []
        own = len(near.grouping.pairs)
        for x, codes, top in ((near.x, near.x_codes, near.top), (near.h, near.h_codes, 1)):
            (blocks, _, block_bytes), width = codes.blocks.shape, x.shape[1]
            rows = _rows(own, [4 * width, blocks * block_bytes])
            source, listed = _last(x, MOST // top if top > 1 else rows), None
            if top > 1:  # rows are pairs, and the kernel is told the pair of each
                listed = Mapped((rows,), np.int32, "pairs")
                listed.view()[-own:] = near.grouping.pairs + np.int32((source.shape[0] - x.shape[0]) * top)
            to = Mapped((blocks, rows, block_bytes), np.uint8, "codes")
            lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
            args = (source, listed, to, lost, np.int32(rows), np.int32(width), np.int32(top))
            _late(executor, expert_mmq.pass_kernel("expert_mmq_quantise"), args, rows * blocks, own * blocks)
            compared.append((f"codes of {width} values", to.view()[:, -own:], codes.blocks.host()))
            buffers += [source, to]
        return _with_swiglu(executor, expert_mmq.pass_kernel("swiglu_rows"), near, compared, buffers)

    def products() -> Check:
        compared: list[Any] = []
        buffers: list[Buffer] = []
        own = len(near.grouping.pairs)
        for side, codes, down in ((near.gate_up, near.x_codes, False), (near.down, near.h_codes, True)):
            blocks = codes.blocks
            rows = _rows(own, [blocks.shape[0] * blocks.shape[2], side.weight_rows * 4])
            shift = rows - own
            there = Mapped((blocks.shape[0], rows, blocks.shape[2]), np.uint8, "codes")
            there.view()[:, shift:] = blocks.host()
            out = Mapped((rows, side.weight_rows), np.float32, "results")
            target = None
            if down:
                target = Mapped((rows,), np.int32, "pairs")
                target.view()[shift:] = near.pairs.host() + shift
            sizes = (side.weight_rows, side.width, side.row_bytes, rows)
            for listed in side.tiles:
                tiles = _later(executor, listed, shift)
                args = (near.placed.table, side.table, there, tiles, target, out, None, np.int64(side.offset))
                grid = tiles.shape[0] * (side.weight_rows // expert_mmq.ROWS)
                program = expert_mmq.product_kernel(side.form, tier)
                executor.launch(program, (grid, 1, 1), (*args, *map(np.int32, sizes)), near.placed.blobs)
            due = (near.rows if down else near.product).host().reshape(own, -1)
            compared.append((side.form, out.view()[shift:], due))
            buffers += [there, out]
        return same("far products", compared, buffers)

    def blobs() -> Check:
        return _blobs(executor, data, near, lambda p: expert_mmq.launch(executor, path, p))

    return [Part("far passes", passes), Part("far products", products), Part("far blobs", blobs)]


def decode(case: ExpertCase, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """What is asked of the kernel for few tokens."""
    if case.recipe == CROWD:
        return [Part("many pairs", lambda: _grouped(case))]
    data = made.build(case, path.mode)
    near = expert_decode.prepare(executor, path, kernels.placed(executor, data), data.x, data.ids)
    expert_decode.launch(executor, path, near)

    def passes() -> Check:
        compared: list[Any] = []
        buffers: list[Buffer] = []
        for x, codes in _passes(near):
            own, width = x.shape
            rows, pieces = _rows(own, [4 * width]), -(-width // 128)
            source = _last(x, rows)
            to = [Mapped((rows, part.shape[1]), part.dtype, "codes") for part in codes]
            args = (
                source,
                *to,
                executor.array(np.zeros(1, np.int32), "lost", written=True),
                np.int32(rows),
                np.int32(width),
            )
            _late(executor, expert_decode.pass_kernel("expert_decode_quantise"), args, rows * pieces, own * pieces)
            compared += [
                (f"codes of {width} values", far.view()[-own:], part.host())
                for part, far in zip(codes, to, strict=True)
            ]
            buffers += [source, *to]
        return _with_swiglu(executor, expert_decode.pass_kernel("swiglu_rows"), near, compared, buffers)

    def products() -> Check:
        compared: list[Any] = []
        buffers: list[Buffer] = []
        own = len(near.grouping.pairs)
        for side, codes, divisor in ((near.gate_up, near.x_codes, near.top), (near.down, near.h_codes, 1)):
            rows = _rows(codes.codes.shape[0], [side.width, 4 * side.weight_rows * divisor]) if divisor == 1 else None
            most = MOST // divisor if rows is None else rows
            most = min(most, _MOST_BYTES // (4 * side.weight_rows * divisor))
            shift = most - codes.codes.shape[0]
            to = [Mapped((most, part.shape[1]), part.dtype, "codes") for part in codes]
            for part, far in zip(codes, to, strict=True):
                far.view()[shift:] = part.host()
            pairs = executor.array(near.pairs.host() + np.int32(shift * divisor), "pairs")
            out = Mapped((most * divisor, side.weight_rows), np.float32, "results")
            sizes = (side.weight_rows, side.width, side.row_bytes, divisor)
            (tiles,) = side.tiles
            grid = tiles.shape[0] * (side.weight_rows // (expert_decode.WARPS * expert_decode.ROWS))
            args = (near.placed.table, side.table, *to, tiles, pairs, out, None, np.int64(side.offset))
            program = expert_decode.product_kernel(side.form)
            executor.launch(program, (grid, 1, 1), (*args, *map(np.int32, sizes)), near.placed.blobs)
            due = (near.rows if side is near.down else near.product).host().reshape(own, -1)
            compared.append((side.form, out.view()[-own:], due))
            buffers += [*to, out]
        return same("far products", compared, buffers)

    def blobs() -> Check:
        return _blobs(executor, data, near, lambda p: expert_decode.launch(executor, path, p))

    return [Part("far passes", passes), Part("far products", products), Part("far blobs", blobs)]


def _grouped(case: ExpertCase) -> Check:
    """Grouping on the host of more pairs than 16 bits count."""
    stream, tokens = case.stream("many pairs"), -(-MANY_PAIRS // case.top)
    ids = stream.below(case.experts, (tokens, case.top)).astype(np.int32)
    found, flat = group(ids, case.experts), ids.reshape(-1)
    due = np.array(sorted(range(flat.size), key=lambda pair: (int(flat[pair]), pair)))
    right = (
        np.array_equal(found.pairs, due)
        and np.array_equal(found.pairs[found.slot], np.arange(flat.size))
        and np.array_equal(found.source, due // case.top)
        and np.array_equal(found.offsets, np.searchsorted(flat[due], np.arange(case.experts + 1)))
    )
    return holds("many pairs", right, f"{flat.size} pairs are not grouped by expert", {"pairs": flat.size})


def _last(x: Buffer, rows: int) -> Mapped:
    """The values of a buffer as the last of so many rows, or of as many as an address space holds."""
    far = Mapped((min(rows, _MOST_BYTES // (4 * x.shape[1])), *x.shape[1:]), x.dtype, "values")
    far.view()[-x.shape[0] :] = x.host()
    return far


def _rows(own: int, row_bytes: Sequence[int]) -> int:
    """A number of rows that 31 bits hold, in arrays that an address space holds; a multiple of a block's warps more
    than the case's own."""
    most = min(MOST - 1, *(_MOST_BYTES // size for size in row_bytes))
    return (most - own) // (4 * PASS_THREADS) * (4 * PASS_THREADS) + own


def _passes(near: Any) -> list[tuple[Buffer, Any]]:
    return [(near.x, near.x_codes), (near.h, near.h_codes)]


def _later(executor: LanesExecutor, tiles: Buffer, by: int) -> Buffer:
    values = tiles.host()
    values[:, 1] += np.int32(by)
    return executor.array(values, "tiles")


def _late(executor: LanesExecutor, kernel: Kernel, args: Sequence[Any], items: int, own: int) -> None:
    """Launch the last blocks of a pass, whose warps take an item each, so that the last `own` items run."""
    executor.launch_end(kernel, (-(-items // _WARPS), 1, 1), args, (items - own) // _WARPS)


def _with_swiglu(
    executor: LanesExecutor, kernel: Kernel, near: Any, compared: list[Any], buffers: list[Buffer]
) -> Check:
    own, ff = near.h.shape
    rows = _rows(own, [8 * ff])
    product, h = Mapped((rows, 2 * ff), np.float32, "gate and up"), Mapped((rows, ff), np.float32, "h")
    product.view()[-own:] = near.product.host()
    _late(executor, kernel, (product, h, np.int32(rows), np.int32(ff)), -(-rows * ff // 128), -(-own * ff // 128))
    compared.append(("h", h.view()[-own:], near.h.host()))
    return same("far passes", compared, [*buffers, product, h])


def _blobs(executor: LanesExecutor, data: Inputs, near: Any, launch: Any) -> Check:
    compared, buffers = [], []
    due = near.rows.host()
    for turn in range(2):
        placed = across(executor, data, turn)
        far = replace(near, placed=placed, rows=executor.empty(near.rows.shape, np.float32, name="rows"))
        launch(far)
        compared.append((f"rows, placement {turn}", far.rows.host(), due))
        buffers += placed.blobs
    return same("far blobs", compared, buffers)
