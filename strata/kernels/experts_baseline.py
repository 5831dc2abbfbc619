"""What the baseline expert kernels, `expert_mmq` and `expert_decode`, have alike on the host.

Pairs are grouped by expert on the host. x is quantised; gate and up are one product, [gate ff | up ff] a row; SwiGLU is
a pass of its own, as is quantising h; down is a second product, whose rows go to their pairs. The kernels differ in
their codes, and in the order in which rows between the products lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Kernel, StrataError, Witness
from strata.formats import device_table
from strata.kernels.counts import counted
from strata.kernels.experts import BLOCK, STAGES, PlacedExperts, Routed, check_tokens
from strata.kernels.grouping import Grouping, group
from strata.kernels.path import Path

#: Threads of a block that goes over values, kPassThreads of include/older_experts.cuh.
PASS_THREADS = 256

#: The buffers of one kernel's codes of x, or of h.
Codes = TypeVar("Codes", bound=tuple[Buffer, ...])


class Side(NamedTuple):
    """One product, of gate and up or of down.

    Parameters
    ----------
    form
        The format of its weights.
    table
        The codebook of the format, None where it has none.
    offset
        Where its matrix begins in a blob, in bytes.
    weight_rows
        Rows of the matrix.
    width
        Values of a row, K.
    row_bytes
        Bytes of a row.
    tiles
        int32 [tiles, 3] for each launch.
    """

    form: str
    table: Buffer | None
    offset: int
    weight_rows: int
    width: int
    row_bytes: int
    tiles: list[Buffer]


@dataclass(frozen=True, eq=False)
class Prepared(Generic[Codes]):
    """Inputs, workspaces and outputs on an executor, ready to be launched any number of times.

    Parameters
    ----------
    placed
        The experts.
    grouping
        The pairs by their experts.
    x
        float32 [tokens, n].
    pairs
        int32 [pairs], the pair of each row.
    x_codes, h_codes
        Codes of x and of h, as the products take them.
    product
        float32 [pairs, 2 ff], gate and up.
    h
        float32 [pairs, ff].
    rows
        float32 [tokens, top, n].
    lost
        int32 [1] for each of `STAGES`.
    gate_up, down
        The two products.
    """

    placed: PlacedExperts
    grouping: Grouping
    x: Buffer
    pairs: Buffer
    x_codes: Codes
    product: Buffer
    h: Buffer
    h_codes: Codes
    rows: Buffer
    lost: list[Buffer]
    gate_up: Side
    down: Side

    @property
    def top(self) -> int:
        """Ranks of a token."""
        return self.rows.shape[1]

    def buffers(self) -> list[Buffer]:
        """Every buffer, the experts' among them."""
        sides = [b for side in (self.gate_up, self.down) for b in (side.table, *side.tiles) if b is not None]
        own = [self.x, self.pairs, *self.x_codes, self.product, self.h, *self.h_codes, self.rows, *self.lost]
        return [*own, *sides, *self.placed.blobs, self.placed.table]


def workspace(executor: Executor, shape: Sequence[int], dtype: Any, name: str) -> Buffer:
    """A buffer that one launch writes and the next reads, filled with poison.

    Parameters
    ----------
    executor
        Where it is made.
    shape, dtype
        The shape and the dtype of its array.
    name
        What messages call it.
    """
    return executor.empty(shape, dtype, poison=POISON_WORKSPACE, name=name)


