"""Fused experts in records: a row is one (token, rank) pair.

Dots are integers and every other operation is one float32 rounding in a fixed order, so a row's bits are the same on
every card and in every tier: the NumPy model of the definition (`operations.experts.reference`) predicts them, with no
compiler and no rule of a tensor core. What no bit tells is which card ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from strata.executors.base import Kernel
from strata.formats import device_table
from strata.kernels.paths import Path
from validation.core.arrays import frozen
from validation.core.challenge import chosen, one_of
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
from validation.operations.experts import expected, record_checks, routing
from validation.operations.experts.arithmetic import FUSED
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.dry_run import of_fused
from validation.operations.experts.inputs import Inputs, build
from validation.operations.experts.recipes import find
from validation.operations.experts.sampling import PREDICTED, work

#: The one way in which bits are predicted.
CONTRACT = "the integer contract"


class FusedExperts:
    """Bits depend on no tensor core's rule."""

    on_lanes = False
    dtype = np.dtype(np.float32)
    axis = "dim"

    def parse(self, text: str) -> ExpertCase:
        return ExpertCase.parse(text)

    def rows(self, case: ExpertCase) -> int:
        return case.pairs

    def width(self, case: ExpertCase) -> int:
        return case.n

    def rows_said(self, case: ExpertCase) -> str:
        return f"{case.tokens} tokens x {case.top} ranks"

    def place(self, case: ExpertCase, row: int) -> str:
        token, rank = divmod(row, case.top)
        return f"token {token} rank {rank}, expert {int(_ids(case)[token, rank])}"

    def matrix(self, out: np.ndarray) -> np.ndarray:
        """Every NaN has the bits 7fffffff, which a card gives: the arithmetic of a CPU makes others."""
        return np.ascontiguousarray(plain(out), dtype="<f4").reshape(-1, out.shape[-1])

    def asked(self, case: ExpertCase, seed: str, index: int) -> list[Asked]:
        """The rows drawn as of every operation, the first with its bits; and one row of every expert without one among
        these, and one of ids that name nobody: so no expert goes unasked.

        A proof says all, for the verifier knows the bits, and a row of 2,560 has 20 KB of them: they are for the bound
        of FP64, which does not rest on the model, and for people.
        """
        drawn = chosen(seed, index, self.rows(case))
        ids = _ids(case).reshape(-1)
        group = np.where(named(case).reshape(-1), ids, case.experts)
        order = np.argsort(group, kind="stable")
        found, starts = np.unique(group[order], return_index=True)
        known = set(group[drawn].tolist())
        others = [
            one_of(own, seed, index, int(of))
            for of, own in zip(found.tolist(), np.split(order, starts[1:]), strict=True)
            if of not in known
        ]
        return [Asked(row, bits=row == drawn[0]) for row in sorted(drawn + others)]

    def build(self, case: ExpertCase, mode: str) -> Inputs:
        return build(case, mode)

    def arrays(self, inputs: Inputs) -> Mapping[str, np.ndarray | None]:
        """Blobs, tokens and ids, and the codebooks of both formats where they have one."""
        tables = {name: device_table(form) for name, form in (("gate_up", inputs.gate_up), ("down", inputs.down))}
        return {
            "blobs": inputs.blobs,
            "x": inputs.x,
            "ids": inputs.ids,
            **{f"{name}_codebook": table if table.size else None for name, table in tables.items()},
        }

    def kernels(self, path: Path, case: ExpertCase) -> list[Kernel]:
        return list(dict.fromkeys(launch.kernel for launch in of_fused(path, case, None)))

    def launches(self, path: Path, case: ExpertCase, multiprocessors: int | None) -> list[Launch]:
        """Grouping; then gate and up, and down, of each cut of the experts."""
        return of_fused(path, case, multiprocessors)

    def checks(self, path: Path, case: ExpertCase, card: bool) -> Checks:
        return record_checks.asked(path, case, named(case), card)

    def claim(self, checks: Sequence[Mapping[str, Any]]) -> Claim | None:
        """All pairs that name an expert, or a part of them in large cases."""
        for check in checks:
            figures = check["figures"]
            if check["name"] == "bits" and "compared" in figures:
                return Claim((), figures["compared"], figures["differing"])
        return None

    def claims(self, subject: Examined) -> Iterator[str]:
        for index, ((path, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
            claim, verdict = item["prediction"], dict(item["checks"]).get("bits")
            if (claim is None) != (verdict is None):
                said = "is said" if claim else "is not said"
                yield f"case {index}: bits are {verdict or 'not asked'}, and how many were compared {said}"
                continue
            if claim is None:
                continue
            most = self.checks(path, case, subject.card).whole
            if claim["compared"] % case.n or not 0 < claim["compared"] <= most:
                yield f"case {index} compared {claim['compared']} outputs, expected rows of {case.n}, at most {most}"
            elif claim["compared"] < most and work(case, most // case.n) <= PREDICTED:
                yield f"case {index} compared {claim['compared']} outputs, expected all {most}"
            if (verdict == "EXACT") != (claim["differing"] == 0) or claim["differing"] > claim["compared"]:
                said = f"{claim['differing']} of {claim['compared']} outputs differ"
                yield f"case {index} says that {said}, and its bits are {verdict}"
            if claim["readings"]:
                yield f"case {index} followed {claim['readings'][0]}; these bits follow no rule of a card"

    def numbers(self, shown: Shown) -> Iterator[Reason]:
        """Every element of a row that is shown with its bits is within its bound of FP64, where every step is finite;
        and rows of nobody are +0."""
        case: ExpertCase = shown.case
        sound = shown.inputs.sound.reshape(-1)
        rows = [row for row in shown.rows if row.got is not None]
        for row in rows:
            stray = not shown.inputs.named.reshape(-1)[row.row]
            if stray and row.got is not None and row.got.view("<u4").any():
                yield "numbers", f"row {row.row} ({self.place(case, row.row)}) is of nobody, expected +0"
        rows = [row for row in rows if sound[row.row]]
        pairs = np.array([row.row for row in rows], dtype=np.int64)
        if not len(pairs):
            return
        bits = expected.bits(shown.inputs, pairs, FUSED)
        fine = np.isfinite(bits.out).all(axis=1) & np.isfinite(bits.gate).all(axis=1) & np.isfinite(bits.up).all(axis=1)
        fine &= np.isfinite(bits.h.scale).all(axis=1)
        kept = [row for row, finite in zip(rows, fine.tolist(), strict=True) if finite]
        if not kept:
            return
        due = expected.model(shown.inputs, pairs[fine], FUSED).rounded
        for at, row in enumerate(kept):
            assert row.got is not None
            check = within("row", row.got, due.value[at], due.bound[at], axes=("column",))
            if check.verdict is Verdict.VOID:
                said = f"{shown.path.name} {case.brief()}: the verifier's own bound is void: {check.reason}"
                raise CannotCheckError(said)
            shown.bounded += 1
            if not check.verdict.passes:
                yield "numbers", f"row {row.row} ({self.place(case, row.row)}): {check.reason}"

    def readings(self, subject: Examined) -> tuple[str, ...]:
        return (CONTRACT,)

    def affordable(self, case: ExpertCase) -> bool:
        """As many multiply-adds as a run predicts whole."""
        return work(case, case.pairs) <= PREDICTED

    def predict(self, reading: str, predictor: Predictor | None, shown: Shown, rows: np.ndarray) -> np.ndarray:
        """By the model; rows of nobody are +0."""
        case: ExpertCase = shown.case

        def made() -> np.ndarray:
            out = np.zeros((len(rows), case.n), np.float32)
            named = shown.inputs.named.reshape(-1)[rows]
            if named.any():
                out[named] = expected.bits(shown.inputs, rows[named], FUSED).out
            return self.matrix(out)

        found: np.ndarray = shown.memo.get("expert rows", (case, shown.path.mode, rows.tobytes()), made)
        return found


@lru_cache(maxsize=64)
def _ids(case: ExpertCase) -> np.ndarray:
    """int32 [tokens, top], read-only: whom the case's tokens name, as `build` draws them."""
    recipe = find(case.recipe)
    return frozen(routing.draw(case.stream("ids"), recipe.routing, case.tokens, case.experts, case.top))


def named(case: ExpertCase) -> np.ndarray:
    """bool [tokens, top]: whether an id is an expert's."""
    ids = _ids(case)
    return np.asarray((ids >= 0) & (ids < case.experts))
