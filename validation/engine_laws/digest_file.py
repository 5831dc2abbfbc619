"""Files of digests: SHA-256 of the logits of every position, by KV mode, with what they are of.

Two machines that follow one rule of the tensor core write the same digests (E3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.executors.base import StrataError
from strata.whole_file import write
from validation.host import json_file

_KIND = "strata engine logits 1"
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Digests:
    """What a run of some tokens gave.

    Parameters
    ----------
    model, tokens
        SHA-256 of the model's file, and of the token ids as int32, low byte first.
    attention
        The path of attention by KV mode.
    logits
        By KV mode, SHA-256 of the logits of every position.
    executor
        What ran it, as `Executor.describe` says. It is not compared.
    """

    model: str
    tokens: str
    attention: Mapping[str, str]
    logits: Mapping[str, Sequence[str]]
    executor: Mapping[str, Any]


def save(file: Path, found: Digests) -> None:
    """Write a file. Raises StrataError when it cannot be written."""
    value = {"kind": _KIND} | {name: getattr(found, name) for name in Digests.__dataclass_fields__}
    write(file, json.dumps(value, indent=1, default=str) + "\n")


def load(file: Path) -> Digests:
    """Read a file. Raises StrataError for one that cannot be read or is no such file."""
    value = json_file.read(file, "the file of digests")
    expected = {"kind", *Digests.__dataclass_fields__}
    if not isinstance(value, dict) or value.get("kind") != _KIND or value.keys() != expected:
        raise StrataError(f"{str(file)!r} is no file of digests, expected one of `engine-laws run --out`")
    found = Digests(**{name: value[name] for name in Digests.__dataclass_fields__})
    if not _holds(found):
        raise StrataError(f"{str(file)!r} holds what is no digest of logits, expected 64 hexadecimal digits each")
    return found


def differing(one: Digests, other: Digests) -> dict[str, list[int]]:
    """The positions whose logits differ, by KV mode.

    Raises
    ------
    StrataError
        For files that are not of the same model, tokens, modes and paths of attention: their bits may differ.
    """
    for what in ("model", "tokens", "attention"):
        if getattr(one, what) != getattr(other, what):
            raise StrataError(f"the files differ in {what}: {getattr(one, what)} and {getattr(other, what)}")
    if {mode: len(rows) for mode, rows in one.logits.items()} != {
        mode: len(rows) for mode, rows in other.logits.items()
    }:
        raise StrataError("the files have other modes or other numbers of positions, expected the same")
    return {
        mode: [place for place, (a, b) in enumerate(zip(rows, other.logits[mode], strict=True)) if a != b]
        for mode, rows in one.logits.items()
    }


def _holds(found: Digests) -> bool:
    if not all(isinstance(part, dict) for part in (found.attention, found.logits, found.executor)):
        return False
    rows = [found.model, found.tokens]
    for part in found.logits.values():
        if not isinstance(part, list):
            return False
        rows += part
    return all(isinstance(row, str) and _DIGEST.fullmatch(row) for row in rows)
