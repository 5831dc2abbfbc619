"""Work shapes that a card has not: a Turing card whose large shape does not fit, cannot be launched, or lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from strata.executors.base import Argument, Buffer, Kernel, LaunchError, Witness
from strata.executors.lanes import LanesExecutor
from strata.kernels.expert_fused import LARGE, SHAPES
from strata.kernels.paths import PATHS
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.kernels import OPERATIONS
from validation.operations.experts.operation import judged
from validation.run import runner

PATH = PATHS["expert_fused/iq2_s/iq4_nl/sm75"]
CASE = ExpertCase("experts_decades", 3, 5, 5, 2, 256, 64)


def large(kernel: Kernel) -> bool:
    return ("WEIGHT_ROWS", SHAPES[LARGE][0]) in kernel.defines


@dataclass(eq=False)
class Turing:
    """Lanes that call themselves a card of capability 7.5. change: of what is read of the large shape; fails: whether
    its launches do, after so many that work."""

    lanes: LanesExecutor
    change: dict[str, int] = field(default_factory=dict)
    fails: bool = False
    trials: int = 0
    name: str = "cuda"
    arch: str = ""
    capability: int | None = 75
    launched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arch = self.lanes.arch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lanes, name)

    def attributes(self, kernel: Kernel) -> dict[str, int]:
        reading = {"capability": 75, "threads": 1024, "local_bytes": 0, "shared_limit": 64 << 10, "resident": 1}
        return reading | (self.change if large(kernel) else {})

    def launch(
        self, kernel: Kernel, grid: tuple[int, int, int], args: Sequence[Argument], reached: Sequence[Buffer] = ()
    ) -> Witness:
        if large(kernel):
            self.launched.append(kernel.entry)
            if self.fails and len(self.launched) > self.trials:
                raise LaunchError(f"{kernel.label}: launch failed")
        return replace(self.lanes.launch(kernel, grid, args, reached), executor="cuda")


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(flavor="fast")


def found_on(card: Turing) -> Findings:
    return judged(CASE, PATH, card, Settings(), Memo(), {"expert_fused": OPERATIONS["expert_fused"]})


def forced(found: Findings) -> set[str]:
    return {check.name for check in found.checks if check.name.startswith("shape ")}


def test_a_card_that_has_both_shapes_runs_them(lanes: LanesExecutor) -> None:
    found = found_on(Turing(lanes))
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    assert forced(found) == {"shape 4-2", "shape 2-4", "shape 4-2 run", "shape 2-4 run"}
    assert "left_out" not in found.figures


@pytest.mark.parametrize("card", [{"change": {"resident": 0}}, {"fails": True}], ids=["too large", "not launched"])
def test_shapes_that_the_probe_refuses_are_left_out_and_said(lanes: LanesExecutor, card: dict[str, Any]) -> None:
    found = found_on(Turing(lanes, **card))
    assert runner.settle(found.checks) is Verdict.EXACT, [c for c in found.checks if not c.verdict.passes]
    assert forced(found) == set()
    assert set(found.figures["left_out"]) == {"shape 4-2", "shape 2-4"}
    for why in found.figures["left_out"].values():
        assert "stays at the small shape here: " in why


def test_a_shape_that_the_probe_passes_and_that_cannot_be_launched_then_is_red(lanes: LanesExecutor) -> None:
    """The probe's two trials launch the large shape once each, for gate and up and for down."""
    card = Turing(lanes, fails=True, trials=2)
    with pytest.raises(LaunchError):
        found_on(card)
    result = runner.run_case(CASE, PATH, Turing(lanes, fails=True, trials=2), Settings())
    assert result["verdict"] == Verdict.NOT_RUN.value
    assert "launch failed" in result["explain"]


def test_a_shape_that_gives_wrong_rows_is_run_and_judged(lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict.fromkeys(("iq2_s/q2_0", "iq4_xs/iq4_nl"), "0" * 16)
    monkeypatch.setattr("strata.kernels.expert_probe.KNOWN", known)
    assert len(forced(found_on(Turing(lanes)))) == 4


def test_a_newer_card_leaves_nothing_out(lanes: LanesExecutor) -> None:
    with pytest.raises(LaunchError):
        found_on(Turing(lanes, fails=True, capability=80))
