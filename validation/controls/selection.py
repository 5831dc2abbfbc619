"""Negative and positive controls of block selection: wrong cells and scores given to the real runner, each with the
check that must refuse it; see `experts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from strata.kernels.paths import PATHS
from strata.kernels.selection import BLOCK, UNWRITTEN, Result
from validation.controls.experts import said
from validation.core.control import Control
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.settings import Settings
from validation.core.stub_executor import StubCard
from validation.operations.block_select.case import SelectCase
from validation.operations.block_select.operation import BlockSelect
from validation.operations.block_select.scorers import Scorer
from validation.operations.block_select.stub_kernels import Asked, Fault, Score, chooser, scorer
from validation.operations.block_topk.operation import BlockTopk

#: A card whose rule is known, so that every bit of every path is.
CARD = StubCard()
SIMT, TENSOR, TOPK = PATHS["block_select/fp32/simt"], PATHS["block_select/fp32/sm80"], PATHS["block_topk/fp32/simt"]


def case(recipe: str) -> SelectCase:
    """A small case: an incomplete block, and a cut inside one."""
    return SelectCase(recipe, 5, 4 * 17 + 3, 4, 30)


def judged(own: Scorer, recipe: str, base: Scorer | None = None, path: str = SIMT.name) -> Findings:
    """A case on stand-ins. base: of the baseline, healthy by default."""
    name = PATHS[path].operation
    operation = BlockSelect(name, {"block_select": scorer(), "block_select_warp": base or scorer(), name: own})
    return operation.judge(Trial(operation, case(recipe), PATHS[path], CARD, Settings(), Memo()))


def _asked(recipe: str, check: str, fault: Fault | None, scored: Score | None = None) -> str:
    return said(judged(scorer(fault, scored), recipe), check)


def _ids(change: Callable[[np.ndarray, Asked], None], when: Callable[[Asked], bool] = lambda asked: True) -> Fault:
    """ids changed in place, in some runs."""

    def fault(made: Result, asked: Asked) -> Result:
        if not when(asked):
            return made
        ids = made.ids.copy()
        change(ids, asked)
        return made._replace(ids=ids)

    return fault


def _scores(change: Callable[[np.ndarray, Asked], None], when: Callable[[Asked], bool] = lambda asked: True) -> Fault:
    """Scores changed in place, in some runs, after cells were chosen by those before."""

    def fault(made: Result, asked: Asked) -> Result:
        if not when(asked):
            return made
        scores = made.scores.copy()
        change(scores, asked)
        return made._replace(scores=scores)

    return fault


def _first_unchosen(ids: np.ndarray, asked: Asked) -> None:
    """The first cell of the last query that is not chosen, for the first that is: no longer the best."""
    width = int(asked.steps[-1, 3])
    chosen = ids[-1, :width]
    other = np.setdiff1d(np.arange(asked.steps[-1, 1]), chosen)[0]
    ids[-1, :width] = np.sort(np.append(chosen[1:], other))


def _turned(ids: np.ndarray, asked: Asked) -> None:
    width = int(asked.steps[-1, 3])
    ids[-1, :width] = ids[-1, :width][::-1].copy()


def _without_tail(ids: np.ndarray, asked: Asked) -> None:
    """The best cell that was not chosen for the tail's last."""
    width, complete = int(asked.steps[-1, 3]), int(asked.steps[-1, 2]) * BLOCK
    chosen = ids[-1, :width]
    other = np.setdiff1d(np.arange(complete), chosen)[:1]
    ids[-1, :width] = np.sort(np.append(chosen[:-1], other))


def _one_behind(ids: np.ndarray, asked: Asked) -> None:
    """Another place behind the cells of a query, written to."""
    place = int(asked.steps[0, 3])
    ids[0, place:] = 0


def _cell_never_written(ids: np.ndarray, asked: Asked) -> None:
    ids.view(np.uint32)[0, 0] = UNWRITTEN


def _one_bit(scores: np.ndarray, asked: Asked) -> None:
    scores.view(np.uint32)[-1, 0] ^= 1


def _later(asked: Asked) -> bool:
    return asked.run > 1 and asked.reach is None


def _reaching(asked: Asked) -> bool:
    return asked.reach is not None


