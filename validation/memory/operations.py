"""What is done while driver calls fail: each operation's preparation, act, way back, and what each failure must lead to.

Outcomes: `done`; `refused`, an error with the engine going on; `fatal`, the process must end. A code that loses the
context is fatal everywhere, but for an engine that has not opened yet: that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from validation.memory.world import World

DONE, REFUSED, FATAL = "done", "refused", "fatal"


def _nothing(world: World) -> None:
    """Nothing to prepare."""


@dataclass(frozen=True)
class Operation:
    """prepare: without faults; act: with one; back: without faults again, after `done` and after `refused`, to the
    state in which every row is home. expected: the outcome by the name of the call that failed."""

    name: str
    prepare: Callable[[World], None]
    act: Callable[[World], None]
    back: Callable[[World], None]
    expected: Mapping[str, str]
    opens: bool = False


def _lend(world: World) -> None:
    world.lending.lend(1)


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


def _close(world: World) -> None:
    world.cache.close()


#: Reading and writing the card when what is there afterwards would be unknown.
_COPIES = {"copy_in": FATAL, "wait_stream": FATAL, "compare_all": FATAL, "synchronize": FATAL}

OPERATIONS = (
    Operation(
        "open",
        _nothing,
        World.open,
        World.open,
        dict.fromkeys(("granularity", "reserve", "create", "map", "set_access", "stream", "fill", *_COPIES), REFUSED),
        opens=True,
    ),
    Operation("LEND", _nothing, _lend, _reclaim, _COPIES | {"unmap": REFUSED, "release": DONE}),
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
)
