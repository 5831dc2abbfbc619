"""A kernel that CuPy compiles runs on a card alone, between this project's guards, and never proves what it ran."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import LaunchError
from tests.validation.check.fake import FakeExecutor, Where, kernel, rows, run_case
from validation.check.author import AuthorError
from validation.check.case import OwnCase
from validation.check.load import Loaded
from validation.check.raw import RawExecutor, opener
from validation.run.executors import ExecutorPool
from validation.run.runner import Job

CASE = OwnCase("plain", 1, (("rows", 3), ("width", 5)))


class Card(FakeExecutor):
    """A card whose memory is the host's."""

    name = "cuda"
    capability: int | None = 90


class Kernel:
    """What `cupy.RawKernel` gives, for the kernel of `rows.py`; finds its arrays by their addresses."""

    def __init__(self, card: Card, fails: str = "") -> None:
        self.card, self.fails, self.compiled = card, fails, 0
        self.calls: list[tuple[Any, ...]] = []

    def compile(self) -> None:
        self.compiled += 1

    def __call__(self, grid: Any, block: Any, values: Any, *, shared_mem: int) -> None:
        if self.fails:
            raise RuntimeError(self.fails)
        self.calls.append((grid, block, shared_mem))
        held = {buffer.address: buffer for buffer in self.card.buffers}
        views = []
        for value in values:
            buffer = held.get(int(value)) if isinstance(value, np.uint64) else None
            views.append(value if buffer is None else buffer.bytes.view(buffer.dtype).reshape(buffer.shape))
        rows(*views)


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(deviceSynchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))


def own(made: Any) -> Loaded:
    return kernel(source=None, raw=lambda cupy: made)


def ran(card: Card, made: Any) -> dict[str, Any]:
    return run_case(own(made), CASE, Where(RawExecutor(card, own(made))))


def test_a_raw_kernel_is_launched_as_its_author_says_and_judged() -> None:
    card = Card()
    made = Kernel(card)
    result = ran(card, made)
    assert result["verdict"] == "WITHIN_BOUND", result["explain"]
    assert result["executor"]["attested"] is False
    assert made.calls[0] == ((3, 1, 1), (64, 1, 1), 8)
    assert made.compiled == 1


def test_a_module_gives_its_function_by_name() -> None:
    card = Card()
    asked: list[str] = []

    def get(name: str) -> Kernel:
        asked.append(name)
        return Kernel(card)

    assert ran(card, SimpleNamespace(get_function=get))["verdict"] == "WITHIN_BOUND"
    assert asked == ["rows"]


def test_a_card_that_faults_exceeds() -> None:
    card = Card()
    result = ran(card, Kernel(card, "an illegal memory access was encountered"))
    assert result["verdict"] == "EXCEEDS"
    assert "illegal memory access" in result["explain"]
    with pytest.raises(LaunchError, match=r"^rows: RuntimeError: bad$"):
        RawExecutor(card, own(Kernel(card, "bad"))).launch(kernel().image(), (1, 1, 1), ())


def test_what_is_no_kernel_of_cupy_is_a_fault_of_the_author() -> None:
    with pytest.raises(AuthorError, match=r"rows\.py: raw of rows: raw is 'int', expected a cupy.RawKernel"):
        ran(Card(), 3)


def test_such_a_kernel_runs_where_a_card_is_and_predicts_nothing() -> None:
    card = Card()
    loaded = own(Kernel(card))
    executor_pool = ExecutorPool("auto", open=opener(loaded, lambda name, **options: card))
    assert not executor_pool.lanes
    assert not executor_pool.can_predict()
    executors = executor_pool.of(Job(CASE, loaded.path), ())
    assert executors.repeat_executor is None
    result = run_case(loaded, CASE, Where(executors.executor))
    assert (result["verdict"], result["path"]) == ("WITHIN_BOUND", "rows")
