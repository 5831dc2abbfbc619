"""Mutants of dense products: the formats that no other kernel reads, rows as codes, products on every tier and FP16."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_KERNELS = "strata/kernels"
FORMATS = f"{_KERNELS}/include/linear_formats.cuh"
TILE = f"{_KERNELS}/include/linear_tile.cuh"
UNITS = f"{_KERNELS}/include/linear_units.cuh"
DP4A, TENSOR = f"{_KERNELS}/linear_dp4a.cu", f"{_KERNELS}/linear.cu"
QUANTISE, HALVES = f"{_KERNELS}/linear_quantise.cu", f"{_KERNELS}/linear_f16.cu"


def _fault(name: str, file: str, old: str, new: str, why: str, path: str, *recipes: str) -> Mutant:
    return Mutant(f"linear-{name}", file, old, new, why, path, recipes or ("linear_decades",))


def _format(name: str, old: str, new: str, why: str, mode: str, *recipes: str) -> Mutant:
    return _fault(name, FORMATS, old, new, why, f"linear_dp4a/{mode}/simt", *recipes)


def _few(name: str, old: str, new: str, why: str, mode: str, *recipes: str) -> Mutant:
    return _fault(name, DP4A, old, new, why, f"linear_dp4a/{mode}/simt", *recipes)


def _tile(name: str, old: str, new: str, why: str, path: str, *recipes: str) -> Mutant:
    return _fault(name, TENSOR, old, new, why, f"linear/{path}", *recipes)


_SUM = "if (i < here) sum[i] = load<i32>(row + i * stride + scale_place(group) + kUnitSums);"
_ADD = "acc[0] = __fmaf_rn(v.x, d.x, acc[0]);"
_TERM = "if constexpr (kOffset) v = __fmaf_rn(-offset[m][i >> 1], sum[n][i & 1], v);"

_OF_FORMATS = (
    _format(
        "fifth-bits-of-the-first-half",
        "fifth_bits(fifths >> (16 + 4 * i))",
        "fifth_bits(fifths >> 4 * i)",
        "Values 16 to 31 of Q5_0 take the fifth bits of values 0 to 15.",
        "q5_0",
    ),
    _format(
        "fifteen-taken-off",
        "codes[i] = TYPE == TYPE_Q5_1 ? low : low + 0x70707070u ^",
        "codes[i] = TYPE == TYPE_Q5_1 ? low : low + 0x71717171u ^",
        "The first half of the codes of Q5_0 is 1 too large.",
        "q5_0",
        "linear_cancelling",
    ),
    _format(
        "minimum-taken-off",
        "offset = -half_value(f.h[1]);",
        "offset = half_value(f.h[1]);",
        "The minimum of Q5_1 is taken off where it is added.",
        "q5_1",
        "linear_bell",
    ),
    _format(
        "late-offsets-from-scales",
        "third >> 4 | second >> 6 << 4;",
        "third >> 4 | first >> 6 << 4;",
        "The top bits of the last four offsets of Q4_K are those of the scales.",
        "q4_k",
    ),
    _format(
        "nibbles-by-quarters",
        "codes[i] = q[i] >> 4 * (s % 2) & 0x0f0f0f0fu;",
        "codes[i] = q[i] >> 4 * (s / 4) & 0x0f0f0f0fu;",
        "Of Q4_K the second half of the parts takes the high nibbles, in place of every second part.",
        "q4_k",
    ),
    _format(
        "fifth-bit-of-a-pair",
        "h[i] >> s & 0x01010101u",
        "h[i] >> s / 2 & 0x01010101u",
        "Two parts of Q5_K share the fifth bits of one.",
        "q5_k",
    ),
    _format(
        "pairs-of-the-first-half",
        "block + 128 + s / 4 * 32",
        "block + 128",
        "The second half of a block of Q6_K takes the high bits of the first.",
        "q6_k",
    ),
    _format(
        "second-scale-unsigned",
        "static_cast<int>(static_cast<i8>(byte_of(f.h[32], 1)))",
        "static_cast<int>(byte_of(f.h[32], 1))",
        "The second scale of a part of Q6_K has no sign.",
        "q6_k",
    ),
)

_OF_CODES = (
    _fault(
        "sums-of-half-a-group",
        QUANTISE,
        "warp_add<8>(sum);",
        "warp_add<4>(sum);",
        "The sum of a group's codes is that of its first half.",
        "linear_dp4a/q5_1/simt",
        "linear_bell",
    ),
    _fault(
        "inverse-for-scale",
        QUANTISE,
        "scale.d);",
        "scale.inverse);",
        "A group's scale is 127 / amax.",
        "linear_dp4a/q8_0/simt",
    ),
    _fault(
        "lost-not-counted",
        QUANTISE,
        "    if (!scale.finite) atomicAdd(lost, 1);\n",
        "",
        "Groups that hold a NaN or an infinity are not counted.",
        "linear_dp4a/q8_0/simt",
        "linear_broken",
    ),
    _fault(
        "codes-one-group-on",
        UNITS,
        "kUnitCodes + g % kUnitGroups * kActivationBlock; }",
        "kUnitCodes + (g + 1) % kUnitGroups * kActivationBlock; }",
        "A group takes the codes of its neighbour.",
        "linear_dp4a/q8_0/simt",
    ),
)

_OF_FEW = (
    _few(
        "first-scale-twice",
        "v[i] = __fmaf_rn(scale[1], __int2float_rn(dot[kScales - 1][i]), v[i]);",
        "v[i] = __fmaf_rn(scale[0], __int2float_rn(dot[kScales - 1][i]), v[i]);",
        "Both halves of a group have the first one's scale.",
        "q6_k",
    ),
    _few(
        "sum-of-the-first-group",
        _SUM,
        _SUM.replace("scale_place(group)", "scale_place(0)"),
        "Offsets are taken times the sum of the first group's codes.",
        "q4_k",
        "linear_bell",
    ),
    _few(
        "offset-before-scale",
        "v[i] = __fmaf_rn(-offset, __int2float_rn(sum[i]), v[i]);",
        "v[i] = __fsub_rn(v[i], __fmul_rn(offset, __int2float_rn(sum[i])));",
        "The offset's share is rounded before it is taken off.",
        "q5_1",
    ),
    _few(
        "term-rounded",
        _ADD,
        "acc[0] = __fadd_rn(__fmul_rn(v.x, d.x), acc[0]);",
        "In every fourth row a term is rounded before it is added.",
        "q8_0",
    ),
    _few(
        "terms-backwards",
        "for (int g = 0; g < count; ++g) {\n        const int quad = add_quad",
        "for (int g = count - 1; g >= 0; --g) {\n        const int quad = add_quad",
        "The terms of a chunk are added from the last one on.",
        "q8_0",
    ),
    _few(
        "chunks-without-a-barrier",
        "    if (begin > 0) __syncthreads();   // what was there has been read\n",
        "",
        "Terms of the next chunk may be written before those of the last are added.",
        "q5_1",
        "linear_sizes",
    ),
    _few(
        "quads-not-turned-back",
        "const int quad = add_quad ^ (g & (kQuads - 1));",
        "const int quad = add_quad;",
        "Terms are read where another four rows have theirs.",
        "q8_0",
    ),
    _few(
        "rows-behind-the-last-written",
        "if (row < p.rows) store<float>(",
        "store<float>(",
        "A block writes the rows of its last four though there are fewer.",
        "q8_0",
        "linear_sizes",
    ),
    _few(
        "first-row-forgotten",
        "p.units + (p.first + first_row) * stride;",
        "p.units + first_row * stride;",
        "Rows from a later one on take the codes of the first ones.",
        "q8_0",
    ),
)

_OF_TILES = (
    _tile(
        "offset-of-a-column",
        _TERM,
        _TERM.replace("offset[m][i >> 1]", "offset[m][i & 1]"),
        "An output takes its neighbour's offset.",
        "q4_k/sm80",
    ),
    _tile(
        "sums-as-scales",
        "sum[n][c] = kOffset ? __int2float_rn(units.ld<i32>(at + kColumnSums)) : 0.0f;",
        "sum[n][c] = kOffset ? units.ld<float>(at + kColumnSums) : 0.0f;",
        "The bits of a sum of codes are taken for a float.",
        "q5_1/sm75",
        "linear_bell",
    ),
    _tile(
        "second-unit-is-the-first",
        "static_cast<i64>((step + begin) / kUnitGroups + unit) * kUnitSize",
        "static_cast<i64>((step + begin) / kUnitGroups) * kUnitSize",
        "The second 128 values of a step have the codes of the first.",
        "q8_0/sm80",
    ),
    _tile(
        "scales-of-the-other-half",
        "a_scale[s][m][half] = scales.ld((part * kScales + s) * kScaleRow + row);",
        "a_scale[s][m][half] = scales.ld((part * kScales + kScales - 1 - s) * kScaleRow + row);",
        "The two scales of a group are exchanged.",
        "q6_k/sm75",
    ),
    _tile(
        "second-tile-of-rows",
        "first_row = static_cast<i64>(blockIdx.y) * COLUMNS;",
        "first_row = static_cast<i64>(blockIdx.y) * kRows;",
        "Tiles of rows begin where tiles of 128 would, though they are narrower.",
        "q6_k/sm80",
        "linear_sizes",
    ),
    _fault(
        "outputs-behind-the-last-read",
        TILE,
        "static_cast<i64>(r < own ? r : own - 1) * row_bytes",
        "static_cast<i64>(r) * row_bytes",
        "A tile reads weights behind the end of the matrix.",
        "linear/q8_0/sm75",
        "linear_sizes",
    ),
    _fault(
        "offsets-of-the-first-part",
        TILE,
        "offsets.st(part * kScaleRow + r, offset);",
        "offsets.st(r, offset);",
        "All parts of a step write their offsets to one place.",
        "linear/q4_k/sm75",
        "linear_bell",
    ),
)


def _half(name: str, old: str, new: str, why: str, *recipes: str) -> Mutant:
    return _fault(f"f16-{name}", HALVES, old, new, why, "linear_f16/f16/simt", *recipes)


_OF_HALVES = (
    _half(
        "halves-exchanged",
        "half_value(static_cast<u16>(halves.x)), half_value(static_cast<u16>(halves.x >> 16))",
        "half_value(static_cast<u16>(halves.x >> 16)), half_value(static_cast<u16>(halves.x))",
        "The first two of every four weights are exchanged.",
    ),
    _half(
        "product-rounded",
        "sum[i] = __fmaf_rn(v.w, w[3], sum[i]);",
        "sum[i] = __fadd_rn(__fmul_rn(v.w, w[3]), sum[i]);",
        "Every fourth product is rounded before it is added.",
    ),
    _half(
        "rows-behind-the-last-read",
        "      if (first_row + i < rows) {\n",
        "      {\n",
        "A block reads rows behind the last one.",
        "linear_sizes",
    ),
    _half(
        "lanes-apart",
        "for (i64 k = lane * 4; k < width; k += 128)",
        "for (i64 k = lane * 4; k < width; k += 64)",
        "Lanes overlap: values from the 65th on are added twice.",
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from (*_OF_FORMATS, *_OF_CODES, *_OF_FEW, *_OF_TILES, *_OF_HALVES)
