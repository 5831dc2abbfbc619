"""The constructed model: what it retrieves, and that it meets the fault it is made for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.engine.forward import LostValuesError
from strata.executors.base import StrataError
from strata.gates.gate import Decision
from tests.validation.quality.conftest import Float64
from validation.core.verdict import Verdict
from validation.quality import fp64_kv, needle_model
from validation.quality.fp64_file import Fp64File
from validation.quality.fp64_model import Fp64Model
from validation.quality.needle_model import ANSWERS, CODE, FILLERS, KEYS, MATCH, codes
from validation.quality.needles import DEPTHS, OTHERS, SHORTEST, Found, asked, needle, needles
from validation.quality.run_needles import FP64, Answers, NeedleResult
from validation.quality.setting import parse
from validation.quality.subject import EngineSubject

LENGTHS = (SHORTEST, 41, 65)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("needles") / "needles.gguf"
    needle_model.write(path)
    return path


@pytest.fixture(scope="module")
def exact(file: Path) -> Fp64Model:
    return Fp64Model(Fp64File(file))


def test_a_file_holds_the_sizes_that_were_written(exact: Fp64Model) -> None:
    stored = float(np.float32(needle_model.SIZES.epsilon))
    assert exact.sizes == replace(needle_model.SIZES, epsilon=stored)


@pytest.mark.parametrize("kv", ["exact", "q4_0"])
def test_fp64_finds_every_needle(exact: Fp64Model, kv: str) -> None:
    for one in needles(1, LENGTHS[:1]):
        logits = exact.logits(exact.states(one.tokens, kv, first=len(one.tokens) - 1))[0]
        ranked = np.sort(logits)
        assert int(np.argmax(logits)) == one.answer
        assert ranked[-1] > needle_model.LOUDER / 2 * ranked[-2]  # by a factor, not by a rounding


def test_every_scale_of_the_values_is_negative_and_overflows_without_a_unit(
    exact: Fp64Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: list[Float64] = []
    keep = fp64_kv.q4_0

    def seen(x: Float64) -> Float64:
        values.append(x)
        return keep(x)

    monkeypatch.setitem(fp64_kv.FORMATS, "q4_0", (keep, seen))
    exact.states(needle(3, 65, 0.5).tokens, "q4_0")
    groups = fp64_kv.hadamard(values[1]).reshape(65, CODE // 32, 32)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(axis=-1)[..., None], axis=-1)[..., 0]
    scales = largest / -8
    assert (scales < 0).all()
    # Beside the largest positive scale, which is none, p' is at most |scale| 2^14: for every weight above a fourth.
    assert (np.abs(scales) * 2.0**14 / 4 > float(np.finfo(np.float16).max)).all()


def test_codes() -> None:
    found = codes()
    assert set(np.unique(found)) == {-1.0, 1.0}
    assert np.array_equal(found @ found.T, CODE * np.eye(CODE))
    assert (found[:, 0] == 1).all()
    for group in (KEYS, ANSWERS, FILLERS):
        assert all(token % MATCH for token in group)
    assert not set(KEYS) & set(ANSWERS) | set(KEYS) & set(FILLERS) | set(ANSWERS) & set(FILLERS)


@given(st.integers(0, 2**32), st.integers(SHORTEST, 300), st.sampled_from(DEPTHS))
@settings(max_examples=60)
def test_a_prompt_holds_its_needle_once_and_others_besides(seed: int, length: int, depth: float) -> None:
    one = needle(seed, length, depth)
    tokens = one.tokens.tolist()
    key = tokens[-1]
    (at,) = (place for place, token in enumerate(tokens[:-1]) if token == key)
    assert len(tokens) == length
    assert tokens[at + 1] == one.answer
    assert at >= 1
    assert abs(at - depth * length) <= 4
    counts = Counter(token for token in tokens[:-1] if token in KEYS)
    assert sorted(counts.values()) == [1] * (OTHERS + 1)
    assert all(tokens[place + 1] in ANSWERS for place, token in enumerate(tokens[:-1]) if token in KEYS)
    assert np.array_equal(needle(seed, length, depth).tokens, one.tokens)


def test_lengths_without_room() -> None:
    for length in (SHORTEST - 1, needle_model.SIZES.context + 1):
        with pytest.raises(StrataError, match=f"a needle's prompt of {length} tokens, expected 32 to 32768"):
            needle(1, length, 0.5)


def test_what_is_no_answer() -> None:
    one = needle(1, 40, 0.5)
    logits = np.zeros(CODE)
    logits[one.answer] = 1
    assert asked(lambda tokens: logits, one).right
    logits[3] = math.nan
    assert asked(lambda tokens: logits, one) == Found(40, 0.5, one.answer, None, "logits that are not finite")

    def refused(tokens: object) -> Float64:
        raise LostValuesError("4 in norms")

    assert asked(refused, one) == Found(40, 0.5, one.answer, None, "4 in norms")


def test_verdicts() -> None:
    right, wrong = Found(40, 0.5, 7, 7), Found(40, 0.5, 7, 8)

    def verdict(**found: list[Found]) -> Verdict:
        return NeedleResult([Answers(name, some) for name, some in found.items()]).verdict

    assert verdict(**{FP64: [right], "x": [right]}) is Verdict.EXACT
    assert verdict(**{FP64: [right], "x": [right], "y": [wrong]}) is Verdict.EXCEEDS
    assert verdict(**{FP64: [wrong], "x": [right]}) is Verdict.VOID
    assert verdict(x=[right]) is Verdict.VOID
    assert verdict(**{FP64: [right]}) is Verdict.NOT_RUN
    assert verdict(**{FP64: [right], "x": []}) is Verdict.EXCEEDS


def test_a_setting_that_another_path_serves_is_refused(file: Path) -> None:
    def locked(path: object, device: object) -> Decision:
        return Decision(False, "locked: for a test")

    with pytest.raises(StrataError, match=r"setting q4_0/tensor: decode_attention/.*; expected a path of prompt_att"):
        EngineSubject(file, parse("q4_0/tensor"), "lanes", 64, locked)


def test_the_engine_on_lanes_finds_every_needle_over_4_bit_keys_and_values(file: Path) -> None:
    with EngineSubject(file, parse("q4_0/tensor"), "lanes", max(LENGTHS)) as subject:
        assert subject.attention == "prompt_attention/q4_0/sm80"
        found = [asked(subject.last, one) for one in needles(1, LENGTHS)]
    assert [one for one in found if not one.right] == []
