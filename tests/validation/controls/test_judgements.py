"""Controls of what is built on the comparators: right as it is, and each break of it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.validation.controls import broken
from validation.controls import judgements
from validation.core import negative_probes, verdict
from validation.core.control import Control, answers
from validation.core.verdict import Check, Verdict, combine, holds
from validation.operations.attention import gates as judge
from validation.operations.attention.bounds import prompt_attention as bounds
from validation.operations.kv_pack import pools as pack_pools
from validation.run import runner

GROUPS = [
    judgements.combining,
    judgements.settling,
    judgements.gating,
    judgements.probing,
    judgements.witnessing,
    judgements.pools,
]


def wrong(make: Callable[[], Iterator[Control]]) -> set[str]:
    return {answer.name for answer in answers(make()) if not answer.right}


@pytest.mark.parametrize("make", GROUPS)
def test_the_judge_is_right(make: Callable[[], Iterator[Control]]) -> None:
    assert wrong(make) == set()
    rows = list(make())
    assert len({row.name for row in rows}) == len(rows) > 5


@pytest.mark.parametrize("value", ["VOID", "NOT_RUN", "INCONCLUSIVE", "EXCEEDS"])
def test_a_verdict_that_comes_to_pass_is_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more = (Verdict.EXACT, Verdict.WITHIN_BOUND, Verdict(value))
    monkeypatch.setattr(Verdict, "passes", property(lambda self: self in more))
    assert f"verdict/{value} passes" in wrong(judgements.combining)


@pytest.mark.parametrize(
    "broken_combine",
    [
        lambda checks: min((c.verdict for c in checks), key=lambda v: v.passes is False, default=Verdict.NOT_RUN),
        lambda checks: next(iter([c.verdict for c in checks]), Verdict.NOT_RUN),
        lambda checks: combine(list(checks)[:8]),
        lambda checks: combine(checks) if list(checks) else Verdict.EXACT,
    ],
    ids=["best", "first", "first eight", "nothing passes"],
)
def test_a_broken_combination_is_told(
    broken_combine: Callable[[list[Check]], Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "combine", broken_combine)
    assert wrong(judgements.combining)


def test_a_settlement_that_says_exact_too_soon_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runner, "settle", lambda checks: Verdict.EXACT if any(c.figures for c in checks) else combine(checks)
    )
    assert "settle/bound and some bits" in wrong(judgements.settling)


@pytest.mark.parametrize("name", [name for name in broken.BROKEN if name not in ("below the bound", "float32 error")])
def test_gates_on_a_broken_comparator_are_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "within", broken.WITHIN[name])
    assert wrong(judgements.gating) | wrong(judgements.probing)


@pytest.mark.parametrize("gate", ["bound", "gate 1", "gate 2", "agreement"])
def test_a_gate_that_is_left_out_is_told(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = judge.gates
    monkeypatch.setattr(judge, "gates", lambda *a: [check for check in gates(*a) if check.name != gate])
    assert wrong(judgements.gating)


def test_gate_1_against_the_path_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = bounds.accuracy
    monkeypatch.setattr(bounds, "accuracy", lambda old, ref: 1000 * plain(old, ref))
    assert any("published" in name for name in wrong(judgements.gating))


def test_an_anchor_that_holds_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        judge, "baseline_within_bound", lambda old, truth: Check("baseline bound", Verdict.WITHIN_BOUND)
    )
    assert "anchor/flipped" in wrong(judgements.gating)


def test_a_battery_that_refuses_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(negative_probes, "self_check", lambda *a: Check("self", Verdict.EXACT))
    assert "battery/accepts everything" in wrong(judgements.probing)


def test_probes_whose_life_is_judged_the_wrong_way_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    live = negative_probes._live
    monkeypatch.setattr(negative_probes, "_live", lambda *a: not live(*a))
    assert "battery/sound" in wrong(judgements.probing)


@pytest.mark.parametrize("probe", ["nan", "one element", "one stale row", "flipped head 1"])
def test_a_probe_that_is_left_out_is_told(probe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = negative_probes._cases

    def fewer(*arguments: Any) -> Iterator[tuple[str, np.ndarray]]:
        return (case for case in cases(*arguments) if case[0] != probe)

    monkeypatch.setattr(negative_probes, "_cases", fewer)
    assert wrong(judgements.probing)


def test_a_witness_that_is_believed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgements, "witnessed", lambda *a: holds("witness", True, ""))
    told = wrong(judgements.witnessing)
    assert len(told) == sum(row.expected == "EXCEEDS" for row in judgements.witnessing())


def test_planes_that_are_skipped_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_pools, "_PLANES", ("k", "v"))
    assert "same_pool/last byte of k_scale" in wrong(judgements.pools)
