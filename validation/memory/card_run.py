"""What is tried on a card, step by step: a step returns its figures and raises StepError when something is wrong."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.pieces import MiB
from strata.memory.cache.verification import WrongBytes, verify
from strata.memory.driver.errors import Refused
from strata.memory.loan.head import HeadPhase
from validation.memory.bench_world import BenchWorld
from validation.memory.corrupting_driver import CorruptingDriver
from validation.memory.victim import WHATS

#: A reclaim with every byte verified may take so many times the plain copy of the same bytes: one copy to fill, one to
#: compare, and half of one for mapping, bookkeeping and waiting.
MOST_RATIO = 2.5
ROUNDS = 5
PHASES = 100
#: Seconds in which a process that has ended gives its memory back.
PATIENCE_S = 20
#: In place of a figure that only a card has.
UNTRIED = "not tried: a fake card"
_ROOT = Path(__file__).resolve().parents[2]
Figures = dict[str, float | int | str]


class StepError(StrataError):
    """What was expected did not happen."""


def expect(holds: bool, otherwise: str) -> None:
    """Raises StepError unless it holds."""
    if not holds:
        raise StepError(otherwise)


def steps(world: BenchWorld, fake: bool) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """The steps in order, by name."""
    yield "open", lambda: opened(world)
    yield "graph", lambda: graph_and_borrower(world)
    yield "reclaim", lambda: timed_reclaims(world, fake)
    yield "refused", lambda: refused_while_taken(world)
    yield "flipped byte", lambda: flipped(world)
    yield "swapped pair", lambda: swapped(world)
    yield "phases", lambda: phases(world, fake)
    yield "killed", lambda: killed(world, fake)
    yield "close", lambda: closed(world)


def opened(world: BenchWorld) -> Figures:
    """Open the cache; every byte of every slot is its expert's."""
    began = time.perf_counter()
    world.open()
    seconds = time.perf_counter() - began
    compared = _all_verified(world)
    return {
        "slots": len(world.cache.slots),
        "slot bytes": f"{min(world.sizes.blobs):,} to {max(world.sizes.blobs):,}",
        "granularity": world.driver.granularity(),
        "compared bytes": compared,
        "seconds": round(seconds, 1),
    }


