"""Attention over the cells that block selection chose in the same run: the ids never leave the device in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.records import bases
from strata.executors.base import Executor
from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import BLOCK
from validation.core.challenge import LARGE
from validation.core.outcome import Outcome
from validation.core.random_streams import Stream
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.attention import chain, preconditions, selected, selection
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.kernels import Operation as Kernels
from validation.operations.attention.kernels import Outcome as KernelOutcome
from validation.operations.attention.operation import under_test
from validation.operations.attention.pools import Inputs, build, unchosen
from validation.operations.attention.record import BOUNDED, Attention, asked
from validation.operations.attention.sampling import rows_of
from validation.operations.attention.selected import Index
from validation.operations.block_select.choice import choose
from validation.operations.kv_pack.case import Case
from validation.record.canonical import encode, name_of
from validation.record.verify import Against, examine, lanes
from validation.run.runner import run_case

#: Lengths 141, 3, some, 0 and some: with incomplete blocks of 1, 3 and 2 cells, and a cut inside a block. Cells from 64
#: on are resident.
CASE = Case("selected", 1, 141, 5, 4, 1, 4, top=62)
PROMPT, DECODE = PATHS["prompt_attention/q4_0/sm80"], PATHS["decode_attention/q4_0/simt"]


@pytest.fixture(scope="module")
def executor() -> Executor:
    return LanesExecutor(flavor="checked")


def run(path: Path, executor: Executor, case: Case = CASE) -> dict[str, tuple[str, str]]:
    """Verdict and reason of each check."""
    found = run_case(case, path, executor, Settings())
    return {check["name"]: (check["verdict"], check["reason"]) for check in found["checks"]}


@given(st.integers(1, 2**32), st.integers(1, 400), st.integers(1, 20), st.integers(1, 90))
@settings(max_examples=25)
def test_what_is_drawn_is_chosen_in_one_way_alone(seed: int, context: int, queries: int, top: int) -> None:
    stream = Stream.of(seed)
    cells = selected.lengths(stream.child("lengths"), context, queries)
    assert cells[0] == context
    assert ((cells >= 0) & (cells <= context)).all()
    if queries > 3:
        assert (cells[1], cells[3]) == (min(selected.FEWEST, context), 0)
    if queries >= 8 and context >= 8:
        assert (np.diff(cells) < 0).any()
        assert {1, 2, 3} <= set((cells % BLOCK).tolist())
    steps = selection.step_records(cells, np.minimum(cells, top))
    index = selected.draw(stream.child("index"), steps)
    scores = (np.maximum(np.einsum("ihd,bd->ihb", index.q.astype(np.int64), index.keys.astype(np.int64)), 0)).sum(
        axis=1
    )
    for path in (PROMPT, PATHS["prompt_attention/q4_0/sm75"], DECODE):
        assert selected.certain(index, path, LanesExecutor()).verdict is Verdict.EXACT
    moved = scores + Stream.of(seed, "moved").below(2, scores.shape) / 2 - 0.25
    assert np.array_equal(choose(moved, steps, top), selected.choice(index, top))


def test_attention_of_a_tier_is_fed_by_the_scorer_of_that_tier() -> None:
    fed = {name: selected.scorer_of(path).name for name, path in PATHS.items() if "attention/q4_0/" in name}
    assert fed == {
        "decode_attention/q4_0/simt": "block_select_warp/fp32/simt",
        "prompt_attention/q4_0/sm75": "block_select/fp32/sm75",
        "prompt_attention/q4_0/sm80": "block_select/fp32/sm80",
    }


def test_a_choice_that_rounding_could_make_otherwise_is_void(executor: Executor) -> None:
    """Two blocks at the cut whose scores are 2**-20 apart: each scorer's bound allows the one and the other."""
    inputs = build(CASE, "fp16")
    assert inputs.index is not None
    near = inputs.index.keys.copy()
    near[1:] = near[0] * (1 + np.arange(len(near) - 1, dtype=np.float32)[:, None] * np.float32(2.0**-23))
    check = selected.certain(replace(inputs.index, keys=near), PROMPT, executor)
    assert check.verdict is Verdict.VOID
    assert "may order otherwise, within its bounds" in check.reason


@pytest.mark.parametrize("path", [PROMPT, DECODE], ids=lambda path: path.name)
def test_the_two_in_one_run_pass(path: Path, executor: Executor) -> None:
    """Small, in the checked build: wrong ids, another's lengths and ids from elsewhere do not."""
    checks = run(path, executor)
    assert {name: said for name, said in checks.items() if not Verdict(said[0]).passes} == {}
    assert set(checks) >= {"gaps", "selection", "repeat of ids", "bound", "witness"}
    assert (set(checks) == asked(PROMPT, CASE)) == (path is PROMPT)


def test_attention_reads_what_block_selection_wrote(executor: Executor) -> None:
    """Not ids of the host: those that it is handed all point at poison; nor is it told the definition's."""
    inputs = build(CASE, "q4_0")
    handed: list[np.ndarray] = []

    def spied(executor: Executor, path: Path, inputs: Inputs) -> KernelOutcome:
        handed.append(inputs.ids.copy())
        return ATTENTION[path.operation].run(executor, path, inputs)

    kernels = {**ATTENTION, "prompt_attention": replace(ATTENTION["prompt_attention"], run=spied)}
    found = run_case(CASE, PROMPT, executor, Settings(), None, under_test(kernels))
    assert Verdict(found["verdict"]).passes, found["explain"]
    assert len(handed) >= 2
    assert all((ids == inputs.ids[0, -1]).all() for ids in handed)
    got = chain.run(executor, PROMPT, unchosen(inputs))
    assert np.array_equal(selected.canonical(got.ids, inputs.widths), selected.canonical(inputs.ids, inputs.widths))


