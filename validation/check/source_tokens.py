"""The tokens of a CUDA source: enough of C++ to edit expressions and to leave comments and directives alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from strata.executors.base import StrataError

#: A token's kind, tried in this order. A directive runs to the end of its line, over lines that end in a backslash.
_KINDS = (
    ("comment", r"//(?:\\\n|[^\n])*|/\*.*?\*/"),
    ("space", r"\s+"),
    ("string", r'(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"'),
    ("character", r"(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'"),
    ("number", r"\.?[0-9](?:[eEpP][+-]|'?[0-9a-zA-Z_.])*"),
    ("word", r"[A-Za-z_]\w*"),
    ("mark", r"<<=|>>=|\.\.\.|->\*|<=>|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|##|."),
)
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS), re.DOTALL)
_DIRECTIVE = re.compile(r'#(?:\\\n|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[^\n])*', re.DOTALL)


class SourceError(StrataError):
    """A source that is not text of C++: a comment, a string or a bracket that does not end."""


@dataclass(frozen=True)
class Token:
    """A piece of a source.

    Parameters
    ----------
    kind
        `comment`, `space`, `string`, `character`, `number`, `word`, `mark` or `directive`.
    text
        The piece as it stands: the texts of all tokens, joined, are the source.
    start
        Where it begins, in characters.
    line
        The line where it begins, from 1.
    """

    kind: str
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(source: str) -> list[Token]:
    """The tokens of `source`, in order and without a gap.

    Raises
    ------
    SourceError
        For a comment or a string without an end.
    """
    found: list[Token] = []
    at, line, fresh = 0, 1, True  # fresh: only spaces and comments stand before, on this line
    while at < len(source):
        match = _DIRECTIVE.match(source, at) if fresh and source[at] == "#" else None
        kind = "directive"
        if match is None:
            match = _TOKEN.match(source, at)
            assert match is not None  # the last pattern takes any character
            assert match.lastgroup is not None
            kind = match.lastgroup
        text = match[0]
        if kind == "mark" and (text in "\"'" or source.startswith("/*", at)):
            raise SourceError(f"line {line}: {source[at : at + 2]!r} begins a comment or a string that does not end")
        found.append(Token(kind, text, at, line))
        fresh = "\n" in text or fresh if kind in ("space", "comment", "directive") else False
        if kind == "directive":
            fresh = False  # the line break that follows is a token of its own
        at, line = match.end(), line + text.count("\n")
    return found


def significant(all_tokens: list[Token]) -> list[Token]:
    """The tokens that a compiler sees after the preprocessor: no spaces, comments or directives."""
    return [token for token in all_tokens if token.kind not in ("space", "comment", "directive")]
