"""A path of an operation that nobody has written yet: every branch on an operation refuses it, none gives it another's
answer. (A third attention kernel once got decode's bound by a bare `else`.)"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from validation.core.random_streams import Stream
from validation.numerics.tensorcore_model import cut
from validation.operations import registry
from validation.operations.attention import bound as path_bound
from validation.operations.attention import fuzz as fuzz_attention
from validation.operations.attention import metamorphic
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend
from validation.operations.combine import fuzz as combine_fuzz
from validation.operations.experts import fuzz as fuzz_experts
from validation.operations.experts import fuzz_inputs as fuzz_expert_draws
from validation.operations.kv_pack.case import Case
from validation.operations.router import fuzz as router_fuzz
from validation.run import prebuild
from validation.run.runner import Job
from validation.static import command as static

UNKNOWN = Path("sparse_attention", "q4_0", "sm80", 80)
CASE = Case("uniform", 1, 5, 1)
INPUTS = build(CASE, "q4_0")


def _bound() -> object:
    reference = attend(INPUTS.q, INPUTS.pool, INPUTS.ids, INPUTS.steps, np.arange(1))
    return path_bound.bound(UNKNOWN, INPUTS, reference, LanesExecutor())


def _expert_fuzz() -> object:
    what = fuzz_expert_draws.configuration(1, 0)
    return fuzz_experts._run(LanesExecutor(), UNKNOWN, fuzz_expert_draws.draw(1, what), Stream.of(1))


BRANCHES: dict[str, Callable[[], Any]] = {
    "bound": _bound,
    "laws of a path": lambda: metamorphic.of_path(UNKNOWN),
    "ground of laws": lambda: metamorphic.ground(UNKNOWN, INPUTS, np.zeros(0), LanesExecutor()),
    "kind of data": lambda: registry.of_path(UNKNOWN),
    "kernels of the static check": lambda: list(static.kernels(UNKNOWN)),
    "kernels built ahead": lambda: list(prebuild.kernels_of(Job(CASE, UNKNOWN))),
    **{f"kernels of {name}": partial(operation.kernels, UNKNOWN) for name, operation in registry.found().items()},
    "fuzz of attention": lambda: fuzz_attention._run(
        LanesExecutor(), UNKNOWN, (INPUTS.q, INPUTS.pool, INPUTS.ids, INPUTS.steps)
    ),
    "fuzz of experts": _expert_fuzz,
    "fuzz of the router": lambda: router_fuzz.compare(LanesExecutor(), 1, router_fuzz.configuration(1, 0), UNKNOWN),
    "fuzz of combining": lambda: combine_fuzz.compare(LanesExecutor(), 1, router_fuzz.configuration(1, 0), UNKNOWN),
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_refuses_an_operation_that_it_does_not_know(branch: str) -> None:
    with pytest.raises(StrataError, match=r"'sparse_attention'.*expected one of"):
        BRANCHES[branch]()


@pytest.mark.parametrize("path", PATHS.values(), ids=lambda path: path.name)
def test_every_path_of_the_table_has_a_kind(path: Path) -> None:
    assert registry.of_kind(registry.of_path(path))


def test_an_unknown_rounding_mode_is_no_truncation() -> None:
    with pytest.raises(ValueError, match="'up', expected trunc, rz, floor or rne"):
        cut(Fraction(1, 3), "up")
