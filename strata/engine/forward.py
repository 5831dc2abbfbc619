"""The launches of a chunk: a few tokens of one sequence through all layers, and their logits.

Each layer, with x the residual stream of [rows, n_embd]:

    h = norm(x, attn_norm);   q, k, v = h Wq, h Wk, h Wv
    q, k = rope(norm(q, q_norm)), rope(norm(k, k_norm))
    k and v join the KV cache, rotated where its mode asks for it, and so is q
    a = attention(q, cells up to the row's own, or the window's); turned back where v is rotated
    x = x + norm(a Wo, post_attention_norm)
    h = norm(x, ffn_norm);    x = x + norm((gelu(h Wgate) (h Wup)) Wdown, post_ffw_norm)

x begins as the embedding times sqrt(n_embd). The head is norm(x, output_norm) Woutput, capped where the model says so.

Every kernel gives a row bits that follow from that row alone, and a row reads of other tokens only what lies in the KV
cache. So the bits of a token do not depend on the rows of its chunk. What changes from chunk to chunk lies in buffers
(the tokens, the cell of the first row, the page table), so the launches of one number of rows can be recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from strata.engine.attending import Attention
from strata.engine.gemma3 import Gemma3
from strata.engine.kv import KvCache, rotate
from strata.engine.rope_tables import tables
from strata.engine.served import FEW_ROWS, Plan
from strata.engine.weights import LayerWeights, ModelWeights
from strata.executors.base import Argument, Buffer, Executor, Kernel, StrataError
from strata.kernels import (
    embedding,
    gated,
    linear,
    linear_dp4a,
    linear_f16,
    linear_quantise,
    rms_norm,
    rope,
    softcap,
    visible_cells,
)
from strata.kernels.attention import Inputs
from strata.kernels.embedding import HALVES
from strata.kernels.linear_weights import Weights

#: Words of a row of steps.
_WORDS = 4
#: Chunks of more rows launch the kernels of the largest one.
_DIFFERENT = FEW_ROWS + 1


class _Seen:
    """Takes the place of an executor and keeps the kernels that would be launched."""

    def __init__(self) -> None:
        self.kernels: dict[Kernel, None] = {}

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> None:
        self.kernels[kernel] = None


class LostValuesError(StrataError):
    """Values that are not finite, or beyond what their format holds: no kernel goes on with them in silence."""


class Forward:
    """The buffers of a chunk, made once, and its launches.

    Its attribute `turn` counts the chunks that `begin` was called for, so that who left something in the buffers can
    tell whether it is still there.

    Parameters
    ----------
    executor
        Where everything lies.
    model
        Sizes and constants.
    weights
        The model's weights on the executor.
    cache
        The keys and values.
    plan
        Which paths serve.
    rows
        The most rows of a chunk.
    context
        The most cells of a sequence.
    """

    def __init__(
        self,
        executor: Executor,
        model: Gemma3,
        weights: ModelWeights,
        cache: KvCache,
        plan: Plan,
        rows: int,
        context: int,
    ) -> None:
        self._executor, self._model, self._weights = executor, model, weights
        self._cache, self._plan = cache, plan
        self.rows, self.context = rows, context
        self.window = min(model.window, context)
        self.turn = 0
        self._unchecked = False
        self._group = model.n_head // model.n_head_kv
        self._attention = Attention(executor, plan.attention_path, rows, model.n_head_kv, self._group, context)
        self._made: list[Buffer] = []

        width = model.n_head * model.head_dim
        self._x, self._h, self._y = (self._floats(name, model.n_embd) for name in ("x", "h", "y"))
        self._q, self._mixed = self._floats("q", width), self._floats("mixed", width)
        self._k, self._v = (self._floats(name, model.n_head_kv * model.head_dim) for name in "kv")
        self._gate, self._up = self._floats("gate", model.n_ff), self._floats("up", model.n_ff)
        # One buffer of units for each width: what a product reads is what was quantised last.
        self._units = {
            n: self._keep(executor.empty(linear_quantise.units_shape(rows, n), np.uint8, name=f"units of {n}"))
            for n in {model.n_embd, width, model.n_ff}
        }
        self._ids = self._words("tokens", (rows,))
        self._first = self._words("first cell", (1,))
        self._steps_global, self._steps_local = (
            self._words(f"{name} steps", (rows, _WORDS)) for name in ("global", "local")
        )
        self._ids_local = self._words("cells of the window", (rows, self.window))
        self._ids_global = self._keep(executor.array(np.arange(context, dtype=np.int32), "all cells"))
        self._turns = {
            whole: tuple(
                self._keep(executor.array(one, "a table of rope")) for one in tables(base, model.head_dim // 2, context)
            )
            for whole, base in ((True, model.rope_base_global), (False, model.rope_base_local))
        }
        self._lost = {
            what: self._words(f"lost by {what}", (1,)) for what in ("embedding tokens", "norms", "rounding activations")
        }
        self._lost["packing keys and values"] = cache.lost

    @property
    def grows(self) -> bool:
        """Whether the blocks that are launched grow with the cells that a row sees."""
        return self._attention.grows

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers, without weights and KV cache."""
        return self._attention.nbytes + sum(buffer.nbytes for buffer in self._made)

    def begin(self, tokens: Sequence[int], first: int) -> None:
        """Write what the launches of the next chunk read.

        Parameters
        ----------
        tokens
            Token ids of the chunk, at most `rows`.
        first
            The cell of the first one.
        """
        if self._unchecked:  # a chunk that something stopped: its counts are nobody's
            self._forget()
        ids = np.zeros(self.rows, np.int32)
        ids[: len(tokens)] = tokens
        self._ids.write(ids)
        self._first.write(np.array([first], np.int32))
        self.turn += 1
        self._unchecked = True

    def body(self, rows: int, reach: int) -> None:
        """Queue all layers, which leave the residual stream in a buffer and keys and values in the cache.

        Parameters
        ----------
        rows
            How many rows `begin` has given tokens.
        reach
            No row of the chunk sees more cells.
        """
        model, executor = self._model, self._executor
        embedding.launch(
            executor, self._weights.token_embd, self._ids, self._x, self._lost["embedding tokens"], rows,
            model.embedding_factor,
        )  # fmt: skip
        visible_cells.launch(
            executor, self._first, self._steps_global, self._steps_local, self._ids_local, rows, self.window
        )
        for number, layer in enumerate(self._weights.layers):
            self._attend(number, layer, rows, reach)
            self._feed(layer, rows)

    def finish(self, rows: int) -> None:
        """Queue what the head multiplies, of all rows of the chunk."""
        self._norm(self._x, self._weights.output_norm, self._h, rows)
        if self._weights.output.format != HALVES:
            self._quantise(self._h, rows, self._model.n_embd)

    def head(self, first: int, rows: int, out: Buffer) -> None:
        """Queue logits.

        Parameters
        ----------
        first
            The first row of the chunk that has some.
        rows
            How many.
        out
            float32 [rows, vocab] or more rows, of which the first are written.
        """
        output = self._weights.output
        self._product(output, self._h, out, rows, first)
        if self._model.softcap is not None:
            softcap.launch(self._executor, out, out, rows * self._model.vocab, self._model.softcap)

    def check(self) -> None:
        """Look at the counts of what no kernel could compute.

        Raises
        ------
        LostValuesError
            When one of them is not 0. All are 0 again then.
        """
        lost = {what: int(buffer.host().view(np.uint32)[0]) for what, buffer in self._lost.items()}
        self._unchecked = False
        found = [f"{count} in {what}" for what, count in lost.items() if count]
        if found:
            self._forget()
            raise LostValuesError(
                f"values that are not finite, or beyond what their format holds: {', '.join(found)}; expected none. "
                "The weights of the file give such values for these tokens, or another KV mode holds them"
            )

    def token(self, reach: int, out: Buffer) -> None:
        """Queue a chunk of one row with its logits: what a recording of decoding holds.

        Parameters
        ----------
        reach
            The row sees no more cells.
        out
            float32 [1, vocab], written.
        """
        self.body(1, reach)
        self.finish(1)
        self.head(0, 1, out)

    def kernels(self, out: Buffer) -> list[Kernel]:
        """Every kernel that a chunk may launch.

        Parameters
        ----------
        out
            float32 [1, vocab], which is not written.
        """
        seen = _Seen()
        executor, self._executor = self._executor, cast(Executor, seen)
        try:
            for rows in range(1, min(self.rows, _DIFFERENT) + 1):
                self.body(rows, rows)
                self.finish(rows)
                self.head(0, 1, out)
            self.body(self.rows, self.context)
        finally:
            self._executor = executor
        return list(seen.kernels)

    def _forget(self) -> None:
        for buffer in self._lost.values():
            buffer.write(np.zeros(1, np.int32))

    def _attend(self, number: int, layer: LayerWeights, rows: int, reach: int) -> None:
        model, executor, cache = self._model, self._executor, self._cache
        self._norm(self._x, layer.attn_norm, self._h, rows)
        self._products(((layer.attn_q, self._q), (layer.attn_k, self._k), (layer.attn_v, self._v)), self._h, rows)
        whole = model.is_global(number)
        cos, sin = self._turns[whole]
        for x, weight, heads in (
            (self._q, layer.attn_q_norm, model.n_head),
            (self._k, layer.attn_k_norm, model.n_head_kv),
        ):
            self._norm(x, weight, x, rows * heads, model.head_dim)
            rope.launch(executor, x, self._steps_global, cos, sin, x, rows, heads, model.head_dim)
        cache.append(executor, number, self._k, self._v, self._steps_global, rows)
        if cache.rotated_k:
            rotate(executor, self._q, rows * model.n_head)
        # All cells are one list that every row reads from its start; a window's cells are a list for each row.
        seen = (self._ids_global, self._steps_global, 0) if whole else (self._ids_local, self._steps_local, self.window)
        ids, steps, stride = seen
        inputs = Inputs(
            self._q,
            cache.pool(number),
            ids,
            steps,
            cache.mode,
            rows,
            model.n_head_kv,
            self._group,
            stride,
            cache.page_size,
        )
        self._attention.launch(executor, inputs, self._mixed, reach if whole else min(reach, self.window))
        if cache.rotated_v:
            rotate(executor, self._mixed, rows * model.n_head)
        self._products(((layer.attn_output, self._y),), self._mixed, rows)
        self._norm(self._y, layer.post_attention_norm, self._x, rows, residual=self._x)

    def _feed(self, layer: LayerWeights, rows: int) -> None:
        self._norm(self._x, layer.ffn_norm, self._h, rows)
        self._products(((layer.ffn_gate, self._gate), (layer.ffn_up, self._up)), self._h, rows)
        gated.launch(self._executor, "gelu_tanh", self._gate, self._up, self._gate, rows * self._model.n_ff)
        self._products(((layer.ffn_down, self._y),), self._gate, rows)
        self._norm(self._y, layer.post_ffw_norm, self._x, rows, residual=self._x)

    def _norm(
        self, x: Buffer, weight: Buffer, out: Buffer, rows: int, n: int | None = None, residual: Buffer | None = None
    ) -> None:
        columns = self._model.n_embd if n is None else n
        epsilon = self._model.rms_epsilon
        rms_norm.launch(self._executor, x, weight, out, self._lost["norms"], rows, columns, epsilon, residual)

    def _products(self, wanted: Sequence[tuple[Weights, Buffer]], x: Buffer, rows: int) -> None:
        """Products of one input with several matrices."""
        if any(weights.format != HALVES for weights, _ in wanted):
            self._quantise(x, rows, wanted[0][0].width)
        for weights, out in wanted:
            self._product(weights, x, out, rows, 0)

    def _quantise(self, x: Buffer, rows: int, width: int) -> None:
        linear_quantise.quantise(self._executor, x, self._units[width], self._lost["rounding activations"], rows, width)

    def _product(self, weights: Weights, x: Buffer, out: Buffer, rows: int, first: int) -> None:
        path = self._plan.linear_path(weights.format, rows)
        if path.operation == linear_f16.DESCRIPTOR.name:
            halves = linear_f16.Weights(weights.blocks, weights.outputs, weights.width)
            linear_f16.launch(self._executor, halves, x, out, rows, first)
        else:
            launch = {one.DESCRIPTOR.name: one.launch for one in (linear, linear_dp4a)}[path.operation]
            launch(self._executor, path, weights, self._units[weights.width], out, rows, first)

    def _floats(self, name: str, width: int) -> Buffer:
        return self._keep(self._executor.empty((self.rows, width), np.float32, name=name))

    def _words(self, name: str, shape: tuple[int, ...]) -> Buffer:
        return self._keep(self._executor.array(np.zeros(shape, np.int32), name, written=True))

    def _keep(self, buffer: Buffer) -> Buffer:
        self._made.append(buffer)
        return buffer
