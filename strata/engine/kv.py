"""Keys and values of all layers, in the memory of the executor, in pages that all layers number alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from strata.executors.base import Argument, Buffer, Executor, StrataError, Witness
from strata.kernels import kv_pack
from strata.kernels.kv_pack import rotated_planes
from strata.kernels.pool import HEAD_DIM, MODE_FORMATS, PoolBuffers, mode_formats

#: Rows of a block of kv_pack's kernels.
_ROWS = kv_pack.THREADS // 32
#: The page of cells that no page holds: the kernels leave them out.
_ABSENT = -1


class Plane(NamedTuple):
    """The keys or the values of a layer.

    Parameters
    ----------
    cells
        [pages, n_head_kv, page_size, 256] of the format's dtype, or [..., 144] uint8 for q4_0.
    scales
        float16 [pages, n_head_kv, page_size, 4], None where the format has none.
    """

    cells: Buffer
    scales: Buffer | None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer."""
        return (self.cells,) if self.scales is None else (self.cells, self.scales)


class KvCache:
    """The planes of all layers, the page table of the sequence that is worked on, and the count of lost values.

    Its attributes `rotated_k` and `rotated_v` say whether keys, and so queries, and values, and so outputs, live in the
    rotated domain; `lost` is an int32 [1] to which packing adds.

    Parameters
    ----------
    executor
        Where the buffers are made.
    mode
        A key of `pool.MODE_FORMATS`.
    layers
        How many layers.
    kv_heads
        KV heads of a layer.
    pages
        Physical pages of every plane.
    page_size
        Cells of a page.
    entries
        Entries of the page table: the most pages of one sequence.

    Raises
    ------
    StrataError
        For an unknown mode, for a count below 1, and for planes of 2^31 rows or more, which kernels do not number.
    """

    def __init__(
        self, executor: Executor, mode: str, layers: int, kv_heads: int, pages: int, page_size: int, entries: int
    ) -> None:
        formats = mode_formats(mode)
        if min(layers, kv_heads, pages, page_size, entries) < 1:
            raise StrataError(
                f"a KV cache of {layers} layers, {kv_heads} KV heads, {pages} pages of {page_size} cells and "
                f"{entries} entries, expected at least 1 of each"
            )
        rows = pages * kv_heads * page_size
        if rows >= 1 << 31:
            raise StrataError(f"a KV cache of {rows} rows a layer, expected fewer than 2^31")
        self.mode = mode
        self.layers = layers
        self.kv_heads = kv_heads
        self.pages = pages
        self.page_size = page_size
        self.entries = entries
        self.rotated_k, self.rotated_v = rotated_planes(mode)

        def plane(layer: int, which: int) -> Plane:
            form, name = formats[which], f"{'kv'[which]} of layer {layer}"
            shape = (pages, kv_heads, page_size)
            cells = executor.empty((*shape, form.row), form.dtype, name=name)
            scales = executor.empty((*shape, form.scales), np.float16, name=f"{name}, scales") if form.scales else None
            return Plane(cells, scales)

        self._planes = [(plane(layer, 0), plane(layer, 1)) for layer in range(layers)]
        nothing = np.full(entries, _ABSENT, np.int32)
        self._shown: np.ndarray | None = nothing
        self._table = executor.array(nothing, "page table", written=True)
        self.lost = executor.array(np.zeros(1, np.int32), "lost by packing", written=True)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(buffer.nbytes for planes in self._planes for plane in planes for buffer in plane.buffers)

    def show(self, pages: Sequence[int]) -> None:
        """Make the device's page table that of a sequence.

        Parameters
        ----------
        pages
            Its physical pages, in order.

        Raises
        ------
        StrataError
            For more pages than the table has entries.
        """
        if len(pages) > self.entries:
            raise StrataError(f"{len(pages)} pages of one sequence, expected up to {self.entries}")
        wanted = np.full(self.entries, _ABSENT, np.int32)
        wanted[: len(pages)] = pages
        if self._shown is None or not np.array_equal(wanted, self._shown):
            self._shown = None  # where the write is stopped, nobody knows what is there
            self._table.write(wanted)
            self._shown = wanted

    def pool(self, layer: int) -> PoolBuffers:
        """A layer's planes as the attention kernels take them, with the page table of the sequence that is shown."""
        (k, v) = self._planes[layer]
        return PoolBuffers(k.cells, k.scales, v.cells, v.scales, self._table)

    def append(self, executor: Executor, layer: int, k: Buffer, v: Buffer, steps: Buffer, rows: int) -> list[Witness]:
        """Queue the packing of rows into a layer.

        Parameters
        ----------
        executor
            The executor of the cache.
        layer
            The layer.
        k, v
            float32 [rows, kv_heads, 256], which the mode's rotation overwrites.
        steps
            int32 [rows, 4]; entry 0 is the cell of a row, which must lie on a page that is shown.
        rows
            How many tokens.
        """
        witnesses = []
        for source, plane, form, turned in zip(
            (k, v), self._planes[layer], MODE_FORMATS[self.mode], (self.rotated_k, self.rotated_v), strict=True
        ):
            if turned:
                witnesses.append(rotate(executor, source, rows * self.kv_heads))
            count = rows * self.kv_heads
            sizes = (np.int32(count), np.int32(self.kv_heads), np.int32(0), np.int32(self.page_size))
            args: list[Argument] = [source, steps, self._table, *plane.buffers, self.lost, *sizes]
            witnesses.append(executor.launch(kv_pack.kernel(f"kv_pack_{form}"), (-(-count // _ROWS), 1, 1), args))
        return witnesses

    def host(self, pages: Sequence[int], length: int) -> list[np.ndarray]:
        """A copy of the bytes of a sequence's cells, whatever pages they lie on.

        Parameters
        ----------
        pages
            The sequence's physical pages, in order.
        length
            Its cells.

        Returns
        -------
        list of uint8 array [length, kv_heads, bytes]
            For each layer its keys and its values, each followed by its scales where the format has some.
        """
        found = []
        for planes in self._planes:
            for plane in planes:
                for buffer in plane.buffers:
                    rows = np.ascontiguousarray(buffer.host()[list(pages)].swapaxes(1, 2))
                    flat = rows.reshape(-1, self.kv_heads, rows.shape[-1])[:length]
                    found.append(np.ascontiguousarray(flat).view(np.uint8))
        return found


def rotate(executor: Executor, x: Buffer, rows: int) -> Witness:
    """Queue the rotation of rows of 256 in place, which is its own inverse; see `kv_pack.hadamard`.

    Parameters
    ----------
    executor
        Where the buffer lies.
    x
        float32 [rows, 256] or more rows, of which the first are rotated.
    rows
        How many rows.
    """
    return executor.launch(kv_pack.kernel("hadamard_256"), (-(-rows // _ROWS), 1, 1), (x, x, np.int32(rows)))


def row_bytes(mode: str) -> int:
    """Bytes that a cell of one KV head takes in a mode, keys and values with their scales."""
    return sum(form.row * np.dtype(form.dtype).itemsize + 2 * form.scales for form in mode_formats(mode))


assert HEAD_DIM == 256  # what `hadamard_256` rotates
