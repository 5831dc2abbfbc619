"""Accesses to memory that nothing watches, and variables that outlive a thread, in a kernel's source.

Memory is reached by the functions of the vocabulary, of which the checked build finds what is wrong.
A subscript, a star and an arrow may reach a thread's own arrays alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from validation.check.source_declarations import Code
from validation.check.source_tokens import Token
from validation.check.source_words import KEYWORDS, TYPES

Problem = tuple[Token, str]
BY_LOAD = "read by load(p + i) and written by store(p + i, v), which are watched"
#: Words behind which a value stands.
BEFORE_VALUE = frozenset({"return", "case", "else", "do", "sizeof", "co_return", "co_yield", "co_await"})
_HEADS = ("if", "for", "while", "switch")
#: Words of statements outside of functions that make no variable.
_NO_VARIABLE = frozenset(
    {"constexpr", "const", "using", "typedef", "template", "struct", "class", "enum", "static_assert", "namespace"}
)


def parameters(code: Code) -> Iterator[tuple[int, int]]:
    """Parentheses of parameters: those before the brace of a function's body."""
    for i, text in enumerate(code.text):
        if text == "{":
            last = i - 1
            while last > 0 and code.text[last] in ("const", "noexcept", "mutable"):
                last -= 1
            if last > 0 and code.text[last] == ")" and code.text[code.pair[last] - 1] not in _HEADS:
                yield code.pair[last], last


