"""Whether a kernel's source keeps to the vocabulary, so that what lanes judge is what a card runs, and all of it.

Refused, in one line with file and line: a body for one compiler alone, memory that is reached otherwise than by the
functions that are watched, and words that a card's compiler takes otherwise, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from strata.executors.base import KERNELS, StrataError, system_reason
from strata.executors.lanes import advice
from validation.check.source_declarations import Code
from validation.check.source_tokens import SourceError, Token, significant, tokens
from validation.check.source_words import FUNCTIONS, KEYWORDS, MARKERS, REFUSED, TYPES

_INCLUDE = re.compile(r'#\s*include\s*(?:"([^"]*)"|(.*))')
_MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?(.*)", re.DOTALL)
_CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)", re.DOTALL)
_DEVICE = re.compile(r"\b(?:DEVICE|MEMBER)\b[^;{}()]*?(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: A number with a point or an exponent and nothing behind it is a double.
_DOUBLE = re.compile(
    r"(?!0[xX])(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?[lL]?|0[xX][\da-fA-F.']*[pP][+-]?\d+[lL]?"
)
_LONG = re.compile(r"[\da-fA-FxXbB']+(?:[uU]?[lL]|[lL][uU])")
#: Words beside which a refused one has a size, or a sign, everywhere.
_FIXED = {"long": {"long"}, "char": {"signed", "unsigned"}}
_BY_LOAD = "read by load(p + i) and written by store(p + i, v), which are watched"
_BEFORE_VALUE = frozenset({"return", "case", "else", "do"})


def refuse_foreign(source: Path, defines: Mapping[str, int]) -> None:
    """Look at a kernel's source, and at the headers beside it that it includes.

    Parameters
    ----------
    source : Path
        The `.cu` file.
    defines : mapping
        The macros that it is compiled with, which alone may decide what is compiled.

    Raises
    ------
    StrataError
        For the first thing that the vocabulary does not have, in one line that begins with file and line.
    """
    files, foreign = _files(source)
    macros = {name for text in files.values() for name in _MACRO.findall(_COMMENT.sub(" ", text))}
    known = frozenset(macros) | frozenset(defines)
    own = {name: _Source(name, text, defines, known) for name, text in files.items()}
    declared = frozenset(foreign).union(*(one.declared for one in own.values()))
    for one in own.values():
        one.refuse(declared)


def _files(source: Path) -> tuple[dict[str, str], set[str]]:
    """The source and the headers beside it, by name, and the functions of this project's headers that they include."""
    files: dict[str, str] = {}
    foreign: set[str] = set()
    waiting = [source.name]
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        try:
            files[name] = (source.parent / name).read_text()
        except OSError as error:
            raise StrataError(f"{source.parent / name}: cannot be read: {system_reason(error)}") from error
        except UnicodeDecodeError:
            raise StrataError(f"{name}: is no text of UTF-8") from None
        for line, text in enumerate(_COMMENT.sub(_blank, files[name]).splitlines(), 1):
            match = _INCLUDE.match(text.strip())
            if match is None:
                continue
            quoted = match[1] or ""
            header = KERNELS / "include" / quoted.removeprefix("include/")
            if quoted.startswith("include/") and header.is_file():
                foreign |= set(_DEVICE.findall(header.read_text()))
            elif re.fullmatch(r"\w+\.cuh", quoted) and (source.parent / quoted).is_file():
                waiting.append(quoted)
            else:
                said = quoted or match[2].strip()
                raise StrataError(
                    f"{name}:{line}: #include {said}: expected include/NAME.cuh of this project, or a header "
                    "NAME.cuh beside the source"
                )
    return files, foreign


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or " "


