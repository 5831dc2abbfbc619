"""What the tokens of a CUDA source are part of: brackets, template arguments, function bodies, loops, operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from validation.check.source_branches import left_in
from validation.check.source_tokens import SourceError, significant, tokens

_OPEN = {"(": ")", "[": "]", "{": "}"}
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
#: Operators by how weakly they bind, weakest first; what stands on either side of one binds at least as strongly.
LEVELS: tuple[frozenset[str], ...] = (
    frozenset({",", ";"}) | _ASSIGN,
    frozenset({"?", ":"}),
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"==", "!="}),
    frozenset({"<", ">", "<=", ">="}),
    frozenset({"<<", ">>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_LEVEL_OF = {mark: i for i, marks in enumerate(LEVELS) for mark in marks}
#: Words after which an expression begins.
BEFORE_EXPRESSION = frozenset({"return", "case", "else", "do", "throw"})


def level(mark: str) -> int:
    """How strongly a binary operator binds: its place in `LEVELS`."""
    return _LEVEL_OF[mark]


@dataclass(frozen=True)
class Loop:
    """A `for` loop by the indices of its tokens: first and last of its three parts, empty where last < first."""

    start: tuple[int, int]
    condition: tuple[int, int]
    update: tuple[int, int]


class Structure:
    """A source, its compiled tokens and what they are part of. Indices are those of `tokens`.

    Parameters
    ----------
    source
        The text of a `.cu` or of a header.
    macros
        Macros that it is compiled with, so that branches which are left out are left alone.

    Raises
    ------
    SourceError
        For brackets that do not match, and what `tokens` and `left_in` refuse.
    """

    def __init__(self, source: str, macros: Mapping[str, int]) -> None:
        self.source = source
        every = left_in(tokens(source), {"STRATA_LANES": 1, **macros})
        self.tokens = significant(every)
        self.untouchable = [token for token in every if token.kind in ("comment", "directive")]
        self.text = [token.text for token in self.tokens]
        self.pair = self._pairs()
        self.angle_open, self.angle_close = self._angles()

    def _pairs(self) -> dict[int, int]:
        pair: dict[int, int] = {}
        waiting: list[int] = []
        for i, text in enumerate(self.text):
            if text in _OPEN:
                waiting.append(i)
            elif text in _OPEN.values():
                if not waiting or _OPEN[self.text[waiting[-1]]] != text:
                    raise SourceError(f"line {self.tokens[i].line}: {text!r} closes nothing")
                first = waiting.pop()
                pair[first], pair[i] = i, first
        if waiting:
            raise SourceError(f"line {self.tokens[waiting[-1]].line}: {self.text[waiting[-1]]!r} is not closed")
        return pair

    def _angles(self) -> tuple[dict[int, int], dict[int, int]]:
        """Template brackets: where each begins and ends, and from an end (of several, by `>>`) the first beginning."""
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        for i, text in enumerate(self.text):
            if text == "<" and i not in begins and i > 0 and self.tokens[i - 1].kind == "word":
                inner = self._close_angle(i)
                for first, last in inner.items():
                    begins[first] = last
                    ends[last] = min(first, ends.get(last, first))
        return begins, ends

    def _close_angle(self, first: int) -> dict[int, int]:
        """The brackets that `<` at `first` opens, if it opens template arguments, else none."""
        waiting, found, i = [first], {}, first + 1
        while waiting:
            if i >= len(self.text):
                return {}
            text = self.text[i]
            if text in ("(", "["):
                i = self.pair[i]
            elif text in ("{", "}", ")", "]", ";", "&&", "||", "?", "<=", ">=", "==", "!=") or (
                text in _ASSIGN and self.text[first - 1] != "template"
            ):
                return {}
            elif text == "<":
                waiting.append(i)
            elif text in (">", ">>"):
                if len(waiting) < len(text):
                    return {}
                for _ in text:
                    found[waiting.pop()] = i
            i += 1
        after = self.tokens[i] if i < len(self.tokens) else None
        # `a < b > c` compares nothing that a kernel would: what stands so are arguments of a template, except before a
        # number, or before a word where the whole may be two arguments of a call.
        return found if after is not None and after.kind != "number" else {}

    @cached_property
    def in_template(self) -> list[bool]:
        """Whether a token lies between template brackets, or is one."""
        inside = [False] * len(self.text)
        for first, last in self.angle_open.items():
            inside[first : last + 1] = [True] * (last + 1 - first)
        return inside

    def statement_start(self, i: int) -> int:
        """The first token of the statement that holds token `i`."""
        while i > 0 and self.text[i - 1] not in (";", "{", "}"):
            i = self.pair[i - 1] if self.text[i - 1] in (")", "]") else i - 1
            if self.text[i] == "(" and self.text[i - 1] in ("if", "for", "while", "switch"):
                return self.pair[i] + 1
        return i

    def statement_end(self, i: int) -> int:
        """The `;` or the `}` that ends the statement which token `i` begins, or is in at its level."""
        while i < len(self.text) and self.text[i] != ";":
            if self.text[i] in _OPEN:
                i = self.pair[i]
                if self.text[i] == "}" and (i + 1 == len(self.text) or self.text[i + 1] not in (";", ",", ")")):
                    return i
            i += 1
        return min(i, len(self.text) - 1)

    def arguments(self, bracket: int) -> list[tuple[int, int]]:
        """First and last token of each argument between the `(` at `bracket` and its end."""
        found, first, i, last = [], bracket + 1, bracket + 1, self.pair[bracket]
        while i <= last:
            if i == last or self.text[i] == ",":
                if i > first:
                    found.append((first, i - 1))
                first = i + 1
            elif self.text[i] in _OPEN:
                i = self.pair[i]
            elif i in self.angle_open:
                i = self.angle_open[i]
            i += 1
        return found

    def left(self, i: int, weakest: int) -> int:
        """The first token of what stands left of the operator at `i` and binds at `weakest` or stronger."""
        while i > 0:
            before = self.text[i - 1]
            if before in _OPEN.values():
                if before == "}" and self.text[self.pair[i - 1] - 1] in (")", ";", "{", "}", "else"):
                    return i
                i = self.pair[i - 1]
            elif i - 1 in self.angle_close:
                i = self.angle_close[i - 1]
            elif before in _OPEN or before in BEFORE_EXPRESSION or self._weaker(i - 1, weakest):
                return i
            else:
                i -= 1
        return i

    def right(self, i: int, weakest: int) -> int:
        """The last token of what stands right of the operator at `i` and binds at `weakest` or stronger."""
        while i + 1 < len(self.text):
            after = self.text[i + 1]
            if after in _OPEN:
                i = self.pair[i + 1]
            elif i + 1 in self.angle_open:
                i = self.angle_open[i + 1]
            elif after in _OPEN.values() or self._weaker(i + 1, weakest):
                return i
            else:
                i += 1
        return i

    def _weaker(self, i: int, weakest: int) -> bool:
        """Whether the token is a binary operator that binds weaker than `weakest`."""
        return _LEVEL_OF.get(self.text[i], weakest) < weakest and self.is_binary(i)

    def is_binary(self, i: int) -> bool:
        """Whether the operator at `i` has a left operand: a minus may be a sign, a star a pointer."""
        if i == 0:
            return False
        before = self.tokens[i - 1]
        return (
            (before.kind == "word" and before.text not in BEFORE_EXPRESSION)
            or before.kind in ("number", "string", "character")
            or before.text in (")", "]", "}", "++", "--")
            or self.text[i] in (",", ";", ":", "?")
        )

    @cached_property
    def loops(self) -> list[Loop]:
        """The `for` loops with three parts."""
        found = []
        for i, text in enumerate(self.text):
            if text != "for" or self.text[i + 1 : i + 2] != ["("]:
                continue
            last, cuts, j = self.pair[i + 1], [], i + 2
            while j < last:
                if self.text[j] in _OPEN:
                    j = self.pair[j]
                elif self.text[j] == ";":
                    cuts.append(j)
                j += 1
            if len(cuts) == 2:
                found.append(Loop((i + 2, cuts[0] - 1), (cuts[0] + 1, cuts[1] - 1), (cuts[1] + 1, last - 1)))
        return found

    def said(self, first: int, last: int) -> str:
        """The text from token `first` to token `last` as it stands."""
        return self.source[self.tokens[first].start : self.tokens[last].end]
