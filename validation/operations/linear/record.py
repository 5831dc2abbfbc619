"""Dense products by tensor cores in records: a row is one row of the products.

Dots are integers and every other operation is one float32 rounding in a fixed order, so a row's bits are the same on
every card and in every tier: the NumPy model of the definition predicts them, with no compiler and no rule of a tensor
core. What no bit tells is which card ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.formats import FORMATS, device_table
from strata.kernels import linear, linear_quantise
from strata.kernels.linear_weights import upload
from strata.kernels.paths import Path
from validation.core.challenge import chosen
from validation.core.dry_run import DryRun
from validation.core.recordable import (
    Asked,
    CannotCheckError,
    Checks,
    Claim,
    Examined,
    Launch,
    Predictor,
    Reason,
    Shown,
)
from validation.core.verdict import Verdict, within
from validation.numerics.fma import plain
from validation.operations.linear import bound, far, model, reference
from validation.operations.linear.case import LinearCase
from validation.operations.linear.inputs import Inputs, build
from validation.operations.linear.kernels import MULTIPLIERS
from validation.operations.linear.recipes import RECIPES

#: The one way in which bits are predicted.
CONTRACT = "the integer contract"
#: Checks that compare with a bound.
BOUNDED = ("bound", "baseline bound")
TIMED = ("timed new", "timed old")
#: Asked of every run, whatever its numbers.
_RAN = ("written", "written of units", "guards", "witness")
_BITS = ("bits", "units", "self bits", "self bits of units", "lost", "lost again", "repeat", "repeat of units")
_BASELINE = ("baseline bits", "baseline bits of units")
_PARTS = ("parts", "parts of units", "guards of parts", "witness of parts")
_MEASURED = ("bound", "self", "baseline bound")
#: Multiply-adds of groups up to which all rows of a case are predicted.
_AFFORDABLE = 1 << 26


class Products:
    """Bits depend on no tensor core's rule."""

    on_lanes = False
    dtype = np.dtype(np.float32)
    axis = "output"

    def parse(self, text: str) -> LinearCase:
        return LinearCase.parse(text)

    def rows(self, case: LinearCase) -> int:
        return case.rows

    def width(self, case: LinearCase) -> int:
        return case.outputs

    def rows_said(self, case: LinearCase) -> str:
        return f"{case.rows} rows"

    def place(self, case: LinearCase, row: int) -> str:
        return f"row {row} of {case.width} values"

    def matrix(self, out: np.ndarray) -> np.ndarray:
        """Every NaN has the bits 7fffffff, which a card gives: the arithmetic of a CPU makes others."""
        return np.ascontiguousarray(plain(out), dtype="<f4").reshape(-1, out.shape[-1])

    def asked(self, case: LinearCase, seed: str, index: int) -> list[Asked]:
        """The rows drawn as of every operation, the first with its bits: a proof says all, for the verifier knows
        them."""
        drawn = chosen(seed, index, self.rows(case))
        return [Asked(row, bits=row == drawn[0]) for row in drawn]

    def build(self, case: LinearCase, mode: str) -> Inputs:
        return build(case, mode)

    def arrays(self, inputs: Inputs) -> Mapping[str, np.ndarray | None]:
        """Blocks, rows, and the codebook of a format that has one."""
        table = device_table(inputs.mode)
        return {"blocks": inputs.matrix, "x": inputs.x, "codebook": table if table.size else None}

    def kernels(self, path: Path, case: LinearCase) -> Sequence[Kernel]:
        return MULTIPLIERS[path.operation].launched(path, case.rows)

    def launches(self, path: Path, case: LinearCase, multiprocessors: int | None) -> list[Launch]:
        """Those of the host code that serves: grids depend on sizes alone."""
        stage: Any = DryRun(multiprocessors)
        form = FORMATS[path.mode]
        blocks = np.broadcast_to(np.uint8(0), (case.outputs, form.row_bytes(case.width)))
        weights = upload(stage, path.mode, blocks, case.width)
        x, units, lost, out = (stage.empty((), np.float32) for _ in range(4))
        linear_quantise.quantise(stage, x, units, lost, case.rows, case.width)
        linear.launch(stage, path, weights, units, out, case.rows)
        return list(stage.launches)

    def checks(self, path: Path, case: LinearCase, card: bool) -> Checks:
        needed = {*_RAN, *_BITS, *(f"baseline {name}" for name in _RAN), *_BASELINE}
        needed |= set(_PARTS) if case.rows > 1 else set()
        needed |= set(far.names(path)) if RECIPES[case.recipe].far and not card else set()
        return Checks(
            frozenset(needed | set(_MEASURED)), (TIMED,), frozenset(BOUNDED), ("bits",), case.rows * case.outputs
        )

    def claim(self, checks: Sequence[Mapping[str, Any]]) -> Claim | None:
        for check in checks:
            figures = check["figures"]
            if check["name"] == "bits" and "compared" in figures:
                return Claim((), figures["compared"], figures["differing"])
        return None

    def claims(self, subject: Examined) -> Iterator[str]:
        """Every case compares all of its products with the model."""
        for index, ((_, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
            claim, verdict = item["prediction"], dict(item["checks"]).get("bits")
            if claim is None or verdict is None:
                said = "is said" if claim else "is not said"
                yield f"case {index}: bits are {verdict or 'not asked'}, and how many were compared {said}"
                continue
            most = case.rows * case.outputs
            if claim["compared"] != most:
                yield f"case {index} compared {claim['compared']} products, expected all {most}"
            if (verdict == "EXACT") != (claim["differing"] == 0) or claim["differing"] > claim["compared"]:
                said = f"{claim['differing']} of {claim['compared']} products differ"
                yield f"case {index} says that {said}, and its bits are {verdict}"
            if claim["readings"]:
                yield f"case {index} followed {claim['readings'][0]}; these bits follow no rule of a card"

    def numbers(self, shown: Shown) -> Iterator[Reason]:
        """Every product of a row that is shown with its bits is within its bound of FP64, where one is promised."""
        case, inputs = shown.case, shown.inputs
        rows = [row for row in shown.rows if row.got is not None]
        if not rows:
            return
        x = inputs.x[[row.row for row in rows]]
        w = reference.exact(inputs.mode, inputs.matrix)
        limits = bound.limits(inputs.mode, w, x)
        outputs = np.isfinite(w.mass).all(axis=1)
        kept = reference.Exact(w.values[outputs], w.mass[outputs])
        for at, row in enumerate(rows):
            sound = limits.sound[at][outputs]
            if not sound.any():
                continue
            assert row.got is not None
            due = reference.product(kept, x[at : at + 1])[0][sound]
            check = within("row", row.got[outputs][sound], due, limits.bound[at][outputs][sound], axes=("output",))
            if check.verdict is Verdict.VOID:
                said = f"{shown.path.name} {case.brief()}: the verifier's own bound is void: {check.reason}"
                raise CannotCheckError(said)
            shown.bounded += 1
            if not check.verdict.passes:
                yield "numbers", f"row {row.row} ({self.place(case, row.row)}): {check.reason}"

    def readings(self, subject: Examined) -> tuple[str, ...]:
        return (CONTRACT,)

    def affordable(self, case: LinearCase) -> bool:
        return case.rows * case.outputs * case.width <= _AFFORDABLE * 32

    def predict(self, reading: str, predictor: Predictor | None, shown: Shown, rows: np.ndarray) -> np.ndarray:
        """By the model."""
        given: Inputs = shown.inputs.rows(rows)

        def made() -> np.ndarray:
            return self.matrix(model.bits(given.mode, given.matrix, given.x).out)

        key = (shown.case, shown.path.mode, rows.tobytes())
        found: np.ndarray = shown.memo.get("linear rows", key, made)
        return found
