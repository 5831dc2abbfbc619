"""How the runner calls the attention kernels: one seam, so that a test can put another kernel there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from strata.executors.base import Executor, Kernel, Witness
from strata.kernels import attention, decode_attention, prompt_attention
from strata.kernels.paths import Path
from validation.core.handed import handed
from validation.operations.attention import chain
from validation.operations.attention.pools import Inputs


class Outcome(Protocol):
    """What a run of attention returns. out: float32 [n_q, n_head, 256]."""

    @property
    def out(self) -> np.ndarray: ...

    @property
    def witnesses(self) -> list[Witness]: ...

    @property
    def guards_ok(self) -> bool: ...


@dataclass(frozen=True)
class Operation:
    """run: inputs to outputs; kernels: what a path must have launched, by mode, tier and group;
    blocks: of all launches together, for so many queries and KV heads, None where the kernel chooses;
    prepare: a function that only launches, for timing, and the buffer it writes; selects: whether block selection runs
    in front, where inputs have what it chooses by, and the ids that it is given are those of nobody."""

    run: Callable[[Executor, Path, Inputs], Outcome]
    kernels: Callable[[Path, int], list[Kernel]] | None = None
    blocks: Callable[[int, int], int] | None = None
    prepare: Callable[[Executor, Path, Inputs], tuple[Callable[[], object], Any]] | None = None
    selects: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", handed(self.run))


def _run_prompt(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
    if inputs.index is not None:
        return chain.run(executor, path, inputs)
    return prompt_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)


def _run_decode(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
    if inputs.index is not None:
        return chain.run(executor, path, inputs)
    return decode_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)


def _prepare_prompt(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Any]:
    if inputs.index is not None:
        return _prepare_both(executor, path, inputs)
    ready = attention.prepare(executor, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    out = executor.empty(ready.shape, np.float32, name="out")
    return lambda: prompt_attention.launch(executor, path, ready, out), out


def _prepare_decode(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Any]:
    if inputs.index is not None:
        return _prepare_both(executor, path, inputs)
    ready = attention.prepare(executor, inputs.q, inputs.pool, inputs.ids, inputs.steps)
    out = executor.empty(ready.shape, np.float32, name="out")
    workspace = decode_attention.Workspace(executor, ready)
    return lambda: decode_attention.launch(executor, path, ready, out, workspace), out


def _prepare_both(executor: Executor, path: Path, inputs: Inputs) -> tuple[Callable[[], object], Any]:
    """Block selection in front of attention, timed together."""
    ready = chain.prepare(executor, path, inputs)
    out = executor.empty(ready.shape, np.float32, name="out")
    return lambda: ready.launch(out), out


#: Attention operations by name.
ATTENTION: Mapping[str, Operation] = {
    "prompt_attention": Operation(
        _run_prompt,
        lambda path, group: [prompt_attention.kernel(path.mode, path.tier_number, group)],
        lambda queries, kv_heads: queries * kv_heads,
        _prepare_prompt,
        True,
    ),
    "decode_attention": Operation(
        _run_decode,
        lambda path, group: list(decode_attention.kernels(path.mode, group)),
        None,
        _prepare_decode,
        True,
    ),
}
