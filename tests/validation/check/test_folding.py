"""Of cases that fail alike the first is said in full, and the others are counted."""

from __future__ import annotations

from typing import Any

from validation.check.folding import folded, kind, news


def result(recipe: str, width: int, verdict: str = "EXCEEDS", name: str = "rules") -> dict[str, Any]:
    passed = verdict == "WITHIN_BOUND"
    checks = [{"name": "guards", "verdict": "EXACT"}, {"name": name, "verdict": verdict}]
    case = f"recipe={recipe} seed=1 rows=3 width={width}"
    return {"recipe": recipe, "case": case, "verdict": verdict, "checks": checks, "explain": "" if passed else "why"}


def test_the_first_of_each_kind_is_said() -> None:
    before = [result("plain", 1, "WITHIN_BOUND"), result("plain", 2)]
    assert news(before[0], []) == ""
    assert news(before[1], before[:1]) == "why"
    assert news(result("equal", 3), before) == ""
    assert news(result("equal", 3, name="y bound"), before) == "why"
    assert news(result("equal", 3, "VOID"), before) == "why"
    assert kind(result("equal", 3, name="y bound")) == "EXCEEDS y bound"


def test_the_others_are_counted_with_recipes_and_sizes() -> None:
    assert folded([result("plain", 1), result("plain", 2, name="bound")]) == []
    (line,) = folded([result("plain", 1), *(result("equal", width) for width in range(2, 10)), result("ends", 2)])
    assert line.startswith("EXCEEDS rules: 9 more, of equal, ends at rows=3 width=2, rows=3 width=3, ")
    assert "rows=3 width=7 and 2 more; " in line
