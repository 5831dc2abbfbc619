"""Words and numbers that a card's compiler takes otherwise than a processor's, or not at all, in a kernel's source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from strata.executors.lanes import advice
from validation.check.source_accesses import BEFORE_VALUE, Problem, parameters
from validation.check.source_declarations import Code
from validation.check.source_tokens import Token
from validation.check.source_words import FUNCTIONS, KEYWORDS, MARKERS, REFUSED, TYPES

#: A number with a point or an exponent and nothing behind it is a double.
_DOUBLE = re.compile(
    r"(?!0[xX])(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?[lL]?|0[xX][\da-fA-F.']*[pP][+-]?\d+[lL]?"
)
_LONG = re.compile(r"[\da-fA-FxXbB']+(?:[uU]?[lL]|[lL][uU])")
#: Words beside which a refused one has a size, or a sign, everywhere.
_FIXED = {"long": {"long"}, "char": {"signed", "unsigned"}}
#: Other spellings of brackets and of the mark of a directive.
_DIGRAPHS = ("<:", ":>", "<%", "%>", "%:")


def _instead(word: str) -> str:
    return f"; instead of {word}: {advice.INSTEAD[word]}" if word in advice.INSTEAD else ""


def words(found: Sequence[Token]) -> Iterator[Problem]:
    """What no source may say."""
    for i, token in enumerate(found):
        text = token.text
        after = found[i + 1] if i + 1 < len(found) else None
        if text == "\\" or (after is not None and token.end == after.start and text + after.text in _DIGRAPHS):
            yield token, f"{text} stands for another mark, or for the end of a line, expected marks as they are"
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
            yield token, f"{text} is no word of the vocabulary{_instead(text)}"
        elif text in REFUSED and near.isdisjoint(_FIXED.get(text, ())):
            yield token, f"{text} is refused: {REFUSED[text]}"


def declared(code: Code) -> frozenset[str]:
    """Names that a source gives a function with a body, a variable or a parameter: names behind a type or a word."""
    found = {code.text[first - 1] for first, _ in parameters(code)}
    for i in range(1, len(code.tokens)):
        if code.tokens[i].kind == "word" and code.text[i] not in KEYWORDS and code.text[i + 1 : i + 2] != ["("]:
            before = code.tokens[i - 1]
            reference = before.text in ("&", "&&") and i > 1 and code.tokens[i - 2].kind == "word"
            if _declares(code, i) or reference:
                found.add(code.text[i])
    return frozenset(found)


def _declares(code: Code, i: int) -> bool:
    """Whether the word at `i` stands behind another one, or behind the arguments of a template."""
    before = code.tokens[i - 1]
    return (before.kind == "word" and before.text not in BEFORE_VALUE) or i - 1 in code.angle_close


def calls(code: Code, known: frozenset[str]) -> Iterator[Problem]:
    """Calls of functions that are neither the vocabulary's nor among `known` names."""
    for i, token in enumerate(code.tokens):
        if token.kind != "word" or code.text[i + 1 : i + 2] != ["("] or token.text in known:
            continue
        if i and _declares(code, i):  # float value(0.0f)
            continue
        if token.text not in FUNCTIONS | TYPES | KEYWORDS | MARKERS | REFUSED.keys():
            said = f"{token.text}() is no function of the vocabulary and none of the source's own"
            yield token, f"{said}{_instead(token.text)}"
