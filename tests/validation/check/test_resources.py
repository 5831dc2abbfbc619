"""A launch that no card takes is refused by name, though lanes would run it; what lanes cannot know is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata.executors.base import StrataError
from tests.validation.check import twice as author
from tests.validation.check.fake import kernel
from validation.check import Size, plan, unjudged
from validation.check.load import Loaded
from validation.check.resources import launch_bounds, registers, without_room

HEAD = "constexpr int kWarps = 4, kThreads = 32 * kWarps;  // a comment = 7\n#define MOST (THREADS + 32)\n"


@pytest.mark.parametrize(
    ("bounds", "threads"),
    [
        ("__launch_bounds__(96)", 96),
        ("__launch_bounds__(kThreads, 2)", 128),
        ("__launch_bounds__(kWarps * 32 / 2)", 64),
        ("__launch_bounds__(THREADS)", 64),
        ("__launch_bounds__(MOST)", 96),
        ("__launch_bounds__(sizeof(int) * 32)", None),
        ("__launch_bounds__(kOther)", None),
        ("", None),
    ],
)
def test_the_threads_that_a_function_is_compiled_for_are_read(bounds: str, threads: int | None) -> None:
    text = f'{HEAD}extern "C" __global__ void {bounds}\n    k(float* y) {{}}\n'
    assert launch_bounds([text], {"THREADS": 64}).get("k") == threads


def test_a_block_of_more_threads_than_its_launch_bounds_is_refused() -> None:
    own = author.with_fault(0)
    wider = Loaded(replace(own, block=2 * author.THREADS), Path(author.__file__))
    with pytest.raises(StrataError, match=r"twice\.py: launch of twice: the block of a launch is 64, expected at most"):
        wider.launches({"width": 5})


def test_cards_that_lack_the_shared_memory_are_named() -> None:
    assert without_room(64 << 10) == []
    assert without_room(100 << 10) == ["sm_75", "sm_86", "sm_89", "sm_120"]
    own = kernel(shared_bytes=200 << 10)
    said = unjudged.cards_without_room(own, plan.cases(own, "quick", 1))
    assert said.startswith("a block asks for 204,800 bytes of shared memory: sm_75, sm_80, sm_86")
    assert unjudged.cards_without_room(kernel(), plan.cases(kernel(), "quick", 1)) == ""


@pytest.mark.parametrize(("block", "most"), [(32, 255), (256, 255), (257, 224), (512, 128), (1000, 64), (1024, 64)])
def test_a_thread_has_its_share_of_a_multiprocessor_s_registers(block: int, most: int) -> None:
    assert registers(block) == most


def test_what_nobody_judges_is_said() -> None:
    jobs = plan.jobs(kernel(), plan.cases(kernel(), "quick", 1), "quick")
    said = unjudged.line(kernel(), jobs, lanes=True, whole=True)
    assert "a thread may have 255, which a card's compiler counts; the sign of a zero, which `exact` tells" in said
    assert "fast build" not in said
    fast = [replace(job, flavor="fast") for job in jobs]
    count = len({job.case for job in jobs})
    assert f"memory in the {count} cases that only the fast build runs" in unjudged.line(kernel(), fast, True, True)
    assert "GCC from 12 on" in unjudged.line(kernel(), jobs, True, False)
    assert "2^31" not in said
    wide = replace(kernel().kernel, sizes={**kernel().kernel.sizes, "rows": Size(1, 1 << 20)})
    far = unjudged.line(replace(kernel(), kernel=wide), jobs, True, True)
    assert "elements from 2^31 on, which the sizes allow x, y" in far
    assert "races" in unjudged.line(kernel(), jobs, False, False)
    assert "zero" not in unjudged.line(kernel(exact=lambda inputs, sizes: {}), jobs, True, True)
