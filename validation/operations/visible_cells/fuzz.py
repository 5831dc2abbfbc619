"""Fuzzed visible cells: random chunks, each run whole and cut in two, and every word compared with the definition.

The second run is on lanes in the checked build under a permuted schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.kernels import visible_cells
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.handed import handed
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.visible_cells import reference, written
from validation.operations.visible_cells.random_cases import case


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw, and the rows of the first of two chunks."""

    index: int
    mode: str
    first: int
    rows: int
    window: int
    cut: int

    def text(self) -> str:
        return (
            f"#{self.index}: {self.rows} rows from cell {self.first}, cut after {self.cut}, a window of {self.window}"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = ("causal",), checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, the same in every build."""
    words = Stream.of(seed, "fuzz visible cells", index).words(5).tolist()
    drawn = case("cells_chunk", seed, words[:4])
    return Configuration(index, modes[index % len(modes)], drawn.first, drawn.rows, drawn.window, words[4] % drawn.rows)


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A chunk, whole and cut, against the definition. Raises UnknownOperationError for another operation's path."""
    if path.operation != "visible_cells":
        raise UnknownOperationError(path, "configuration", ("visible_cells",))
    cells = what.first + np.arange(what.rows)
    due = {
        "ids_local": reference.ids(cells, what.window),
        "steps_global": reference.steps(cells, None),
        "steps_local": reference.steps(cells, what.window),
    }
    second = other(executor, 1 + what.index % SCHEDULES)
    parts = [(what.first, what.cut), (what.first + what.cut, what.rows - what.cut)]
    run = handed(visible_cells.run)
    runs = [
        [run(executor, what.first, what.rows, what.window)],
        [run(second, first, rows, what.window) for first, rows in parts if rows],
    ]
    wrong, said = 0, list[str]()
    for chunks in runs:
        got, strayed = written.outputs(chunks)
        wrong += sum(int((got[name] != one).sum()) for name, one in due.items())
        said += [f"{strayed} places behind rows were written to"] if strayed else []
    arch = tuple(sorted({witness.arch for witness in runs[0][0].witnesses}))
    intact = all(one.guards_ok for chunks in runs for one in chunks)
    outputs = 2 * sum(one.size for one in due.values())
    return Compared(what.text(), path.name, outputs, wrong, 0, intact, "; ".join(said), arch)


KIND = FuzzKind(configuration, compare)
