"""Launches of two paths that stand in one record: each case its own kernel."""

from __future__ import annotations

from typing import Any

from strata.executors.base import source_digests
from strata.kernels.paths import PATHS
from validation.operations.attention.record import Attention
from validation.operations.kv_pack.case import Case
from validation.record.rules.compiled import witness
from validation.record.rules.subject import Subject

CASE = Case("signed_decades", 1, 20, 3, n_head_kv=2, group=4)
TIERS = [PATHS["prompt_attention/q4_0/sm75"], PATHS["prompt_attention/q4_0/sm80"]]


def subject(launched: list[int], grid: tuple[int, int, int] = (3, 2, 1), blocks: int = 6) -> Subject:
    """A record of one case on two paths, of which each launched the image of a number."""
    kernels = [kernel for path in TIERS for kernel in Attention().kernels(path, CASE)]
    images = [{"entry": kernel.entry, "defines": [list(define) for define in kernel.defines]} for kernel in kernels]
    cases = [{"launches": [{"image": number, "grid": list(grid), "blocks": blocks}]} for number in launched]
    record: dict[str, Any] = {
        "provenance": {"multiprocessors": None},
        "plan": {"profile": "quick", "seed": 1, "paths": [path.name for path in TIERS]},
        "images": images,
        "cases": cases,
    }
    return Subject(record, source_digests(), lambda paths, profile, seed: [(path, CASE) for path in paths])


def test_each_case_runs_the_kernel_of_its_path() -> None:
    assert list(witness(subject([0, 1]))) == []


def test_the_other_tier_s_kernel_is_another() -> None:
    assert [reason.partition(" ran ")[2] for reason in witness(subject([1, 0]))] == [
        "image 1, which is another kernel",
        "image 0, which is another kernel",
    ]
    first, idle = witness(subject([1, 1]))
    assert "which is another kernel" in first
    assert idle == "image 0 was launched by no case"


def test_all_blocks_of_the_grid_run() -> None:
    for wrong in (subject([0, 1], blocks=5), subject([0, 1], grid=(2, 3, 1)), subject([0, 1], grid=(3, 2, 2))):
        assert len(list(witness(wrong))) == 2
