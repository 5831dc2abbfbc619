"""What breaks a rule of the machine is an error that names kernel, block, thread and line.

Memory has rules of its own: test_memory_rules.py.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import Kernel, LaunchError
from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.sources import FOLDER, kernel, line_of
from validation.core.random_streams import Stream

KERNEL = kernel("faults", 64, 1024)
SEEDS = (None, 1, 2, 3)


def _names() -> list[str]:
    """The enumerators of `What` in the source, in order."""
    body = (FOLDER / "faults.cu").read_text().split("enum What {")[1].split("};")[0]
    return re.findall(r"k[A-Z]\w*", re.sub(r"//.*", "", body))


WHAT = {name: number for number, name in enumerate(_names())}


def run(executor: LanesExecutor, what: str, fixed: bool = False, program: Kernel = KERNEL) -> np.ndarray:
    """Output uint32 [blocks, 64] of three blocks, of which the second breaks the rule."""
    words = np.arange(100, 356, dtype=np.uint32)
    words[255] = 47
    source, out = executor.array(words, "in"), executor.empty((3, 64), np.uint32, name="out")
    executor.launch(program, (3, 1, 1), [source, out, None, np.int32(WHAT[what]), np.int32(fixed)])
    assert out.guards_intact()
    return out.host()


def message(executor: LanesExecutor, what: str) -> str:
    """The error of a launch, after which a correct one must still work."""
    with pytest.raises(LaunchError) as caught:
        run(executor, what)
    expected = 100 + np.tile(np.arange(64) ^ 33, (3, 1))
    assert np.array_equal(run(executor, "kNothing"), expected)
    text = str(caught.value)
    assert "\n" not in text
    return text


def expect(text: str, where: str, *parts: str) -> None:
    """The message begins with kernel and block, names a thread as warp and lane, the line, and `parts`."""
    found = re.match(
        r"faults: block \(1,0,0\), thread \((\d+),0,0\) = warp (\d+) lane (\d+), faults\.cu:(\d+): (.+)$", text
    )
    assert found, text
    thread, warp, lane, line = map(int, found.groups()[:4])
    assert thread == warp * 32 + lane, text
    assert line == line_of("faults", where), text
    for part in parts:
        assert part in found.group(5), text


def line(where: str) -> str:
    return f"line {line_of('faults', where)}"


# Found by every flavor: no shadow memory is needed.
ALWAYS = {
    "kLaneSkips": (("skipper", "skipped"), ("different instructions", "a shuffle", "__syncwarp")),
    "kDifferent": (("shuffle", "ballot"), ("different instructions", "a shuffle", "a vote")),
    "kTwoOfOneLine": (("one line", "one line"), ("different instructions",)),
    "kTwoMasks": (("two masks",), ("different instructions", "mask 0001ffff", "mask ffff0001")),
    "kNotInMask": (("not in mask",), ("mask fffffffe of a vote does not name the calling lane",)),
    "kReadsOutsideMask": (("outside mask",), ("reads lane 9, which is not in the mask 000000ff",)),
    "kOddWidth": (("odd width",), ("the width is 12",)),
    "kTwoBarriers": (("barrier 1", "barrier 2"), ("divergence at a barrier",)),
    "kSharedTooBig": (("too big",), ("shared memory out of range", "253 elements of ", "at byte 16", "1024 bytes")),
    "kAsyncTooMany": (("too many",), ("more than 96 cp.async copies",)),
    "kMmaNotJoinedAtBarrier": (("barrier before join",), ("1 mma instructions were not joined before __syncthreads",)),
    "kMmaUnequal": (("unequal",), ("different numbers of mma instructions", "lanes 0 and 6", "1 and 0")),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flavor", ["fast", "checked"])
@pytest.mark.parametrize("what", ALWAYS)
def test_rules_that_every_flavor_watches(what: str, flavor: str, seed: int | None) -> None:
    text = message(LanesExecutor(flavor=flavor, seed=seed), what)
    places, parts = ALWAYS[what]
    # Which of two lines is met first depends on the schedule; the message names both.
    reported = next((place for place in places if f"faults.cu:{line_of('faults', place)}:" in text), places[0])
    expect(text, reported, *parts)
    for place in places:
        assert place == reported or line(place) in text, text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("flavor", ["fast", "checked"])
def test_a_lane_that_has_exited_is_missed(flavor: str, seed: int | None) -> None:
    text = message(LanesExecutor(flavor=flavor, seed=seed), "kLaneExits")
    expect(text, "exits", "missing lanes")
    assert f"warp 1 waits at a shuffle of {line('exits')} for lanes 00000020 (exited)" in text


@pytest.mark.parametrize("seed", SEEDS)
def test_a_thread_that_never_reaches_the_barrier(seed: int | None) -> None:
    text = message(LanesExecutor(seed=seed), "kNeverArrives")
    expect(text, "waits for lane 4" if f":{line_of('faults', 'waits for lane 4')}:" in text else "arrived")
    assert f"warp 1 waits at __syncwarp of {line('waits for lane 4')} for lanes 00000010" in text
    assert f"63 of 64 threads wait at __syncthreads of {line('arrived')}" in text


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("what", "where"), [("kExitsWhileWaiting", "waiting"), ("kBarrierAfterExit", "after exit")])
def test_exit_beside_a_barrier(what: str, where: str, seed: int | None) -> None:
    """Whether the exit or the barrier comes first, the message has the barrier's line."""
    text = message(LanesExecutor(seed=seed), what)
    expect(text, where, "the thread ends while" if "ends" in text else "after 1 threads of the block have exited")


