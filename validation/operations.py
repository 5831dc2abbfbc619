"""How the runner calls each operation's kernels: one seam, so that a test can put another kernel there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from strata.executors.base import Executor, Witness
from strata.kernels.paths import Path
from validation.pools import Inputs


class Outcome(Protocol):
    """What a launch of attention returns. out: float32 [n_q, n_head, 256]."""

    @property
    def out(self) -> np.ndarray: ...

    @property
    def witnesses(self) -> list[Witness]: ...

    @property
    def guards_ok(self) -> bool: ...


Attention = Callable[[Executor, Path, Inputs], Outcome]


def _prompt(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
    from strata.kernels import prompt_attention

    return prompt_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)


def _decode(executor: Executor, path: Path, inputs: Inputs) -> Outcome:
    from strata.kernels import decode_attention

    return decode_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)


ATTENTION: Mapping[str, Attention] = {"prompt_attention": _prompt, "decode_attention": _decode}