def prepare(
    executor: Executor,
    operation: str,
    path: Path,
    placed: PlacedExperts,
    x: np.ndarray,
    ids: np.ndarray,
    *,
    codes_of_x: int,
    codes: Callable[[int, int, str], Codes],
    tiles: Callable[[Grouping, str], Iterable[np.ndarray]],
) -> Prepared[Codes]:
    """Group the pairs and copy what a run needs to the executor.

    Parameters
    ----------
    executor
        Where buffers are made.
    operation
        The operation that asks.
    path
        A path of the operation and of the experts' mode.
    placed
        The experts, on the same executor.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], each an expert.
    codes_of_x
        Rows of x that are quantised.
    codes
        Called with rows, width and name: buffers for codes.
    tiles
        Called with the grouping and a format: int32 [tiles, 3] for each launch of a product.

    Raises
    ------
    StrataError
        For shapes and dtypes that do not fit, for an id that names no expert, and for a path of another operation or
        mode.
    """
    experts = placed.experts
    if path.operation != operation or path.mode != experts.mode:
        raise StrataError(f"{path.name} cannot run on experts of {experts.mode} as {operation}")
    check_tokens(experts, x, ids)
    grouping = group(ids, placed.count)
    pairs, (n, ff) = ids.size, (experts.geometry.n, experts.geometry.ff)

    def side(form: str, offset: int, weight_rows: int, width: int, row_bytes: int) -> Side:
        words = device_table(form)
        table = executor.array(words, "codebook") if words.size else None
        cut = [executor.array(made, "tiles") for made in tiles(grouping, form) if len(made)]
        return Side(form, table, offset, weight_rows, width, row_bytes, cut)

    layout = experts.layout
    return Prepared(
        placed,
        grouping,
        executor.array(x, "x"),
        executor.array(grouping.pairs, "pairs"),
        codes(codes_of_x, n, "x"),
        workspace(executor, (pairs, 2 * ff), np.float32, "gate and up"),
        workspace(executor, (pairs, ff), np.float32, "h"),
        codes(pairs, ff, "h"),
        executor.empty((*ids.shape, n), np.float32, name="rows"),
        [executor.array(np.zeros(1, np.int32), f"{name} lost", written=True) for name in STAGES],
        side(experts.gate_up, 0, 2 * ff, n, layout.gate_up_row),
        side(experts.down, layout.down, n, ff, layout.down_row),
    )


def swiglu(executor: Executor, kernel: Kernel, p: Prepared[Codes]) -> Witness:
    """Queue the pass from gate and up to h.

    Parameters
    ----------
    executor
        Where `p` lies.
    kernel
        `swiglu_rows`, as compiled with one of the sources.
    p
        See `prepare`.

    References
    ----------
    N. Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202, 2020.
    """
    pairs, ff = p.h.shape
    grid = -(-pairs * (ff // 4) // PASS_THREADS)
    return executor.launch(kernel, (grid, 1, 1), (p.product, p.h, np.int32(pairs), np.int32(ff)))


def routed(
    p: Prepared[Codes],
    witnesses: list[Witness],
    codes: np.ndarray,
    scales: np.ndarray,
    gate_up: np.ndarray | None,
) -> Routed:
    """The result of a run whose launches were queued.

    All arrays are in the order of pairs.

    Parameters
    ----------
    p
        See `prepare`.
    witnesses
        One for each launch.
    codes
        int8 [pairs, ff].
    scales
        float32 [pairs, ff / 32].
    gate_up
        float32 [pairs, 2 ff] where a trace was asked for, else None.
    """
    tokens, top, _ = p.rows.shape
    ff = p.h.shape[1]
    gate = up = None
    if gate_up is not None:
        both = gate_up.reshape(tokens, top, 2, ff)
        gate, up = np.ascontiguousarray(both[..., 0, :]), np.ascontiguousarray(both[..., 1, :])
    x_lost, h_lost, lost = (counted(buffer)[0] for buffer in p.lost)
    return Routed(
        p.rows.host(),
        witnesses,
        all(buffer.guards_intact() for buffer in p.buffers()),
        0,
        (x_lost, h_lost, lost),
        codes.reshape(tokens, top, ff),
        scales.reshape(tokens, top, ff // BLOCK),
        p.grouping.slot,
        p.grouping.source,
        p.grouping.offsets,
        gate,
        up,
    )
