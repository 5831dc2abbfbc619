"""Controls of what is compared after a run: every buffer of an operation's launches that is no output or workspace.

The true host code of each operation runs on an executor that launches nothing. Then the last byte of every buffer that
its launches were given is changed, and those that nobody misses must be the ones that kernels may write to. So an
input that is handed out as `written`, made as an empty buffer, or not named to a launch is one name too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from strata.executors.base import Argument, Buffer, Executor, Kernel, Witness
from strata.kernels import kv_pack
from strata.kernels.paths import PATHS, Path
from strata.kernels.pool import HEAD_DIM
from strata.kernels.registry import DESCRIPTORS
from validation.core.control import Control
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.row_operation import RowOperation
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.core.watched import Watched
from validation.operations import registry
from validation.operations.attention import pools
from validation.operations.attention.kernels import ATTENTION
from validation.operations.block_select.case import SelectCase
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.inputs import build as build_experts
from validation.operations.experts.kernels import OPERATIONS
from validation.operations.gated.case import ElementCase
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.packing import Packing
from validation.operations.linear.case import LinearCase
from validation.operations.linear.operation import Linear
from validation.operations.rms_norm.case import NormCase
from validation.operations.rope.case import RopeCase
from validation.operations.visible_cells.case import CellsCase


class Ledger(StubExecutor):
    """Keeps every buffer that it makes, with its name, and knows which of them launches were given."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, Buffer]] = []
        self.given: set[int] = set()

    def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
        self.made.append((name, super().array(host, name, written=written)))
        return self.made[-1][1]

    def empty(self, shape: Sequence[int], dtype: Any, *, poison: int = 0, name: str = "") -> Buffer:
        self.made.append((name, super().empty(shape, dtype, name=name)))
        return self.made[-1][1]

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        for one in (*args, *reached):
            if one is not None and not isinstance(one, np.generic):
                self.given.add(id(one))
        return super().launch(kernel, grid, args, reached)


def _timed(prepare: Callable[..., tuple[Callable[[], object], Any]] | None, executor: Executor, *of: Any) -> None:
    if prepare is not None:
        prepare(executor, *of)[0]()


def _attention(executor: Executor, path: Path) -> None:
    operation, inputs = ATTENTION[path.operation], pools.build(_CASE, path.mode)
    operation.run(executor, path, inputs)
    _timed(operation.prepare, executor, path, inputs)


def _pack(executor: Executor, path: Path) -> None:
    rows = np.ones((3, 1, HEAD_DIM), np.float32)
    pool = kv_pack.empty_pool(path.mode, 1, 4, 1, np.zeros(1, np.int32))
    kernels = Packing()
    kernels.append(executor, pool, rows, rows, np.array([0, 2, 1]))
    kernels.hadamard(executor, rows)


def _experts(executor: Executor, path: Path) -> None:
    operation = OPERATIONS[path.operation]
    inputs = build_experts(ExpertCase("experts_decades", 5, 3, 2, 1, 256, 256), path.mode)
    operation.run(executor, path, inputs, None, True)
    _timed(operation.prepare, executor, path, inputs)


def _rows(executor: Executor, path: Path) -> None:
    """The router and combining: their case on the real host code."""
    operation = registry.of(path)
    assert isinstance(operation, RowOperation)
    recipe = {"router": "router_bell", "combine": "combine_decades"}[path.operation]
    trial = Trial(operation, ExpertCase(recipe, 5, 2, 8, 3, 256, 64), path, executor, Settings(), Memo())
    operation.run(executor, path, operation.inputs(trial))


def _between(executor: Executor, path: Path) -> None:
    """What stands between the products of a layer, in buffers of its own."""
    operation = registry.of(path)
    assert isinstance(operation, RowOperation)
    recipe = "rms_bell" if operation.data == "rms_norm" else f"{operation.data}_bell"
    case = NormCase(recipe, 5, 2, 8) if operation.data == "rms_norm" else ElementCase(recipe, 5, 2, 5)
    trial = Trial(operation, case, path, executor, Settings(), Memo())
    operation.run(executor, path, operation.inputs(trial))


def _selection(executor: Executor, path: Path) -> None:
    """Block selection, scored or from given scores."""
    operation = registry.of(path)
    assert isinstance(operation, RowOperation)
    recipe = {"block_select": "select_bell", "block_topk": "topk_bell"}[operation.data]
    trial = Trial(operation, SelectCase(recipe, 5, 21, 2, top=8), path, executor, Settings(), Memo())
    operation.run(executor, path, operation.inputs(trial))
    _timed(operation.prepare(), executor, path, operation.inputs(trial))


def _linear(executor: Executor, path: Path) -> None:
    """Dense products, in one launch and in two, and those that are timed."""
    operation = registry.of(path)
    assert isinstance(operation, Linear)
    trial = Trial(operation, LinearCase("linear_bell", 5, 3, 2, 256), path, executor, Settings(), Memo())
    inputs = operation.inputs(trial)
    operation.run(executor, path, inputs)
    operation.under_test[path.operation].parts(executor, path, inputs, 1)
    _timed(operation.prepare(), executor, path, inputs)


