"""Edits of what runs, in which order and how often: barriers, comparisons, guards and loops."""

from __future__ import annotations

from collections.abc import Iterator

from validation.check.source_declarations import Code
from validation.check.source_edits import (
    Edit,
    calls,
    chooses_larger_or_smaller,
    is_relation,
    is_statement,
    leads,
    overshoots,
)
from validation.check.source_structure import Loop, level

_BARRIERS = ("__syncthreads", "__syncwarp", "cp_async_wait")
_NEIGHBOUR = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_SHRINKING = ("/=", ">>=")


def barriers(code: Code) -> Iterator[Edit]:
    """A barrier, or the wait for copies, is left out."""
    for i, bracket in calls(code, *_BARRIERS):
        if is_statement(code, i, code.pair[bracket]):
            yield Edit("barrier", i, code.pair[bracket], "")


def boundaries(code: Code) -> Iterator[Edit]:
    """A comparison takes its boundary in, or leaves it out."""
    for i, text in enumerate(code.text):
        if not is_relation(code, i) or chooses_larger_or_smaller(code, i):
            continue
        loop = _loop_of(code, i)
        if loop is not None and text == ">" and any(code.text[j] in _SHRINKING for j in _tokens(loop.update)):
            continue  # 0 / 2 is 0: the loop would not end
        if text in ("<", ">") and overshoots(code, i):
            continue
        yield Edit("boundary", i, i, _NEIGHBOUR[text])


def comparisons(code: Code) -> Iterator[Edit]:
    """Equal becomes unequal, and the other way."""
    for i, text in enumerate(code.text):
        if text in ("==", "!=") and code.editable[i] and not leads(code, i):
            yield Edit("comparison", i, i, "!=" if text == "==" else "==")


def guards(code: Code) -> Iterator[Edit]:
    """A condition holds always; one that leaves the thread or the turn of a loop never does."""
    for i, text in enumerate(code.text):
        if text == "if" and code.editable[i] and code.text[i + 1] == "(":
            first, last = i + 2, code.pair[i + 1] - 1
            body = code.text[last + 2] if code.text[last + 2] != "{" else code.text[last + 3]
            leader = any(leads(code, j) for j in range(first, last + 1))
            if leader and body == "store":
                continue  # where one thread may store, all may: the same value goes to the same place
            never = body in ("return", "continue", "break")
            yield Edit("guard", first, last, "false" if never else "true")
        if text == "?" and code.editable[i]:
            first = code.left(i, level("?") + 1)
            compared = [j for j in range(first, i) if is_relation(code, j)]
            if not any(chooses_larger_or_smaller(code, j) for j in compared):
                yield Edit("guard", first, i - 1, "true")


def conditions(code: Code) -> Iterator[Edit]:
    """One of several conditions is left out."""
    for i, text in enumerate(code.text):
        if text in ("&&", "||") and code.editable[i] and code.is_binary(i):
            yield Edit("condition", i, code.right(i, level(text) + 1), "")
            yield Edit("condition", code.left(i, level(text) + 1), i, "")


def loops(code: Code) -> Iterator[Edit]:
    """The first turn of a loop is left out, or its last."""
    for loop in code.loops:
        step = _step(code, loop)
        relation = _relation(code, loop)
        if step is None or relation is None:
            continue
        up = code.text[relation] in ("<", "<=")
        equals = [j for j in _tokens(loop.start) if code.text[j] == "="]
        if len(equals) == 1:
            yield Edit("loop", equals[0] + 1, loop.start[1], _moved(code, equals[0] + 1, loop.start[1], step, up))
        last = code.right(relation, level("<") + 1)
        yield Edit("loop", relation + 1, last, _moved(code, relation + 1, last, step, not up))


def halvings(code: Code) -> Iterator[Edit]:
    """A reduction whose offset is halved begins a step late, or ends a step early."""
    for loop in code.loops:
        relation = _relation(code, loop)
        update = code.text[loop.update[0] : loop.update[1] + 1]
        equals = [j for j in _tokens(loop.start) if code.text[j] == "="]
        if relation is None or len(update) != 3 or update[1] not in _SHRINKING or len(equals) != 1:
            continue
        first, last = equals[0] + 1, loop.start[1]
        yield Edit("reduction", first, last, f"({code.said(first, last)}) / 2")
        if code.text[relation : relation + 2] == [">", "0"] and relation + 1 == loop.condition[1]:
            yield Edit("reduction", relation + 1, relation + 1, "1")


def strides(code: Code) -> Iterator[Edit]:
    """A loop takes steps of twice the size."""
    for loop in code.loops:
        update = code.text[loop.update[0] : loop.update[1] + 1]
        marks = [j for j in _tokens(loop.update) if code.text[j] in ("+=", "-=")]
        if len(marks) == 1:
            first = marks[0] + 1
            yield Edit("stride", first, loop.update[1], f"2 * {_grouped(code, first, loop.update[1])}")
        elif len(update) == 2 and update[0] in ("++", "--"):
            yield Edit("stride", *loop.update, f"{update[1]} {update[0][0]}= 2")
        elif len(update) == 2 and update[1] in ("++", "--"):
            yield Edit("stride", *loop.update, f"{update[0]} {update[1][0]}= 2")


def _tokens(part: tuple[int, int]) -> range:
    return range(part[0], part[1] + 1)


def _loop_of(code: Code, i: int) -> Loop | None:
    """The loop whose condition holds token `i`."""
    return next((loop for loop in code.loops if i in _tokens(loop.condition)), None)


def _relation(code: Code, loop: Loop) -> int | None:
    """The one comparison of a loop's condition, if it is one."""
    found = [j for j in _tokens(loop.condition) if is_relation(code, j)]
    return found[0] if len(found) == 1 else None


def _step(code: Code, loop: Loop) -> str | None:
    """What a loop's variable grows or shrinks by, as text; None for other loops."""
    update = code.text[loop.update[0] : loop.update[1] + 1]
    if len(update) == 2 and set(update) & {"++", "--"}:
        return "1"
    if len(update) >= 3 and update[1] in ("+=", "-=") and "," not in update:
        return _grouped(code, loop.update[0] + 2, loop.update[1])
    return None


def _grouped(code: Code, first: int, last: int) -> str:
    text = code.said(first, last)
    return text if first == last else f"({text})"


def _moved(code: Code, first: int, last: int, step: str, up: bool) -> str:
    if first == last and code.text[first] == "0" and up:
        return step
    return f"{_grouped(code, first, last)} {'+' if up else '-'} {step}"
