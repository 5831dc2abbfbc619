"""Where a record was made: facts as they are reported, null where they are not known, and only printable ASCII."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from strata.executors.base import Executor
from tests.validation.stub import StubCard, StubExecutor
from validation.record.provenance import printable, provenance
from validation.run.executors import ExecutorPool

H200 = {
    "device": "NVIDIA H200",
    "multiprocessors": 132,
    "memory_bytes": 150_110_011_392,
    "clock_khz": 1_980_000,
    "driver": "580.159.03",
    "cuda_runtime": "13.0",
    "cupy": "14.2.0",
    "nvrtc": "13.0.88",
}


@dataclass
class Known(StubCard):
    facts: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        return {"arch": self.arch, **self.facts}


class Compiled(StubExecutor):
    def describe(self) -> dict[str, Any]:
        return {"compiler": "g++ (Débian) 12"}


def executor_pool(card: Executor | None, rule: str = "sm_90") -> ExecutorPool:
    """The executors of a stand-in card, with lanes that have a compiler beside it; or of lanes alone."""

    def opened(name: str, **options: object) -> Executor:
        return Compiled() if name == "lanes" or card is None else card

    return ExecutorPool("cuda" if card else "lanes", rule, open=opened)


def test_a_card_s_facts_are_taken_as_they_are() -> None:
    found = provenance(executor_pool(Known(facts=H200)), False)
    assert {name: found[name] for name in H200} == H200
    assert found["executor"] == "cuda"
    assert found["capability"] == 90
    assert found["rule"] is None
    assert found["compiler"] is None


def test_the_compiler_of_the_prediction_is_named() -> None:
    assert provenance(executor_pool(Known(facts=H200)), True)["compiler"] == "g++ (D?bian) 12"


@pytest.mark.parametrize(
    ("name", "odd"),
    [("driver", ""), ("driver", "580"), ("driver", "R580 (beta)"), ("nvrtc", "13.0"), ("cuda_runtime", "")],
)
def test_what_is_not_known_is_null(name: str, odd: str) -> None:
    assert provenance(executor_pool(Known(facts=H200 | {name: odd})), False)[name] is None
    bare = provenance(executor_pool(StubCard()), False)
    assert all(bare[fact] is None for fact in H200 if fact != "device")
    assert bare["device"] == "unknown"


@pytest.mark.parametrize(
    ("asked", "rule"), [("sm_75", "sm_75"), ("exact", "exact"), ("8,24", "8,24"), (" 8 / 24", "8,24")]
)
def test_lanes_name_their_rule_and_no_card(asked: str, rule: str) -> None:
    found = provenance(executor_pool(None, asked), False)
    assert found["rule"] == rule
    assert found["executor"] == "lanes"
    assert found["device"].startswith("CPU ")
    assert all(found[name] is None for name in ("capability", "driver", "nvrtc", "memory_bytes"))
    assert found["compiler"] == "g++ (D?bian) 12"


def test_text_is_cut_and_made_printable() -> None:
    assert printable("a\tb\u00a0c\n", 40) == "a?b?c?"
    assert printable("x" * 50, 40) == "x" * 40
