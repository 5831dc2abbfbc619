"""Cases that fail alike, as one: the first of each kind in full, the others by recipes and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Sizes and recipes that one line names at most.
_MOST = 6


def kind(result: Mapping[str, Any]) -> str:
    """What a case failed by: its verdict and the check that it is explained by. Empty for one that passed."""
    if not result["explain"]:
        return ""
    failed = [check["name"] for check in result["checks"] if check["verdict"] == result["verdict"]]
    name = next((name for name in failed if name.endswith("bound")), failed[0] if failed else "")
    return f"{result['verdict']} {name}".rstrip()


def news(result: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> str:
    """What is said of a case that has ended: why it did not pass, where none of those before failed alike."""
    own = kind(result)
    return str(result["explain"]) if own and all(kind(other) != own for other in before) else ""


def folded(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of every kind of failure that more than one case has: how many more there are, with their recipes and sizes."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        if result["explain"]:
            kinds.setdefault(kind(result), []).append(result)
    lines = []
    for name, (_, *others) in kinds.items():
        if others:
            recipes = _some(list(dict.fromkeys(str(other["recipe"]) for other in others)))
            sizes = _some(list(dict.fromkeys(_sizes(str(other["case"])) for other in others)))
            lines.append(f"{name}: {len(others)} more, of {recipes} at {sizes}; all of them: --out DIR")
    return lines


def _sizes(text: str) -> str:
    return " ".join(word for word in text.split() if not word.startswith(("recipe=", "seed=")))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
