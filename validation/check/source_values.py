"""Edits of what is computed: constants, signs, operands, roundings, and what sums begin with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from validation.check.source_declarations import Code
from validation.check.source_edits import (
    RELATIONS,
    Edit,
    argument_texts,
    calls,
    chooses_larger_or_smaller,
    is_relation,
    leads,
    overshoots,
)
from validation.check.source_structure import level

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)([uUlL]*)")
_FLOAT = re.compile(r"((?:[0-9]*\.[0-9]+|[0-9]+\.?)(?:[eE][+-]?[0-9]+)?)([fF]?)")
_ZERO = re.compile(r"0*\.?0*[fF]?")
#: A bit that moves a float's value by an eighth or more.
_FRACTION_BIT = 1 << 20
#: Bits of infinities and of the largest numbers, their names, and the magnitude from which a number is far out.
_FAR_BITS = frozenset({"0xff800000", "0x7f800000", "0xff7fffff", "0x7f7fffff"})
_FAR_NAMES = frozenset({"INFINITY", "HUGE_VALF", "FLT_MAX"})
_FAR = 1e4
_SUMS = ("__fadd_rn", "__fmaf_rn", "__fmul_rn", "__fsub_rn", "__fdiv_rn")
_EXCHANGED = {"fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: Binds stronger than any binary operator: one operand alone.
_ONE_OPERAND = level("*") + 1
_OTHER_AXIS = {"x": "y", "y": "x", "z": "x"}
_OTHER_PART = {"x": "y", "y": "x", "z": "w", "w": "z"}
_ROUNDINGS = {"__float2int_rn": "__float2int_rz", "__float2int_rz": "__float2int_rn"}


def constants(code: Code) -> Iterator[Edit]:
    """A number is off by one; a float below one is doubled; bits of a float change by a bit of its fraction."""
    updates = {j for loop in code.loops for j in range(loop.update[0], loop.update[1] + 1)}
    single = {code.text[i - 1] for i in range(1, len(code.text)) if code.text[i : i + 3] == ["[", "1", "]"]}
    starts = {loop.start[1] for loop in code.loops if code.text[loop.start[1] - 1] == "="}
    for i, token in enumerate(code.tokens):
        if token.kind != "number" or not code.editable[i] or i in updates | starts or _is_first_value(code, i):
            continue
        if _begins_turns(code, i):
            continue
        if leads(code, i - 1) or (code.text[i - 1] == "[" and code.text[i - 2] in single):
            continue
        if overshoots(code, i):
            continue
        new = _next(token.text, bits=code.text[i - 2 : i] == ["bits_to_float", "("])
        if new is not None:
            yield Edit("constant", i, i, new)


def _begins_turns(code: Code, i: int) -> bool:
    """Whether the number is where a buffer's number begins that is 0 and 1 in turn: either may be the first."""
    name = code.text[i - 2]
    if code.text[i - 1] != "=" or code.text[i + 1] not in (";", ","):
        return False
    here = range(len(code.text) - 3)
    return any(code.text[j : j + 3] == [name, "^=", "1"] or code.text[j : j + 4] == [name, "=", "1", "-"] for j in here)


def _next(text: str, bits: bool) -> str | None:
    whole = _INTEGER.fullmatch(text)
    if whole is not None:
        digits, suffix = whole[1].replace("'", ""), whole[2]
        base = 16 if digits[:2].lower() == "0x" else 2 if digits[:2].lower() == "0b" else 10
        value = int(digits, base)
        if bits:
            value ^= _FRACTION_BIT
        else:
            value += -1 if value in (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1) else 1
        return f"{value:#0{len(digits)}x}{suffix}" if base == 16 else f"{value}{suffix}"
    part = _FLOAT.fullmatch(text)
    if part is None:
        return None
    value_, suffix = float(part[1]), part[2]
    if value_ >= 2**24:
        return f"(2 * {text})"
    return f"{value_ + 1!r}{suffix}" if value_ == int(value_) else f"(2 * {text})"


def _begins_sum(code: Code, i: int) -> bool:
    """Whether a number is a zero that a float begins with: `float sum = 0.0f`, the first of `acc[4] = {0.0f, 0.0f}`."""
    text = code.text[i]
    if not (_ZERO.fullmatch(text) and ("." in text or text[-1] in "fF")):
        return False
    return code.text[i - 1] in ("=", "{") and code.text[i + 1] in (";", ",", "}")