class Accesses:
    """The accesses of one file. code: its tokens."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def problems(self) -> Iterator[Problem]:
        """What reaches memory past the functions that are watched."""
        code = self.code
        for first, last in parameters(code):
            for i in range(first + 1, last):
                if code.text[i] == "[" and code.tokens[i - 1].kind == "word" and i - 1 not in code.angle_close:
                    name = code.text[i - 1]
                    said = f"the parameter {name}[] is a pointer, expected T (&{name})[N] for a thread's own array"
                    yield code.tokens[i], f"{said}, or T* {name}, {BY_LOAD}"
        for i, token in enumerate(code.tokens):
            if token.text == "[" and self._reaches(i):
                first = i - 1 if code.tokens[i - 1].kind == "word" else code.statement_start(i)
                yield token, self._said(f"{code.said(first, i)[-24:]}...]")
            elif token.text == "*" and self._unary(i) and code.text[i + 1 : i + 2] != ["this"]:
                yield token, self._said(code.said(i, min(i + 1, len(code.tokens) - 1)))
            elif token.text == "->" and not self._of_lambda(i):
                yield token, self._said("->")
        yield from self._variables()

    @staticmethod
    def _said(access: str) -> str:
        return f"{access} is an access that nothing watches: memory is {BY_LOAD}"

    def _of_lambda(self, i: int) -> bool:
        """Whether the arrow at `i` gives the type of a lambda, or a member by `this`."""
        text, pair = self.code.text, self.code.pair
        return text[i - 1] == "this" or (text[i - 1] == ")" and text[pair[i - 1] - 1] == "]")

    def _reaches(self, i: int) -> bool:
        """Whether the `[` at `i` may reach other memory than an array that a function declares."""
        code = self.code
        if i == 0:
            return False
        before, text = code.tokens[i - 1], code.text[i - 1]
        if text == "[" or code.text[i + 1 : i + 2] == ["["]:  # [[attribute]]
            return False
        if before.kind == "word" and self._is_array(i):
            return False
        if before.kind == "word":
            return text not in BEFORE_VALUE | {"auto"} and not self._own_array(i - 1)
        if text == "]":
            first = code.pair[i - 1]
            return self._reaches(first) if not self._of_pointers(first) else True
        if text == ")":  # float (&x)[4] declares, (x + i)[0] reaches
            return code.text[code.pair[i - 1] + 1] != "&"
        return before.kind in ("string", "number")

    @cached_property
    def _functions(self) -> list[tuple[int, int]]:
        """The functions that lie in no other one, from the parentheses of their parameters to the ends of their
        bodies."""
        found: list[tuple[int, int]] = []
        for first, last in parameters(self.code):
            end = self.code.pair[self.code.text.index("{", last)]
            if not found or first > found[-1][1]:
                found.append((first, end))
        return found

    def _function(self, i: int) -> int:
        """Which of them a token is in; -1 for none."""
        return next((index for index, (first, last) in enumerate(self._functions) if first <= i <= last), -1)

    @cached_property
    def _arrays(self) -> dict[int, set[str]]:
        """Names of arrays by the function that declares them: `float a[4], b[2]`, and references, `float (&c)[4]`."""
        code = self.code
        found: dict[int, set[str]] = {}
        for i, text in enumerate(code.text):
            if text != "[" or i < 2:
                continue
            first = i
            while code.text[first - 1] == "]":
                first = code.pair[first - 1]
            named = code.tokens[first - 1].kind == "word"
            if code.text[i - 1] == ")" and i > 3 and code.text[i - 4 : i - 2] == ["(", "&"]:
                found.setdefault(self._function(i), set()).add(code.text[i - 2])
            elif named and self._is_array(first):
                found.setdefault(self._function(i), set()).add(code.text[first - 1])
        return found

    def _is_array(self, i: int) -> bool:
        """Whether the `[` at `i`, behind a name, declares it: behind a type, or behind a comma of such a statement."""
        code, before = self.code, i - 2
        while before > 0 and code.text[before] in ("*", "__restrict__"):
            before -= 1
        if before in code.angle_close or (code.text[i - 2] == "," and self._declares(i - 2)):
            return True
        pointed = before < i - 2 and code.text[before] not in TYPES | self._types | {"const"}
        return code.tokens[before].kind == "word" and code.text[before] not in BEFORE_VALUE and not pointed

    @cached_property
    def _others(self) -> dict[int, set[str]]:
        """Names by the function that declares them as something else than a number or an array: a subscript of such a
        one may be a pointer's."""
        code = self.code
        found: dict[int, set[str]] = {}
        for i in range(1, len(code.text) - 1):
            if code.tokens[i].kind != "word" or code.text[i + 1] == "[" or code.text[i] in KEYWORDS | TYPES:
                continue
            before = i - 1
            while before > 0 and code.text[before] in ("__restrict__", "const", "*", "&", "&&"):
                before -= 1
            kind, marks = code.text[before], code.text[before + 1 : i]
            named = code.tokens[before].kind == "word" and kind not in KEYWORDS
            if named and (("*" in marks and kind in TYPES) or kind == "auto" or kind in self._types):
                found.setdefault(self._function(i), set()).add(code.text[i])
        return found

    def _own_array(self, i: int) -> bool:
        """Whether the name at `i` is an array's that its function, or the file, declares, and nothing else there."""
        name, here = self.code.text[i], self._function(i)
        if name in self._others.get(here, ()):
            return False
        return name in self._arrays.get(here, ()) or name in self._arrays.get(-1, ())

    @cached_property
    def _types(self) -> frozenset[str]:
        """Types that the source names: parameters of templates, aliases and structs."""
        text = self.code.text
        heads = ("class", "typename", "struct", "using")
        return frozenset(text[i + 1] for i in range(len(text) - 1) if text[i] in heads)

    def _declares(self, i: int) -> bool:
        """Whether the statement that the comma at `i` is in, at its own level, begins with a type and a name."""
        code = self.code
        while i > 0 and code.text[i - 1] not in (";", "{", "("):
            if code.text[i - 1] == "}" and code.text[code.pair[i - 1] - 1] not in ("=", "]"):
                break
            i = code.pair[i - 1] if code.text[i - 1] in (")", "]", "}") else i - 1
        while code.text[i] in ("const", "static", "constexpr"):
            i += 1
        after = code.angle_open[i + 1] + 1 if i + 1 in code.angle_open else i + 1
        return code.tokens[i].kind == code.tokens[after].kind == "word" and code.text[i] not in KEYWORDS

    def _of_pointers(self, i: int) -> bool:
        """Whether the array that is indexed at `i` is declared as one of pointers."""
        code = self.code
        name = code.text[i - 1]
        return any(
            code.text[j : j + 2] == [name, "["] and code.text[j - 1] in ("*", "__restrict__")
            for j in range(1, len(code.text) - 1)
        )

    def _unary(self, i: int) -> bool:
        """Whether the star at `i` reads memory: it has no left operand and is no part of a type."""
        code = self.code
        if i == 0 or i - 1 in code.angle_close:
            return False
        before = code.tokens[i - 1]
        if before.kind == "word":
            return before.text in BEFORE_VALUE
        if before.text == ")":
            first = code.pair[i - 1]
            inside = code.text[first + 1 : i - 1]
            cast = bool(inside) and all(word in TYPES | {"const", "*"} for word in inside)
            return cast or code.text[first - 1] in _HEADS
        if before.text == "*":
            return self._unary(i - 1)
        return (before.kind == "mark" and before.text not in ("]", "}", "++", "--", "&")) or before.text in ("}", "&")

    def _variables(self) -> Iterator[Problem]:
        """Variables that outlive a thread: nothing watches them, and a card's are others."""
        code = self.code
        for i, text in enumerate(code.text):
            if text == "static" and code.editable[i] and code.text[i + 1] not in ("constexpr", "const"):
                yield (
                    code.tokens[i],
                    "a static variable is one for all threads: an array of the launch, or static constexpr",
                )
        i = 0
        while i < len(code.text):
            if code.text[i : i + 3] == ["extern", '"C"', "{"] or code.text[i] in ("namespace", "}", ";"):
                i += 3 if code.text[i] == "extern" else 1
                while code.text[i - 1] == "namespace" and code.text[i] != "{":
                    i += 1
                i += code.text[i : i + 1] == ["{"] and code.text[i - 1] != "{"
                continue
            end = code.statement_end(i)
            said = code.text[i : end + 1]
            if said and said[-1] == ";" and _NO_VARIABLE.isdisjoint(said) and ("(" not in said or "=" in said):
                yield (
                    code.tokens[i],
                    "a variable outside of functions is one for all threads: an array of the launch, or constexpr",
                )
            i = end + 1
