"""Mutants of the sums of the fused product: from integer dots that begin at a float's bits, and scales, to float32."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.faults.expert_fused import INFINITE, ONE, TWO, edit, source_of
from validation.mutants.mutant import Edit, Mutant

_DOT = "const float v = __fmaf_rn(started(dot[m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);"
_FIRST = "const float v = __fmaf_rn(started(dot[0][m][j][e]), w.scale[i][m][e >> 1][0], w.back[i][m][e >> 1]);"
_SECOND = "const float second = __fsub_rn(started(dot[1][m][j][e]), kStartValue);"
_BOTH = "const float both = __fmaf_rn(w.scale[i][m][e >> 1][kScales - 1], second, v);"
_ADD = "acc[m][first + j][e] = __fmaf_rn(d, v, acc[m][first + j][e]);"
_BACK = "back[i][m][r] = __fmul_rn(-kStartValue, scale[i][m][r][0]);"
_START, _VALUE = "kStart = 0x4b400000;", "kStartValue = 12582912.0f;"
_D = "const float d = e & 1 ? (i ? x.d_x[j].w : x.d_x[j].z) : (i ? x.d_x[j].y : x.d_x[j].x);\n            "


def _sum(name: str, old: str, new: str, why: str, path: str = ONE, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"fused-{name}", source_of(old), old, new, why, path, ("experts_plain",), also)


def _also(old: str, new: str) -> tuple[Edit, ...]:
    return (edit(old, new),)


_SUMS = (
    _sum(
        "sum-in-half",
        _ADD,
        "acc[m][first + j][e] = half_value(half_bits(__fmaf_rn(d, v, acc[m][first + j][e])));",
        "Sums are kept in half precision.",
    ),
    _sum(
        "not-fused",
        _ADD,
        "acc[m][first + j][e] = __fadd_rn(acc[m][first + j][e], __fmul_rn(d, v));",
        "Products are rounded before they are added.",
    ),
    _sum(
        "scales-first",
        _DOT,
        "const float v = __fmul_rn(w.scale[i][m][e >> 1][0], d), value = __fsub_rn(started(dot[m][j][e]), kStartValue);",
        "The two scales are multiplied first: another rounding.",
        also=_also(_ADD, _ADD.replace("(d, v,", "(value, v,")),
    ),
    _sum(
        "scale-of-row-g",
        _DOT,
        _DOT.replace("e >> 1", "0"),
        "Rows g + 8 take the scales of rows g: up those of gate.",
    ),
    _sum(
        "scale-first-block",
        _DOT,
        _DOT.replace("[i][m]", "[0][m]"),
        "The second 32 values of a stage take the scale of the first.",
    ),
    _sum(
        "x-scale-of-column",
        _D + _DOT,
        _D.replace("e & 1 ?", "false ?") + _DOT,
        "Odd columns take the scale of x of the column before.",
    ),
    _sum(
        "x-scale-of-first-block",
        _D + _DOT,
        _D.replace("(i ?", "(false ?") + _DOT,
        "The second 32 values of x take the scale of the first.",
    ),
    _sum(
        "two-scales-x-scale",
        _D + _FIRST,
        _D.replace("(i ?", "(false ?") + _FIRST,
        "With two scales of weights the second 32 values of x take the scale of the first.",
        TWO,
    ),
    _sum(
        "two-scales-one",
        _BOTH,
        _BOTH.replace("kScales - 1", "0"),
        "Both halves of 32 values take the first scale.",
        TWO,
    ),
    _sum(
        "two-scales-not-fused",
        _BOTH,
        "const float both = __fadd_rn(__fmul_rn(w.scale[i][m][e >> 1][kScales - 1], second), v);",
        "The second product is rounded before it is added.",
        TWO,
    ),
    _sum(
        "two-scales-turned",
        _FIRST,
        "const float v = __fmul_rn(w.scale[i][m][e >> 1][kScales - 1], __fsub_rn(started(dot[1][m][j][e]), kStartValue));",
        "The second product is rounded alone and the first added to it.",
        TWO,
        _also(_SECOND, _SECOND.replace("dot[1]", "dot[0]")) + _also(_BOTH, _BOTH.replace("kScales - 1", "0")),
    ),
    _sum(
        "two-scales-twice-the-first",
        _SECOND,
        _SECOND.replace("dot[1]", "dot[0]"),
        "The second 16 values of a block are the first.",
        TWO,
    ),
)

_STARTS = (
    _sum("start-one-more", _START, "kStart = 0x4b400001;", "Every dot is one too large."),
    _sum(
        "start-without-room",
        _START,
        "kStart = 0x4b000000;",
        "Dots begin at 2^23, below which the steps of float32 are halves: negative dots count half.",
        also=_also(_VALUE, "kStartValue = 8388608.0f;"),
    ),
    _sum("start-not-taken-back", _DOT, _DOT.replace("w.back[i][m][e >> 1]", "0.0f"), "The start stays in every dot."),
    _sum(
        "start-added-again",
        _BACK,
        _BACK.replace("-kStartValue", "kStartValue"),
        "The start is added a second time, where it should be taken back.",
    ),
    _sum(
        "start-of-other-row",
        _DOT,
        _DOT.replace("w.back[i][m][e >> 1]", "w.back[i][m][1 - (e >> 1)]"),
        "The start is taken back by the scale of the other row of a fragment.",
    ),
    _sum(
        "start-of-other-block",
        _DOT,
        _DOT.replace("w.back[i]", "w.back[1 - i]"),
        "The start is taken back by the scale of the neighbouring 32 values.",
    ),
    _sum(
        "start-of-first-fragment",
        _BACK,
        "back[i][m][r] = __fmul_rn(-kStartValue, scale[i][0][r][0]);",
        "The start is taken back by the scale of the first fragment's row.",
        TWO,
    ),
    _sum(
        "start-of-second-scale",
        _BACK,
        "back[i][m][r] = __fmul_rn(-kStartValue, scale[i][m][r][kScales - 1]);",
        "Of two scales the second takes the start back from the first dot.",
        TWO,
    ),
    _sum(
        "start-of-first-dot-kept",
        _FIRST,
        _FIRST.replace("w.back[i][m][e >> 1]", "0.0f"),
        "With two scales the start stays in the first dot.",
        TWO,
    ),
    _sum(
        "start-of-second-dot-kept",
        _SECOND,
        "const float second = started(dot[1][m][j][e]);",
        "With two scales the start stays in the second dot.",
        TWO,
    ),
    _sum(
        "start-rounded",
        _DOT,
        "const float v = __fadd_rn(__fmul_rn(started(dot[m][j][e]), w.scale[i][m][e >> 1][0]), w.back[i][m][e >> 1]);",
        "A product with the start in it is rounded before the start is taken back: low bits of the dot are lost.",
    ),
    Mutant(
        "fused-infinite-scale-stays",
        source_of(_DOT),
        _DOT,
        "const float v = __fmul_rn(__fsub_rn(started(dot[m][j][e]), kStartValue), w.scale[i][m][e >> 1][0]);",
        "An infinite scale of a block gives infinities, where its rows should be NaN.",
        tests=INFINITE,
    ),
    Mutant(
        "fused-infinite-scale-stays-of-two",
        source_of(_FIRST),
        _FIRST,
        "const float v = __fmul_rn(__fsub_rn(started(dot[0][m][j][e]), kStartValue), w.scale[i][m][e >> 1][0]);",
        "With two scales an infinite one gives infinities, where its rows should be NaN.",
        tests=INFINITE,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_SUMS, *_STARTS)