def _is_first_value(code: Code, i: int) -> bool:
    """Whether a number is the zero that a float begins with, of an array any of them."""
    while code.text[i - 1] == "," and code.text[i - 2] == code.text[i]:
        i -= 2
    return _begins_sum(code, i)


def accumulators(code: Code) -> Iterator[Edit]:
    """A sum begins with one."""
    for i, token in enumerate(code.tokens):
        if token.kind == "number" and code.editable[i] and _begins_sum(code, i):
            yield Edit("accumulator", i, i, "1.0f" if token.text[-1] in "fF" else "1.0")


def limits(code: Code) -> Iterator[Edit]:
    """A maximum or a minimum begins at zero: instead of an infinity, of a number far out, or of a first element."""
    for i, text in enumerate(code.text):
        if not code.editable[i]:
            continue
        if text == "bits_to_float" and code.text[i + 1] == "(":
            last = code.pair[i + 1]
            if code.said(i + 2, last - 1).lower().rstrip("u") in _FAR_BITS and _begins(code, i, last):
                yield Edit("limit", i, last, "0.0f")
        elif text in _FAR_NAMES or _far(text):
            first = i - 1 if code.text[i - 1] == "-" and not code.is_binary(i - 1) else i
            if _begins(code, first, i):
                yield Edit("limit", first, i, "0.0f")
    compared = _compared(code)
    for i, text in enumerate(code.text):
        if text == "=" and code.text[i - 2] == "float" and code.text[i - 1] in compared:
            last = code.statement_end(i) - 1
            read = code.text[i + 1] == "load" or code.text[i + 2 : i + 4] == [".", "ld"]
            if read and "," not in _outside(code, i + 1, last):
                yield Edit("limit", i + 1, last, "0.0f")


def _begins(code: Code, first: int, last: int) -> bool:
    """Whether tokens are all that a variable, or an element of an array, begins with."""
    return code.text[first - 1] in ("=", "{", ",") and code.text[last + 1] in (";", ",", "}")


def _far(text: str) -> bool:
    part = _FLOAT.fullmatch(text)
    return part is not None and ("." in text or "e" in text.lower()) and float(part[1]) >= _FAR


def _compared(code: Code) -> set[str]:
    """Names of which a maximum or a minimum is taken."""
    found: set[str] = set()
    for i, text in enumerate(code.text):
        if text in RELATIONS and is_relation(code, i) and chooses_larger_or_smaller(code, i):
            found |= {code.text[i - 1], code.text[i + 1]}
    for _, bracket in calls(code, *_EXCHANGED):
        found |= set(argument_texts(code, bracket))
    return found


def _outside(code: Code, first: int, last: int) -> list[str]:
    """Tokens that stand in no brackets."""
    out, i = [], first
    while i <= last:
        out.append(code.text[i])
        i = code.pair.get(i, i) + 1 if code.text[i] in ("(", "[", "{") else i + 1
    return out


def signs(code: Code) -> Iterator[Edit]:
    """Plus becomes minus, minus plus; a sign is lost."""
    updates = {j for loop in code.loops for j in range(loop.update[0], loop.update[1] + 1)}
    other = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "__fadd_rn": "__fsub_rn", "__fsub_rn": "__fadd_rn"}
    for i, text in enumerate(code.text):
        if text not in other or not code.editable[i] or i in updates:
            continue
        if text == "-" and not code.is_binary(i):
            yield Edit("sign", i, i, "")
        elif text != "+" or code.is_binary(i):
            yield Edit("sign", i, i, other[text])


def operands(code: Code) -> Iterator[Edit]:
    """The operands of a difference or of a quotient are exchanged."""
    for i, text in enumerate(code.text):
        if text in ("-", "/") and code.editable[i] and code.is_binary(i):
            first, last = code.left(i, level(text)), code.right(i, level(text) + 1)
            left, right = code.said(first, i - 1), code.said(i + 1, last)
            yield Edit("operands", first, last, f"{right} {text} {left if first == i - 1 else f'({left})'}")
    for i, bracket in calls(code, "__fsub_rn", "__fdiv_rn"):
        a, b = argument_texts(code, bracket)
        yield Edit("operands", i, code.pair[bracket], f"{code.text[i]}({b}, {a})")


