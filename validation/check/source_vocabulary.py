"""Whether a kernel's source keeps to the vocabulary, so that what lanes judge is what a card runs, and all of it.

Refused, in one line with file and line: a body for one compiler alone, memory that is reached otherwise than by the
functions that are watched, and words that a card's compiler takes otherwise, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from strata.executors.base import KERNELS, StrataError, system_reason
from validation.check.source_accesses import BY_LOAD, Accesses, Problem
from validation.check.source_declarations import Code
from validation.check.source_foreign import calls, declared, words
from validation.check.source_tokens import SourceError, Token, significant, tokens

_INCLUDE = re.compile(r'#\s*include\s*(?:"([^"]*)"|(.*))')
_MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
_DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?(.*)", re.DOTALL)
_CONDITION = re.compile(r"#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)", re.DOTALL)
_DEVICE = re.compile(r"\b(?:DEVICE|MEMBER)\b[^;{}()]*?(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


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
    own = {name: _Source(name, text, defines, frozenset(macros) | frozenset(defines)) for name, text in files.items()}
    known = frozenset(foreign).union(*(declared(one.code) for one in own.values()))
    for one in own.values():
        one.refuse(known)


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
            if "\\\n" in token.text and not _DEFINE.match(token.text):
                raise self.error(token, "a directive that goes on in the next line, expected a #define alone to do so")
            match = _CONDITION.match(token.text)
            words = re.findall(r"[A-Za-z_]\w*", _COMMENT.sub(" ", match[1])) if match else []
            for word in words:
                if word not in self.macros and word not in ("defined", "true", "false"):
                    raise self.error(
                        token,
                        f"a condition on {word}, which two compilers need not agree on: what is judged would not be "
                        "what a card runs; expected names of `defines` or of the source's own #define",
                    )

    def refuse(self, known: frozenset[str]) -> None:
        """Raise for the first word and the first access that the vocabulary does not have."""
        problems = [*words(self.code.tokens), *Accesses(self.code).problems(), *calls(self.code, known | self.macros)]
        for token in self.directives:
            problems += self._directive(token)
        if problems:
            token, reason = min(problems, key=lambda one: one[0].start)
            raise self.error(token, reason)

    def _directive(self, token: Token) -> Iterator[Problem]:
        text = _COMMENT.sub(" ", token.text)
        if re.match(r"#\s*pragma\b(?!\s+(unroll|once)\b)", text) or re.match(r"#\s*line\b", text):
            yield token, f"{text.split()[0]} is the compiler's own, expected none but #pragma unroll"
        match = _DEFINE.match(text)
        if match is not None:
            body = significant(tokens(match[3].replace("\\\n", " ")))
            placed = [Token(one.kind, one.text, token.start, token.line) for one in body]
            yield from words(placed)
            for i, one in enumerate(placed):
                value = i == 0 or placed[i - 1].text in "(,=;{}?:+-/%&|<>!*["
                if (one.text == "[" and i) or (one.text == "*" and value) or one.text == "->":
                    yield token, f"a macro reaches memory by {one.text}, expected it to be {BY_LOAD}"
