"""An expert path's results against what is known of them: bits, three steps against FP64, the whole, the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from validation.core.operation import Trial
from validation.core.verdict import Check
from validation.operations.experts import checks, expected_hidden, expected_rows, published
from validation.operations.experts.arithmetic import Arithmetic
from validation.operations.experts.expected_hidden import Fronts
from validation.operations.experts.expected_rows import Known
from validation.operations.experts.sampling import modelled, referenced
from validation.operations.experts.under_test import Outcome


@dataclass(frozen=True, eq=False)
class Measured:
    """What is known of a case.

    Parameters
    ----------
    pairs
        int64 [p], those that are known, sorted.
    whole
        Whether they are all that name an expert.
    own, base
        What they must come to on the path and on its baseline, None where that did not run.
    """

    pairs: np.ndarray
    whole: bool
    own: Known
    base: Known | None


def known(trial: Trial, own: Arithmetic, base: Arithmetic | None) -> Measured:
    """What is known of a case in the arithmetic of its path and, where it ran, of its baseline."""
    case, data, path, memo = trial.case, trial.inputs, trial.path, trial.memo
    pairs, whole = modelled(case, data, trial.settings.predict == "all")
    held, arithmetics = base is not None, [one for one in (own, base) if one is not None]
    some = referenced(case, data, pairs)
    begun: Fronts = memo.get(
        f"fronts of {path.operation}",
        (case, data.gate_up, whole, held),  # modes that differ in down alone share them
        lambda: expected_hidden.fronts(data, pairs, some, arithmetics),
    )
    of: tuple[Known, ...] = memo.get(
        f"known of {path.operation}",
        ((case, path.mode), whole, held),
        lambda: expected_rows.known(data, pairs, some, arithmetics, begun),
    )
    return Measured(pairs, whole, of[0], of[1] if held else None)


def against(trial: Trial, due: Measured) -> list[Check]:
    """Every check of the results, whose figures go into those of the case."""
    case, data, first = trial.case, trial.inputs, trial.outcome.own
    out = checks.of_bits("bits", first, due.own.bits, due.whole) if len(due.pairs) else []
    out += checks.finite(case, data, first, due.own.bits, due.whole)
    if due.own.model is not None:
        out += _referred(trial, first, due.own)
        trial.found.figures |= {"pairs_predicted": len(due.pairs), "pairs_referenced": len(due.own.referenced)}
    if due.base is not None and trial.old is not None:
        out += _baseline(trial, trial.old.outcome.own, due.base)
    return out


def _referred(trial: Trial, first: Outcome, own: Known) -> list[Check]:
    """The referenced pairs against FP64: step by step, as a whole, and whether the bounds refuse wrong answers."""
    model, whole = own.model, own.arithmetic.whole
    assert model is not None
    out, down = checks.of_steps(first, own)
    got = checks.rows(first.out, model.pairs)
    if whole:
        out.append(checks.limited("bound", got, model.rounded, model.pairs))
    due = model.rounded if whole else down
    if due is not None:
        out.append(checks.battery(model.pairs, due, trial.inputs))
    out.append(checks.refused_bit(first.out))
    trial.found.figures |= {f"new_{name}": value for name, value in checks.errors(got, model).items()}
    return out


def _baseline(trial: Trial, old: Outcome, due: Known) -> list[Check]:
    """Whether the baseline is right itself, and how far both are from FP64 on the float32 tokens."""
    out = checks.of_bits("baseline bits", old, due.bits, False) if len(due.bits.pairs) else []
    if due.model is None:
        return out
    got = checks.rows(old.out, due.referenced)
    out.append(checks.limited("baseline bound", got, due.model.rounded, due.referenced))
    trial.found.figures |= {f"old_{name}": value for name, value in checks.errors(got, due.model).items()}
    if checks.as_published(trial.case):
        out += published.gates(trial.found.figures)
    return out