class _Source:
    """One file: its tokens, and the names that it declares."""

    def __init__(self, name: str, text: str, defines: Mapping[str, int], macros: frozenset[str]) -> None:
        self.name, self.macros = name, macros
        try:
            every = tokens(text)
            self._conditions([token for token in every if token.kind == "directive"])
            self.code = Code(text, defines)
        except SourceError as error:
            raise StrataError(f"{name}: {error}") from None
        self.directives = [token for token in every if token.kind == "directive"]

    def error(self, token: Token, reason: str) -> StrataError:
        return StrataError(f"{self.name}:{token.line}: {reason}")

    def _conditions(self, directives: Sequence[Token]) -> None:
        """What decides which lines are compiled must be the same for both compilers."""
        for token in directives:
            match = _CONDITION.match(token.text)
            words = re.findall(r"[A-Za-z_]\w*", _COMMENT.sub(" ", match[1])) if match else []
            for word in words:
                if word not in self.macros and word not in ("defined", "true", "false"):
                    raise self.error(
                        token,
                        f"a condition on {word}, which two compilers need not agree on: what is judged would not be "
                        "what a card runs; expected names of `defines` or of the source's own #define",
                    )

    @property
    def declared(self) -> frozenset[str]:
        """Names that stand behind a type or a word, as in a declaration, and macros."""
        code, found = self.code, set(self.macros)
        found |= {code.text[first - 1] for first, _ in self._parameters()}
        for i, token in enumerate(code.tokens):
            if i and token.kind == "word" and token.text not in KEYWORDS:
                before = code.tokens[i - 1]
                reference = before.text in ("&", "&&") and i > 1 and code.tokens[i - 2].kind == "word"
                behind = code.text[i + 1 : i + 2] != ["("]
                named = before.kind == "word" and before.text not in _BEFORE_VALUE
                if named or i - 1 in code.angle_close or (reference and behind):
                    found.add(token.text)
        return frozenset(found)

    def refuse(self, declared: frozenset[str]) -> None:
        """Raise for the first word and the first access that the vocabulary does not have."""
        problems = [*self._words(self.code.tokens), *self._memory(declared), *self._calls(declared), *self._variables()]
        for token in self.directives:
            problems += self._directive(token)
        if problems:
            token, reason = min(problems, key=lambda one: one[0].start)
            raise self.error(token, reason)

    def _directive(self, token: Token) -> Iterator[tuple[Token, str]]:
        text = _COMMENT.sub(" ", token.text)
        if re.match(r"#\s*pragma\b(?!\s+(unroll|once)\b)", text) or re.match(r"#\s*line\b", text):
            yield token, f"{text.split()[0]} is the compiler's own, expected none but #pragma unroll"
        match = _DEFINE.match(text)
        if match is not None:
            body = significant(tokens(match[3].replace("\\\n", " ")))
            placed = [Token(one.kind, one.text, token.start, token.line) for one in body]
            yield from self._words(placed)
            for i, one in enumerate(placed):
                value = i == 0 or placed[i - 1].text in "(,=;{}?:+-/%&|<>!*["
                if (one.text == "[" and i) or (one.text == "*" and value) or one.text == "->":
                    yield token, f"a macro reaches memory by {one.text}, expected it to be {_BY_LOAD}"

    @staticmethod
    def _words(found: Sequence[Token]) -> Iterator[tuple[Token, str]]:
        for i, token in enumerate(found):
            text = token.text
            near = {found[j].text for j in (i - 1, i + 1) if 0 <= j < len(found)}
            if token.kind == "number" and re.search(r"[.eEpP]", text) and _DOUBLE.fullmatch(text):
                if not re.fullmatch(r"0[xX][\da-fA-F']+|\d+", text):
                    yield token, f"{text} is a double, expected {text}f"
            elif token.kind == "number" and _LONG.fullmatch(text) and not text.lower().endswith(("ll", "llu")):
                yield token, f"{text} is a long: {REFUSED['long']}"
            if token.kind != "word":
                continue
            if text.startswith(("STRATA_", "__ubsan", "__asan")) or re.match(r"_[A-Z]", text):
                yield token, f"{text} is the compiler's or the toolkit's own, and no word of the vocabulary"
            elif text.startswith("__") and text not in FUNCTIONS | MARKERS:
                instead = f"; instead of {text}: {advice.INSTEAD[text]}" if text in advice.INSTEAD else ""
                yield token, f"{text} is no word of the vocabulary{instead}"
            elif text in REFUSED and near.isdisjoint(_FIXED.get(text, ())):
                yield token, f"{text} is refused: {REFUSED[text]}"

    def _calls(self, declared: frozenset[str]) -> Iterator[tuple[Token, str]]:
        code = self.code
        for i, token in enumerate(code.tokens):
            if token.kind != "word" or code.text[i + 1 : i + 2] != ["("] or token.text in declared:
                continue
            if token.text not in FUNCTIONS | TYPES | KEYWORDS | MARKERS | REFUSED.keys():
                instead = (
                    f"; instead of {token.text}: {advice.INSTEAD[token.text]}" if token.text in advice.INSTEAD else ""
                )
                yield token, f"{token.text}() is no function of the vocabulary and none of the source's own{instead}"

    def _memory(self, declared: frozenset[str]) -> Iterator[tuple[Token, str]]:
        """Accesses by a subscript, a star or an arrow that do not keep to a thread's own arrays."""
        code = self.code
        for first, last in self._parameters():
            for i in range(first + 1, last):
                if code.text[i] == "[" and code.tokens[i - 1].kind == "word" and i - 1 not in code.angle_close:
                    name = code.text[i - 1]
                    said = (
                        f"the parameter {name}[] is a pointer, expected T (&{name})[N] for an array of the thread's own"
                    )
                    yield code.tokens[i], f"{said}, or T* {name}, {_BY_LOAD}"
        for i, token in enumerate(code.tokens):
            if token.text == "[" and self._reaches(i):
                said = (
                    code.said(code.statement_start(i), i)
                    if code.tokens[i - 1].kind != "word"
                    else f"{code.text[i - 1]}["
                )
                yield token, f"{said[-24:]}...] is an access that nothing watches: memory is {_BY_LOAD}"
            elif token.text == "*" and self._unary(i) and code.text[i + 1 : i + 2] != ["this"]:
                said = code.said(i, min(i + 1, len(code.tokens) - 1))
                yield token, f"{said} is an access that nothing watches: memory is {_BY_LOAD}"
            elif token.text == "->" and not self._of_lambda(i):
                yield token, f"-> is an access that nothing watches: memory is {_BY_LOAD}"

    def _of_lambda(self, i: int) -> bool:
        """Whether the arrow at `i` gives the type of a lambda, or a member by `this`."""
        text, pair = self.code.text, self.code.pair
        return text[i - 1] == "this" or (text[i - 1] == ")" and text[pair[i - 1] - 1] == "]")

    def _parameters(self) -> Iterator[tuple[int, int]]:
        """Parentheses of parameters: those before the brace of a function's body."""
        code = self.code
        for i, text in enumerate(code.text):
            if text == "{" and i and code.text[i - 1] == ")":
                first = code.pair[i - 1]
                if code.text[first - 1] not in ("if", "for", "while", "switch"):
                    yield first, i - 1

    def _reaches(self, i: int) -> bool:
        """Whether the `[` at `i` may reach other memory than an array that a function declares."""
        code = self.code
        if i == 0:
            return False
        before, text = code.tokens[i - 1], code.text[i - 1]
        if text == "[" or code.text[i + 1 : i + 2] == ["["]:  # [[attribute]]
            return False
        if before.kind == "word":
            return text not in _BEFORE_VALUE | {"auto"} and text not in self.arrays
        if text == "]":
            first = code.pair[i - 1]
            return self._reaches(first) if not self._of_pointers(first) else True
        if text == ")":  # float (&x)[4] declares, (x + i)[0] reaches
            return code.text[code.pair[i - 1] + 1] != "&"
        return before.kind in ("string", "number")

    @cached_property
    def arrays(self) -> frozenset[str]:
        """Names of a thread's own arrays: `float a[4], b[2]`, and references to them, `float (&c)[4]`."""
        code, found = self.code, set(self.code.own_arrays)
        for i, text in enumerate(code.text):
            if text != "[" or i < 3:
                continue
            if code.text[i - 1] == ")" and code.text[i - 3] == "&" and code.text[i - 4] == "(":
                found.add(code.text[i - 2])
            elif code.tokens[i - 1].kind == "word" and code.text[i - 2] == "," and self._declares(i - 2):
                found.add(code.text[i - 1])
        return frozenset(found)

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
            return before.text in _BEFORE_VALUE
        if before.text == ")":
            first = code.pair[i - 1]
            inside = code.text[first + 1 : i - 1]
            cast = bool(inside) and all(word in TYPES | {"const", "*"} for word in inside)
            return cast or code.text[first - 1] in ("if", "for", "while", "switch")
        if before.text == "*":
            return self._unary(i - 1)
        return (before.kind == "mark" and before.text not in ("]", "}", "++", "--", "&")) or before.text in ("}", "&")

    def _variables(self) -> Iterator[tuple[Token, str]]:
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
            head = {
                "constexpr",
                "const",
                "using",
                "typedef",
                "template",
                "struct",
                "class",
                "enum",
                "static_assert",
                "namespace",
            }
            if said and said[-1] == ";" and head.isdisjoint(said) and ("(" not in said or "=" in said):
                yield (
                    code.tokens[i],
                    "a variable outside of functions is one for all threads: an array of the launch, or constexpr",
                )
            i = end + 1
