"""Every setup that rejects a loan or the alias, with its reason; and what the switches ask for."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.loan.loan_switches import LoanSwitches, loan_switches
from strata.memory.loan.rejections import EngineSetup, alias_rejections, info, loan_rejections
from strata.memory.loan.request import fresh_tokens
from strata.switches import read

#: (change to a setup that allows everything, word for the loan, word for the alias); "" where it does not matter.
MATRIX: list[tuple[dict[str, Any], str, str]] = [
    ({"serve": False}, "no-serve", "no-serve"),
    ({"backend": "hip"}, "hip", "hip"),
    ({"backend": "sycl"}, "sycl", "sycl"),
    ({"vmm": False}, "no-vmm", "no-vmm"),
    ({"gpus": 2}, "gpus", "gpus"),
    ({"gpus": 0}, "gpus", "gpus"),
    ({"layer_split": True}, "layer-split", "layer-split"),
    ({"helper_caches": True}, "helper-caches", "helper-caches"),
    ({"peer_device": True}, "peer-device", "peer-device"),
    ({"batch": True}, "batch", "batch"),
    ({"pipeline_windows": True}, "pipeline-windows", "pipeline-windows"),
    ({"shared_sessions": True}, "shared-sessions", ""),
    ({"vram_elastic": False}, "no-vram-elastic", "no-vram-elastic"),
    ({"segment_mib": 63}, "segment", ""),
    ({"segment_mib": 64}, "", ""),
    ({"low_ram": True}, "low-ram", "low-ram"),
    ({"elastic": True}, "elastic", ""),
    ({"live_memory": True}, "live-memory", ""),
    ({"lendable_cache": True}, "lendable-cache", ""),
    ({"native_head": False}, "no-head", "no-head"),
    ({"mtp": False}, "no-mtp", "no-mtp"),
    ({"short_read": 64}, "", "short-read"),
    ({"expert_cache": "1"}, "", ""),
    ({"expert_cache": "0"}, "", "expert-cache"),
    ({"expert_cache": "4000"}, "", "expert-cache"),
]


@pytest.mark.parametrize(("change", "loan", "alias"), MATRIX)
def test_each_rejection_alone(change: dict[str, Any], loan: str, alias: str) -> None:
    setup = replace(EngineSetup(), **change)
    assert [reason.word for reason in loan_rejections(setup)] == ([loan] if loan else [])
    assert [reason.word for reason in alias_rejections(setup)] == ([alias] if alias else [])


def test_the_matrix_covers_every_field() -> None:
    assert {name for change, _, _ in MATRIX for name in change} == {field.name for field in fields(EngineSetup)}
    assert loan_rejections(EngineSetup()) == alias_rejections(EngineSetup()) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(MATRIX), max_size=6))
def test_many_at_once_state_one_reason(changes: list[tuple[dict[str, Any], str, str]]) -> None:
    """Every one that holds is found, and the INFO line has exactly one, in a word."""
    setup = replace(EngineSetup(), **{name: value for change, _, _ in changes for name, value in change.items()})
    held = [one for one in MATRIX if all(getattr(setup, name) == value for name, value in one[0].items())]
    for found, words in (
        (loan_rejections(setup), {loan for _, loan, _ in held if loan}),
        (alias_rejections(setup), {alias for _, _, alias in held if alias}),
    ):
        assert {reason.word for reason in found} == words
        field = info("prefill_loan", True, found)
        assert field == (f"prefill_loan=off:{found[0].word}" if words else "prefill_loan=on")
        assert " " not in field
        assert all("\n" not in reason.sentence and not reason.sentence.endswith(".") for reason in found)


def test_info_when_nobody_asked() -> None:
    assert info("head_alias", False, loan_rejections(EngineSetup(serve=False))) == "head_alias=off"


ELASTIC = {"STRATA_PREFILL_ELASTIC_LOAN": "1"}


def test_all_switches_are_off_when_absent() -> None:
    assert loan_switches(read({})) == (LoanSwitches(), ())
    assert LoanSwitches().lent == ()


@pytest.mark.parametrize(
    ("environ", "lent"),
    [
        (ELASTIC, ("V",)),
        ({**ELASTIC, "STRATA_PREFILL_MTP_LOAN": "1"}, ("V", "X", "D")),
        ({**ELASTIC, "STRATA_PREFILL_HEAD_LOAN": "1"}, ("V", "H")),
        ({**ELASTIC, "STRATA_PREFILL_MTP_LOAN": "1", "STRATA_PREFILL_HEAD_LOAN": "1"}, ("V", "X", "D", "H")),
    ],
)
def test_what_is_lent(environ: dict[str, str], lent: tuple[str, ...]) -> None:
    settings, problems = loan_switches(read(environ))
    assert (settings.lent, problems) == (lent, ())


@pytest.mark.parametrize(("value", "tokens"), [("", 1024), ("100", 256), ("0", 256), ("256", 256), ("9000", 9000)])
def test_the_threshold(value: str, tokens: int) -> None:
    environ = {**ELASTIC, "STRATA_PREFILL_REPEAT_LOAN": "1", "STRATA_PREFILL_REPEAT_MIN_TOKENS": value}
    settings, problems = loan_switches(read(environ))
    raised = bool(value) and int(value) < 256
    said = (f"STRATA_PREFILL_REPEAT_MIN_TOKENS={value} acts as 256, the least",) if raised else ()
    assert (settings.repeat, settings.repeat_tokens, problems) == (True, tokens, said)


@pytest.mark.parametrize(("value", "all_of_them"), [("1", True), ("0", False)])
def test_what_is_compared(value: str, all_of_them: bool) -> None:
    """One switch for every way that experts come back."""
    settings, problems = loan_switches(read({"STRATA_VERIFY_RECLAIM": value}))
    assert (settings.verify_all, problems) == (all_of_them, ())


def test_a_threshold_that_is_no_number_counts_as_absent() -> None:
    asked = read({**ELASTIC, "STRATA_PREFILL_REPEAT_LOAN": "1", "STRATA_PREFILL_REPEAT_MIN_TOKENS": "many"})
    assert loan_switches(asked)[0].repeat_tokens == 1024
    assert len(asked.problems) == 1


def test_switches_without_their_master_are_reported() -> None:
    names = ("MTP_LOAN", "HEAD_LOAN", "RETAIN_STARTUP_CHUNK", "REPEAT_LOAN")
    settings, problems = loan_switches(read({f"STRATA_PREFILL_{name}": "1" for name in names}))
    assert settings.lent == ()
    assert problems == tuple(
        f"STRATA_PREFILL_{name}=1 has no effect without STRATA_PREFILL_ELASTIC_LOAN=1" for name in names
    )
    _, problems = loan_switches(read({**ELASTIC, "STRATA_PREFILL_REPEAT_MIN_TOKENS": "500"}))
    assert problems == ("STRATA_PREFILL_REPEAT_MIN_TOKENS=500 has no effect without STRATA_PREFILL_REPEAT_LOAN=1",)


@settings(deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 100_000))
def test_fresh_tokens(prompt: int, resume: int) -> None:
    """All but the last token, less what the cache of the conversation holds."""
    assert fresh_tokens(prompt, resume) == len(range(resume, prompt - 1))
