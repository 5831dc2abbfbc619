"""Mutants of the router, of combining and of experts' activation that are right in the usual regime of numbers alone."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

ROUTER = "strata/kernels/router.cu"
COMBINE = "strata/kernels/combine.cu"
EXP2 = "strata/kernels/include/exp2.cuh"
SWIGLU = "strata/kernels/include/swiglu.cuh"
ACTIVATION = "strata/kernels/include/activation.cuh"
FINISH = "strata/kernels/include/expert_finish.cuh"

_SHARE = "return exp2_not_positive(__fmul_rn(__fsub_rn(x, maximum), bits_to_float(0x3fb8aa3bu)));   // log2(e)"
_SIGMOID = "return __fdiv_rn(1.0f, __fadd_rn(1.0f, exp2_fma(__fmul_rn(x, bits_to_float(0xbfb8aa3bu)))));   // -log2(e)"
_SWIGLU = "const float e = exp2_fma(__fmul_rn(gate, bits_to_float(kMinusLog2E)));"
_ROUTER, _COMBINE = ("router/*", ("router_ladder",)), ("combine/*", ("combine_ladder",))
_ON_EDGE, _OPENING = ("router/*", ("router_edge",)), ("combine/*", ("combine_gates",))
_COUNTED, _LOST = ("router/*", ("router_counts",)), ("combine/*", ("combine_counts",))
_LEAST = "const float least = bits_to_float(0x38800000u);   // 2^-14"
_FUSED = ("expert_fused/iq3_xxs/iq4_nl/sm75", ("experts_ladder",))

_FAULTS = (
    Mutant(
        "router-share-one-near-zero",
        ROUTER,
        _SHARE,
        "if (__fsub_rn(maximum, x) < 0x1p-12f) return 1.0f;\n  " + _SHARE,
        "Logits that lie less than 2^-12 below the largest weigh as much.",
        *_ROUTER,
    ),
    Mutant(
        "router-share-linear-near-zero",
        ROUTER,
        _SHARE,
        "if (__fsub_rn(maximum, x) < 0x1p-10f) return __fadd_rn(1.0f, __fsub_rn(x, maximum));\n  " + _SHARE,
        "e^x of what is nearer to zero than 2^-10 is 1 + x.",
        *_ROUTER,
    ),
    Mutant(
        "router-difference-limited-at-80",
        ROUTER,
        _SHARE,
        "if (__fsub_rn(x, maximum) < -80.0f) x = maximum - 80.0f;\n  " + _SHARE,
        "No logit counts as further than 80 below the largest.",
        *_ROUTER,
    ),
    Mutant(
        "router-share-flushed-early",
        ROUTER,
        _SHARE,
        "if (__fsub_rn(x, maximum) < -60.0f) return 0.0f;\n  " + _SHARE,
        "A share of less than e^-60 is zero.",
        *_ROUTER,
    ),
    Mutant(
        "router-logits-limited",
        ROUTER,
        "const float maximum = value_of(highest[0]);",
        "const float maximum = value_of(highest[0]) < -1e32f ? -1e32f : value_of(highest[0]);",
        "The largest logit is -1e32 at least.",
        *_ROUTER,
    ),
    Mutant(
        "router-subnormal-logits-flushed",
        ROUTER,
        "if (magnitude == 0) bits = 0;",
        "if (magnitude < 0x800000u) bits = 0;",
        "Subnormal logits are all zero and tie.",
        *_ROUTER,
    ),
    Mutant(
        "combine-skips-tiny-weights",
        COMBINE,
        "multiply_add(s, load(weights + token * ranks + rank), of);",
        "if (load(weights + token * ranks + rank) < 0x1p-20f) continue;\n    "
        "multiply_add(s, load(weights + token * ranks + rank), of);",
        "A rank whose weight is below 2^-20 is left out.",
        *_COMBINE,
    ),
    Mutant(
        "combine-flushes-rows",
        COMBINE,
        "const float of[4] = {r.x, r.y, r.z, r.w};\n    multiply_add(s, load(weights",
        "const auto kept = [](float v) { return v < 0x1p-126f && v > -0x1p-126f ? 0.0f : v; };\n    "
        "const float of[4] = {kept(r.x), kept(r.y), kept(r.z), kept(r.w)};\n    multiply_add(s, load(weights",
        "Subnormal elements of rows count as zero.",
        *_COMBINE,
    ),
    Mutant(
        "combine-sigmoid-half-near-zero",
        COMBINE,
        _SIGMOID,
        "if (x < 0x1p-12f && x > -0x1p-12f) return 0.5f;\n  " + _SIGMOID,
        "The sigmoid of what is nearer to zero than 2^-12 is a half.",
        *_COMBINE,
    ),
    Mutant(
        "combine-sigmoid-linear-near-zero",
        COMBINE,
        _SIGMOID,
        "if (x < 0x1p-4f && x > -0x1p-4f) return __fmaf_rn(x, 0.25f, 0.5f);\n  " + _SIGMOID,
        "The sigmoid of what is nearer to zero than 2^-4 is 1/2 + x/4.",
        *_COMBINE,
    ),
    Mutant(
        "combine-sigmoid-shut-at-minus-30",
        COMBINE,
        _SIGMOID,
        "if (x < -30.0f) return 0.0f;\n  " + _SIGMOID,
        "A gate below -30 is shut.",
        *_COMBINE,
    ),
    Mutant(
        "router-least-sum-1-in-64",
        ROUTER,
        _LEAST,
        _LEAST.replace("0x38800000u", "0x3c800000u"),
        "The sum of the chosen shares counts as 2^-6 at least.",
        "router/*",
        ("router_equal",),
    ),
    Mutant(
        "router-least-sum-1-in-512",
        ROUTER,
        _LEAST,
        _LEAST.replace("0x38800000u", "0x3b000000u"),
        "The sum of the chosen shares counts as 2^-9 at least, which is twice the least there is.",
        "router/*",
        ("router_equal",),
    ),
    Mutant(
        "router-31-nans-of-a-lane",
        ROUTER,
        "if (nans) atomicAdd(counts, nans);",
        "if (nans) atomicAdd(counts, nans > 31 ? 31 : nans);",
        "No lane reports more than 31 NaN.",
        *_COUNTED,
    ),
    Mutant(
        "router-30-infinities-of-a-lane",
        ROUTER,
        "if (infinities) atomicAdd(counts + 1, infinities);",
        "if (infinities) atomicAdd(counts + 1, infinities > 30 ? 30 : infinities);",
        "No lane reports more than 30 infinities.",
        *_COUNTED,
    ),
    Mutant(
        "router-17-nans-of-a-lane-are-16",
        ROUTER,
        "if (nans) atomicAdd(counts, nans);",
        "if (nans) atomicAdd(counts, nans == 17 ? 16 : nans);",
        "Seventeen NaN of a lane are reported as 16.",
        *_COUNTED,
    ),
    Mutant(
        "exp2-zero-from-minus-125.5",
        EXP2,
        "r = x < -126.0f ? 0.0f : r;",
        "r = x < -125.5f ? 0.0f : r;",
        "An exponential between 2^-126 and 2^-125.5 is zero.",
        *_ON_EDGE,
    ),
    Mutant(
        "exp2-zero-below-minus-126-and-a-step",
        EXP2,
        "r = x < -126.0f ? 0.0f : r;",
        "r = x < -126.0001f ? 0.0f : r;",
        "An exponential just below 2^-126 is not zero.",
        *_ON_EDGE,
    ),
    Mutant(
        "exp2-infinite-from-127.5",
        EXP2,
        "x >= 128.0f ?",
        "x >= 127.5f ?",
        "An exponential between 2^127.5 and 2^128 is infinite, and a sigmoid there is 0.",
        *_OPENING,
    ),
    Mutant(
        "exp2-infinite-from-128.25",
        EXP2,
        "x >= 128.0f ?",
        "x >= 128.25f ?",
        "An exponential between 2^128 and 2^128.25 is no number.",
        *_OPENING,
    ),
    Mutant(
        "combine-three-lost-are-four",
        COMBINE,
        "if (bad) atomicAdd(lost, bad);",
        "if (bad) atomicAdd(lost, bad == 3 ? 4 : bad);",
        "Three columns of a thread that are not finite are counted as four.",
        *_LOST,
    ),
    Mutant(
        "combine-four-lost-are-three",
        COMBINE,
        "if (bad) atomicAdd(lost, bad);",
        "if (bad) atomicAdd(lost, bad > 3 ? 3 : bad);",
        "Four columns of a thread that are not finite are counted as three.",
        *_LOST,
    ),
    Mutant(
        "swiglu-half-near-zero",
        SWIGLU,
        _SWIGLU,
        "if (gate < 0x1p-22f && gate > -0x1p-22f) return 0.0f;\n  " + _SWIGLU,
        "A gate nearer to zero than 2^-22 gives zero.",
        *_FUSED,
    ),
    Mutant(
        "swiglu-limited-at-88",
        SWIGLU,
        _SWIGLU,
        "if (gate > 88.0f) gate = 88.0f;\n  " + _SWIGLU,
        "A gate beyond 88, whose exponential is no float, counts as 88.",
        *_FUSED,
    ),
    Mutant(
        "activation-scales-flushed-early",
        ACTIVATION,
        "if (float_to_bits(inverse) >= kInfinityBits) return {0.0f, 0.0f, true};   // amax 0 too",
        "if (float_to_bits(inverse) >= 0x73000000u) return {0.0f, 0.0f, true};",
        "A block whose largest value is below about 2^-96 counts as zeros.",
        *_FUSED,
    ),
    Mutant(
        "activation-scales-limited",
        ACTIVATION,
        "const float amax = bits_to_float(largest), inverse = __fdiv_rn(127.0f, amax);\n  if (float",
        "const float whole = bits_to_float(largest), amax = whole > 0x1p60f ? 0x1p60f : whole, "
        "inverse = __fdiv_rn(127.0f, amax);\n  if (float",
        "The scale of a block is limited as if nothing were larger than 2^60.",
        *_FUSED,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from _FAULTS
