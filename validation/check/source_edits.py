"""One edit of a source's tokens, and questions about the code that several kinds of edits ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from validation.check.source_declarations import Code
from validation.check.source_structure import level

RELATIONS = frozenset({"<", ">", "<=", ">="})


@dataclass(frozen=True)
class Edit:
    """Tokens `first` to `last` become `new`; kind: one of `source_mutants.KINDS`."""

    kind: str
    first: int
    last: int
    new: str


def calls(code: Code, *names: str) -> Iterator[tuple[int, int]]:
    """Editable calls of functions of these names: the name's token and the opening bracket."""
    for i, text in enumerate(code.text):
        if text in names and code.editable[i]:
            bracket = code.angle_open[i + 1] + 1 if i + 1 in code.angle_open else i + 1
            if bracket < len(code.text) and code.text[bracket] == "(":
                yield i, bracket


def argument_texts(code: Code, bracket: int) -> list[str]:
    """The arguments of a call as they stand."""
    return [code.said(first, last) for first, last in code.arguments(bracket)]


def is_statement(code: Code, first: int, last: int) -> bool:
    """Whether tokens `first` to `last` and the `;` behind them are a statement."""
    before = code.text[first - 1]
    if code.text[last + 1] != ";":
        return False
    if before == ")":
        return code.text[code.pair[first - 1] - 1] in ("if", "for", "while")
    return before in (";", "{", "}", "else")


def is_relation(code: Code, i: int) -> bool:
    """Whether token `i` compares two numbers by size."""
    return code.text[i] in RELATIONS and code.editable[i] and not code.in_template[i]


def chooses_larger_or_smaller(code: Code, i: int) -> bool:
    """Whether the comparison at `i` is that of a maximum or a minimum: `a > b ? a : b`, or `if (a > b) b = a;`.

    What equal numbers give makes no difference there.
    """
    first, last = code.left(i, level("<") + 1), code.right(i, level("<") + 1)
    sides = {_plain(code, first, i - 1), _plain(code, i + 1, last)}
    after = last + 1
    while code.text[after] == ")" and code.text[after + 1] == "?":
        after += 1
    if code.text[after] == "?":
        colon = code.right(after, level("?") + 1) + 1
        end = code.right(colon, level("?") + 1)
        return {_plain(code, after + 1, colon - 1), _plain(code, colon + 1, end)} == sides
    if code.text[after] == ")" and code.text[code.pair[after] - 1] == "if" and code.pair[after] + 1 == first:
        end = code.statement_end(after + 1)
        marks = [j for j in range(after + 1, end) if code.text[j] == "="]
        return len(marks) == 1 and {_plain(code, after + 1, marks[0] - 1), _plain(code, marks[0] + 1, end - 1)} == sides
    return False


def _plain(code: Code, first: int, last: int) -> tuple[str, ...]:
    words = code.text[first : last + 1]
    while len(words) > 2 and words[0] == "(" and code.pair[first] == last:
        words, first, last = words[1:-1], first + 1, last - 1
    return tuple(words)


def leads(code: Code, i: int) -> bool:
    """Whether the `==` at `i` picks one thread of several, `if (lane == 0)`: which one may make no difference."""
    if code.text[i] != "==" or code.tokens[i + 1].kind != "number":
        return False
    return not code.thread_names.isdisjoint(code.text[code.left(i, level("==") + 1) : i])


def overshoots(code: Code, i: int) -> bool:
    """Whether token `i` is in the condition of a loop that walks along an array of the thread's own.

    A turn too many would be undefined there, and a compiler may make of it what it likes.
    """
    for loop in code.loops:
        if loop.condition[0] <= i <= loop.condition[1]:
            end = code.statement_end(loop.update[1] + 2)
            name = code.text[loop.condition[0]]
            return any(
                code.text[j] in code.own_arrays and code.text[j + 1] == "[" and name in _subscripts(code, j + 1)
                for j in range(loop.update[1] + 2, end)
            )
    return False


def _subscripts(code: Code, i: int) -> list[str]:
    """The tokens of all subscripts that follow one another from `[` at `i`."""
    first = i
    while code.text[i] == "[":
        i = code.pair[i] + 1
    return code.text[first:i]
