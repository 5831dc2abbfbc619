"""Mutants that are right at every small size: offsets and addresses of 32 bits, counts of 16, loops and barriers that
end where no everyday case goes."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROMPT, DECODE = "strata/kernels/prompt_attention.cu", "strata/kernels/decode_attention.cu"
PACK, COMBINE, ROUTER = "strata/kernels/kv_pack.cu", "strata/kernels/combine.cu", "strata/kernels/router.cu"
FUSED, PREPARE = "strata/kernels/expert_fused.cu", "strata/kernels/expert_prepare.cu"
MMQ, WIDTH, HOST = "strata/kernels/expert_mmq.cu", "strata/kernels/expert_decode.cu", "strata/kernels/grouping.py"

_OF_FUSED = {tier: f"expert_fused/iq3_xxs/iq4_nl/sm{tier}" for tier in (75, 80)}
_OF_MMQ, _OF_DECODE = "expert_mmq/iq3_xxs/iq4_nl/sm75", "expert_decode/iq3_xxs/iq4_nl/simt"


def _no_carry(base: str, offset: str) -> str:
    """An address whose lower 32 bits are added without a carry into the upper ones."""
    whole = f"reinterpret_cast<u64>({base})"
    return (
        f"reinterpret_cast<const u8*>(({whole} + static_cast<u64>({offset}) & 0xffffffffull) |"
        f" ({whole} + (static_cast<u64>({offset}) & 0xffffffff00000000ull) & 0xffffffff00000000ull))"
    )


def _low(offset: str) -> str:
    """An offset of which 32 bits are left."""
    return f"static_cast<i64>(static_cast<u32>({offset}))"


def _fault(name: str, file: str, old: str, new: str, why: str, paths: str, recipe: str) -> Mutant:
    return Mutant(f"size-{name}", file, old, new, why, paths, (recipe,))


_ROW = "static_cast<i64>(row < 0 ? 0 : row)"
_FROM = f"const u8* from = pool + {_ROW} * Format<FORMAT>::row_bytes + piece * 16;"
_OFFSET = f"{_ROW} * Format<FORMAT>::row_bytes"
_CELL_ROW = "const u8* at = pool + row * Format<K_FORMAT>::row_bytes;"
_CELL_OFFSET = "row * Format<K_FORMAT>::row_bytes"


def _attention() -> Iterator[Mutant]:
    yield _fault(
        "prompt-row-32-bits",
        PROMPT,
        _FROM,
        f"const u8* from = pool + {_low(_OFFSET)} + piece * 16;",
        "The byte of a pool row is counted in 32 bits.",
        "prompt_attention/q4_0/sm75",
        "far",
    )
    yield _fault(
        "prompt-row-no-carry",
        PROMPT,
        _FROM,
        f"const u8* from = {_no_carry('pool', _OFFSET)} + piece * 16;",
        "The lower half of a row's address is added without a carry.",
        "prompt_attention/fp16/sm80",
        "far",
    )
    yield _fault(
        "prompt-scales-32-bits",
        PROMPT,
        f"const u16* from = scales + {_ROW} * kScales;",
        "const u16* from = scales + static_cast<u32>(row < 0 ? 0 : row) * 8u / 2u;",
        "The byte of a row's scales is counted in 32 bits.",
        "prompt_attention/int8/sm75",
        "far",
    )
    yield _fault(
        "prompt-query-32-bits",
        PROMPT,
        "const float* q_here = q + (query * gridDim.y + blockIdx.y) * GROUP * kDim;",
        f"const float* q_here = q + {_low('(query * gridDim.y + blockIdx.y) * GROUP * kDim')};",
        "The elements of q before a query are counted in 32 bits.",
        "prompt_attention/q4_0/sm75",
        "far",
    )
    yield _fault(
        "prompt-ids-32-bits",
        PROMPT,
        "const i32* ids = all_ids + query * cap;",
        f"const i32* ids = all_ids + {_low('query * cap')};",
        "The ids before a query's are counted in 32 bits.",
        "prompt_attention/q4_0/sm75",
        "far",
    )
    yield _fault(
        "prompt-steps-30-bits",
        PROMPT,
        "load(steps + query * 4 + 3)",
        f"load(steps + {_low('query * 16')} / 4 + 3)",
        "The bytes of step records before a query's are counted in 32 bits.",
        "prompt_attention/q4_0/sm75",
        "far",
    )
    yield _fault(
        "prompt-width-2049",
        PROMPT,
        "const int n = load(steps + query * 4 + 3),",
        "const int told = load(steps + query * 4 + 3), n = told - (told == 2049),",
        "A width of 2,049 loses its last cell.",
        "prompt_attention/q4_0/sm75",
        "width_beyond",
    )
    yield _fault(
        "prompt-width-at-most-2051",
        PROMPT,
        "const int n = load(steps + query * 4 + 3),",
        "const int told = load(steps + query * 4 + 3), n = told < 2051 ? told : 2051,",
        "No more cells are read than the widest row that is served has.",
        "prompt_attention/q4_0/sm75",
        "width_beyond",
    )
    yield _fault(
        "decode-row-32-bits",
        DECODE,
        _CELL_ROW,
        f"const u8* at = pool + {_low(_CELL_OFFSET)};",
        "The byte of a pool row is counted in 32 bits.",
        "decode_attention/q4_0/simt",
        "far",
    )
    yield _fault(
        "decode-row-no-carry",
        DECODE,
        _CELL_ROW,
        f"const u8* at = {_no_carry('pool', _CELL_OFFSET)};",
        "The lower half of a row's address is added without a carry.",
        "decode_attention/q4_0/simt",
        "far",
    )
    yield _fault(
        "decode-out-32-bits",
        DECODE,
        "store(out + ((first_query + static_cast<i64>(blockIdx.y)) * kv_heads * GROUP + head) * kDim + thread,",
        f"store(out + {_low('((first_query + static_cast<i64>(blockIdx.y)) * kv_heads * GROUP + head) * kDim')} + thread,",
        "The outputs before a query's are counted in 32 bits.",
        "decode_attention/q4_0/simt",
        "far",
    )


def _packing() -> Iterator[Mutant]:
    target = "r.target * Format<FORMAT_Q4_0>::row_bytes"
    yield _fault(
        "pack-target-32-bits",
        PACK,
        f"u8* to = pool + {target} + block",
        f"u8* to = pool + {_low(target)} + block",
        "The byte of a packed row is counted in 32 bits.",
        "kv_pack/q4_0/simt",
        "pack_far",
    )
    yield _fault(
        "pack-target-no-carry",
        PACK,
        f"u8* to = pool + {target} + block",
        f"u8* to = const_cast<u8*>({_no_carry('pool', target)}) + block",
        "The lower half of a packed row's address is added without a carry.",
        "kv_pack/q4_0/simt",
        "pack_far",
    )
    yield _fault(
        "pack-source-32-bits",
        PACK,
        "load<float4>(x + r.index * kDim + r.lane * 8 + i)",
        f"load<float4>(x + {_low('r.index * kDim')} + r.lane * 8 + i)",
        "The values before a row are counted in 32 bits.",
        "kv_pack/int8/simt",
        "pack_far",
    )
    yield _fault(
        "pack-scales-32-bits",
        PACK,
        "store<u16>(scales + r.target * 4 + r.lane / 8, bits);",
        "store<u16>(scales + (static_cast<u32>(r.target) * 8u) / 2u + r.lane / 8, bits);",
        "The byte of a row's scales is counted in 32 bits.",
        "kv_pack/int8/simt",
        "pack_far",
    )
    yield _fault(
        "pack-steps-32-bits",
        PACK,
        "load(steps + i * 4)",
        f"load(steps + {_low('i * 16')} / 4)",
        "The bytes of step records before a cell's are counted in 32 bits.",
        "kv_pack/int8/simt",
        "pack_far",
    )
    yield _fault(
        "rotate-32-bits",
        PACK,
        "store(out + row * kDim + i * 32 + lane, v[i])",
        f"store(out + {_low('row * kDim')} + i * 32 + lane, v[i])",
        "The values before a rotated row are counted in 32 bits.",
        "kv_pack/q4_0/simt",
        "pack_far",
    )


_FIRST_ROW = "const u8* first_row = blob + (kDown ? down_at : 0) + static_cast<i64>(row) * row_bytes;"
_IN_BLOB = "(kDown ? down_at : 0) + static_cast<i64>(row) * row_bytes"
_MATRIX = "const u8* matrix = reinterpret_cast<const u8*>(load(blobs + expert)) + offset"


def _experts() -> Iterator[Mutant]:
    yield _fault(
        "blob-no-carry",
        FUSED,
        _FIRST_ROW,
        f"const u8* first_row = {_no_carry('blob', _IN_BLOB)};",
        "The lower half of a weight row's address is added without a carry.",
        "expert_fused/iq3_xxs/iq4_nl/*",
        "experts_far",
    )
    yield _fault(
        "token-16-bits",
        FUSED,
        "return load(pairs + first + column) / top;",
        "return static_cast<int>(static_cast<u16>(load(pairs + first + column))) / top;",
        "Gate and up take the token of a pair number of 16 bits.",
        _OF_FUSED[75],
        "experts_far",
    )
    yield _fault(
        "pair-of-down-16-bits",
        FUSED,
        "pair_of.st(i, load(pairs + first + i));",
        "pair_of.st(i, static_cast<u16>(load(pairs + first + i)));",
        "Down writes the row of a pair number of 16 bits.",
        _OF_FUSED[80],
        "experts_far",
    )
    yield _fault(
        "pair-16-bits",
        PREPARE,
        "if (valid) store(pairs + place, i);",
        "if (valid) store(pairs + place, static_cast<i32>(static_cast<u16>(i)));",
        "Grouping keeps 16 bits of a pair's number.",
        _OF_FUSED[75],
        "experts_crowd",
    )
    yield _fault(
        "slot-16-bits",
        PREPARE,
        "store(slot + i, place);",
        "store(slot + i, static_cast<i32>(static_cast<u32>(place) << 16) >> 16);",
        "Grouping keeps 16 bits of a row's number, with a sign.",
        _OF_FUSED[75],
        "experts_crowd",
    )
    yield _fault(
        "barrier-up-to-128",
        PREPARE,
        "  __syncthreads();\n  const int count =",
        "  if (experts <= 128) __syncthreads();\n  const int count =",
        "Counts of more than 128 experts are read before all pairs were counted.",
        _OF_FUSED[75],
        "experts_crowd",
    )
    yield _fault(
        "second-barrier-up-to-128",
        PREPARE,
        "  __syncthreads();\n  each_pair(ids, total, thread, [&](int i, u32 id) {",
        "  if (experts <= 128) __syncthreads();\n  each_pair(ids, total, thread, [&](int i, u32 id) {",
        "Places of more than 128 experts are given out before all first rows are known.",
        _OF_FUSED[80],
        "experts_crowd",
    )
    yield _fault(
        "tokens-32-bits",
        PREPARE,
        "const float4 v = here ? load<float4>(x + at) :",
        "const float4 v = here ? load<float4>(x + static_cast<u32>(at)) :",
        "The values before a token's are counted in 32 bits.",
        _OF_FUSED[75],
        "experts_far",
    )
    yield _fault(
        "zeros-32-bits",
        PREPARE,
        "store(rows + (static_cast<i64>(token) * top + rank) * n + column,",
        "store(rows + static_cast<u32>((static_cast<i64>(token) * top + rank) * n + column),",
        "The zeros of nobody's rows go where 32 bits count to.",
        _OF_FUSED[80],
        "experts_far",
    )
    for file, path in ((MMQ, _OF_MMQ), (WIDTH, _OF_DECODE)):
        yield _fault(
            f"matrix-no-carry-{path.partition('/')[0]}",
            file,
            _MATRIX,
            _MATRIX.replace(
                "reinterpret_cast<const u8*>(load(blobs + expert)) + offset",
                _no_carry("reinterpret_cast<const u8*>(load(blobs + expert))", "offset"),
            ),
            "The lower half of a matrix's address is added without a carry.",
            path,
            "experts_far",
        )
    yield _fault(
        "target-16-bits",
        MMQ,
        "target == nullptr ? first_row + column : load(target + first_row + column);",
        "target == nullptr ? first_row + column : static_cast<u16>(load(target + first_row + column));",
        "Down writes the row of a pair number of 16 bits.",
        _OF_MMQ,
        "experts_far",
    )
    yield _fault(
        "codes-32-bits",
        MMQ,
        "codes + (static_cast<i64>((first + begin) / 4 + block) * rows + first_row) * kBlockBytes",
        "codes + static_cast<u32>((((first + begin) / 4 + block) * rows + first_row) * kBlockBytes)",
        "The bytes of codes before a row's are counted in 32 bits.",
        _OF_MMQ,
        "experts_far",
    )
    yield _fault(
        "codes-of-decode-32-bits",
        WIDTH,
        "const u8* from = codes + source[p] * width + b * 32;",
        "const u8* from = codes + static_cast<u32>(source[p] * width) + b * 32;",
        "The codes before a row's are counted in 32 bits.",
        _OF_DECODE,
        "experts_far",
    )
    yield _fault(
        "host-pairs-16-bits",
        HOST,
        'pairs = np.argsort(flat, kind="stable").astype(np.int32)',
        'pairs = np.argsort(flat, kind="stable").astype(np.uint16).astype(np.int32)',
        "The host keeps 16 bits of a pair's number.",
        _OF_MMQ,
        "experts_crowd",
    )


def _around() -> Iterator[Mutant]:
    router, combine = "router/fp32/simt", "combine/fp32/simt"
    yield _fault(
        "combine-16-ranks",
        COMBINE,
        "rank < ranks; ++rank",
        "rank < (ranks < 16 ? ranks : 16); ++rank",
        "Ranks from the seventeenth on are left out.",
        combine,
        "combine_sizes",
    )
    yield _fault(
        "combine-row-32-bits",
        COMBINE,
        "rows + token * ranks * columns + column",
        f"rows + {_low('token * ranks * columns')} + column",
        "The values before a token's rows are counted in 32 bits.",
        combine,
        "combine_sizes",
    )
    yield _fault(
        "combine-rank-32-bits",
        COMBINE,
        "static_cast<i64>(rank) * columns",
        "static_cast<u32>(rank) * columns",
        "The values before a rank's row are counted in 32 bits.",
        combine,
        "combine_sizes",
    )
    yield _fault(
        "router-row-32-bits",
        ROUTER,
        "load(logits + token * experts + expert)",
        f"load(logits + {_low('token * experts')} + expert)",
        "The logits before a token's are counted in 32 bits.",
        router,
        "router_sizes",
    )
    yield _fault(
        "router-513-experts",
        ROUTER,
        "key[i] = expert < experts ?",
        "key[i] = expert < experts && expert != 512 ?",
        "The first expert past the five hundred and twelfth is never chosen.",
        router,
        "router_sizes",
    )
    yield _fault(
        "router-rank-32",
        ROUTER,
        "if (lane < ranks) {",
        "if (lane < ranks && lane < 31) {",
        "The last of 32 ranks is not written.",
        router,
        "router_sizes",
    )
    yield _fault(
        "router-step-16-bits",
        ROUTER,
        "const i64 step = static_cast<i64>(gridDim.x) * WARPS;",
        "const i64 step = static_cast<i64>(static_cast<u16>(gridDim.x)) * WARPS;",
        "Of 65,536 blocks none are counted, and a warp takes its token for ever.",
        router,
        "router_sizes",
    )
    yield _fault(
        "router-one-turn-of-most-blocks",
        ROUTER,
        "token < tokens; token += step) {",
        "token < tokens && (token < 262144 || gridDim.x != 65536); token += step) {",
        "The most blocks leave out what is beyond their first turn.",
        router,
        "router_sizes",
    )
    column = "const i64 token = item / fours, column = item % fours * 4;"
    yield _fault(
        "combine-column-16-bits",
        COMBINE,
        column,
        "const i64 token = item / fours, column = static_cast<u16>(item % fours * 4);",
        "The column of a thread is counted in 16 bits.",
        combine,
        "combine_sizes",
    )
    yield _fault(
        "combine-column-14-bits",
        COMBINE,
        column,
        "const i64 token = item / fours, column = item % fours * 4 & 0x3fff;",
        "The column of a thread is counted in 14 bits.",
        combine,
        "combine_sizes",
    )


def mutants() -> Iterator[Mutant]:
    yield from _attention()
    yield from _packing()
    yield from _experts()
    yield from _around()
