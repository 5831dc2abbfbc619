"""What in a source declares or describes, and computes nothing: it holds no fault of the kind that is planted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from validation.check.source_structure import BEFORE_EXPRESSION, Structure, level

#: Calls whose arguments describe memory or the compiler, and whose value is no computation.
_DESCRIBING = frozenset(
    {"static_assert", "asm", "sizeof", "alignas", "__launch_bounds__", "__attribute__", "shared_array"}
)
_NO_COMPUTATION = frozenset({"constexpr", "using", "typedef", "enum", "static_assert", "asm"})


class Code(Structure):
    """A source of which it is known which tokens an edit may change."""

    @cached_property
    def editable(self) -> list[bool]:
        """Whether each token belongs to what a function computes: not to a declaration, a template, a description."""
        can = [False] * len(self.text)
        for first, last in _bodies(self):
            can[first + 1 : last] = [True] * (last - first - 1)
        for i, inside in enumerate(self.in_template):
            can[i] = can[i] and not inside
        for first, last in _descriptions(self):
            can[first : last + 1] = [False] * (last + 1 - first)
        return can

    @cached_property
    def own_arrays(self) -> frozenset[str]:
        """Names of arrays that functions declare: a thread's own."""
        found = set()
        for i, text in enumerate(self.text):
            if text == "[" and i >= 2 and _declares_array(self, i):
                while self.text[i - 1] == "]":
                    i = self.pair[i - 1]
                found.add(self.text[i - 1])
        return frozenset(found)

    @cached_property
    def thread_names(self) -> frozenset[str]:
        """Variables that tell threads apart: those made from `threadIdx`, and from one another."""
        names = {"threadIdx"}
        for i, text in enumerate(self.text):
            if text == "=" and self.tokens[i - 1].kind == "word":
                end = self.right(i, level("="))
                if not names.isdisjoint(self.text[i + 1 : end + 1]):
                    names.add(self.text[i - 1])
        return frozenset(names)


def _bodies(code: Structure) -> Iterator[tuple[int, int]]:
    """Braces of functions: those after a `)` at the level of files, namespaces and structs."""
    i = 0
    while i < len(code.text):
        text = code.text[i]
        if text == "{":
            before = i - 1
            while before >= 0 and code.text[before] in ("const", "noexcept", "override", "mutable"):
                before -= 1
            if before >= 0 and code.text[before] == ")":
                yield i, code.pair[i]
                i = code.pair[i]
            elif before >= 0 and code.text[before] == "=":
                i = code.pair[i]
        elif text in ("(", "["):
            i = code.pair[i]
        i += 1


def _descriptions(code: Structure) -> Iterator[tuple[int, int]]:
    """Ranges of tokens that describe and compute nothing."""
    for i, text in enumerate(code.text):
        if text in _NO_COMPUTATION and _begins_statement(code, i):
            last = code.statement_end(i)
            yield i, last
        if text in _DESCRIBING:
            first = code.angle_open[i + 1] + 1 if i + 1 in code.angle_open else i + 1
            while first < len(code.text) and code.text[first] in ("volatile",):
                first += 1
            if first < len(code.text) and code.text[first] == "(":
                yield i, code.pair[first]
        if text == "part" and i > 0 and code.text[i - 1] in (".", "->") and code.text[i + 1] == "(":
            arguments = code.arguments(i + 1)
            if len(arguments) == 2:
                yield arguments[1]
        if text == "[" and _declares_array(code, i):
            yield i, code.pair[i]


def _begins_statement(code: Structure, i: int) -> bool:
    return i == 0 or code.text[i - 1] in (";", "{", "}", "static", "const", ")")


def _declares_array(code: Structure, i: int) -> bool:
    """Whether `[` at `i` gives the extent of an array that is declared, as in `float acc[4][2], rest[2]`."""
    while i > 0 and code.text[i - 1] == "]":
        i = code.pair[i - 1]
    if i < 2 or code.tokens[i - 1].kind != "word":
        return code.text[i - 1] == ")" and i >= 3 and code.text[code.pair[i - 1] + 1] == "&"  # float (&x)[4]
    before = i - 2
    while code.text[before] in ("*", "&") and before > 0:
        before -= 1
    if before in code.angle_close or (
        code.tokens[before].kind == "word" and code.text[before] not in BEFORE_EXPRESSION and before == i - 2
    ):
        return True
    if code.text[i - 2] != ",":
        return False
    first = code.statement_start(i - 2)
    while first + 1 < len(code.text) and code.text[first] in ("const", "static"):
        first += 1
    after = code.angle_open[first + 1] + 1 if first + 1 in code.angle_open else first + 1
    return code.tokens[first].kind == "word" and code.tokens[after].kind == "word"
