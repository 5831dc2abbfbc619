"""Packing rows of nearly 2^31 into the end of a pool of as many, in order and as steps list them, and the rotation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Buffer
from strata.executors.lanes import LanesExecutor
from strata.kernels import kv_pack
from strata.kernels.paths import Path
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import Mapped
from validation.core.verdict import Check
from validation.operations.kv_pack import values as pack_values
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import MOST_ROWS, page_table
from validation.operations.kv_pack.recipes import find

_ROWS = kv_pack.THREADS // 32
#: Rows of a rotation.
_ROTATED = MOST_ROWS - _ROWS


@dataclass(frozen=True)
class _Sizes:
    """cells: of the case; start: the far cell that stands for its first, on the edge of a page; pages: of the pool."""

    cells: int
    heads: int
    page_size: int

    @property
    def start(self) -> int:
        return ((MOST_ROWS - 1) // self.heads - self.cells) // self.page_size * self.page_size

    @property
    def pages(self) -> int:
        return (MOST_ROWS - 1) // (self.heads * self.page_size)

    @property
    def rows(self) -> int:
        return (self.start + self.cells) * self.heads


def parts(case: Case, path: Path, executor: LanesExecutor) -> Sequence[Part]:
    """As a prompt, as a batch of steps, and the rotation by itself."""
    return [
        Part("far", lambda: _packed(case, path, executor, listed=False)),
        Part("far steps", lambda: _packed(case, path, executor, listed=True)),
        Part("far rotation", lambda: _rotated(case, executor)),
    ]


def _packed(case: Case, path: Path, executor: LanesExecutor, listed: bool) -> Check:
    name = "far steps" if listed else "far"
    sizes = _Sizes(case.context, case.n_head_kv, case.page_size)
    k, v = (pack_values.draw(case.recipe, case.stream(which), case.context, case.n_head_kv) for which in ("k", "v"))
    table, pages = page_table(case.stream("pages"), find(case.recipe).pages, case.context, case.page_size)
    empty = kv_pack.empty_pool(path.mode, pages, case.page_size, case.n_head_kv, table)
    near = kv_pack.append(executor, empty, k, v, np.arange(case.context) if listed else 0).pool
    far_table, shift = _table(sizes, table, pages)
    steps = None
    if listed:
        steps = Mapped((sizes.start + sizes.cells, 4), np.int32, "steps")
        steps.view()[sizes.start - _ROWS : sizes.start, 0] = sizes.start - 1  # of rows beside, on no page
        steps.view()[sizes.start :, 0] = np.arange(sizes.start, sizes.start + sizes.cells)
    lost = executor.array(np.zeros(1, np.int32), "lost", written=True)
    pairs: list[tuple[str, np.ndarray, np.ndarray]] = []
    buffers: list[Buffer] = [far_table, lost, *([] if steps is None else [steps])]
    turned = [
        kv_pack.hadamard(executor, x) if turn else x
        for x, turn in zip((k, v), kv_pack.rotated_planes(path.mode), strict=True)
    ]
    for which, form, x in zip(("k", "v"), MODE_FORMATS[path.mode], turned, strict=True):
        source = Mapped((sizes.rows, HEAD_DIM), np.float32, which)
        source.view()[-case.context * case.n_head_kv :] = x.reshape(-1, HEAD_DIM)
        targets = [
            (plane, _poisoned(getattr(empty, plane), sizes, shift, plane))
            for plane in (which, f"{which}_scale")
            if getattr(empty, plane) is not None
        ]
        args = (source, steps, far_table, *(target for _, target in targets), lost)
        tail = (sizes.rows, sizes.heads, 0, sizes.page_size)
        grid = -(-sizes.rows // _ROWS)
        executor.launch_end(
            kv_pack.kernel(f"kv_pack_{form}"),
            (grid, 1, 1),
            (*args, *map(np.int32, tail)),
            sizes.start * sizes.heads // _ROWS,
        )
        pairs += [(plane, target.view()[shift:], getattr(near, plane)) for plane, target in targets]
        buffers += [source, *(target for _, target in targets)]
    return same(name, pairs, buffers)


def _table(sizes: _Sizes, table: np.ndarray, pages: int) -> tuple[Mapped, int]:
    """The page table of the far cells, and by how many pages they lie later. The pages before them are absent."""
    shift, first = sizes.pages - pages, sizes.start // sizes.page_size
    made = Mapped((first + len(table),), np.int32, "page table")
    made.view()[max(0, first - _ROWS) : first] = -1
    made.view()[first:] = np.where(table >= 0, table + shift, -1)
    return made, shift


def _poisoned(plane: np.ndarray, sizes: _Sizes, shift: int, name: str) -> Mapped:
    """The far plane, with the poison of the near one where its pages come."""
    made = Mapped((sizes.pages, *plane.shape[1:]), plane.dtype, name)
    made.view()[shift:] = plane
    return made


def _rotated(case: Case, executor: LanesExecutor) -> Check:
    x = pack_values.draw(case.recipe, case.stream("k"), case.context, case.n_head_kv).reshape(-1, HEAD_DIM)
    near = kv_pack.hadamard(executor, x)
    source, out = (Mapped((_ROTATED, HEAD_DIM), np.float32, name) for name in ("x", "out"))
    source.view()[-len(x) :] = x
    grid = -(-_ROTATED // _ROWS)
    first = (_ROTATED - len(x)) // _ROWS
    executor.launch_end(kv_pack.kernel("hadamard_256"), (grid, 1, 1), (source, out, np.int32(_ROTATED)), first)
    return same("far rotation", [("rows", out.view()[-len(x) :], near)], [source, out])
