"""Fuzzed selections: pure configurations, every choice, and wrong bits, cells and places seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.executors.lanes import LanesExecutor
from strata.kernels import block_topk
from strata.kernels.paths import PATHS
from strata.kernels.selection import check_steps
from validation.core.fuzz_numbers import NUMBERS
from validation.core.random_streams import Stream
from validation.operations import registry
from validation.operations.block_select import fuzz, scorers
from validation.operations.block_select.random_cases import CONTEXTS

PATHS_OF_ALL = [path for path in PATHS.values() if path.operation.startswith("block_")]


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure_and_their_steps_are_taken(seed: int, index: int) -> None:
    what = fuzz.configuration(seed, index)
    assert fuzz.configuration(seed, index, checked=True) == what
    steps = fuzz.draw(seed, what).steps if what.context < 10 else fuzz.steps_of(Stream.of(seed), what)
    check_steps(steps, what.queries, what.blocks, max(what.context, 1), None)


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index) for index in range(128)]
    assert {what.numbers for what in drawn} == set(NUMBERS)
    assert {what.context for what in drawn} == set(CONTEXTS)
    assert {what.levels for what in drawn} == {True, False}


@pytest.mark.parametrize("path", PATHS_OF_ALL, ids=lambda path: path.name)
def test_sound_kernels_differ_in_nothing(path: Any) -> None:
    kind = registry.found()[path.operation].fuzz
    assert kind is not None
    for index in range(4):
        assert kind.compare(LanesExecutor(rule="sm_90"), 2, fuzz.configuration(2, index), path).sound


@pytest.mark.parametrize("path", ["block_select/fp32/simt", "block_topk/fp32/simt"])
def test_a_cell_and_a_place_that_are_wrong_are_seen(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    what = next(one for index in range(99) if (one := fuzz.configuration(2, index)).context > 100 and one.top > 50)
    kind = registry.found()[PATHS[path].operation].fuzz
    assert kind is not None
    own, plain = scorers.SCORERS["block_select"], block_topk.run
    for at, said in ((0, "differing"), (-1, "said")):

        def spoil(made: Any, at: int = at) -> Any:
            ids = made.ids.copy()
            ids[:, at] ^= 1
            return made._replace(ids=ids)

        spoiled = replace(own, run=lambda *given, _s=spoil, **named: _s(own.run(*given, **named)))
        monkeypatch.setitem(scorers.SCORERS, "block_select", spoiled)
        monkeypatch.setattr(block_topk, "run", lambda *given, _s=spoil, **named: _s(plain(*given, **named)))
        found = kind.compare(LanesExecutor(rule="sm_90"), 2, what, PATHS[path])
        assert getattr(found, said)
        assert not found.sound
