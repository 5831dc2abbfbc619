"""Mutants of the router and of combining."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

ROUTER, COMBINE = "strata/kernels/router.cu", "strata/kernels/combine.cu"


def _route(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"router-{name}", ROUTER, old, new, why, "router/fp32/simt", recipes)


def _combine(name: str, old: str, new: str, why: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"combine-{name}", COMBINE, old, new, why, "combine/fp32/simt", recipes, also)


_FIRST = "best == top[0] ? static_cast<u32>(MOST_EXPERTS - (32 * at + lane)) : 0"
_NAN = "if (magnitude > 0x7f800000u) bits = 0x80000000u | kLargest, ++nans;"
_DIV = "__fdiv_rn(weight, sum > least ? sum : least)"
_ADD = "s[4] = {0.0f, 0.0f, 0.0f, 0.0f};"
_FMA = "multiply_add(s, load(weights + token * ranks + rank), of);"

_ROUTER = (
    _route(
        "ties-to-larger",
        "if (key[i] > best) best = key[i], at = i;",
        "if (key[i] >= best) best = key[i], at = i;",
        "Of equal logits of a lane the last is taken.",
        "router_equal",
    ),
    _route(
        "ties-to-larger-lane",
        _FIRST,
        "best == top[0] ? static_cast<u32>(32 * at + lane + 1) : 0",
        "Of equal logits the larger id is taken, and turned over.",
        "router_ties",
    ),
    _route(
        "ties-to-lane",
        _FIRST,
        "best == top[0] ? static_cast<u32>(MOST_EXPERTS - (32 * at + lane)) + (lane == 31 ? 32u * static_cast<u32>(at) : 0u) : 0",
        "The last lane counts its ids without their turn.",
        "router_ties",
    ),
    _route(
        "by-softmax",
        "key[i] = expert < experts ? key_of(load(logits + token * experts + expert), nans, infinities) : 0;",
        "key[i] = expert < experts ? key_of(load(logits + token * experts + expert), nans, infinities) & ~7u : 0;",
        "Logits a few float steps apart count as equal.",
        "router_close",
    ),
    _route(
        "epsilon-of-index",
        "key[i] = expert < experts ? key_of(load(logits + token * experts + expert), nans, infinities) : 0;",
        "key[i] = expert < experts ? key_of(__fsub_rn(load(logits + token * experts + expert), 1e-6f * expert), nans, infinities) : 0;",
        "Ties are broken by subtracting a small number times the id.",
        "router_close",
    ),
    _route("minus-zero-below", "if (magnitude == 0) bits = 0;", "", "-0 counts as smaller than +0.", "router_ties"),
    _route(
        "nan-largest",
        _NAN,
        _NAN.replace("0x80000000u | kLargest", "kLargest"),
        "A NaN counts as the largest logit.",
        "router_broken",
    ),
    _route("nan-as-is", _NAN, "if (magnitude > 0x7f800000u) ++nans;", "A NaN takes part by its bits.", "router_broken"),
    _route("nan-uncounted", _NAN, _NAN.replace(", ++nans", ""), "NaN are not counted.", "router_broken"),
    _route(
        "infinity-as-is",
        "bits = (bits & 0x80000000u) | kLargest, ++infinities;",
        "++infinities;",
        "Infinities take part as they are.",
        "router_broken",
    ),
    _route(
        "infinity-sign-lost",
        "bits = (bits & 0x80000000u) | kLargest, ++infinities;",
        "bits = kLargest, ++infinities;",
        "Minus infinity counts as the largest.",
        "router_broken",
    ),
    _route(
        "experts-of-first-turn",
        "for (int i = 0; i < kEach; ++i) {\n      const int expert = 32 * i + lane;",
        "for (int i = 0; i < kEach; ++i) key[i] = 0;\n    for (int i = 0; i < 8; ++i) {\n      const int expert = 32 * i + lane;",
        "Only the first 256 experts are seen.",
        "router_bell",
    ),
    _route(
        "expert-past-end",
        "key[i] = expert < experts ?",
        "key[i] = expert <= experts ?",
        "The logit behind a token's last is read as one more expert's.",
        "router_bell",
    ),
    _route(
        "chosen-not-removed",
        "if (expert == 32 * i + lane) key[i] = 0;",
        "if (expert == 32 * i + lane && rank == 0) key[i] = 0;",
        "Only the first choice is taken out.",
        "router_bell",
    ),
    _route(
        "lane-removed",
        "if (expert == 32 * i + lane) key[i] = 0;",
        "if (expert % 32 == lane) key[i] = 0;",
        "All experts of a winner's lane are taken out with it.",
        "router_bell",
    ),
    _route(
        "no-maximum",
        "__fsub_rn(x, maximum)",
        "__fsub_rn(x, 0.0f * maximum)",
        "Exponentials are not taken below the maximum.",
        "router_dominant",
    ),
    _route("base-two", "bits_to_float(0x3fb8aa3bu)", "1.0f", "2^x in place of e^x.", "router_bell"),
    _route(
        "reciprocal",
        _DIV,
        "__fmul_rn(weight, __fdiv_rn(1.0f, sum > least ? sum : least))",
        "Weights are multiplied by a reciprocal: a bit off.",
        "router_bell",
    ),
    _route(
        "softmax-reciprocal",
        "__fdiv_rn(share(value_of(top[0]), maximum), total[0])",
        "__fmul_rn(share(value_of(top[0]), maximum), __fdiv_rn(1.0f, total[0]))",
        "The softmax is multiplied by a reciprocal: a bit off.",
        "router_bell",
    ),
    _route("not-renormalised", _DIV, "weight", "Weights are not renormalised.", "router_bell"),
    _route(
        "sum-without-last",
        "sum = __fadd_rn(sum, softmax);",
        "if (rank + 1 < ranks || ranks == 1) sum = __fadd_rn(sum, softmax);",
        "The last choice is not in the sum.",
        "router_bell",
    ),
    _route(
        "clamped-high", "bits_to_float(0x38800000u);   // 2^-14", "0.5f;", "The sum is raised to a half.", "router_bell"
    ),
    _route(
        "total-of-half",
        "warp_add<32>(total);",
        "warp_add<16>(total);",
        "The softmax is over half of the lanes.",
        "router_bell",
    ),
    _route(
        "weight-of-rank-0",
        "if (lane == rank) weight = softmax, chosen = expert;",
        "if (lane == rank) weight = rank ? weight : softmax, chosen = expert;",
        "Only the first rank has a weight.",
        "router_bell",
    ),
    _route(
        "last-rank-unwritten",
        "if (lane < ranks) {",
        "if (lane < ranks - 1 || ranks == 1) {",
        "The last rank is not written.",
        "router_bell",
    ),
    _route(
        "token-offset",
        "store(weights + token * ranks + lane,",
        "store(weights + token * ranks + (token & 1 && lane + 1 < ranks ? lane + 1 : lane),",
        "Weights of odd tokens are written one rank late.",
        "router_bell",
    ),
)

_COMBINE = (
    _combine(
        "last-rank-first",
        "load<float4>(row + static_cast<i64>(rank) * columns);",
        "load<float4>(row + static_cast<i64>(ranks - 1 - rank) * columns);",
        "Rows are taken from the last rank on, weights from the first.",
        "combine_decades",
    ),
    _combine(
        "weight-of-token-0",
        "load(weights + token * ranks + rank)",
        "load(weights + rank)",
        "All tokens take the weights of the first.",
        "combine_decades",
    ),
    _combine(
        "last-rank-dropped",
        "for (int rank = 0; rank < ranks; ++rank) {",
        "for (int rank = 0; rank < ranks - (ranks > 1); ++rank) {",
        "The last rank is left out.",
        "combine_decades",
    ),
    _combine(
        "not-fused",
        _FMA,
        "const float w = load(weights + token * ranks + rank);\n    for (int i = 0; i < 4; ++i) s[i] = __fadd_rn(s[i], __fmul_rn(w, of[i]));",
        "Products are rounded before they are added.",
        "combine_decades",
    ),
    _combine(
        "falling-order",
        "  for (int rank = 0; rank < ranks; ++rank) {",
        "  for (int rank = ranks - 1; rank >= 0; --rank) {",
        "Ranks are added from the last to the first.",
        "combine_cancelling",
    ),
    _combine(
        "zero-weight-skipped",
        "    const float4 r = load<float4>(row + static_cast<i64>(rank) * columns);",
        "    if (load(weights + token * ranks + rank) == 0.0f) continue;\n    const float4 r = load<float4>(row + static_cast<i64>(rank) * columns);",
        "A row under a weight of 0 is not looked at, even when it is not finite.",
        "combine_broken",
    ),
    _combine("starts-at-minus-zero", _ADD, "s[4] = {-0.0f, -0.0f, -0.0f, -0.0f};", "Sums begin at -0."),
    _combine(
        "starts-at-shared",
        _ADD,
        "s[4] = {1e-30f, 1e-30f, 1e-30f, 1e-30f};",
        "Sums do not begin at zero.",
        "combine_decades",
    ),
    _combine(
        "shared-ungated",
        "multiply_add(s, sigmoid(load(shared_gate + token)), of);",
        "multiply_add(s, 1.0f, of);",
        "The shared expert's gate is left out.",
        "combine_decades",
    ),
    _combine(
        "shared-gate-linear",
        "multiply_add(s, sigmoid(load(shared_gate + token)), of);",
        "multiply_add(s, load(shared_gate + token), of);",
        "The gate of the shared expert has no sigmoid.",
        "combine_decades",
    ),
    _combine(
        "shared-of-token-0",
        "load<float4>(shared + token * columns + column);",
        "load<float4>(shared + column);",
        "All tokens take the shared expert's row of the first.",
        "combine_decades",
    ),
    _combine(
        "sigmoid-of-minus",
        "bits_to_float(0xbfb8aa3bu)",
        "bits_to_float(0x3fb8aa3bu)",
        "The sigmoid is that of the negative gate.",
        "combine_decades",
    ),
    _combine(
        "sigmoid-one-bit",
        "bits_to_float(0xbfb8aa3bu)",
        "bits_to_float(0xbfb8aa3cu)",
        "log2(e) is one bit larger.",
        "combine_decades",
    ),
    _combine(
        "last-token",
        "if (token >= tokens) return;",
        "if (token + 1 >= tokens && tokens > 1) return;",
        "The last token is not written.",
        "combine_decades",
    ),
    _combine(
        "token-past-end",
        "if (token >= tokens) return;",
        "if (token > tokens) return;",
        "A row behind the last token is written.",
    ),
    _combine(
        "lost-per-thread",
        "if (bad) atomicAdd(lost, bad);",
        "if (bad) atomicAdd(lost, 1);",
        "Outputs that are not finite are counted four at a time.",
        "combine_broken",
    ),
    _combine(
        "infinity-is-finite",
        "(float_to_bits(x) & 0x7fffffffu) < 0x7f800000u;",
        "(float_to_bits(x) & 0x7fffffffu) <= 0x7f800000u;",
        "Infinities are not counted.",
        "combine_broken",
    ),
    _combine(
        "columns-crossed",
        "float4{s[0], s[1], s[2], s[3]}",
        "float4{s[1], s[0], s[2], s[3]}",
        "Two neighbouring columns change places.",
        "combine_decades",
    ),
    _combine(
        "accumulates-in-half",
        _FMA,
        _FMA + "\n    for (int i = 0; i < 4; ++i) s[i] = half_value(half_bits(s[i]));",
        "Sums are kept in half precision.",
        "combine_decades",
        also=(Edit(COMBINE, '#include "include/exp2.cuh"', '#include "include/exp2.cuh"\n#include "include/ptx.cuh"'),),
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_ROUTER, *_COMBINE)