def _positions(executor: Executor, path: Path) -> None:
    """Rope, embeddings or visible cells."""
    operation = registry.of(path)
    assert isinstance(operation, RowOperation)
    case = {
        "rope": RopeCase("rope_decades", 5, 2, 1, 16, 9),
        "embedding": EmbeddingCase("embedding_bell", 5, 2, 256, 3),
        "visible_cells": CellsCase("cells_chunk", 5, 3, 2, 4),
    }[operation.data]
    trial = Trial(operation, case, path, executor, Settings(), Memo())
    operation.run(executor, path, operation.inputs(trial))


_CASE = Case("signed_decades", 5, 41, 1, 4, n_head_kv=2, group=4)
#: What runs the host code of each operation.
HOSTS: Mapping[str, Callable[[Executor, Path], None]] = {
    "prompt_attention": _attention,
    "decode_attention": _attention,
    "kv_pack": _pack,
    "expert_fused": _experts,
    "expert_mmq": _experts,
    "expert_decode": _experts,
    "router": _rows,
    "combine": _rows,
    "block_select": _selection,
    "block_select_warp": _selection,
    "block_topk": _selection,
    "linear_dp4a": _linear,
    "linear": _linear,
    "linear_f16": _linear,
    "rms_norm": _between,
    "gated": _between,
    "softcap": _between,
    "residual": _between,
    "rope": _positions,
    "embedding": _positions,
    "visible_cells": _positions,
}
_OLDER = ("codes of h", "codes of x", "gate and up", "h", "h lost", "output lost", "rows", "x lost")
_PACKED = ("k pool", "lost", "out", "v pool")
_PRODUCTS = ("lost", "out", "units")
#: Buffers of its launches that kernels may write to, of an operation, of one of its modes, or of a path.
WRITTEN: Mapping[str, tuple[str, ...]] = {
    "prompt_attention": ("out",),
    "decode_attention": ("maxima", "out", "sums", "weights"),
    "kv_pack/fp16": _PACKED,
    "kv_pack/int8": (*_PACKED, "k scales", "v scales"),
    "kv_pack/k8v4": (*_PACKED, "k scales", "rotated v"),
    "kv_pack/q4_0": (*_PACKED, "rotated k", "rotated v"),
    "expert_fused": (
        *("first tiles of 128", "first tiles of 64", "ignored", "offsets", "pairs", "rows", "slot", "status"),
        *("tiles of 128", "tiles of 64", "trace", "units of h", "units of x"),
    ),
    "expert_mmq": _OLDER,
    "expert_decode": (*_OLDER, "scales of h", "scales of x"),
    "router": ("counts", "ids", "weights"),
    "combine": ("lost", "out"),
    "block_select/fp32/simt": ("ids", "scores"),
    "block_select": ("exponents of keys", "exponents of q", "ids", "scores", "split keys", "split q"),
    "block_select_warp": ("ids", "scores"),
    "block_topk": ("ids",),
    "linear_dp4a": _PRODUCTS,
    "linear": _PRODUCTS,
    "linear_f16": ("out",),
    "rms_norm": ("lost", "out"),
    "gated": ("out",),
    "softcap": ("out",),
    "residual": ("out",),
    "rope": ("out",),
    "embedding": ("lost", "out"),
    "visible_cells": ("ids_local", "steps_global", "steps_local"),
}
#: Modes of experts with every kind of codebook, and of products with one and without: host code knows no other
#: difference between them.
_MODES = {"experts": ("iq3_xxs/iq4_nl", "iq2_s/q2_0"), "linear": ("q8_0", "iq2_s", "f16")}


def _names(path: Path) -> tuple[str, str, str]:
    """What `WRITTEN` may call a path, the narrowest first."""
    return path.name, f"{path.operation}/{path.mode}", path.operation


def _unmissed(path: Path) -> str:
    """The names of buffers that may hold something else after a run, as far as the harness knows."""
    ledger = Ledger()
    own = Watched(ledger)
    HOSTS[path.operation](own, path)
    found = {name for name, buffer in ledger.made if id(buffer) not in ledger.given}
    for name, buffer in ledger.made:
        values = buffer.host()
        values.reshape(-1).view(np.uint8)[-1:] ^= 1
        buffer.write(values)
        if values.size and not list(own.changed({id(buffer): buffer})):
            found.add(name)
    return ", ".join(sorted(found))


def watching() -> Iterator[Control]:
    """The host code of every operation, in every mode that it tells from others: all its inputs are watched."""
    for path in PATHS.values():
        modes = _MODES.get(DESCRIPTORS[path.operation].takes)
        if modes is None or path.mode in modes:
            due = next(WRITTEN[name] for name in _names(path) if name in WRITTEN)
            yield Control(f"watched/{path.name}", partial(_unmissed, path), ", ".join(sorted(due)))
