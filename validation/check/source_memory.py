"""Edits of what is kept and passed on: stores, buffers that take turns, reductions over a warp."""

from __future__ import annotations

import re
from collections.abc import Iterator

from validation.check.source_declarations import Code
from validation.check.source_edits import Edit, argument_texts, calls, is_statement

_WARP_SUMS = ("warp_add", "warp_max")
#: Words that name a buffer of several, or what takes turns in it.
_TURNS = re.compile("stage|buffer|chunk|tile|ring|slot")
_SHUFFLES = ("__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync")


def stores(code: Code) -> Iterator[Edit]:
    """A store is left out: to shared memory, where what stood there before is read, or to global memory."""
    for i, bracket in calls(code, "st", "cp_async", "store", "atomicAdd", "atomicMax"):
        first = i
        if code.text[i] == "st":
            if code.text[i - 1] == "template":
                first -= 1
            if code.text[first - 1] not in (".", "->"):
                continue
            first = _chain(code, first)
        if is_statement(code, first, code.pair[bracket]):
            yield Edit("stale" if code.text[i] in ("st", "cp_async") else "store", first, code.pair[bracket], "")


def _chain(code: Code, i: int) -> int:
    """The first token of `a.b(c)[d].st`, from that of `st`."""
    while code.text[i - 1] in (".", "->"):
        i -= 2
        while code.text[i] in ("]", ")"):
            i = code.pair[i] - 1
    return i


def buffers(code: Code) -> Iterator[Edit]:
    """A buffer of several does not take its turn: its number stays what it was, or stays 0."""
    for i, text in enumerate(code.text):
        if not code.editable[i]:
            continue
        name = code.text[i - 1]
        if text == "^=" and code.text[i + 1 : i + 3] == ["1", ";"]:
            yield Edit("buffer", i + 1, i + 1, "0")
        if text == "=" and code.text[i + 1 : i + 4] in (["1", "-", name], ["1", "^", name]):
            yield Edit("buffer", i + 1, i + 2, "")
        if text == "=" and code.text[i + 1 : i + 3] in (["!", name], ["~", name]):
            yield Edit("buffer", i + 1, i + 1, "")
        if text == "%" and code.is_binary(i) and _TURNS.search(f"{code.text[i - 1]} {code.text[i + 1]}".lower()):
            yield Edit("buffer", i + 1, i + 1, "1")


def reductions(code: Code) -> Iterator[Edit]:
    """A reduction over a warp is left out, takes half the lanes, or a shuffle gives a lane its own value."""
    for i, bracket in calls(code, *_WARP_SUMS):
        if is_statement(code, i, code.pair[bracket]):
            yield Edit("reduction", i, code.pair[bracket], "")
        if i + 1 in code.angle_open:
            first, last = i + 2, code.angle_open[i + 1] - 1
            if first == last and code.text[first].isdigit():
                yield Edit("reduction", first, first, str(int(code.text[first]) // 2))
            else:
                yield Edit("reduction", first, last, f"({code.said(first, last)}) / 2")
    for i, bracket in calls(code, *_SHUFFLES):
        yield Edit("reduction", i, code.pair[bracket], f"({argument_texts(code, bracket)[1]})")