def test_exit_is_named_by_its_lane() -> None:
    text = message(LanesExecutor(), "kExitsWhileWaiting")
    assert "thread (63,0,0) = warp 1 lane 31" in text
    assert "the thread ends while 63 others wait" in text


@pytest.mark.parametrize("flavor", ["fast", "checked"])
@pytest.mark.parametrize(
    ("what", "where", "part"),
    [
        ("kAsyncNotWaited", "started", "the thread ends with 1 cp.async copies that were not waited for"),
        ("kMmaNotJoined", "unjoined", "the thread ends with 1 mma instructions that were not joined"),
    ],
)
def test_nothing_is_left_open_at_the_end(what: str, where: str, part: str, flavor: str) -> None:
    executor = LanesExecutor(flavor=flavor)
    expect(message(executor, what), where, part)
    run(executor, what, fixed=True)
    if what == "kMmaNotJoined":
        run(executor, "kMmaNotJoinedAtBarrier", fixed=True)


# Faults that the processor reports: the line is the last instruction known.
PROCESSOR = {
    "kSharedPastEnd": ("last known", "shared memory out of range: byte 1024 of 1024"),
    "kNull": ("known before null", "memory fault at"),
    "kDivide": ("before division", "integer division by zero"),
    "kTrap": ("before trap", "a trap or an illegal instruction"),
    "kStackOverflow": ("before overflow", "stack overflow: a lane has 131072 bytes"),
}
THREADS = {"kSharedPastEnd": 41, "kNull": 46, "kDivide": 47, "kTrap": 48, "kStackOverflow": 49}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", PROCESSOR)
def test_a_fault_of_the_processor_ends_the_launch_and_not_the_process(what: str, seed: int | None) -> None:
    if what == "kDivide" and "86" not in LanesExecutor().arch:
        pytest.skip("Arm divides by zero without a fault")
    where, part = PROCESSOR[what]
    text = message(LanesExecutor(seed=seed), what)
    expect(text, where, part)
    assert f"thread ({THREADS[what]},0,0)" in text


def test_the_first_fault_of_many_workers_is_kept() -> None:
    executor = LanesExecutor(threads=2)
    for _ in range(20):
        expect(message(executor, "kNotInMask"), "not in mask")


def test_launches_from_two_threads_do_not_disturb_each_other() -> None:
    """Handlers of faults belong to the process; launches that overlap must not take them from one another, or
    the process ends here."""
    executor = LanesExecutor(threads=2)
    other = replace(KERNEL, defines=(*KERNEL.defines, ("ANOTHER_LIBRARY", 1)))
    run(executor, "kNothing", program=other)

    def many(program: Kernel) -> int:
        found = 0
        for _ in range(200):
            with pytest.raises(LaunchError, match="memory fault"):
                run(executor, "kNull", program=program)
            found += 1
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(many, (KERNEL, other))) == [200, 200]


def test_arguments_and_sizes_are_checked_before_the_launch() -> None:
    executor = LanesExecutor()
    buffer = executor.array(Stream.of(1).octets(16), "bytes")

    def launch(program: Kernel, grid: tuple[int, int, int], *arguments: object) -> str:
        with pytest.raises(LaunchError) as caught:
            executor.launch(program, grid, arguments)  # type: ignore[arg-type]
        return str(caught.value)

    one = (1, 1, 1)
    assert "takes 5 arguments, 1 given" in launch(KERNEL, one, buffer)
    wrong = [buffer, buffer, None, np.int64(0), np.int32(0)]
    assert "argument 3 has 8 bytes, its parameter 4" in launch(KERNEL, one, *wrong)
    assert "argument 0 is a int" in launch(KERNEL, one, 7)
    assert "grid (0, 1, 1)" in launch(KERNEL, (0, 1, 1))
    assert "grid (1, 65536, 1)" in launch(KERNEL, (1, 65536, 1))
    for block in (0, 1025):
        assert f"blocks of {block} threads" in launch(kernel("faults", block, 1024), one)
    huge = kernel("faults", 64, 1 << 60)
    arguments = [buffer, buffer, None, np.int32(0), np.int32(0)]
    assert "a worker could not start" in launch(huge, one, *arguments)


def test_every_fault_is_tested() -> None:
    texts = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    assert [what for what in WHAT if f'"{what}"' not in texts] == []