def wrong(change: Callable[[Index], Index]) -> Kernels:
    """The kernels, given other things to choose by."""

    def run(executor: Executor, path: Path, inputs: Inputs) -> KernelOutcome:
        assert inputs.index is not None
        return ATTENTION[path.operation].run(executor, path, replace(inputs, index=change(inputs.index)))

    return replace(ATTENTION["prompt_attention"], run=run)


def neighbours(index: Index) -> Index:
    return replace(index, q=np.roll(index.q, 1, axis=0))


def narrower(index: Index) -> Index:
    steps = index.steps.copy()
    steps[:, 3] = np.maximum(steps[:, 3] - 1, 0)
    return replace(index, steps=steps)


def test_a_wrong_selection_is_seen_in_its_ids_and_in_what_attention_gives(executor: Executor) -> None:
    found = run_case(
        CASE, PROMPT, executor, Settings(), None, under_test({**ATTENTION, "prompt_attention": wrong(neighbours)})
    )
    verdicts = {check["name"]: check["verdict"] for check in found["checks"]}
    assert verdicts["selection"] == "EXCEEDS"
    assert verdicts["bound"] == "EXCEEDS"
    assert verdicts["baseline selection"] == "EXACT"


def test_a_cell_too_few_is_seen(executor: Executor) -> None:
    """Attention then reads an id that nobody wrote, which names a cell outside of every page."""
    kernels = under_test({**ATTENTION, "prompt_attention": wrong(narrower)})
    found = run_case(CASE, PROMPT, executor, Settings(), None, kernels)
    assert found["verdict"] == "NOT_RUN"
    assert "prompt_attention.cu" in found["explain"]


def test_ids_that_are_wrong_or_too_many_are_named() -> None:
    widths = np.array([2, 1])
    due = np.array([[3, 5, 9], [4, 9, 9]], np.int32)
    ids = np.array([[3, 5, -1], [4, -1, -1]], np.int32)

    def check(ids: np.ndarray, strayed: int = 0) -> tuple[Verdict, str]:
        found = selected.chosen(due, widths, Outcome({"out": ids, "ids": ids}, [], True, {"strayed": strayed}))
        return found.verdict, found.reason

    assert check(ids) == (Verdict.EXACT, "")
    other = ids.copy()
    other[1, 0] = 5
    reason = "1 of 2 queries; query 1 place 0 holds cell 5, the definition chooses 4"
    assert check(other) == (Verdict.EXCEEDS, reason)
    assert check(ids, 2) == (Verdict.EXCEEDS, "2 ids behind a width were written, expected none")


def test_what_a_case_promises_is_looked_for() -> None:
    inputs = build(CASE, "q4_0")
    assert preconditions.kept(CASE, "q4_0", inputs).verdict is Verdict.EXACT
    assert inputs.index is not None
    for changed, why in (
        (replace(inputs, index=None), "what block selection chooses by"),
        (replace(inputs, index=neighbours(inputs.index)), "ids that the definition chooses by FP64 scores"),
        (rows_of(inputs, np.argsort(inputs.steps[:, 1], kind="stable")), "queries of lengths in no order, they grow"),
    ):
        check = preconditions.kept(CASE, "q4_0", changed)
        assert check.verdict is Verdict.VOID
        assert why in check.reason


def test_launches_of_a_case_are_those_of_its_inputs() -> None:
    inputs = build(CASE, "q4_0")
    assert inputs.index is not None
    due = chain.launches(PROMPT, inputs.index, inputs.ids.shape[1])
    assert chain.fed_by(PROMPT, CASE) == due
    assert [one.kernel.entry for one in due] == ["block_split", "block_split", "block_scores_tensor", "block_topk"]
    assert chain.fed_by(PROMPT, replace(CASE, recipe="uniform")) == []
    entries = [one.kernel.entry for one in Attention().launches(PROMPT, CASE, None)]
    assert entries == [*(one.kernel.entry for one in due), "prompt_attention"]


def test_a_record_holds_it_and_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of attention as lanes give them with block selection in front; what that is given is in the digest."""
    monkeypatch.setattr(bases, "planned", lambda paths, profile, seed: [(path, CASE) for path in paths])
    made = bases.make(bases.BASES[1])["record"]
    (case,) = made["cases"]
    assert {name for name, _ in case["checks"]} >= {"prediction of ids", "baseline prediction of ids", "selection"}
    for name, verdict in case["checks"]:
        assert verdict == ("WITHIN_BOUND" if name in BOUNDED else "EXACT")
    data = encode(made)
    outcome = examine(data, f"{name_of(data)}.json", Against(bases.planned, lanes, every=True))
    assert outcome.title == "ACCEPTED", outcome.lines()
    assert CASE.queries * CASE.n_head < LARGE
    made["cases"][0]["launches"].pop(0)
    data = encode(made)
    outcome = examine(data, f"{name_of(data)}.json", Against(bases.planned, lanes))
    assert "witness" in outcome.rules
