"""Mutants of the scorers of block selection: sums and their order, heads, tiles, halves and powers of two."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

TILED, WARP = "strata/kernels/block_select.cu", "strata/kernels/block_select_warp.cu"
SHARED, SPLIT = "strata/kernels/include/block_score.cuh", "strata/kernels/include/split_row.cuh"
_SIMT, _TENSOR, _TURING = "block_select/fp32/simt", "block_select/fp32/sm80", "block_select/fp32/sm75"
_WARPS = "block_select_warp/fp32/simt"


def _simt(name: str, old: str, new: str, why: str, *recipes: str, also: tuple[Edit, ...] = ()) -> Mutant:
    return Mutant(f"select-{name}", TILED, old, new, why, _SIMT, recipes, also)


def _tensor(name: str, old: str, new: str, why: str, *recipes: str, paths: str = _TENSOR) -> Mutant:
    return Mutant(f"select-tensor-{name}", TILED, old, new, why, paths, recipes)


def _warp(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"select-warp-{name}", WARP, old, new, why, _WARPS, recipes)


def _shared(name: str, old: str, new: str, why: str, *recipes: str, paths: str = _SIMT) -> Mutant:
    return Mutant(f"select-{name}", SHARED, old, new, why, paths, recipes)


def _split(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return Mutant(f"select-split-{name}", SPLIT, old, new, why, _TENSOR, recipes)


_LONGEST = "warp_max<32>(longest);"
_LAST = "static_cast<int>(queries - first_query < QUERIES ? queries - first_query : QUERIES) - 1"
_HEADS = "for (int head = 0; head < HEADS; ++head) score[j] = add_head(score[j], dot[i][head][j]);"
_RELU = "dot > 0.0f || dot != dot ? dot : 0.0f"
_TILE = "float4{score[0], score[1], score[2], score[3]}"

_PLAIN = (
    _simt(
        "last-query-of-the-tile",
        _LONGEST,
        f"longest[0] = __shfl_sync(0xffffffffu, longest[0], {_LAST});",
        "A tile ends where its last query does.",
        "select_lengths",
    ),
    _simt(
        "first-query-of-the-tile",
        _LONGEST,
        "longest[0] = __shfl_sync(0xffffffffu, longest[0], 0);",
        "A tile ends where its first query does.",
        "select_lengths",
    ),
    _simt(
        "head-skipped",
        _HEADS,
        _HEADS.replace("head < HEADS;", "head < HEADS - 1;"),
        "The last head adds nothing.",
        "select_heads",
    ),
    _simt(
        "heads-turned",
        _HEADS,
        _HEADS.replace("dot[i][head][j]", "dot[i][HEADS - 1 - head][j]"),
        "Heads are added from the last to the first.",
        "select_bell",
    ),
    _simt(
        "relu-after-the-sum",
        _HEADS,
        _HEADS.replace("add_head(score[j], dot[i][head][j])", "__fadd_rn(score[j], dot[i][head][j])"),
        "The ReLU comes after the sum over heads.",
        "select_heads",
        also=(
            Edit(
                TILED,
                _TILE,
                "float4{add_head(0.0f, score[0]), add_head(0.0f, score[1]), add_head(0.0f, score[2]), "
                "add_head(0.0f, score[3])}",
            ),
        ),
    ),
    _shared("relu-left-out", _RELU, "dot", "Heads below zero are added.", "select_heads"),
    _shared("nan-by-the-relu", _RELU, "dot > 0.0f ? dot : 0.0f", "A head that is a NaN adds nothing.", "select_broken"),
    _shared("relu-of-the-size", _RELU, "dot < 0.0f ? -dot : dot", "Heads below zero add their size.", "select_zeros"),
    _simt(
        "epsilon-added",
        "store(scores + query * capacity + first_block + j, tile.ld(i * BLOCKS + j));",
        "store(scores + query * capacity + first_block + j, __fadd_rn(tile.ld(i * BLOCKS + j), 1e-6f));",
        "A small number is added to every score.",
        "select_bell",
    ),
    _simt(
        "all-blocks-of-the-tile",
        "if (first_block + j < blocks)",
        "if (first_block + j < longest)",
        "Scores of a query are written to the end of its tile's longest.",
        "select_lengths",
    ),
    _simt(
        "last-slice-skipped",
        "for (int slice = 0; slice < DIMS / kSlice; ++slice) {\n    if (slice > 0)",
        "for (int slice = 0; slice < DIMS / kSlice - 1; ++slice) {\n    if (slice > 0)",
        "The last 32 dims are left out.",
        "select_bell",
    ),
    _simt(
        "dims-turned",
        "for (int dim = 0; dim < kSlice; ++dim) {\n      const float4 key",
        "for (int dim = kSlice - 1; dim >= 0; --dim) {\n      const float4 key",
        "The dims of a slice are added from the last to the first.",
        "select_bell",
    ),
    _simt(
        "scores-in-32-bits",
        "store(scores + query * capacity + first_block + j, tile.ld(i * BLOCKS + j));",
        "store(scores + static_cast<u32>(4 * (query * capacity + first_block + j)) / 4, tile.ld(i * BLOCKS + j));",
        "The place of a score loses what is beyond 32 bits of bytes.",
        "select_far",
    ),
    _simt(
        "barrier-before-a-slice",
        "if (slice > 0) __syncthreads();",
        "",
        "A slice lands while the one before is read.",
        "select_bell",
    ),
    _simt(
        "barrier-after-a-slice",
        "next_keys.land(key_slice, thread);\n    __syncthreads();",
        "next_keys.land(key_slice, thread);",
        "A slice is read before all of it has landed.",
        "select_bell",
    ),
    _simt(
        "barrier-before-scores",
        "  // Scores pass through shared memory: rows of the output need not be aligned, and a warp then writes 32 in a row.\n"
        "  __syncthreads();",
        "",
        "Scores are put where a slice is still read.",
        "select_bell",
    ),
)

_ADD_DOT = "__fmaf_rn(x.w, key.w, __fmaf_rn(x.z, key.z, __fmaf_rn(x.y, key.y, __fmul_rn(x.x, key.x))))"

_BASE = (
    _warp(
        "dims-turned",
        _ADD_DOT,
        "__fmaf_rn(x.x, key.x, __fmaf_rn(x.y, key.y, __fmaf_rn(x.z, key.z, __fmul_rn(x.w, key.w))))",
        "The dims of a lane are added from the last to the first.",
        "select_bell",
    ),
    _warp(
        "block-too-many",
        "if (block >= load(steps + query * Step::words + Step::blocks)) return;",
        "if (block > load(steps + query * Step::words + Step::blocks)) return;",
        "A score is written behind the last block.",
        "select_lengths",
    ),
    _warp(
        "head-skipped",
        "for (int head = 0; head < HEADS; ++head) score = add_head(score, dot[head]);",
        "for (int head = 1; head < HEADS; ++head) score = add_head(score, dot[head]);",
        "The first head adds nothing.",
        "select_heads",
    ),
    Mutant(
        "select-warp-topk-as-asked",
        "strata/kernels/block_select_warp.py",
        "launch(executor, path, i, made, topk=topk)",
        "launch(executor, path, i, made)",
        "The top-k kernel that is asked for is not the one that runs.",
        _WARPS,
        ("select_bell",),
    ),
)

_LOW_HIGH = "for (int i = 0; i < 4; ++i) mma_step(cross[i / 2][j + i % 2], a[1][i / 2], b[0][i % 2]);"
_HIGH_LOW = "for (int i = 0; i < 4; ++i) mma_step(cross[i / 2][j + i % 2], a[0][i / 2], b[1][i % 2]);"
_NOTHING = "for (int i = 0; i < 0; ++i) mma_step(cross[i / 2][j + i % 2], a[0][i / 2], b[1][i % 2]);"

_CORES = (
    _tensor("without-high-low", _HIGH_LOW, _NOTHING, "The product of high q and low keys is left out.", "select_split"),
    _tensor("without-low-high", _LOW_HIGH, _NOTHING, "The product of low q and high keys is left out.", "select_split"),
    _tensor(
        "low-into-high",
        _HIGH_LOW,
        _HIGH_LOW.replace("cross[", "high["),
        "Low products join the accumulator of the high ones.",
        "select_bell",
    ),
    _tensor(
        "low-products-turned",
        _LOW_HIGH,
        _LOW_HIGH.replace("a[1]", "a[0]").replace("b[0]", "b[1]"),
        "High q with low keys comes twice, and low q with high keys not at all.",
        "select_bell",
    ),
    _tensor(
        "key-exponent-ignored",
        "score[c] = __fmul_rn(score[c], power_of_two(e_key - 14));",
        "",
        "The power of two of a usual key is left out.",
        "select_bell",
    ),
    _tensor(
        "far-key-exponent-ignored",
        "e_q[head] + e_key - 28",
        "e_q[head] - 14",
        "The power of two of a key far from 1 is left out.",
        "select_decades",
    ),
    _tensor(
        "all-exponents-usual",
        "constexpr int kUsual = 30;",
        "constexpr int kUsual = 113;",
        "Powers of two are multiplied one by one, however far from 1.",
        "select_tiny",
    ),
    _tensor(
        "scaled-at-once",
        "const int half = e >> 1;",
        "const int half = 0;",
        "A score is scaled by one power of two, which may be no number.",
        "select_tiny",
    ),
    _tensor(
        "exponents-of-one-tile",
        "exponents.part((tile & 1) * BLOCKS, BLOCKS)",
        "exponents.part(0, BLOCKS)",
        "The exponents of the next tile's keys land on those of this one.",
        "select_far",
    ),
    _tensor(
        "tiles-side-by-side",
        "static_cast<i64>(tile) * step) * BLOCKS",
        "static_cast<i64>(tile)) * BLOCKS",
        "A thread block's next tile is another's.",
        "select_sizes",
    ),
    _tensor(
        "all-blocks-of-the-tile",
        "if (block < blocks) store(at, score[0]);",
        "if (block < longest) store(at, score[0]);",
        "Scores of a query are written to the end of its tile's longest.",
        "select_lengths",
    ),
    _tensor(
        "high-dims-first",
        "  mma_m16n8k8(d, a, b);\n  mma_m16n8k8(d, a + 2, b + 1);",
        "  mma_m16n8k8(d, a + 2, b + 1);\n  mma_m16n8k8(d, a, b);",
        "Of 16 dims the last eight come first.",
        "select_bell",
        paths=_TURING,
    ),
    _tensor(
        "barrier-of-one-stage",
        "if (TIER < 80) __syncthreads();   // the one stage is free",
        "",
        "A slice lands while the one before is read.",
        "select_bell",
        paths=_TURING,
    ),
    _split("without-low", "lo = half_pair(", "lo = 0 * half_pair(", "Low halves are zero.", "select_split"),
    _split(
        "scale-cut-above",
        "return e < -100 ? -100 : e;",
        "return e < -100 ? -100 : e > 90 ? 90 : e;",
        "A row above 2^90 overflows its halves.",
        "select_apart",
    ),
    _tensor(
        "last-head-s-scale-alone",
        "usual_q &= usual_exponent(",
        "usual_q = usual_exponent(",
        "The scale of the last head decides for all of them.",
        "select_apart",
    ),
    _tensor(
        "usual-scales-too-wide",
        "constexpr int kUsual = 30;",
        "constexpr int kUsual = 80;",
        "Powers of two are multiplied one by one where a result between them is subnormal.",
        "select_apart",
    ),
    _split(
        "exponent-without-end",
        "return e < -100 ? -100 : e;",
        "return e;",
        "A row below the smallest scale is scaled by what is no number.",
        "select_tiny",
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from (*_PLAIN, *_BASE, *_CORES)
