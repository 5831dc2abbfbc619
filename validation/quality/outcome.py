"""What a run came to, and its form in run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from validation.core.verdict import Verdict
from validation.quality.gate import GateResult
from validation.quality.loss import EXACT, Table
from validation.quality.measures import Spread, spread
from validation.quality.planted import Planted
from validation.quality.run_needles import NeedleResult


@dataclass
class Outcome:
    """What is finished of a run; None for parts that are not."""

    gate: GateResult | None = None
    loss: Table | None = None
    needles: NeedleResult | None = None
    planted: list[Planted] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    text_sha256: dict[str, str] = field(default_factory=dict)
    model_sha256: str = ""

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each part that is there. A planted fault that is not seen is a failure."""
        found = {
            name: part.verdict for name in ("gate", "loss", "needles") if (part := getattr(self, name)) is not None
        }
        if self.planted:
            found["planted"] = Verdict.EXACT if all(one.seen for one in self.planted) else Verdict.EXCEEDS
        return found

    @property
    def passes(self) -> bool:
        """Whether there is a part, and every one passed."""
        found = self.verdicts
        return bool(found) and all(one.passes for one in found.values())

    def record(self) -> dict[str, Any]:
        """The parts as JSON values."""
        return {
            "verdicts": {name: one.value for name, one in self.verdicts.items()},
            "seconds": self.seconds,
            "text_sha256": self.text_sha256,
            "gate": _gate(self.gate) if self.gate else None,
            "loss": _loss(self.loss) if self.loss else None,
            "needles": _needles(self.needles) if self.needles else None,
            "planted": [asdict(one) | {"seen": one.seen} for one in self.planted],
        }


def _gate(result: GateResult) -> dict[str, Any]:
    return {
        "a": result.a,
        "b": result.b,
        "verdict": result.verdict,
        "reason": result.reason,
        "exceeding": list(result.exceeding),
        "top": result.top,
        "kl": asdict(result.kl),
        "likelihood": asdict(result.likelihood),
        "continued": result.continued,
        "agreeing": [one.agreeing for one in result.prompts],
        "same": [one.same for one in result.prompts],
        "divergence": [one.divergence for one in result.prompts],
        "limit": [one.limit for one in result.prompts],
        "arithmetic": asdict(_mean(result, "arithmetic")),
        "formats": asdict(_mean(result, "formats")),
    }


def _mean(result: GateResult, name: str) -> Spread:
    return spread(np.concatenate([np.zeros(0), *(getattr(one, name) for one in result.prompts)]))


def _loss(table: Table) -> dict[str, Any]:
    def differences(found: Spread | None) -> dict[str, Any] | None:
        return None if found is None else asdict(found)

    rows = [
        {
            "kind": row.kind,
            "name": row.name,
            "kv": row.kv,
            "loss": row.mean,
            "to_exact": differences(table.against(row, EXACT)),
            "to_format": differences(table.against(row, row.kv)),
            "note": row.note,
        }
        for row in table.rows
    ]
    return {"verdict": table.verdict, "tokens": table.tokens, "rows": rows}


def _needles(result: NeedleResult) -> dict[str, Any]:
    settings: Sequence[dict[str, Any]] = [
        {
            "setting": one.setting,
            "found": one.right,
            "asked": len(one.found),
            "served": list(one.served),
            "answers": [asdict(needle) for needle in one.found],
        }
        for one in result.answers
    ]
    return {"verdict": result.verdict, "settings": settings}
