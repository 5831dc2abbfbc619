"""Attention of a chunk through the path that serves it, prompts and decoding alike."""

from __future__ import annotations

import copy

import numpy as np

from strata.executors.base import POISON_WORKSPACE, Buffer, Executor, Witness
from strata.kernels import decode_attention, prompt_attention
from strata.kernels.attention import Inputs
from strata.kernels.decode_attention import BATCH, CELLS
from strata.kernels.path import Path
from strata.kernels.pool import HEAD_DIM


class Workspace(decode_attention.Workspace):
    """Partial results of the baseline for queries that see any number of cells up to a limit.

    Parameters
    ----------
    executor
        Where the buffers are made.
    rows
        The most queries of a chunk.
    kv_heads, group
        KV heads, and query heads that share one.
    cells
        The most cells that a query sees.
    """

    def __init__(self, executor: Executor, rows: int, kv_heads: int, group: int, cells: int) -> None:
        self.chunks = -(-cells // CELLS)
        slots = min(BATCH, rows) * kv_heads * self.chunks
        make = executor.empty
        self.sums = make((slots, group, HEAD_DIM), np.float32, poison=POISON_WORKSPACE, name="sums")
        self.maxima = make((slots, group), np.float32, poison=POISON_WORKSPACE, name="maxima")
        self.weights = make((slots, group), np.float32, poison=POISON_WORKSPACE, name="weights")

    def reaching(self, cells: int) -> Workspace:
        """The same buffers for queries that see fewer cells: blocks beyond them are not launched, which changes no bit,
        because a block without cells adds nothing."""
        fewer = copy.copy(self)
        fewer.chunks = -(-cells // CELLS)
        return fewer


class Attention:
    """The path that serves, and the workspace that it needs.

    Parameters
    ----------
    executor
        Where the buffers are made.
    path
        A path of prompt attention or of its baseline.
    rows
        The most queries of a chunk.
    kv_heads, group
        KV heads, and query heads that share one.
    cells
        The most cells that a query sees.
    """

    def __init__(self, executor: Executor, path: Path, rows: int, kv_heads: int, group: int, cells: int) -> None:
        self.path = path
        served = path.operation == prompt_attention.DESCRIPTOR.name
        self._workspace = None if served else Workspace(executor, rows, kv_heads, group, cells)

    @property
    def grows(self) -> bool:
        """Whether the blocks that are launched grow with the cells that a query sees."""
        return self._workspace is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace."""
        work = self._workspace
        return 0 if work is None else work.sums.nbytes + work.maxima.nbytes + work.weights.nbytes

    def launch(self, executor: Executor, inputs: Inputs, out: Buffer, cells: int) -> list[Witness]:
        """Queue attention.

        Parameters
        ----------
        executor
            Where the inputs lie.
        inputs
            What is computed.
        out
            float32 [queries, heads, 256], written.
        cells
            No query sees more cells.
        """
        if self._workspace is None:
            return prompt_attention.launch(executor, self.path, inputs, out)
        return decode_attention.launch(executor, self.path, inputs, out, self._workspace.reaching(cells))
