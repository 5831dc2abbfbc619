"""What queries see, from the definition, row by row in Python's integers."""

from __future__ import annotations

import numpy as np

#: What stands for a word of ids that nothing may be written to: no cell.
NOTHING = -1


def steps(cells: np.ndarray, window: int | None) -> np.ndarray:
    """int32 [T, 4]: of each query its cell, two zeros, and how many cells it sees.

    Parameters
    ----------
    cells
        Integers [T].
    window
        The most that a query sees; None for all up to its own.
    """
    rows = [(cell, 0, 0, len(seen(cell, window))) for cell in map(int, cells)]
    return np.array(rows, np.int32)


def ids(cells: np.ndarray, window: int) -> np.ndarray:
    """int32 [T, window]: the cells that each query sees, ascending, and `NOTHING` behind them."""
    out = np.full((len(cells), window), NOTHING, np.int32)
    for row, cell in zip(out, map(int, cells), strict=True):
        own = seen(cell, window)
        row[: len(own)] = np.arange(own.start, own.stop, dtype=np.int64)
    return out


def seen(cell: int, window: int | None) -> range:
    """The cells that the query of a cell sees: it and those before it, the last `window` of them."""
    return range(cell + 1) if window is None else range(cell + 1)[-window:]
