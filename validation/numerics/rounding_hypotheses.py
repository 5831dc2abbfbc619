"""Which reading of its tensor core a card follows, from all predictions of a run.

Where the literature has more than one rule for a card (Turing: steps of 8 products or of 4), each case
is predicted under all of them and must match one bit for bit. A card is one of them throughout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from strata.executors.lanes import RULES
from validation.core.verdict import Verdict


@dataclass(frozen=True)
class Followed:
    """Which readings of its tensor core a card followed.

    Parameters
    ----------
    cases
        Of every tensor-core case that was predicted under several readings and matched one: its name, and the readings
        whose bits it gave.
    """

    cases: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def common(self) -> tuple[str, ...]:
        """The readings that every case followed, in the order of the first case."""
        first = self.cases[0][1] if self.cases else ()
        return tuple(name for name in first if all(name in names for _, names in self.cases))

    @property
    def agree(self) -> bool:
        """Whether one reading explains all cases; so it is when there are none."""
        return not self.cases or bool(self.common)

    def alone(self, name: str) -> list[str]:
        """The cases that followed the reading `name` and no other."""
        return [case for case, names in self.cases if names == (name,)]

    def text(self) -> str:
        """One line on what the cases say together; empty when no case had several readings."""
        if not self.cases:
            return ""
        count = f"{len(self.cases)} case" + "s" * (len(self.cases) != 1)
        if not self.agree:
            sides = sorted({names[0] for _, names in self.cases if len(names) == 1}, reverse=True)
            own = [(_block(name), self.alone(name)) for name in sides]
            said = [f"{block} alone in {len(cases)}, first {cases[0]}" for block, cases in own]
            return f"EXCEEDS this card follows no one reading in {count}: {'; '.join(said)}"
        if len(self.common) == 1:
            name = self.common[0]
            telling = len(self.alone(name))
            return f"this card follows {_block(name)} in {count}, {telling} of which tell the two readings apart"
        both = " and ".join(_block(name) for name in self.common)
        return f"nothing told the readings of this card apart: {both} give the same bits in {count}"

    def record(self) -> dict[str, Any]:
        """What `run.json` holds of it."""
        names = sorted({name for _, followed in self.cases for name in followed})
        return {
            "cases": len(self.cases),
            "followed": list(self.common),
            "agree": self.agree,
            "told_apart": {name: len(self.alone(name)) for name in names},
        }


def followed(results: Iterable[dict[str, Any]]) -> Followed:
    """The readings of finished results, as `runner.run_case` gives them."""
    return Followed(
        tuple(
            (f"{result['path']} {result['case']}", tuple(check["figures"]["readings"]))
            for result in results
            for check in result["checks"]
            if check["name"] == "prediction" and check["figures"].get("readings") and _exact(check)
        )
    )


def _exact(check: dict[str, Any]) -> bool:
    return Verdict(check["verdict"]) is Verdict.EXACT


def _block(name: str) -> str:
    return f"block {RULES[name].block}"
