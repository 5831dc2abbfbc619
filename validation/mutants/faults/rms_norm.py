"""Mutants of RMSNorm."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

NORM = "strata/kernels/rms_norm.cu"
_LAST = "sum[0] = __fmaf_rn(v.w, v.w, sum[0]);"
_SUM = "for (i64 i = 4 * lane; i < n; i += 128) {\n    const float4 v = load<float4>(x + start + i);\n"
_MEAN = "__fdiv_rn(sum[0], __int2float_rn(n))"
_SCALE = "finite ? __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps))) : bits_to_float(0x7fffffffu)"
_LOST = "if (!finite && lane == 0) atomicAdd(lost, 1);"
_FIRST = "__fmul_rn(__fmul_rn(v.x, scale), w.x)"
_ADDED = "y = {__fadd_rn(a.x, y.x),"
_READ = "const float4 a = load<float4>(residual + start + i);"


def _norm(
    name: str, old: str, new: str, why: str, *recipes: str, mode: str = "plain", also: tuple[Edit, ...] = ()
) -> Mutant:
    return Mutant(f"rms-{name}", NORM, old, new, why, f"rms_norm/{mode}/simt", recipes, also)


_FAULTS = (
    _norm("eps-dropped", "__fadd_rn(mean, eps)", "mean", "eps is left out.", "rms_ladder"),
    _norm(
        "eps-behind-root",
        "__fsqrt_rn(__fadd_rn(mean, eps))",
        "__fadd_rn(__fsqrt_rn(mean), eps)",
        "eps is added to the root.",
        "rms_ladder",
    ),
    _norm("eps-of-one-model", "__fadd_rn(mean, eps)", "__fadd_rn(mean, 1e-6f)", "eps is always 1e-6.", "rms_ladder"),
    _norm("half-a-warp", "warp_add<32>(sum);", "warp_add<16>(sum);", "Two halves of a row have two sums.", "rms_bell"),
    _norm(
        "mean-of-whole-turns",
        "__int2float_rn(n)",
        "__int2float_rn((n + 127) / 128 * 128)",
        "The sum is divided by the columns of whole turns of a warp.",
        "rms_bell",
    ),
    _norm(
        "mean-by-reciprocal",
        _MEAN,
        "__fmul_rn(sum[0], __fdiv_rn(1.0f, __int2float_rn(n)))",
        "The sum is multiplied by a reciprocal: a bit off.",
        "rms_bell",
    ),
    _norm(
        "square-rounded",
        _LAST,
        "sum[0] = __fadd_rn(__fmul_rn(v.w, v.w), sum[0]);",
        "A square is rounded before it is added: a bit off.",
        "rms_bell",
    ),
    _norm("last-of-four-left-out", _LAST, "", "Every fourth column is not in the sum.", "rms_bell"),
    _norm(
        "sum-of-whole-turns",
        _SUM,
        _SUM.replace("i < n;", "i < n / 128 * 128 || n < 128;"),
        "Columns behind the last whole turn of a warp are not in the sum.",
        "rms_bell",
    ),
    _norm(
        "root-of-reciprocal",
        "__fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)))",
        "__fsqrt_rn(__fdiv_rn(1.0f, __fadd_rn(mean, eps)))",
        "The root of the reciprocal in place of the reciprocal of the root: a bit off.",
        "rms_bell",
    ),
    _norm(
        "weight-first",
        _FIRST,
        "__fmul_rn(__fmul_rn(v.x, w.x), scale)",
        "A value is weighted before it is scaled: a bit off, and products overflow.",
        "rms_outliers",
    ),
    _norm(
        "weight-of-first-turn",
        "w = load<float4>(weight + i);",
        "w = load<float4>(weight + i % 128);",
        "Every turn of a warp has the weights of the first.",
        "rms_bell",
    ),
    _norm(
        "weight-plus-one", _FIRST, _FIRST.replace("w.x", "__fadd_rn(1.0f, w.x)"), "A weight counts from 1.", "rms_bell"
    ),
    _norm(
        "overflow-vanishes",
        _SCALE,
        _SCALE.partition(" ? ")[2].partition(" : ")[0],
        "A row whose sum overflows is zero.",
        "rms_overflow",
    ),
    _norm(
        "lost-by-lane", _LOST, "if (!finite) atomicAdd(lost, 1);", "A row that is lost counts 32 times.", "rms_broken"
    ),
    _norm("lost-uncounted", _LOST, "", "Rows that are lost are not counted.", "rms_broken"),
    _norm(
        "lost-nan-alone",
        _LOST,
        "if (sum[0] != sum[0] && lane == 0) atomicAdd(lost, 1);",
        "Rows whose sum overflows are not counted.",
        "rms_overflow",
    ),
    _norm(
        "small-means-flushed",
        _MEAN,
        f"sum[0] < 0x1p-100f ? 0.0f : {_MEAN}",
        "A mean of squares next to nothing is nothing.",
        "rms_ladder",
    ),
    _norm(
        "large-sums-limited",
        "const bool finite =",
        "sum[0] = sum[0] > 0x1p+120f ? 0x1p+120f : sum[0];\n  const bool finite =",
        "Sums are 2^120 at most.",
        "rms_overflow",
    ),
    _norm(
        "row-of-32-bits",
        "start = row * n;",
        "start = static_cast<i64>(static_cast<u32>(row * n));",
        "A row begins at an offset of 32 bits.",
        "rms_sizes",
    ),
    _norm("row-past-end", "if (row >= rows) return;", "if (row > rows) return;", "One row more is normed.", "rms_bell"),
    _norm(
        "residual-fused",
        _ADDED,
        "y = {__fmaf_rn(__fmul_rn(v.x, scale), w.x, a.x),",
        "The weighted value is added without being rounded: a bit off.",
        "rms_bell",
        mode="residual",
    ),
    _norm(
        "residual-subtracted",
        _ADDED,
        "y = {__fadd_rn(a.x, -y.x),",
        "A residual less the norm.",
        "rms_bell",
        mode="residual",
    ),
    _norm(
        "residual-read-late",
        _READ,
        f"store<float4>(out + start + i, y);\n      {_READ}",
        "The norm is written before the residual is read, which is gone where both are one buffer.",
        "rms_bell",
        mode="residual",
    ),
    _norm(
        "out-before-sum",
        "warp_add<32>(sum);",
        "for (i64 i = 4 * lane; i < n; i += 128) store<float4>(out + start + i, float4{0.0f, 0.0f, 0.0f, 0.0f});\n"
        "  warp_add<32>(sum);",
        "The output is cleared before the row is read again, which is gone where both are one buffer.",
        "rms_bell",
    ),
    _norm(
        "residual-of-plain-ignored",
        "if (residual != nullptr) {",
        "if (residual != nullptr && residual != out) {",
        "A residual in the output's own buffer is not added.",
        "rms_bell",
        mode="residual",
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from _FAULTS
