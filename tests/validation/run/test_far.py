"""Buffers across a multiple of 4 GiB, the end of a grid, and what a far check makes of a kernel that fails."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import LaunchError, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine, router
from strata.kernels.paths import PATHS, select
from validation.core.far_checks import Part, same
from validation.core.mapped_buffers import ALIGN, WINDOW, Mapped
from validation.core.verdict import Check, Verdict
from validation.operations import registry
from validation.operations.attention import far as attention_far
from validation.operations.experts import far as experts_far
from validation.operations.experts.case import ExpertCase
from validation.operations.kv_pack.case import Case
from validation.run import far
from validation.run.plan import entries


@pytest.mark.parametrize("before", [0, ALIGN, 16 * ALIGN])
def test_a_mapped_buffer_lies_across_the_boundary_between_guards(before: int) -> None:
    made = Mapped((WINDOW // 8, 3), np.float32, "large", before)
    assert (made.address + before) % WINDOW == 0
    made.view()[-1] = 7
    assert made.guards_intact()
    for place in (made._first - 1, made._first + made.nbytes):
        kept = made._raw[place]
        made._raw[place] = 0
        assert not made.guards_intact()
        made._raw[place] = kept


def test_what_cannot_be_mapped_is_one_line() -> None:
    with pytest.raises(StrataError, match="bytes of address space, which a check of far addresses needs"):
        Mapped((1 << 55,), np.uint64, "everything")
    with pytest.raises(StrataError, match="7 bytes before the boundary, expected a multiple of 256"):
        Mapped((4,), np.uint8, "odd", 7)


def test_a_kernel_that_reads_for_ever_is_stopped_and_another_is_not() -> None:
    lanes = LanesExecutor(flavor="checked", threads=1)
    made = Mapped((1 << 22, 32), np.float32, "logits")
    ids, weights = (Mapped((1 << 22, 1), kind, name) for kind, name in ((np.int32, "ids"), (np.float32, "weights")))
    counts = lanes.array(np.zeros(2, np.int32), written=True)

    def launch(tokens: int) -> None:
        sizes = (np.int32(tokens), np.int32(32), np.int32(1))
        lanes.launch(router.kernel(), (1, 1, 1), (made, ids, weights, counts, *sizes))

    with made.readable_for(600):
        launch(4)
    with pytest.raises(LaunchError, match=r"logits: still being read after 0.05 s"), made.readable_for(0.05):
        launch(1 << 22)  # of minutes
    assert made.guards_intact()


def test_the_router_is_asked_a_second_turn_of_the_most_blocks_and_sums_their_last_columns() -> None:
    lanes = LanesExecutor(flavor="checked")
    for operation, case, names in (
        ("router", ExpertCase("router_sizes", 1, 2, 33, 2, 256, 64), ("far", "few blocks", "most blocks")),
        ("combine", ExpertCase("combine_sizes", 1, 2, 64, 2, 256, 64), ("far", "far ranks", "far columns")),
    ):
        found = far.checks(registry.found()[operation], case, PATHS[f"{operation}/fp32/simt"], lanes)
        assert [(check.name, check.verdict) for check in found] == [(name, Verdict.EXACT) for name in names]


def test_the_end_of_a_grid_is_run_alone() -> None:
    lanes = LanesExecutor(flavor="checked", seed=3)
    rows = np.arange(4 * 256, dtype=np.float32).reshape(4, 1, 256)
    weights, lost = lanes.array(np.ones((4, 1), np.float32)), lanes.array(np.zeros(1, np.int32), written=True)
    out = lanes.array(np.zeros((4, 256), np.float32), written=True)
    args = (lanes.array(rows), weights, None, None, out, lost, np.int32(4), np.int32(1), np.int32(256))
    witness = lanes.launch_end(combine.kernel(), (2, 1, 1), args, 1)
    assert witness.blocks_run == 1
    assert np.array_equal(out.host()[2:], rows[2:, 0])
    assert not out.host()[:2].any()
    with pytest.raises(LaunchError, match="from block 2 on, expected 0 to 1"):
        lanes.launch_end(combine.kernel(), (2, 1, 1), args, 2)


def test_lanes_are_asked_and_nobody_else() -> None:
    distant, near = Case("far", 1, 97, 2), Case("flat", 1, 97, 2)
    lanes = LanesExecutor()
    assert far.asks(registry.found()["prompt_attention"], distant, lanes)
    assert not far.asks(registry.found()["prompt_attention"], near, lanes)
    assert not far.asks(registry.found()["prompt_attention"], distant, LanesExecutor(flavor="sanitize"))
    assert not far.asks(registry.found()["prompt_attention"], distant, object())  # type: ignore[arg-type]


def test_every_operation_with_cases_has_a_far_recipe_in_quick() -> None:
    paths = select("*")
    asked = [entry for entry in entries(1, "quick", paths) if registry.find(entry.case.recipe).far]
    assert {path.operation for entry in asked for path in paths if entry.takes(path)} == {p.operation for p in paths}


def test_the_checks_of_records_are_those_that_lanes_make() -> None:
    lanes = LanesExecutor(flavor="checked")
    for name, names, case in (
        ("prompt_attention/fp16/sm75", attention_far.names, Case("far", 1, 41, 1)),
        ("expert_fused/iq3_xxs/iq4_nl/sm75", experts_far.names, ExpertCase("experts_far", 1, 2, 3, 2, 256, 64)),
        ("expert_fused/iq3_xxs/iq4_nl/sm75", experts_far.names, ExpertCase("experts_crowd", 1, 1, 3, 64, 256, 64)),
    ):
        found = far.checks(registry.of(PATHS[name]), case, PATHS[name], lanes)
        assert tuple(check.name for check in found) == names(case.recipe)
        assert [check.verdict for check in found] == [Verdict.EXACT] * len(found)
    assert attention_far.names("flat") == ()


def test_a_kernel_that_leaves_its_buffers_exceeds() -> None:
    def fault() -> Check:
        raise LaunchError("global memory outside of every buffer")

    made = far._asked(Part("far", fault))
    assert (made.verdict, made.reason) == (Verdict.EXCEEDS, "global memory outside of every buffer")


def test_other_bits_and_touched_guards_exceed() -> None:
    one, two = np.arange(4, dtype=np.int32), np.array([0, 1, 9, 3], np.int32)
    buffer = Mapped((4,), np.int32, "x")
    assert same("far", [("rows", one, one.copy())], [buffer]).verdict is Verdict.EXACT
    made = same("far", [("rows", one, two)], [buffer])
    assert made.verdict is Verdict.EXCEEDS
    assert made.reason.startswith("rows: ")
    buffer._raw[buffer._first - 1] = 0
    assert same("far", [("rows", one, one.copy())], [buffer]).verdict is Verdict.EXCEEDS
