"""Fuzzed attention: configurations are pure, every kind of number occurs, and a wrong bit is seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.lanes import LanesExecutor
from strata.kernels.attention import Result
from strata.kernels.pool import MODES
from validation.__main__ import main
from validation.core.fuzz_numbers import NUMBERS
from validation.operations.attention import fuzz


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure(seed: int, index: int) -> None:
    assert fuzz.configuration(seed, index) == fuzz.configuration(seed, index)
    assert fuzz.configuration(seed, index, checked=True).context <= fuzz.LARGEST_CHECKED
    assert fuzz.configuration(seed, index, ("int8",)).mode == "int8"


def test_sixty_four_configurations_cover_every_choice() -> None:
    drawn = [fuzz.configuration(1, index) for index in range(64)]
    assert {what.mode for what in drawn} == set(MODES)
    assert {what.numbers for what in drawn} == set(NUMBERS)
    assert {what.page_size for what in drawn} == set(fuzz.PAGE_SIZES)
    assert {what.group for what in drawn} == {4, 8, 12}
    assert 8 in {what.absent for what in drawn}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 300))
def test_what_is_drawn_is_what_kernels_take(index: int) -> None:
    what = fuzz.configuration(3, index, checked=True)
    q, pool, ids, steps = fuzz.draw(3, what)
    pool.check()
    assert q.shape == (what.queries, what.n_head_kv * what.group, 256)
    assert (steps[:, 3] <= ids.shape[1]).all()
    fuzz.draw.cache_clear()
    again = fuzz.draw(3, what)
    assert q.tobytes() == again[0].tobytes()
    assert pool.k.tobytes() == again[1].k.tobytes()
    if what.numbers in ("moderate", "finite"):
        assert np.isfinite(q).all()
    if what.numbers == "raw":
        assert not np.isfinite(q).all()


def test_clean_run_and_one_wrong_bit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fuzz", "--executor", "lanes", "--count", "1", "--first", "4", "--paths", "prompt_attention/fp16/sm80"]
    assert main(words) == 0
    plain: Any = fuzz._run

    def spoiled(executor: LanesExecutor, path: Any, inputs: Any) -> Result:
        result: Result = plain(executor, path, inputs)
        if executor.flavor == "fast":
            result.out.view(np.uint32).reshape(-1)[-1] ^= 1
        return result

    monkeypatch.setattr(fuzz, "_run", spoiled)
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "1 of" in said
    assert "--first 4 --count 1" in said
