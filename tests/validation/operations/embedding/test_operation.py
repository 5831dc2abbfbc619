"""Embeddings on lanes: every recipe passes whole in formats of each kind; bound, recipes and fuzz are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.formats import FORMATS
from strata.kernels import embedding
from strata.kernels.paths import PATHS
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.embedding import bound, far, fuzz, inputs, plan, reference
from validation.operations.embedding.case import EmbeddingCase
from validation.operations.embedding.operation import Embedding
from validation.operations.embedding.recipes import RECIPES
from validation.run import runner

#: Halves, and formats that are plain, have an offset, and two scales.
MODES = ("f16", "q8_0", "q5_1", "q6_k")
SMALL = EmbeddingCase("embedding_bell", 1, 11, 256, 37)


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="checked")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_exact(lanes: LanesExecutor, recipe: str) -> None:
    operation = Embedding()
    for mode in MODES:
        case, path = operation.random_case(recipe, list(range(3, 14)), True), PATHS[f"embedding/{mode}/simt"]
        found = operation.judge(Trial(operation, case, path, lanes, Settings(), Memo()))
        assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]


@pytest.mark.parametrize("mode", ["f16", "q6_k"])
def test_far_addresses_are_exact(lanes: LanesExecutor, mode: str) -> None:
    path = PATHS[f"embedding/{mode}/simt"]
    found = [part.ask() for part in far.parts(EmbeddingCase("embedding_sizes", 1, 1), path, lanes)]
    assert [(one.name, one.verdict) for one in found] == [(name, Verdict.EXACT) for name in ("far ids", "far rows")]


def test_a_mode_takes_cases_of_whole_blocks_alone() -> None:
    operation = Embedding()
    narrow = EmbeddingCase("embedding_sizes", 1, 1, 32)
    taking = {mode for mode in MODES if operation.takes(narrow, PATHS[f"embedding/{mode}/simt"])}
    assert taking == {"f16", "q8_0", "q5_1"}
    held = {
        case.width for case in (entry.case for entry in plan.planned(1, "quick")) if isinstance(case, EmbeddingCase)
    }
    assert {32, 64, 256} <= held


@pytest.mark.parametrize("mode", sorted(FORMATS))
def test_plain_blocks_are_finite_and_no_two_numbers_of_a_block_are_forgotten(mode: str) -> None:
    given = inputs.build(SMALL, mode)
    parts = reference.parts(mode, given.matrix)
    assert np.isfinite(parts.product).all()
    assert np.isfinite(parts.offset).all()
    assert (parts.offset != 0).any() == FORMATS[mode].offset
    assert np.abs(parts.product).max() < 2.0**20


def test_recipes_reach_what_they_are_for() -> None:
    def out(kind: str, mode: str = "q5_1") -> np.ndarray:
        given = inputs.build(EmbeddingCase(f"embedding_{kind}", 1, 11, 256, 37), mode)
        return reference.embed_bits(given.mode, given.matrix, given.ids, given.factor)

    faint, tiny = out("faint", "q8_0"), np.finfo(np.float32).tiny
    assert ((np.abs(faint) < tiny) & (faint != 0)).sum() > 100
    assert min(np.signbit(faint[faint == 0]).sum(), (~np.signbit(faint[faint == 0])).sum()) > 10
    loud = out("loud")
    assert np.isinf(loud).sum() > 10
    assert np.isfinite(loud).sum() > 10
    assert np.isnan(out("raw", "q4_k")).sum() > 10
    given = inputs.build(EmbeddingCase("embedding_outside", 1, 11, 256, 37), "q8_0")
    assert {(1 << 31) - 1, -(1 << 31), -1, 37} <= set(given.ids.tolist())
    assert 0 < given.outside.sum() < 11
    assert {0, 36} <= set(inputs.build(SMALL, "q8_0").ids.tolist())


def test_the_bound_holds_and_reaches_half() -> None:
    for mode in MODES:
        given = inputs.build(SMALL, mode)
        exact = reference.embed(mode, given.matrix[given.ids], float(given.factor))
        got = reference.embed_bits(mode, given.matrix, given.ids, given.factor)
        share = np.abs(got - exact) / bound.embedded(exact, mode != "f16" and FORMATS[mode].offset)
        assert 0.4 < share.max() <= 1


def test_fuzzed_configurations_are_pure_and_sound(lanes: LanesExecutor) -> None:
    for index in range(8):
        what = fuzz.configuration(1, index, MODES)
        assert what == fuzz.configuration(1, index, MODES, checked=True)
        assert fuzz.compare(lanes, 1, what, PATHS[f"embedding/{what.mode}/simt"]).sound
    with pytest.raises(StrataError, match="expected one of embedding"):
        fuzz.compare(lanes, 1, what, PATHS["combine/fp32/simt"])


def _bit(made: Any) -> Any:
    made.out.view(np.uint32)[-1, -1] ^= 1
    return made


@pytest.mark.parametrize("wrong", [_bit, lambda made: made._replace(lost=made.lost + 1)])
def test_a_wrong_bit_or_count_is_seen(lanes: LanesExecutor, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = embedding.run
    monkeypatch.setattr(embedding, "run", lambda *given: wrong(sound(*given)))
    what = fuzz.configuration(1, 1, MODES)
    assert not fuzz.compare(lanes, 1, what, PATHS[f"embedding/{what.mode}/simt"]).sound
