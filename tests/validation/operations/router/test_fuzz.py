"""Fuzzed router and combining: pure configurations, sizes that the kernels take, and wrong bits and counts seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.kernels import combine, router
from validation.__main__ import main
from validation.core.fuzz_numbers import NUMBERS
from validation.operations.router import fuzz

WORDS = ["fuzz", "--executor", "lanes", "--seed", "3", "--count", "8", "--paths"]


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure_and_small(seed: int, index: int) -> None:
    what = fuzz.configuration(seed, index)
    assert fuzz.configuration(seed, index, checked=True) == what
    assert what.ranks <= min(what.experts, router.MOST_RANKS)
    assert what.experts <= router.MOST_EXPERTS
    assert what.columns % 4 == 0


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index) for index in range(128)]
    assert {what.numbers for what in drawn} == set(NUMBERS)
    assert {what.columns for what in drawn} == set(fuzz.COLUMNS)
    assert {what.levels for what in drawn} == {what.shared for what in drawn} == {True, False}


def test_few_levels_are_few() -> None:
    for index in range(40):
        what = fuzz.configuration(1, index)
        x = fuzz.logits(1, what)
        assert x.shape == (what.tokens, what.experts)
        if what.levels:
            assert len(np.unique(x.view(np.uint32))) <= fuzz.LEVELS


def test_sound_kernels_differ_in_nothing() -> None:
    assert main([*WORDS, "[rc]*"]) == 0


def _bit(made: Any) -> Any:
    field = "weights" if hasattr(made, "weights") else "out"
    x = getattr(made, field).copy()
    x.view(np.uint32).reshape(-1)[-1] ^= 1
    return made._replace(**{field: x})


def _count(made: Any) -> Any:
    field = "nans" if hasattr(made, "nans") else "lost"
    return made._replace(**{field: getattr(made, field) + 1})


def _id(made: Any) -> Any:
    ids = made.ids.copy()
    ids[0, -1] += 1
    return made._replace(ids=ids)


@pytest.mark.parametrize(
    ("kernel", "wrong"), [(router, _bit), (router, _count), (router, _id), (combine, _bit), (combine, _count)]
)
def test_what_is_wrong_is_seen(
    kernel: Any, wrong: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = kernel.run
    monkeypatch.setattr(kernel, "run", lambda *arguments: wrong(sound(*arguments)))
    name = kernel.__name__.rpartition(".")[2]
    assert main([*WORDS, f"{name}/*"]) == 1
    assert f"{name}/fp32/simt #0" in capsys.readouterr().out
