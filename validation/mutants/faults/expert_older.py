"""Mutants of the older expert kernels: the grouped product of blocks, the one at decode width, and their passes."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.faults.expert_activations import DECODE, MMQ
from validation.mutants.mutant import ROOT, Edit, Mutant, removals

MMQ_SOURCE = "strata/kernels/expert_mmq.cu"
DECODE_SOURCE = "strata/kernels/expert_decode.cu"
SHARED_SOURCE = "strata/kernels/include/older_experts.cuh"
TILE_SOURCE = "strata/kernels/include/weight_tile.cuh"
GROUP_SOURCE = "strata/kernels/include/group_product.cuh"
TWO_SCALES = "expert_mmq/iq2_s/q2_0/sm80"


def _mmq(
    name: str,
    old: str,
    new: str,
    why: str,
    *recipes: str,
    file: str = MMQ_SOURCE,
    path: str = MMQ,
    also: tuple[Edit, ...] = (),
) -> Mutant:
    return Mutant(f"mmq-{name}", file, old, new, why, path, recipes or ("experts_plain",), also)


def _decode(name: str, old: str, new: str, why: str, *recipes: str, path: str = DECODE) -> Mutant:
    return Mutant(f"narrow-{name}", DECODE_SOURCE, old, new, why, path, recipes or ("experts_plain",))


def _width(gate_up: str) -> str:
    return f"expert_decode/{gate_up}/q2_0/simt"


_ADDRESS = "reinterpret_cast<const u8*>(load(blobs + expert)) + offset + static_cast<i64>(first_weight) * row_bytes;"
_LEAVE = "if (column >= columns) continue;"
_V = "float v = __fmul_rn(dot_value(d[0][m][n][i]), a_scale[0][m][i >> 1]);"
_SUM = "acc[m][first + n][i] = __fmaf_rn(v, b_scale[first + n][i & 1], acc[m][first + n][i]);"

_PRODUCT = (
    _mmq(
        "expert-of-slot-0",
        "load(blobs + expert)) + offset +",
        "load(blobs + load(tiles))) + offset +",
        "Every tile takes the weights of the launch's first expert.",
        "experts_decades",
    ),
    _mmq("down-at-gate", _ADDRESS, _ADDRESS.replace("+ offset ", ""), "down reads the bytes of gate."),
    _mmq(
        "row-tile-modulo",
        "static_cast<int>(blockIdx.x % row_tiles) * kRows;",
        "static_cast<int>(blockIdx.x / row_tiles % row_tiles) * kRows;",
        "Tiles of weight rows are counted where tiles of pairs are.",
    ),
    _mmq(
        "k-tail-dropped",
        "for (int first = 0; first < groups; first += kParts) {",
        "for (int first = 0; first + kParts <= groups; first += kParts) {",
        "Groups of K beyond whole steps of 256 are left out.",
    ),
    _mmq(
        "last-group-dropped",
        "const int groups = width / 32;\n  for (int first = 0",
        "const int groups = width / 32 - 1;\n  for (int first = 0",
        "The last 32 values of K are left out.",
    ),
    _mmq(
        "last-group-of-step",
        "for (int j = 0; j < end; ++j) {",
        "for (int j = 0; j < (end == 4 * STAGED ? end : end - 1); ++j) {",
        "The last group of a step that is not full is left out.",
    ),
    _mmq(
        "columns-by-32",
        "if (p * 32 + my_columns < columns) {",
        "if (p * 32 + 32 <= columns) {",
        "Columns beyond whole pieces of 32 keep zeros.",
        "experts_edges",
    ),
    _mmq(
        "column-past-end",
        _LEAVE,
        "if (column > columns) continue;",
        "The row behind a group is written as well: another expert's, or none.",
        "experts_edges",
    ),
    _mmq(
        "last-column-missing",
        _LEAVE,
        "if (column >= columns - (columns > 1)) continue;",
        "The last pair of a group is not written.",
        "experts_edges",
    ),
    _mmq(
        "scale-of-row-g",
        "my_rows + m * 16 + half * 8 + g);\n        }",
        "my_rows + m * 16 + g);\n        }",
        "Rows g + 8 of a fragment take the scales of rows g.",
    ),
    _mmq(
        "scale-over-tile",
        "b_scale[n][c] = activations.ld<float>(block + (p * 32 + my_columns + n * 8 + 2 * t + c)",
        "b_scale[n][c] = activations.ld<float>(block + (p * 32 + my_columns + n * 8 + 2 * t)",
        "Two columns of a lane share a scale.",
    ),
    _mmq(
        "scale-of-tile",
        "(p * 32 + my_columns + n * 8 + 2 * t + c) * kBlockBytes + inside * 4);",
        "(p * 32 + my_columns) * kBlockBytes + inside * 4);",
        "One scale is taken for all columns of a tile.",
    ),
    _mmq(
        "scale-of-group-0",
        "* kBlockBytes + inside * 4);",
        "* kBlockBytes);",
        "All groups of 128 take the scale of the first.",
    ),
    _mmq(
        "accumulates-in-half",
        _SUM,
        "acc[m][first + n][i] = half_value(half_bits(__fmaf_rn(v, b_scale[first + n][i & 1], acc[m][first + n][i])));",
        "Sums are kept in half precision.",
        "experts_one_sided",
        file=GROUP_SOURCE,
    ),
    _mmq(
        "not-fused",
        _SUM,
        "acc[m][first + n][i] = __fadd_rn(acc[m][first + n][i], __fmul_rn(v, b_scale[first + n][i & 1]));",
        "Products are rounded before they are added.",
        file=GROUP_SOURCE,
    ),
    _mmq(
        "scales-together",
        _V,
        "float v = __fmul_rn(__fmul_rn(a_scale[0][m][i >> 1], 1.0f + 1.0f / (1 << 23)), dot_value(d[0][m][n][i]));",
        "Scales of weights are a bit larger.",
        file=GROUP_SOURCE,
    ),
    _mmq(
        "accumulator-kept",
        "acc[p][m][n][i] = 0.0f;",
        "acc[p][m][n][i] = expert ? 1e-6f : 0.0f;",
        "Sums of all experts but the first do not begin at zero.",
        "experts_decades",
    ),
    _mmq(
        "start-one-off",
        "constexpr i32 kRaised = 0x4b400000;",
        "constexpr i32 kRaised = 0x4b400001;",
        "Every dot is one too large.",
        file=GROUP_SOURCE,
    ),
    _mmq(
        "half-scales-crossed",
        "v = __fmaf_rn(dot_value(d[1][m][n][i]), a_scale[1][m][i >> 1], v);",
        "v = __fmaf_rn(dot_value(d[1][m][n][i]), a_scale[0][m][i >> 1], v);",
        "Both halves of 32 take the first scale.",
        file=GROUP_SOURCE,
        path=TWO_SCALES,
    ),
    _mmq(
        "second-half-of-first",
        "{{a[0][2 * s], a[0][2 * s + 1]}, {a[1][2 * s], a[1][2 * s + 1]}};",
        "{{a[0][2 * s], a[0][2 * s + 1]}, {a[0][2 * s], a[0][2 * s + 1]}};",
        "The second 16 weight rows are the first again.",
        file=GROUP_SOURCE,
        path=TWO_SCALES,
    ),
    _mmq(
        "k-halves-swapped",
        "const int a_from = (my_rows + (lane & 15)) * kWeightRow + (lane >> 4) * 16;",
        "const int a_from = (my_rows + (lane & 15)) * kWeightRow + (1 - (lane >> 4)) * 16;",
        "The two halves of K of a weight fragment change places.",
    ),
    _mmq(
        "columns-not-eighths",
        "(lane & 7) + (lane >> 4) * 8) * kBlockBytes",
        "(lane & 7)) * kBlockBytes",
        "The second 8 columns of a fragment are the first again.",
    ),
    _mmq(
        "weights-upper-not-swapped",
        "upper ? low : high);",
        "high);",
        "The upper half of the threads writes both halves to one place.",
        file=TILE_SOURCE,
    ),
    _mmq(
        "weights-of-step-0",
        "fetch_32<TYPE>(rows + static_cast<i64>(row + (turn + i) * (THREADS / kParts)) * row_bytes, first + part);",
        "fetch_32<TYPE>(rows + static_cast<i64>(row + (turn + i) * (THREADS / kParts)) * row_bytes, part);",
        "Every step takes the weights of the first 256 of K.",
        file=TILE_SOURCE,
    ),
    _mmq(
        "codes-of-block-0",
        "((first + begin) / 4 + block) * rows + first_row) * kBlockBytes, columns);",
        "((begin) / 4 + block) * rows + first_row) * kBlockBytes, columns);",
        "Every step takes the activations of the first 256 of K.",
    ),
    _mmq(
        "tail-not-zero",
        "to.st<uint4>(i * 16, i < pieces ? load<uint4>(from + i * 16) : uint4{0, 0, 0, 0});",
        "to.st<uint4>(i * 16, load<uint4>(from + i * 16));",
        "Columns behind the last are read from what lies behind: of the last tile, past the buffer.",
        "experts_one",
    ),
    _mmq(
        "target-ignored",
        "target == nullptr ? first_row + column : load(target + first_row + column);",
        "first_row + column;",
        "Rows stay in the order of experts.",
    ),
    _mmq(
        "lost-uncounted",
        "bad += !finite(v);\n            store",
        "store",
        "Outputs that are not finite are not counted.",
        "experts_broken",
    ),
    _mmq(
        "source-is-row",
        "source == nullptr ? static_cast<i32>(row) : load(source + row);",
        "static_cast<i32>(row);",
        "Rows are quantised from tokens in their order, not from their pair's.",
    ),
    _mmq(
        "divisor-lost",
        "x + static_cast<i64>(pair / divisor) * width",
        "x + static_cast<i64>(pair % divisor) * width",
        "Rank is taken for the token.",
    ),
    _mmq(
        "codes-to-even",
        "round_away(__fmul_rn(value[i], inverse))",
        "__float2int_rn(__fmul_rn(value[i], inverse))",
        "Ties are rounded to even, not away from zero.",
        "experts_ties",
    ),
    _mmq(
        "bad-is-zero",
        "bad ? bits_to_float(0x7fffffffu) : empty",
        "empty",
        "A group that is not finite has scale 0.",
        "experts_broken",
    ),
    _mmq(
        "d-from-amax",
        "__fdiv_rn(1.0f, inverse));\n    if (bad",
        "__fdiv_rn(bits_to_float(largest), 127.0f));\n    if (bad",
        "d is amax / 127 and not 1 / inverse: a bit off.",
    ),
    _mmq(
        "lost-for-every-pair",
        "if (bad && pair % divisor == 0) atomicAdd(lost, 1);",
        "if (bad) atomicAdd(lost, 1);",
        "A group of a token is counted for each of its pairs.",
        "experts_broken",
    ),
    _mmq(
        "block-is-row",
        "u8* to = out + (block * rows + row) * kBlockBytes;",
        "u8* to = out + (row * blocks + block) * kBlockBytes;",
        "Blocks lie row by row, where the product looks for them column by column.",
    ),
    Mutant(
        "mmq-empty-divided",
        MMQ_SOURCE,
        "const bool empty = bad || !finite(inverse);",
        "const bool empty = bad;",
        "Groups too small to invert are multiplied by infinity: their scale is 0, so that no output shows their codes.",
        tests=("tests/strata/kernels/test_expert_mmq.py",),
    ),
)

_DECODE = (
    _decode(
        "no-truncation",
        "return (level * whole + whole / 2) / 2;",
        "return level * whole + whole / 2;",
        "The last division by two is left out.",
    ),
    _decode(
        "rounds",
        "return (level * whole + whole / 2) / 2;",
        "return (level * whole + whole / 2 + 1) / 2;",
        "The division rounds where C's truncates.",
    ),
    _decode(
        "shift-for-division",
        "return (level * whole + whole / 2) / 2;",
        "return (level * whole + (whole >> 1)) >> 1;",
        "Negative sums are shifted: rounded down, not towards zero.",
    ),
    _decode(
        "level-lost",
        "return (level * whole + whole / 2) / 2;",
        "return (level * whole) / 2;",
        "The half of 2 l + 1 is lost.",
    ),
    _decode(
        "iq2-xxs-eighth",
        "return whole * (2 * level + 1) / 8;",
        "return whole / 8 * (2 * level + 1);",
        "The dot is divided before it is multiplied.",
        path=_width("iq2_xxs"),
    ),
    _decode(
        "iq2-levels-crossed",
        "const i32 low = levels & 15u, high = levels >> 4;",
        "const i32 high = levels & 15u, low = levels >> 4;",
        "The two scales of 16 values change places.",
        path=_width("iq2_xs"),
    ),
    _decode(
        "iq2-s-levels-of-xs",
        "f.h[TYPE == TYPE_IQ2_XS ? 5 : 6]",
        "f.h[5]",
        "IQ2_S scales are read where those of IQ2_XS lie.",
        path=_width("iq2_s"),
    ),
    _decode(
        "iq3-s-level-of-part-0",
        "const i32 level = f.h[8] >> 4 * (part % 4) & 15;",
        "const i32 level = f.h[8] & 15;",
        "Every part takes the first of four scales.",
        path=_width("iq3_s"),
    ),
    _decode(
        "iq4-xs-bias",
        "return whole * ((low | high << 4) - 32);",
        "return whole * (low | high << 4);",
        "The bias of 32 is omitted.",
        path=_width("iq4_xs"),
    ),
    _decode(
        "pairs-of-first",
        "load(pairs + first + p) / divisor : 0;",
        "load(pairs + first) / divisor : 0;",
        "All pairs of a tile take the token of the first.",
        "experts_edges",
    ),
    _decode(
        "expert-of-slot-0",
        "load(blobs + expert)) + offset;",
        "load(blobs + load(tiles))) + offset;",
        "Every tile takes the weights of the launch's first expert.",
        "experts_decades",
    ),
    _decode(
        "groups-of-first-turn",
        "for (int b = lane; b < groups; b += 32) {",
        "for (int b = lane; b < groups && b < 8; b += 32) {",
        "Groups of K beyond the eighth are left out.",
    ),
    _decode("half-sum", "warp_add<32>(acc);", "warp_add<16>(acc);", "A row is the sum of half of the lanes."),
    _decode(
        "dot-of-four-words",
        "for (int i = 0; i < 8; ++i) dot[i / 4]",
        "for (int i = 0; i < 4; ++i) dot[i / 4]",
        "The second 16 values are left out.",
    ),
    _decode(
        "scale-in-fp32",
        "half_value(load(scales + source[p] * groups + b))",
        "half_value(load(scales + source[p] * groups))",
        "All groups take the first scale of their row.",
    ),
    _decode(
        "d-not-half",
        ": half_bits(d);\n",
        ": half_bits(__fmul_rn(d, 1.001f));\n",
        "Stored scales are a thousandth larger.",
    ),
    _decode(
        "count-of-tile",
        "if (lane < count) {\n      store",
        "if (lane < PAIRS) {\n      store",
        "Rows behind a tile's last pair are written.",
    ),
    _decode(
        "row-of-warp",
        "store(out + static_cast<i64>(load(pairs + first + lane)) * weight_rows + first_weight + r, mine);",
        "store(out + static_cast<i64>(load(pairs + first + lane)) * weight_rows + first_weight, mine);",
        "All rows of a warp are written to its first.",
    ),
    Mutant(
        "narrow-code-of-128",
        DECODE_SOURCE,
        "code = code > 127 ? 127 : code < -127 ? -127 : code;   // a subnormal d may be too small",
        "",
        "Codes past 127 of subnormal scales wrap: their scale in half precision is 0, so that no output shows it.",
        tests=("tests/strata/kernels/test_expert_decode.py",),
    ),
    _decode(
        "overflow-uncounted",
        "if (bits >= 0x7c00u) atomicAdd(lost, 1);",
        "if (bits > 0x7c00u) atomicAdd(lost, 1);",
        "A scale that overflows half precision is not counted.",
        "experts_decades",
        "experts_one_sided",
    ),
    _decode(
        "lost-uncounted",
        "if (lost != nullptr && !finite(mine)) atomicAdd(lost, 1);",
        "",
        "Outputs that are not finite are not counted.",
        "experts_broken",
    ),
    Mutant(
        "narrow-grid-barrier",
        DECODE_SOURCE,
        "static_cast<int>(threadIdx.x), kThreads);\n  __syncthreads();\n",
        "static_cast<int>(threadIdx.x), kThreads);\n",
        "The codebook is read before all of it is there.",
        DECODE,
        ("experts_plain",),
    ),
)

_PASSES = (
    Mutant(
        "older-round-away-half-up",
        SHARED_SOURCE,
        "(rest >= 0.5f) - (rest <= -0.5f)",
        "(rest >= 0.5f) - (rest < -0.5f)",
        "Ties of negative values are rounded towards zero.",
        MMQ,
        ("experts_ties",),
    ),
    Mutant(
        "older-amax-of-three",
        SHARED_SOURCE,
        "for (int i = 0; i < 4; ++i) {\n    const u32 magnitude",
        "for (int i = 0; i < 3; ++i) {\n    const u32 magnitude",
        "Every fourth value does not join amax.",
        DECODE,
        ("experts_plain",),
    ),
    Mutant(
        "older-amax-of-64",
        SHARED_SOURCE,
        "warp_max<8>(largest);",
        "warp_max<16>(largest);",
        "Scales are those of 64 values.",
        MMQ,
        ("experts_plain",),
    ),
    Mutant(
        "older-up-is-gate",
        SHARED_SOURCE,
        "product + row * 2 * features + features + feature);",
        "product + row * 2 * features + feature);",
        "up is gate.",
        DECODE,
        ("experts_plain",),
    ),
    Mutant(
        "older-last-row",
        SHARED_SOURCE,
        "if (row >= rows) return;",
        "if (row + 1 >= rows && rows > 1) return;",
        "h of the last row is not written.",
        DECODE,
        ("experts_plain",),
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from _PRODUCT
    yield from _DECODE
    yield from _PASSES
    barrier = Mutant(
        "mmq-barrier",
        MMQ_SOURCE,
        "      __syncthreads();",
        "     ",
        "Threads go on before the others have come so far.",
        TWO_SCALES,
        ("experts_plain",),
    )
    yield from removals(barrier, (ROOT / MMQ_SOURCE).read_text())
