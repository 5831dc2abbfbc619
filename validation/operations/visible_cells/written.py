"""Outputs of visible cells in one form: steps as they are, ids with one value where nothing may be written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strata.kernels.visible_cells import UNWRITTEN, Visible
from validation.core.outcome import Arrays, Output
from validation.operations.visible_cells.reference import NOTHING

_STEPS = Output(("row", "word"), np.int32)
OUTPUTS = {"ids_local": Output(("row", "place"), np.int32), "steps_global": _STEPS, "steps_local": _STEPS}


def outputs(chunks: Sequence[Visible]) -> tuple[Arrays, int]:
    """The outputs of some chunks one after another, and how many places behind the last of a row were written to."""
    ids = np.concatenate([one.ids_local for one in chunks])
    steps = {name: np.concatenate([getattr(one, name) for one in chunks]) for name in ("steps_global", "steps_local")}
    behind = np.arange(ids.shape[1]) >= steps["steps_local"][:, 3:]
    strayed = int((ids.view(np.uint32)[behind] != UNWRITTEN).sum())
    return {"ids_local": np.where(behind, np.int32(NOTHING), ids), **steps}, strayed
