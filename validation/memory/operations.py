"""What is done while driver calls fail: each operation, its way back, and what each failure must lead to.

Outcomes: `done`; `refused`, an error with the engine going on; `fatal`, the process must end. A code that loses the
context is fatal everywhere, but for an engine that has not opened yet: that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from strata.memory.driver.errors import Refused
from strata.memory.driver.fault_plan import Call
from validation.memory.prompt_world import SIZES, STATE, AliasWorld, PromptWorld
from validation.memory.world import LargestWorld, World

DONE, REFUSED, FATAL = "done", "refused", "fatal"


def _nothing(world: World) -> None:
    """Nothing to prepare."""


def _already(world: World) -> None:
    """The act is its own way back."""


def _by_name(world: Any, call: Call) -> str:
    return call.name


@dataclass(frozen=True)
class Operation:
    """prepare: without faults; act: with one; back: without faults again, after `done` and after `refused`, to the
    state in which every row is home. Each takes the world that `make` makes for a kind of slots. label: what the call
    that fails is, in the words of `expected`, which has the outcome; opens: the engine begins with it; remembered: the
    engine knows of a fatal end (a part that is called by itself cannot tell it)."""

    name: str
    prepare: Callable[[Any], None]
    act: Callable[[Any], None]
    back: Callable[[Any], None]
    expected: Mapping[str, str]
    opens: bool = False
    remembered: bool = True
    make: Callable[..., World] = World
    label: Callable[[Any, Call], str] = _by_name


def _open_if_closed(world: World) -> None:
    """Smaller than asked for is opened, too, and so is what opened without a fault."""
    if not world.known_handles():
        world.open()


def _lend(world: World) -> None:
    world.lending.lend(1)


def _lend_again(world: World) -> None:
    """Refused in every way, then carried out, then asked for again: what is refused takes no row, what is repeated
    gives the same answer and takes no more. Raises AssertionError where it does."""
    rows = frozenset(range(world.geometry.rows))
    for what, mib, least, absent in (
        ("a LEND of more than there is", 1 << 20, 0, ()),
        ("a LEND that leaves too few slots", 1, len(world.slots) + 1, ()),
        ("a LEND of what the host does not hold", 1, 0, rows),
    ):
        with world.lacking(least, absent), suppress(Refused):
            raise AssertionError(f"{what} was carried out: {world.lending.lend(mib)}")
        _holds(world.residents() == world.home and world.lending.loan is None, f"{what} was refused, and took rows")
    answer = world.lending.lend(1)
    lent, mapped = world.residents(), world.cache.arena.mapped_bytes
    for mib in (1, 2, 1 << 20):
        again = world.lending.lend(mib)
        _holds(again == answer, f"a second LEND answers {again}, the first {answer}")
        _holds((world.residents(), world.cache.arena.mapped_bytes) == (lent, mapped), "a second LEND lends more")


def _holds(right: bool, otherwise: str) -> None:
    if not right:
        raise AssertionError(otherwise)


def _reclaim(world: World) -> None:
    world.lending.reclaim()


def _shrink(world: World) -> None:
    world.resizing.shrink(world.cache.arena.total // 3)


def _grow(world: World) -> None:
    world.resizing.grow(world.cache.arena.total)


def _use(world: World) -> None:
    """Misses of every layer become hotter than residents."""
    resident = world.residents()
    world.tier.count([row for row in range(world.geometry.rows) if row not in resident for _ in range(3)])


def _swap(world: World) -> None:
    world.tier.end_window()


def _begin(world: World) -> None:
    _use(world)
    _swap(world)


def _land(world: World) -> None:
    world.cache.begin_window()


def _rehome(world: World) -> None:
    """Swaps do not go back: where rows are now is home."""
    _land(world)
    world.home = world.residents()


def _of_the_head(world: AliasWorld, call: Call) -> str:
    """Copies of the head are tried again, those of experts and of the table are not."""
    if call.name in ("copy_in", "compare") and world.head.address <= call.args[0] < world.head.address + SIZES["H"]:
        return f"{call.name} of the head"
    return call.name


def _release(world: PromptWorld) -> None:
    world.resources.release("V")
    world.resources.release("HX")


def _restore(world: PromptWorld) -> None:
    world.resources.restore()
    world.verifier.apply(STATE)


def _read(world: PromptWorld) -> None:
    world.begin()
    world.read()


def _read_and_end(world: PromptWorld) -> None:
    world.read()
    world.end()


def _enter_and_read(world: AliasWorld) -> None:
    world.enter()
    world.read()


def _read_and_leave(world: AliasWorld) -> None:
    world.read()
    world.leave()


#: Reading and writing the card when what is there afterwards would be unknown.
_COPIES = {"copy_in": FATAL, "wait_stream": FATAL, "compare_all": FATAL, "synchronize": FATAL}

OPERATIONS = (
    Operation(
        "open",
        _nothing,
        World.open,
        _open_if_closed,
        dict.fromkeys(("granularity", "reserve", "create", "map", "set_access", "stream", "fill", *_COPIES), REFUSED),
        opens=True,
    ),
    Operation(
        "open the largest",
        _nothing,
        World.open,
        _open_if_closed,
        # An opening that the card refuses is tried again with fewer bytes; once the table is written, it is refused.
        dict.fromkeys(("granularity", "reserve", "create", "map", "set_access", "stream", "fill"), DONE)
        | dict.fromkeys(("mem_info", *_COPIES), REFUSED),
        opens=True,
        make=LargestWorld,
    ),
    Operation("LEND", _nothing, _lend, _reclaim, _COPIES | {"unmap": REFUSED, "release": DONE}),
    Operation("LEND again", _nothing, _lend_again, _reclaim, _COPIES | {"unmap": REFUSED, "release": DONE}),
    Operation(
        "RECLAIM",
        _lend,
        _reclaim,
        _reclaim,
        _COPIES | {"mem_info": REFUSED, "create": REFUSED, "map": REFUSED, "set_access": REFUSED},
    ),
    Operation("shrink", _nothing, _shrink, _grow, _COPIES | {"unmap": REFUSED, "release": DONE}),
    Operation("grow", _shrink, _grow, _grow, _COPIES | {"create": DONE, "map": DONE, "set_access": DONE}),
    Operation("swap", _use, _swap, _rehome, _COPIES),
    Operation("land", _begin, _land, _rehome, _COPIES),
    Operation(
        "release",
        _nothing,
        _release,
        _restore,
        {"synchronize": FATAL, "unmap": REFUSED, "release": DONE},
        remembered=False,
        make=PromptWorld,
    ),
    Operation(
        "restore",
        _release,
        _restore,
        _restore,
        dict.fromkeys(("create", "map", "set_access", "copy_in", "copy_out", "compare"), REFUSED),
        remembered=False,
        make=PromptWorld,
    ),
    # A refused release is undone and the prompt read without it; whatever fails on the way back to decoding is the end.
    Operation(
        "enter prompt",
        _nothing,
        PromptWorld.begin,
        _read_and_end,
        _COPIES | dict.fromkeys(("unmap", "release", "mem_info", "create", "map", "set_access"), DONE),
        make=PromptWorld,
    ),
    Operation(
        "leave prompt",
        _read,
        PromptWorld.end,
        _already,
        _COPIES
        | dict.fromkeys(("unmap", "create", "map", "set_access", "copy_out", "compare"), FATAL)
        | {"release": DONE},
        make=PromptWorld,
    ),
    # Its memory moves: a refused entry is undone, the way back is tried once more.
    Operation(
        "enter alias",
        _nothing,
        AliasWorld.enter,
        _read_and_leave,
        _COPIES | dict.fromkeys(("unmap", "map", "set_access"), DONE),
        make=AliasWorld,
        label=_of_the_head,
    ),
    Operation(
        "leave alias",
        _enter_and_read,
        AliasWorld.leave,
        _already,
        _COPIES | dict.fromkeys(("unmap", "map", "set_access", "copy_in of the head", "compare of the head"), DONE),
        make=AliasWorld,
        label=_of_the_head,
    ),
)