def indices(code: Code) -> Iterator[Edit]:
    """An index takes its parts the other way round, or another component of a vector."""
    for i, text in enumerate(code.text):
        if not code.editable[i]:
            continue
        if text == "*" and code.is_binary(i):
            yield from _exchanged_index(code, i)
        if text in ("x", "y", "z", "w") and code.text[i - 1] == "." and code.text[i + 1] != "(":
            yield Edit("index", i, i, _OTHER_AXIS[text] if _is_index(code, i) else _OTHER_PART[text])
    for i, text in enumerate(code.text):
        if text in ("true", "false") and code.text[i - 2 : i] == ["ldmatrix_x4", "<"] and code.editable[i - 2]:
            yield Edit("index", i, i, "false" if text == "true" else "true")


def _exchanged_index(code: Code, i: int) -> Iterator[Edit]:
    """`a * b + c` becomes `c * b + a`."""
    first, middle = code.left(i, _ONE_OPERAND), code.right(i, _ONE_OPERAND)
    if code.text[middle + 1] != "+" or code.text[first - 1] in ("*", "/", "%", "-"):
        return
    last = code.right(middle + 1, _ONE_OPERAND)
    if code.text[last + 1] in ("*", "/", "%") or last == middle + 1:
        return
    a, b, c = code.said(first, i - 1), code.said(i + 1, middle), code.said(middle + 2, last)
    if a != c and not {code.tokens[first].kind, code.tokens[last].kind} & {"number"}:
        yield Edit("index", first, last, f"{c} * {b} + {a}")


def _is_index(code: Code, i: int) -> bool:
    return code.text[i - 2] in ("threadIdx", "blockIdx", "blockDim", "gridDim")


def masks(code: Code) -> Iterator[Edit]:
    """Bits, or a remainder, are not cut off."""
    for i, text in enumerate(code.text):
        if text in ("&", "%") and code.editable[i] and code.is_binary(i) and code.tokens[i + 1].kind == "number":
            weakest = level(text) + 1
            if code.right(i, weakest) == i + 1:
                yield Edit("mask", i, i + 1, "")


def fused(code: Code) -> Iterator[Edit]:
    """A fused multiply-add rounds its product."""
    for i, bracket in calls(code, "__fmaf_rn"):
        a, b, c = argument_texts(code, bracket)
        yield Edit("fma", i, code.pair[bracket], f"__fadd_rn(__fmul_rn({a}, {b}), {c})")


def roundings(code: Code) -> Iterator[Edit]:
    """A conversion rounds another way, or is not made; a quotient becomes the product with a rounded reciprocal."""
    for i, _ in calls(code, *_ROUNDINGS):
        yield Edit("rounding", i, i, _ROUNDINGS[code.text[i]])
    for i, bracket in calls(code, "half_value"):
        inner = bracket + 1
        if code.text[inner] == "half_bits" and code.pair[inner + 1] == code.pair[bracket] - 1:
            yield Edit("rounding", i, code.pair[bracket], f"({code.said(inner + 2, code.pair[inner + 1] - 1)})")
    for i, bracket in calls(code, "__fdiv_rn"):
        a, b = argument_texts(code, bracket)
        if not _FLOAT.fullmatch(a) or float(a.rstrip("fF")) != 1.0:
            yield Edit("rounding", i, code.pair[bracket], f"__fmul_rn({a}, __fdiv_rn(1.0f, {b}))")


def precisions(code: Code) -> Iterator[Edit]:
    """A result keeps the upper 16 of its 32 bits."""
    for i, bracket in calls(code, *_SUMS):
        whole = code.said(i, code.pair[bracket])
        yield Edit("precision", i, code.pair[bracket], f"bits_to_float(float_to_bits({whole}) & 0xffff0000u)")


def extremes(code: Code) -> Iterator[Edit]:
    """A maximum becomes a minimum, and the other way."""
    for i, text in enumerate(code.text):
        if is_relation(code, i) and chooses_larger_or_smaller(code, i):
            yield Edit("extreme", i, i, _MIRRORED[text])
    for i, _ in calls(code, *_EXCHANGED):
        yield Edit("extreme", i, i, _EXCHANGED[code.text[i]])
