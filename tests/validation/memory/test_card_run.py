"""What is tried on a card, in miniature on a fake one; and wrong bytes anywhere in a reclaimed slot are named."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.memory.cache.verification import WrongBytes
from validation.memory import card_run
from validation.memory.bench_world import fake_world, real_sizes
from validation.memory.corrupting_driver import CorruptingDriver
from validation.memory.victim import WHATS
from validation.memory.world import World

ROOT = Path(__file__).resolve().parents[3]


def test_every_step_in_miniature() -> None:
    done = {name: step() for name, step in card_run.steps(fake_world(), fake=True)}
    assert len(done) == 9
    # What a fake card cannot tell is not printed as if it had been seen.
    assert done["killed"] == {"kills": len(WHATS), "memory given back": card_run.UNTRIED}
    assert done["reclaim"]["ratio"] == card_run.UNTRIED
    assert not [key for figures in done.values() for key in figures if " ms" in key]


def test_sizes_are_those_of_real_experts() -> None:
    sizes = real_sizes()
    assert sizes.blobs[0] == 2_176_000
    assert len(set(sizes.blobs)) == len(sizes.blobs)
    assert sizes.experts * sum(sizes.blobs) > sizes.cache > sizes.lend << 20


@given(place=st.floats(0, 1, exclude_max=True), at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_one_flipped_byte_is_found_and_named(place: float, at: float, flip: int) -> None:
    """Anywhere in any reclaimed slot: expert, slot, offset, what was expected and what was there."""
    world = World("sized")
    world.open()
    world.lending.lend(1)
    lent = list(world.lending.book)
    row, slot = lent[int(place * len(lent))]
    offset = int(at * world.geometry.blob(row))
    world.cache.driver = CorruptingDriver(
        world.driver, flip=(world.cache.base + int(world.slots.off[slot]) + offset, flip)
    )
    with pytest.raises(WrongBytes) as caught:
        world.lending.reclaim()
    wrong, right = caught.value, int(world.source.blob(row)[offset])
    assert (wrong.expert, wrong.slot, wrong.offset) == (world.geometry.expert(row), slot, offset)
    assert (wrong.expected, wrong.got) == (right, right ^ flip)
    assert wrong.lies is None
    assert world.cache.fatal is wrong
    assert not any(slot in world.residents().values() for _, slot in lent)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_one_swapped_pair_is_found_and_named(data: st.DataObject) -> None:
    world = World("sized")
    world.open()
    world.lending.lend(1)
    layers: dict[int, list[tuple[int, int]]] = {}
    for row, slot in world.lending.book:
        layers.setdefault(world.geometry.expert(row)[0], []).append((row, slot))
    pairs = data.draw(st.sampled_from([pairs for pairs in layers.values() if len(pairs) > 1]))
    one, two = sorted(data.draw(st.permutations(pairs))[:2], key=lambda pair: pair[1])
    addresses = (world.cache.base + int(world.slots.off[one[1]]), world.cache.base + int(world.slots.off[two[1]]))
    world.cache.driver = CorruptingDriver(world.driver, swap=addresses)
    with pytest.raises(WrongBytes) as caught:
        world.lending.reclaim()
    assert (caught.value.expert, caught.value.slot) == (world.geometry.expert(one[0]), one[1])
    assert caught.value.lies == world.geometry.expert(two[0])
    assert str(caught.value).endswith(f"; the bytes of expert {caught.value.lies} lie there")


@pytest.mark.parametrize("what", WHATS)
def test_a_killed_process_leaves_no_files(what: str, tmp_path: Path) -> None:
    """There is no state beside the memory: what is not written cannot be left behind or read by the next one."""
    words = [sys.executable, "-B", "-m", "validation.memory.victim", what, "--fake"]
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=home) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "READY\n"
        time.sleep(0.05)
        victim.kill()
    assert list(tmp_path.iterdir()) == []
    again = subprocess.run([*words, "--rounds", "1"], cwd=tmp_path, env=home, stdout=subprocess.DEVNULL, check=False)
    assert again.returncode == 0
