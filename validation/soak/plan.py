"""What run `index` of a soak is: a small case on a path, drawn from the seed and the index alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from strata.kernels.paths import Path, select
from validation.core.operation import WORDS
from validation.core.random_streams import Stream
from validation.operations import registry
from validation.run.runner import Job

#: One run in so many is in the checked build: a prime, so that with cycles of any other length each path comes.
CHECKED_EVERY = 47
#: Orders of lanes and blocks that runs take in turn; the repeat of a run has the next one.
SCHEDULES = 4


@cache
def cycle(pattern: str = "*") -> tuple[Path, ...]:
    """The paths of a pattern in turn, by name, each as often as its operation says. Raises ValueError for a pattern
    that no path matches."""
    paths = sorted(select(pattern), key=lambda path: path.name)
    return tuple(path for path in paths for _ in range(registry.of(path).soak_turns))


CYCLE = cycle()


def job(seed: int, index: int, paths: Sequence[Path] = CYCLE) -> Job:
    """Run `index` of a seed over a cycle of paths. Every path meets every recipe within as many cycles as its
    operation takes for all of them."""
    turn, slot = divmod(index, len(paths))
    path = paths[slot]
    operation = registry.of(path)
    words = Stream.of(seed, "soak", index).words(WORDS).tolist()
    checked = index % CHECKED_EVERY == CHECKED_EVERY - 1
    case = operation.random_case(operation.random_recipe(turn + slot, words), words, checked)
    return Job(case, path, "checked" if checked else "fast", index % SCHEDULES or None)
