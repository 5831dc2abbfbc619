"""Which cases of visible cells the profiles have."""

from __future__ import annotations

from collections.abc import Iterator

from strata.kernels.visible_cells import EACH, LAST, THREADS
from validation.core.entry import Planned
from validation.operations.visible_cells.case import CellsCase
from validation.operations.visible_cells.recipes import EDITION

_PART = THREADS * EACH
#: First cell, rows and window of quick cases by recipe, and what the standard profile has besides.
_QUICK = {
    "cells_chunk": ((0, 1, 1), (0, 7, 2), (1000, 1, 512), (1, 5, 1), (523, 11, 13), (97, 3, 512)),
    "cells_filling": ((0, 13, 5), (508, 9, 512), (510, 1, 512), (511, 1, 512), (512, 1, 512)),
    "cells_wide": ((0, 3, 64), (9, 2, 4096), (126, 3, 1031)),
    "cells_parts": tuple((5000, 2, at + beside) for at in (THREADS, _PART, 3 * _PART) for beside in (-1, 0, 1)),
    "cells_beyond": (((1 << 24) - 2, 5, 7), ((1 << 30) + 1, 3, 513), (LAST - 3, 4, 512), (LAST, 1, 1)),
    "cells_far": ((40, 3, 16),),
}
_STANDARD = {
    "cells_chunk": ((0, 2048, 512), (30720, 2048, 512), (8191, 257, 4096)),
    "cells_beyond": ((LAST - 1023, 1024, 1024),),
}


def _cases(seed: int, profile: str) -> Iterator[CellsCase]:
    for asked in (_QUICK,) if profile == "quick" else (_QUICK, _STANDARD):
        for name, sizes in asked.items():
            for size in sizes:
                yield CellsCase(name, seed, *size)


def planned(seed: int, profile: str) -> list[Planned]:
    """The cases of a profile."""
    return [Planned(case, flavor="checked", edition=EDITION) for case in _cases(seed, profile)]