#: fault, recipe, the check that must refuse it, what is wrong.
ROWS: tuple[tuple[str, str, str, Fault], ...] = (
    ("a worse cell", "select_bell", "choice", _ids(_first_unchosen)),
    ("a worse cell, by its bits", "select_bell", "bits", _ids(_first_unchosen)),
    ("cells in descending order", "select_bell", "choice", _ids(_turned)),
    ("the tail left out", "select_equal", "choice", _ids(_without_tail)),
    ("a later block of a tie", "select_ties", "choice", _ids(_without_tail)),
    ("a place behind the cells", "select_lengths", "strayed", _ids(_one_behind)),
    ("a cell never written", "select_bell", "written", _ids(_cell_never_written)),
    ("one bit of a score", "select_bell", "scores", _scores(_one_bit)),
    ("one cell in another order of queries", "select_bell", "repeat", _ids(_first_unchosen, _later)),
    ("one bit in another order of queries", "select_bell", "repeat of scores", _scores(_one_bit, _later)),
    ("one cell with all that there is room for", "select_bell", "reach", _ids(_first_unchosen, _reaching)),
    ("one bit with all that there is room for", "select_bell", "reach of scores", _scores(_one_bit, _reaching)),
    ("nothing launched", "select_bell", "witness", lambda made, asked: made._replace(witnesses=[])),
    ("memory beside a buffer", "select_bell", "guards", lambda made, asked: made._replace(guards_ok=False)),
)
#: Of scores that cells are chosen by: fault, recipe, the check, what is wrong.
SCORED: tuple[tuple[str, str, str, Score], ...] = (
    ("scores of zero", "select_bell", "bound", lambda s: s * np.float32(0)),
    ("a thousandth more", "select_bell", "bound", lambda s: s * np.float32(1.001)),
    (
        "a small number for every block",
        "select_bell",
        "bound",
        lambda s: s - np.float32(1e-3) * np.arange(s.shape[1], dtype=np.float32),
    ),
    ("blocks of another's scores", "select_bell", "near ties", lambda s: s[:, ::-1].copy()),
    ("a NaN as the largest", "select_broken", "scores", lambda s: np.where(np.isnan(s), np.float32(np.inf), s)),
)


#: Of the choice from given scores: fault, recipe, the scores that cells are chosen by.
CHOSEN: tuple[tuple[str, str, Score], ...] = (
    ("a NaN as the largest", "topk_nan", lambda s: np.where(np.isnan(s), np.float32(np.inf), s)),
    ("a NaN as zero", "topk_nan", lambda s: np.where(np.isnan(s), np.float32(0), s)),
    ("-0 below +0", "topk_zeros", lambda s: np.where((s == 0) & np.signbit(s), np.float32(-1e-45), s)),
    ("subnormals as zero", "topk_subnormals", np.zeros_like),
    ("large numbers and infinities as one", "topk_infinities", lambda s: np.minimum(s, np.float32(1))),
    ("an octet left out", "topk_digits", lambda s: (s.view(np.uint32) & np.uint32(0xFFFF00FF)).view(np.float32)),
    (
        "a small number taken from later blocks",
        "topk_levels",
        lambda s: s + np.float32(1e-6) * np.arange(s.shape[1], dtype=np.float32),
    ),
)


def chosen(own: Callable[..., Result], recipe: str) -> Findings:
    """A case of the choice from given scores, on a stand-in."""
    operation = BlockTopk(own)
    return operation.judge(Trial(operation, case(recipe), TOPK, CARD, Settings(), Memo()))


def _topk(recipe: str, check: str, scored: Score | None = None) -> str:
    return said(chosen(chooser(scored), recipe), check)


def _wrong_baseline(scored: Score, check: str) -> str:
    return said(judged(scorer(), "select_bell", scorer(scored=scored)), check)


def negative() -> Iterator[Control]:
    """Faults of scores, of the choice, and of what lies behind them."""
    for name, recipe, check, fault in ROWS:
        yield Control(f"selection/{name}", partial(_asked, recipe, check, fault), f"EXCEEDS by {check}")
    for name, recipe, check, scored in SCORED:
        yield Control(f"selection/{name}", partial(_asked, recipe, check, None, scored), f"EXCEEDS by {check}")
    for name, recipe, scored in CHOSEN:
        yield Control(f"selection/top: {name}", partial(_topk, recipe, "bits", scored), "EXCEEDS by bits")
    for check in ("baseline bound", "near ties"):
        ask = partial(_wrong_baseline, lambda s: s[:, ::-1].copy(), check)
        yield Control(f"selection/a wrong baseline: {check}", ask, f"EXCEEDS by {check}")


def positive() -> Iterator[Control]:
    """The models themselves pass, and choose differently where scores are near."""
    for recipe in ("select_near", "select_broken", "select_zeros"):
        yield Control(f"selection/healthy {recipe}", partial(_asked, recipe, "", None), "EXACT: nothing")
    yield Control(
        "selection/healthy on tensor cores",
        lambda: said(judged(scorer(), "select_near", path=TENSOR.name), ""),
        "EXACT: nothing",
    )
    yield Control("selection/healthy top", partial(_topk, "topk_nan", ""), "EXACT: nothing")
