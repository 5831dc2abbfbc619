"""Which lines of a source its preprocessor leaves in under known macros: a fault in any other is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from validation.check.source_tokens import SourceError, Token

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]+\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def left_in(tokens: Sequence[Token], macros: Mapping[str, int]) -> list[Token]:
    """The tokens that are compiled: of every `#if`, one branch at most.

    Parameters
    ----------
    tokens
        All tokens of a source.
    macros
        Macros that are defined, with their values. The source's own `#define NAME NUMBER` count as well; a condition
        that speaks of others cannot be told, and counts as true.

    Returns
    -------
    list of Token
        Directives among them, so that an edit can keep clear of them.

    Raises
    ------
    SourceError
        For an `#else` or an `#endif` without its `#if`, and an `#if` without an end.
    """
    known = dict(macros)
    kept: list[Token] = []
    open_branches: list[tuple[bool, bool]] = []  # this branch is compiled; one before it, or it, was
    for token in tokens:
        here = all(taken for taken, _ in open_branches)
        if token.kind != "directive":
            if here:
                kept.append(token)
            continue
        name, condition = _parts(token.text)
        if name in ("if", "ifdef", "ifndef"):
            taken = here and _holds(name, condition, known)
            open_branches.append((taken, taken or not here))
        elif name in ("elif", "else", "endif"):
            if not open_branches:
                raise SourceError(f"line {token.line}: #{name} without an #if")
            _, done = open_branches.pop()
            if name != "endif":
                taken = not done and (name == "else" or _holds("if", condition, known))
                open_branches.append((taken, done or taken))
        elif name == "define" and here:
            words = condition.split(None, 1)
            value = _value(words[1], known) if len(words) == 2 else None
            if words and value is not None:
                known[words[0]] = value
        kept.append(token)
    if open_branches:
        raise SourceError("an #if has no #endif")
    return kept


def _parts(text: str) -> tuple[str, str]:
    words = _COMMENT.sub(" ", text.replace("\\\n", " "))[1:].split(None, 1)
    return (words[0] if words else "", words[1].strip() if len(words) == 2 else "")


def _holds(name: str, condition: str, known: Mapping[str, int]) -> bool:
    if name == "ifdef":
        return condition in known
    if name == "ifndef":
        return condition not in known
    value = _value(condition, known)
    return value is None or value != 0


def _value(text: str, known: Mapping[str, int]) -> int | None:
    """The value of a condition, None where it speaks of macros that are not known, or is no plain formula."""
    text = _DEFINED.sub(lambda m: str(int((m[1] or m[2]) in known)), text)
    for word in set(_WORD.findall(_SUFFIX.sub(r"\1", text))) - set(known):
        if not word[0].isdigit():
            return None
    text = _WORD.sub(lambda m: f"({known[m[0]]})" if m[0] in known else m[0], _SUFFIX.sub(r"\1", text))
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or ")).strip()
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    plain = (
        *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.BinOp),
        *(ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Constant),
    )
    nodes = list(ast.walk(tree))
    if not all(isinstance(node, plain) for node in nodes):
        return None
    if any(isinstance(node, ast.Constant) and not isinstance(node.value, int) for node in nodes):
        return None
    try:
        return int(eval(compile(tree, "a condition", "eval"), {"__builtins__": {}}))
    except ZeroDivisionError:
        return None
