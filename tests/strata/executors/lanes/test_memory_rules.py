"""What the checked flavor knows of memory: ranges, alignment, bytes nobody wrote, copies in flight, races."""

from __future__ import annotations

import pytest

from strata.executors.lanes import LanesExecutor
from tests.strata.executors.lanes.sources import line_of
from tests.strata.executors.lanes.test_faults import SEEDS, expect, message, run

# Found by the checked flavor.
CHECKED = {
    "kSharedIndex": ("index", ("element 64 of an array of 64",)),
    "kSharedNegative": ("negative", ("of an array of 64", "element -")),
    "kUnwritten": ("unwritten", ("is read and nobody wrote it",)),
    "kMisalignedShared": ("misaligned", ("shared element 33 is not aligned to the 8 bytes",)),
    "kGlobalPastEnd": (
        "past end",
        ("global memory out of range, outside every buffer: bytes 1024..1028 of the nearest, in, which has 1024",),
    ),
    "kGlobalBefore": (
        "before out",
        ("global memory out of range, outside every buffer: bytes -4..0 of the nearest, out, which has 768",),
    ),
    "kGlobalMisaligned": ("store misaligned", ("global address not aligned to the 8 bytes",)),
    "kNull": ("null", ("global memory out of range",)),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", CHECKED)
def test_memory_rules(what: str, seed: int | None) -> None:
    where, parts = CHECKED[what]
    expect(message(LanesExecutor(flavor="checked", seed=seed), what), where, *parts)


def test_a_memory_rule_names_the_lane_that_broke_it() -> None:
    executor = LanesExecutor(flavor="checked")
    for what, thread in (("kSharedIndex", 50), ("kMisalignedShared", 33), ("kGlobalPastEnd", 44), ("kNull", 46)):
        assert f"thread ({thread},0,0) = warp 1 lane {thread - 32}" in message(executor, what)


# The line depends on the schedule where either access can come second.
RACES = {
    "kWriteWrite": (("write 0", "write 1"), "was written by thread"),
    "kWriteRead": (("block read", "block write"), "was "),
    "kReadWrite": (("write", "read"), "was "),
    "kWarpWriteWrite": (("neighbour's", "own"), "was written by thread"),
    "kWarpWriteRead": (("warp read", "warp write"), "was "),
    "kWarpReadWrite": (("over", "before"), "was "),
    "kReadByMany": (("over many", "by many"), "was "),
    "kReadByWarp": (("over warp", "by warp"), "was "),
    "kReadByThread": (("over thread", "by thread"), "was "),
    "kReadByNeighbour": (("over neighbour", "by neighbour"), "was "),
    "kWarpUpdate": (("update", "by all"), "was "),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", RACES)
def test_races_are_found_whatever_the_schedule(what: str, seed: int | None) -> None:
    text = message(LanesExecutor(flavor="checked", seed=seed), what)
    places, part = RACES[what]
    reported = next((place for place in places if f"faults.cu:{line_of('faults', place)}:" in text), places[0])
    expect(text, reported, "race: shared byte", part, "no barrier between")


@pytest.mark.parametrize(
    ("what", "byte", "reader"),
    [
        ("kReadByMany", 0, "several warps"),
        ("kReadByWarp", 0, "warp 1"),
        ("kReadByThread", 128, "thread 32"),
        ("kReadByNeighbour", 124, "thread 31"),
    ],
)
def test_a_write_after_a_read_is_a_race_too(what: str, byte: int, reader: str) -> None:
    """Without a seed the last thread at a barrier goes on first: it reads before these writes, so that only
    what is known of reads can tell."""
    text = message(LanesExecutor(flavor="checked"), what)
    expect(text, RACES[what][0][0], f"race: shared byte {byte} was read by {reader} with no barrier between")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", RACES)
def test_the_barrier_in_place_is_clean(what: str, seed: int | None) -> None:
    run(LanesExecutor(flavor="checked", seed=seed), what, fixed=True)


# Copies and matrix instructions left open.
OPEN = {
    "kAsyncReadEarly": ("early", "is read before its cp.async copy was waited for"),
    "kAsyncOverwritten": ("overwritten", "is written while a cp.async copy of thread"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", OPEN)
def test_copies_in_flight(what: str, seed: int | None) -> None:
    executor = LanesExecutor(flavor="checked", seed=seed)
    expect(message(executor, what), *OPEN[what])
    run(executor, what, fixed=True)
