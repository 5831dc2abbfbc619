"""A new operation is a folder: two files, and nothing that is there needs to be edited for its cases to be run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from strata.kernels.path import Path
from validation import operations
from validation.core.settings import Settings
from validation.core.stub_executor import StubExecutor
from validation.operations import registry
from validation.run import plan
from validation.run.runner import run_case
from validation.soak import plan as soak_plan

#: Twice every value, of an operation whose kernel the stand-in executor does not run.
DOUBLED = """
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Kernel
from validation.core.case import Fields, Number
from validation.core.entry import Planned
from validation.core.outcome import Expected, Outcome, Output, Reference
from validation.core.random_streams import Stream
from validation.core.recipe import NamedRecipe
from validation.core.row_operation import RowOperation
from validation.core.stub_executor import ENTRY

FIELDS = Fields({"seed": Number(0, 99), "rows": Number(1, 9)}, example="recipe=doubled_bell seed=1 rows=3")


@dataclass(frozen=True)
class Case:
    recipe: str
    seed: int
    rows: int

    def stream(self, *names):
        return Stream.of(self.seed, self.recipe, *names)

    def text(self):
        return FIELDS.text(self)

    brief = text


class Doubled(RowOperation):
    name = data = "doubled"
    outputs = {"out": Output(("row", "column"))}
    factor = np.float32(2)

    def recipes(self):
        return [NamedRecipe("doubled_bell", "Plain values.", "doubled")]

    def parse(self, text):
        return Case(**FIELDS.parse(text))

    def planned(self, seed, profile):
        return [Planned(Case("doubled_bell", seed, 5))]

    def random_case(self, recipe, words, checked):
        return Case(recipe, words[0] % 100, 1 + words[1] % 9)

    def kernels(self, path, case=None):
        return [Kernel(ENTRY, ENTRY, 128)]

    def inputs(self, trial):
        return trial.case.stream("x").below(1 << 20, (trial.case.rows, 4)).astype(np.float32)

    def run(self, executor, path, inputs):
        witness = executor.launch(self.kernels(path)[0], (1, 1, 1), [])
        return Outcome({"out": inputs * self.factor}, [witness], True)

    def length(self, trial):
        return len(trial.inputs)

    def permuted(self, inputs, order):
        return inputs[order]

    def expected(self, trial):
        return Expected({"out": trial.inputs + trial.inputs})

    def reference(self, trial):
        due = 2 * trial.inputs.astype(np.float64)
        return Reference(np.arange(len(due)), {"out": due}, {"out": due * 2.0**-24})


OPERATIONS = (Doubled(),)
"""
PATH = Path("doubled", "fp32", "simt", 70)


@pytest.fixture
def folder(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilePath]:
    """A place of operations beside the repository's own, with one in it."""
    own = tmp_path / "doubled"
    own.mkdir()
    (own / "__init__.py").write_text('"""Twice every value."""\n')
    (own / "operation.py").write_text(DOUBLED)
    monkeypatch.setattr(operations, "__path__", [*operations.__path__, str(tmp_path)])
    caches = (registry.found, registry.recipes_of_all)
    for one in caches:
        one.cache_clear()
    yield own
    for one in caches:
        one.cache_clear()


def test_two_files_are_all_that_validation_needs(folder: FilePath) -> None:
    assert [file.name for file in sorted(folder.glob("*.py"))] == ["__init__.py", "operation.py"]
    assert registry.of(PATH) is registry.found()["doubled"]
    assert registry.find("doubled_bell").operation == "doubled"
    assert registry.parse("recipe=doubled_bell seed=7 rows=2").text() == "recipe=doubled_bell seed=7 rows=2"
    jobs = plan.plan([PATH], plan.entries(1, "quick", [PATH]), lanes=True)
    assert [job.case.text() for job in jobs] == ["recipe=doubled_bell seed=1 rows=5"]
    drawn = [soak_plan.job(1, index, [PATH]) for index in range(20)]
    found = [run_case(job.case, job.path, StubExecutor(), Settings()) for job in [*jobs, *drawn]]
    assert {one["verdict"] for one in found} == {"EXACT"}
    assert {"bits", "repeat", "bound", "self", "self bits", "guards", "witness", "written"} <= {
        check["name"] for check in found[0]["checks"]
    }


def test_its_errors_are_found(folder: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = plan.plan([PATH], plan.entries(1, "quick", [PATH]), lanes=True)
    monkeypatch.setattr(registry.of(PATH), "factor", 3, raising=False)
    said = run_case(job.case, PATH, StubExecutor(), Settings())
    assert said["verdict"] == "EXCEEDS"
    assert {check["name"] for check in said["checks"] if check["verdict"] == "EXCEEDS"} == {"bits", "bound"}