def graph_and_borrower(world: BenchWorld) -> Figures:
    """A graph is captured, the tail lent, another process writes over it and leaves, and the graph is replayed."""
    cache, driver = world.cache, world.driver
    pairs = cache.residency.resident(0)
    some = [pairs[0], pairs[len(pairs) // 3], pairs[-2], pairs[-1]]
    ranges = [(cache.arena.address(int(cache.slots.off[slot])), cache.geometry.blob(row)) for row, slot in some]
    expected = np.concatenate([cache.source.blob(row) for row, _ in some])
    graph = driver.capture(ranges)
    expect(np.array_equal(graph.launch(), expected), "the graph reads other bytes before the loan")
    free, _ = driver.mem_info()
    lent = world.lending.lend(world.sizes.lend)
    expect(lent.mib >= world.sizes.lend, f"{lent.mib} MiB were lent, expected {world.sizes.lend}")
    given = driver.mem_info()[0] - free
    expect(given >> 20 == lent.mib, f"free memory rose by {given >> 20} MiB, LENT says {lent.mib}")
    borrower = world.borrow(lent.mib * MiB)
    borrower.leave()
    back = world.lending.reclaim()
    expect(back.experts == lent.experts, f"{back.experts} experts came back, expected {lent.experts}")
    _settled(world, free, "after the loan")
    expect(np.array_equal(graph.launch(), expected), "the graph that was captured before reads other bytes after it")
    if hasattr(graph, "close"):
        graph.close()
    return {"lent MiB": lent.mib, "experts": lent.experts, "borrowed bytes": borrower.nbytes}


def timed_reclaims(world: BenchWorld, fake: bool) -> Figures:
    """LEND and RECLAIM with every byte verified, beside the plain page-locked copy of the same bytes.

    On a fake card the bytes are counted, and no time is told: its copies are not a card's.
    """
    cache, driver = world.cache, world.driver
    lend, reclaim, plain = [], [], []
    stream = driver.stream()
    scratch = None
    for _ in range(ROUNDS):
        began = time.perf_counter()
        world.lending.lend(world.sizes.lend)
        lend.append(time.perf_counter() - began)
        wanted = sum(cache.geometry.blob(row) for row, _ in world.lending.book)
        began = time.perf_counter()
        world.lending.reclaim()
        reclaim.append(time.perf_counter() - began)
        compared = world.lending.verified.nbytes
        expect(compared == wanted, f"{compared} bytes were compared, expected {wanted}")
        if scratch is None:
            scratch = _taken(driver, wanted)
        began = time.perf_counter()
        driver.copy_in(scratch[0], world.host[:wanted], stream)
        driver.wait_stream(stream)
        plain.append(time.perf_counter() - began)
    assert scratch is not None
    _given(driver, *scratch)
    ratio = median(reclaim) / median(plain)
    expect(fake or ratio <= MOST_RATIO, f"reclaim took {ratio:.2f} times the plain copy, expected {MOST_RATIO}")
    if fake:
        return {"bytes": wanted, "rounds": ROUNDS, "ratio": UNTRIED}
    return {
        "bytes": wanted,
        "LEND ms": round(1e3 * median(lend), 2),
        "RECLAIM ms": round(1e3 * median(reclaim), 2),
        "plain copy ms": round(1e3 * median(plain), 2),
        "ratio": round(ratio, 3),
    }


def refused_while_taken(world: BenchWorld) -> Figures:
    """RECLAIM is refused while another process has the memory, also while it is slow to leave, and succeeds then."""
    world.lending.lend(world.sizes.lend)
    borrower: Any = world.borrow_all_but(64 * MiB)
    refusals = 0
    try:
        for told in (False, True):
            if told and hasattr(borrower, "told"):
                borrower.told()
            try:
                world.lending.reclaim()
                raise StepError("RECLAIM was carried out although the memory was taken")
            except Refused:
                refusals += 1
    finally:
        borrower.leave()
    until = time.perf_counter() + PATIENCE_S
    while True:  # the system may give memory back a little after the process has ended
        try:
            world.lending.reclaim()
            break
        except Refused:
            expect(time.perf_counter() < until, "RECLAIM is still refused after the borrower has left")
            time.sleep(0.05)
    return {"refused": refusals, "compared bytes": _all_verified(world)}


def flipped(world: BenchWorld) -> Figures:
    """One bit of one byte of a reclaimed slot is another: it is found and named."""
    lent = _victims(world)
    row, slot = lent[len(lent) // 2]
    offset = world.cache.geometry.blob(row) - 3
    right = int(world.cache.source.blob(row)[offset])
    wrong = _meddled(world, flip=(_address(world, slot) + offset, 0x10))
    said = (wrong.expert, wrong.slot, wrong.offset, wrong.expected, wrong.got)
    expect(said == (world.cache.geometry.expert(row), slot, offset, right, right ^ 0x10), f"it was named {said}")
    return {"named": str(wrong)}


def swapped(world: BenchWorld) -> Figures:
    """Two experts change places: the first is found and named, and so is the one whose bytes lie in its slot."""
    geometry = world.cache.geometry
    lent = _victims(world)
    same = [pair for pair in lent if geometry.expert(pair[0])[0] == geometry.expert(lent[0][0])[0]]
    (_, one), (other, two) = same[1], same[-1]
    wrong = _meddled(world, swap=(_address(world, one), _address(world, two)))
    said = (wrong.slot, wrong.expert, wrong.lies)
    expect(said == (one, geometry.expert(same[1][0]), geometry.expert(other)), f"it was named {wrong}")
    return {"named": str(wrong)}


def phases(world: BenchWorld, fake: bool) -> Figures:
    """Phase changes: the head stays at its address, the sum of handles and the free memory stay the same."""
    alias = world.alias()
    head, driver, cache = alias.head, world.driver, world.cache
    address = head.address
    graph = driver.capture([(address, min(head.content.size, MiB))])
    expected = head.content[: min(head.content.size, MiB)]
    expect(np.array_equal(graph.launch(), expected), "a graph reads another head")
    free = driver.mem_info()[0]
    held = cache.arena.mapped_bytes + head.arena.mapped_bytes
    enter, leave = [], []
    for number in range(PHASES):
        began = time.perf_counter()
        workspace = alias.enter(world.sizes.fresh)
        enter.append(time.perf_counter() - began)
        expect(alias.phase is HeadPhase.PROMPT, f"change {number}: {alias.note}")
        expect(alias.window.mapped_bytes + cache.arena.mapped_bytes == held, f"change {number}: other memory is held")
        expect(driver.mem_info()[0] == free, f"change {number}: other memory is free while a prompt is read")
        for block in workspace.blocks:
            if block.nbytes:
                driver.fill(block.address, 0x5A, block.nbytes)
        began = time.perf_counter()
        alias.leave()
        leave.append(time.perf_counter() - began)
        expect(head.address == address, f"change {number}: the head is at {head.address:#x}, it was at {address:#x}")
        expect(cache.arena.mapped_bytes + head.arena.mapped_bytes == held, f"change {number}: other memory is held")
        expect(driver.mem_info()[0] == free, f"change {number}: other memory is free while decoding")
        expect(np.array_equal(graph.launch(), expected), f"change {number}: a graph reads another head")
    compared = _all_verified(world)
    if hasattr(graph, "close"):
        graph.close()
    plan = f"{workspace.chunk}/{workspace.ring}"
    alias.close()
    head.arena.close()
    figures: Figures = {
        "changes": PHASES,
        "plan": plan,
        "head bytes": head.content.size,
        "compared bytes": compared,
    }
    if not fake:
        figures |= {"enter ms": round(1e3 * median(enter), 2), "leave ms": round(1e3 * median(leave), 2)}
    return figures


def killed(world: BenchWorld, fake: bool) -> Figures:
    """A process is killed in LEND, RECLAIM, the head's alias or a prompt loan: nothing stays on the card, and the next
    one starts.

    On a fake card that says only that the processes start, die and start again: each has a card of its own, so nothing
    of them could stay on this one. What the system gives back needs a real card.
    """
    free = world.driver.mem_info()[0]
    draw = random.Random(5)
    waited = 0.0
    kills = 0
    for what in WHATS:
        words = [sys.executable, "-m", "validation.memory.victim", what, *(["--fake"] if fake else [])]
        for _ in range(1 if fake else 3):
            victim = subprocess.Popen(words, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
            assert victim.stdout is not None
            expect(victim.stdout.readline() == "READY\n", f"the process for {what} did not become ready")
            time.sleep(draw.uniform(0.0, 0.2))
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            kills += 1
            if not fake:
                waited = max(waited, _settled(world, free, f"after a kill in {what}"))
        done = subprocess.run([*words, "--rounds", "1"], cwd=_ROOT, stdout=subprocess.DEVNULL, check=False)
        expect(done.returncode == 0, f"the process after a kill in {what} ended with {done.returncode}")
    if fake:
        return {"kills": kills, "memory given back": UNTRIED}
    return {"kills": kills, "longest wait s": round(waited, 2)}


def closed(world: BenchWorld) -> Figures:
    """Everything is given back."""
    world.close()
    return {}


def _settled(world: BenchWorld, free: int, when: str) -> float:
    """Wait until as much is free as there was; the system may take a moment. Returns seconds."""
    began = time.perf_counter()
    while (now := world.driver.mem_info()[0]) != free:
        expect(time.perf_counter() - began < PATIENCE_S, f"{now} bytes are free {when}, {free} were before")
        time.sleep(0.01)
    return time.perf_counter() - began


def _all_verified(world: BenchWorld) -> int:
    """Compare every resident slot on the card; returns the bytes compared."""
    cache = world.cache
    pairs = cache.residency.resident(0)
    return verify(cache.arena, cache.slots, cache.source, pairs, len(pairs)).nbytes


def _victims(world: BenchWorld) -> list[tuple[int, int]]:
    world.lending.lend(world.sizes.lend)
    return list(world.lending.book)


def _meddled(world: BenchWorld, **how: Any) -> WrongBytes:
    """RECLAIM through a driver that meddles; then the world is opened anew, because that was fatal."""
    cache = world.cache
    driver = cache.driver
    cache.driver = CorruptingDriver(driver, **how)
    try:
        world.lending.reclaim()
    except WrongBytes as wrong:
        return wrong
    finally:
        cache.driver = driver
        cache.close()
        world.reopen()
    raise StepError("RECLAIM verified bytes that are wrong")


def _address(world: BenchWorld, slot: int) -> int:
    return world.cache.arena.address(int(world.cache.slots.off[slot]))


def _taken(driver: Any, nbytes: int) -> tuple[int, int, int]:
    size = -(-nbytes // driver.granularity()) * driver.granularity()
    va, handle = driver.reserve(size), driver.create(size)
    driver.map(va, size, handle)
    driver.set_access(va, size)
    return va, size, handle


def _given(driver: Any, va: int, size: int, handle: int) -> None:
    driver.synchronize()
    driver.unmap(va, size)
    driver.release(handle)
    driver.address_free(va, size)
