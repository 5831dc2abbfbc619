"""The gate with subjects whose faults are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import StrataError
from tests.validation.quality.conftest import VOCABULARY, Fake
from validation.core.verdict import Verdict
from validation.quality import gate, rule
from validation.quality.fp64_model import Fp64Model, Int64
from validation.quality.gate import GateResult
from validation.quality.references import References

#: As a kernel's arithmetic might have it.
NOISE = 2.0**-6


def prompts(count: int = rule.FEWEST, length: int = 5) -> list[Int64]:
    random = np.random.default_rng(7)
    return [random.integers(0, VOCABULARY, length) for _ in range(count)]


def subjects(model: Fp64Model) -> tuple[Fake, Fake]:
    return Fake("A", model, "fp16", NOISE, 1), Fake("B", model, "q4_0", NOISE, 2)


def run(a: Fake, b: Fake, model: Fp64Model, some: list[Int64] | None = None, continued: int = 0) -> GateResult:
    return gate.run(a, b, (a.kv, b.kv), prompts() if some is None else some, References(model, "digest"), continued)


def test_what_formats_and_arithmetic_explain_passes(model: Fp64Model) -> None:
    result = run(*subjects(model), model, continued=2)
    assert result.verdict is Verdict.WITHIN_BOUND
    assert 0 < len(result.exceeding) <= rule.allowed(len(result.prompts))
    assert result.kl.count == sum(map(len, prompts()))
    assert result.likelihood.count == result.kl.count - len(result.prompts)
    assert all(0 <= one.agreeing <= one.same <= 2 for one in result.prompts)


def test_settings_are_read_in_turn(model: Fp64Model) -> None:
    a, b = subjects(model)
    a.readings = b.readings
    run(a, b, model, prompts()[:1] * rule.FEWEST)
    assert b.readings == ["A", "B", "A", "B"] * rule.FEWEST


def test_a_small_fault_in_every_prompt_is_flagged(model: Fp64Model) -> None:
    a, b = subjects(model)
    result = run(a, replace(b, kv="fp16", wrong=4 * NOISE), model)
    assert result.verdict is Verdict.EXCEEDS
    assert "chance" in result.reason


def test_the_same_fault_in_the_yardstick_moves_no_limit_of_the_formats(model: Fp64Model) -> None:
    a, b = subjects(model)
    sound, wrong = run(a, b, model), run(a, replace(b, wrong=1.0), model)
    assert [one.limit for one in sound.prompts] == [one.limit for one in wrong.prompts]
    assert max(one.limit for one in sound.prompts) < min(one.divergence for one in wrong.prompts)


def test_a_format_that_costs_more_is_no_fault(model: Fp64Model) -> None:
    exact = Fake("A", model, "exact")
    result = run(exact, Fake("B", model, "q4_0"), model)
    assert result.verdict is Verdict.WITHIN_BOUND
    assert result.kl.mean > 0
    # The same as an arithmetic error of a kernel that says its keys are exact.
    said = gate.run(exact, Fake("B", model, "q4_0"), ("exact", "exact"), prompts(), References(model, "digest"), 0)
    assert said.verdict is Verdict.EXCEEDS


@pytest.mark.parametrize("which", ["A", "B"])
def test_what_is_not_repeatable_is_void(model: Fp64Model, which: str) -> None:
    a, b = subjects(model)
    a, b = (replace(one, repeats=one.name != which) for one in (a, b))
    result = run(a, b, model)
    assert result.verdict is Verdict.VOID
    assert result.reason.startswith(f"{which} gave other bits at ")


def test_a_number_that_is_none(model: Fp64Model) -> None:
    a, b = subjects(model)
    flagged = run(a, replace(b, nan=(3,)), model)
    assert (flagged.verdict, flagged.reason) == (
        Verdict.EXCEEDS,
        f"B has logits that are not finite at {rule.FEWEST} positions",
    )
    assert run(replace(a, nan=(0,)), b, model).verdict is Verdict.VOID


def test_an_engine_that_says_its_values_are_lost(model: Fp64Model) -> None:
    a, b = subjects(model)
    result = run(a, replace(b, lost=True), model)
    assert result.verdict is Verdict.EXCEEDS
    assert result.reason == f"B refused {rule.FEWEST} of {rule.FEWEST} prompts: 3 in norms"
    with pytest.raises(StrataError, match="3 in norms"):
        run(replace(a, lost=True), b, model)


def test_positions_that_are_missing(model: Fp64Model) -> None:
    a, b = subjects(model)
    with pytest.raises(StrataError, match="B: logits of 4 positions, expected 5"):
        run(a, replace(b, cut=1), model)


def test_too_few_prompts(model: Fp64Model) -> None:
    a, b = subjects(model)
    with pytest.raises(StrataError, match=f"prompts: {rule.FEWEST - 1}, expected at least {rule.FEWEST}"):
        run(a, b, model, prompts(rule.FEWEST - 1))


def test_states_are_kept_by_model_format_and_tokens(model: Fp64Model, tmp_path: Path) -> None:
    kept = References(model, "digest", tmp_path)
    tokens = np.array([1, 2, 3])
    first = kept.states(tokens, "fp16")
    files = set(tmp_path.rglob("*.npy"))
    assert np.array_equal(References(model, "digest", tmp_path).states(tokens, "fp16"), first)
    assert set(tmp_path.rglob("*.npy")) == files
    kept.states(tokens, "q4_0")
    kept.states(tokens[::-1], "fp16")
    References(model, "other", tmp_path).states(tokens, "fp16")
    assert len(set(tmp_path.rglob("*.npy"))) == len(files) + 3


def test_a_kept_file_that_is_damaged(model: Fp64Model, tmp_path: Path) -> None:
    kept, tokens = References(model, "digest", tmp_path), np.array([1, 2, 3])
    kept.states(tokens, "fp16")
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(StrataError, match=r"kept FP64 states .* remove the file"):
        kept.states(tokens, "fp16")
