"""Mutants of packing and of the rotation.

Left out, because no bit can differ: no test for the page -1 (its row is negative for every page size and head, which
leaves a row out); the same bytes came out on pack_lost, pack_sparse and pack_decades in pages of 1, 4 and 64 cells.
"""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PACK = "strata/kernels/kv_pack.cu"
FP16, INT8, K8V4, Q4_0 = (f"kv_pack/{mode}/simt" for mode in ("fp16", "int8", "k8v4", "q4_0"))


def _fault(name: str, old: str, new: str, why: str, paths: str, *recipes: str) -> Mutant:
    return Mutant(f"pack-{name}", PACK, old, new, why, paths, recipes)


_ROWS = (
    _fault(
        "row-ahead",
        "page_size + (cell - page * page_size);",
        "page_size + (cell + 1 - page * page_size);",
        "A cell is written one row further on.",
        FP16,
        "pack_bell",
    ),
    _fault(
        "previous-page",
        "const i32 physical = load(table + page);",
        "const i32 physical = load(table + (cell && cell == page * page_size ? page - 1 : page));",
        "The first cell of a page is written to the page before.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "page-zero-absent",
        "if (physical < 0) return -1;",
        "if (physical <= 0) return -1;",
        "Rows of physical page 0 are left out.",
        Q4_0,
        "pack_ties",
    ),
    _fault(
        "absent-page-written",
        "if (physical < 0) return -1;",
        "if (physical < 0) return (cell - page * page_size);",
        "Rows of absent pages are written to physical page 0.",
        K8V4,
        "pack_sparse",
    ),
    _fault(
        "row-in-16-bits",
        "return r.target >= 0;",
        "if (r.target >= 0) r.target = static_cast<u16>(r.target);\n  return r.target >= 0;",
        "Pool rows are kept in 16 bits: in a pool of more than 65,536 rows the first ones are overwritten.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "heads-before-cells",
        "r.index / kv_heads, kv_heads, static_cast<int>(r.index % kv_heads)",
        "r.index % (rows / kv_heads), kv_heads, static_cast<int>(r.index / (rows / kv_heads))",
        "The batch is read as if all cells of a head stood together.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "row-past-end",
        "if (r.index >= rows) return false;",
        "if (r.index > rows) return false;",
        "The row behind the batch is packed as well.",
        FP16,
        "pack_bell",
    ),
    _fault(
        "steps-entry",
        "load(steps + i * 4));",
        "load(steps + i * 4 + 3));",
        "The cell of a step is read where its number of ids stands.",
        Q4_0,
        "pack_bell",
    ),
)

_FP16 = (
    _fault(
        "fp16-pair-crossed",
        "half_pair(v.x, v.y)",
        "half_pair(v.y, v.x)",
        "Two neighbours of an FP16 row change places.",
        FP16,
        "pack_bell",
    ),
    _fault(
        "fp16-cut",
        "half_pair(v.x, v.y)",
        "half_pair(bits_to_float(float_to_bits(v.x) & ~0x1fffu), bits_to_float(float_to_bits(v.y) & ~0x1fffu))",
        "FP16 values are cut, not rounded.",
        FP16,
        "pack_bell",
    ),
    _fault(
        "fp16-subnormals-flushed",
        "half_pair(v.x, v.y)",
        "half_pair(v.x * (v.x > -0x1p-14f && v.x < 0x1p-14f ? 0.0f : 1.0f), v.y)",
        "Every second FP16 value below the smallest normal one is stored as zero.",
        FP16,
        "pack_decades",
    ),
    _fault(
        "fp16-lost-in-low-half",
        "bad += ((pair & 0x7fffu) >= 0x7c00u) + ((pair >> 16 & 0x7fffu) >= 0x7c00u);",
        "bad += (pair & 0x7fffu) >= 0x7c00u;",
        "Of two values the second may be infinite without being counted.",
        FP16,
        "pack_lost",
    ),
    _fault(
        "fp16-nan-not-lost",
        "bad += ((pair & 0x7fffu) >= 0x7c00u) + ((pair >> 16 & 0x7fffu) >= 0x7c00u);",
        "bad += ((pair & 0x7fffu) == 0x7c00u) + ((pair >> 16 & 0x7fffu) == 0x7c00u);",
        "Infinities are counted as lost and NaN is not.",
        FP16,
        "pack_lost",
    ),
)

_INT8 = (
    _fault(
        "int8-scale-neighbour",
        "store<u16>(scales + r.target * 4 + r.lane / 8, bits);",
        "store<u16>(scales + r.target * 4 + (r.lane / 8 ^ 1), bits);",
        "Scales of neighbouring groups change places, on the writer's side alone.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "int8-max-of-half",
        "warp_max<8>(largest);",
        "warp_max<4>(largest);",
        "The butterfly of a group is one step short, so half of it does not join the maximum.",
        INT8,
        "pack_sparse",
    ),
    _fault(
        "int8-max-of-two-groups",
        "warp_max<8>(largest);",
        "warp_max<16>(largest);",
        "The neighbouring group joins the maximum.",
        K8V4,
        "pack_sparse",
    ),
    _fault(
        "int8-scale-128",
        "__fdiv_rn(bits_to_float(largest[0]), 127.0f)",
        "__fdiv_rn(bits_to_float(largest[0]), 128.0f)",
        "Scales are for 128 steps, and the largest value is clamped at 127.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "int8-scale-reciprocal",
        "__fdiv_rn(bits_to_float(largest[0]), 127.0f)",
        "__fmul_rn(bits_to_float(largest[0]), 1.0f / 127.0f)",
        "A scale is a product with 1/127, which can lie on the other side of a middle of two FP16 values.",
        INT8,
        "pack_halfway",
    ),
    _fault(
        "int8-scale-cut",
        "const u16 bits = half_bits(__fdiv_rn(bits_to_float(largest[0]), 127.0f));",
        "const u16 bits = half_bits("
        "bits_to_float(float_to_bits(__fdiv_rn(bits_to_float(largest[0]), 127.0f)) & ~0x1fffu));",
        "Scales are cut to FP16, not rounded.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "int8-subnormal-scale-flushed",
        "const float scale = half_value(bits);",
        "const float scale = bits < 0x400u ? 0.0f : half_value(bits);",
        "Codes are all zero where the scale is subnormal, as if it had been flushed.",
        INT8,
        "pack_decades",
    ),
    _fault(
        "int8-scale-not-stored-one",
        "const float scale = half_value(bits);",
        "const float scale = __fdiv_rn(bits_to_float(largest[0]), 127.0f);",
        "Codes are taken against the scale before it is rounded to FP16.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "int8-reciprocal",
        "__float2int_rn(__fdiv_rn(v[i], scale))",
        "__float2int_rn(__fmul_rn(v[i], __fdiv_rn(1.0f, scale)))",
        "Codes are products with 1 / scale, which can lie on the other side of the middle of two codes.",
        INT8,
        "pack_halfway",
    ),
    _fault(
        "int8-half-away",
        "__float2int_rn(__fdiv_rn(v[i], scale))",
        "__float2int_rz(__fadd_rn(__fdiv_rn(v[i], scale), v[i] < 0.0f ? -0.5f : 0.5f))",
        "A value in the middle of two codes goes to the larger one.",
        INT8,
        "pack_halfway",
    ),
    _fault(
        "int8-cut",
        "__float2int_rn(__fdiv_rn(v[i], scale))",
        "__float2int_rz(__fdiv_rn(v[i], scale))",
        "Codes are cut, not rounded.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "int8-zero-scale",
        "int code = scale == 0.0f ? 0 : __float2int_rn",
        "int code = __float2int_rn",
        "Where the scale rounds to zero, values are divided by it.",
        INT8,
        "pack_decades",
    ),
    _fault(
        "int8-clamp-at-128",
        "code > 127 ? 127 : code < -127 ? -127 : code",
        "code > 127 ? 127 : code < -128 ? -128 : code",
        "Beside a subnormal scale, which may be rounded down by a third, -128 is stored.",
        INT8,
        "pack_decades",
    ),
    _fault(
        "int8-no-upper-clamp",
        "code > 127 ? 127 : code < -127 ? -127 : code",
        "code < -127 ? -127 : code",
        "Beside a subnormal scale codes wrap past 127.",
        INT8,
        "pack_decades",
    ),
    _fault(
        "int8-sign-smears",
        "packed[i / 4] |= static_cast<u32>(code & 255)",
        "packed[i / 4] |= static_cast<u32>(code)",
        "The sign bits of a code fill the bytes above it.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "int8-word-not-cleared",
        "packed[i / 4] |= static_cast<u32>(code & 255) << 8 * (i % 4);",
        "packed[1] |= static_cast<u32>(code & 255) << 8 * (i % 4);\n    if (i == 3) packed[0] = packed[1];",
        "The second word of four codes is packed over the first one.",
        INT8,
        "pack_bell",
    ),
    _fault(
        "int8-lost-twice",
        "if (bits >= 0x7c00u) bad = 8;",
        "if (bits >= 0x7c00u) bad += 8;",
        "An infinity in a group whose scale overflows is counted twice.",
        INT8,
        "pack_lost",
    ),
    _fault(
        "int8-overflow-not-lost",
        "  if (bits >= 0x7c00u) bad = 8;\n",
        "",
        "A group whose scale overflows is stored, and nobody is told.",
        K8V4,
        "pack_lost",
    ),
    _fault(
        "int8-infinity-joins",
        """    if (!finite(v[i])) v[i] = 0.0f, ++bad;
    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);""",
        """    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    if (!finite(v[i])) v[i] = 0.0f, ++bad;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);""",
        "A NaN or an infinity joins the maximum and takes its whole group along.",
        INT8,
        "pack_lost",
    ),
    _fault(
        "int8-infinity-clamped",
        """    if (!finite(v[i])) v[i] = 0.0f, ++bad;
    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);""",
        """    if (!finite(v[i])) v[i] = v[i] > 0.0f ? 0x1.fffffep127f : v[i] < 0.0f ? -0x1.fffffep127f : 0.0f;
    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;
    if (magnitude < 0x7f7fffffu) largest[0] = magnitude > largest[0] ? magnitude : largest[0];
  }
  warp_max<8>(largest);""",
        "Infinities are clamped to the largest code and NaN is dropped, and nobody is told.",
        INT8,
        "pack_lost",
    ),
)

_Q4_0 = (
    _fault(
        "q4-nibbles-swapped",
        "bytes[i % 4] = i < 4 ? static_cast<u32>(code) : bytes[i % 4] | static_cast<u32>(code) << 4;",
        "bytes[i % 4] = i < 4 ? static_cast<u32>(code) << 4 : bytes[i % 4] | static_cast<u32>(code);",
        "Low and high nibbles change places, on the writer's side alone.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-elements-of-lane",
        "block * 32 + i * 4 + p * 4);",
        "block * 32 + i + p * 8);",
        "A lane packs its eight neighbours, as if low and high nibbles lay four apart.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "q4-max-of-half",
        "warp_max<4>(largest);",
        "warp_max<2>(largest);",
        "The butterfly of a block is one step short, so half of it does not join the maximum.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-max-of-two-blocks",
        "warp_max<4>(largest);",
        "warp_max<8>(largest);",
        "The neighbouring block joins the maximum.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "q4-sign-of-two-blocks",
        "warp_max<4>(first);",
        "warp_max<8>(first);",
        "The sign of a block's scale is that of whichever of two blocks has its largest element earlier.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-last-met",
        "const u32 key = (32 - index) << 1 | b >> 31;",
        "const u32 key = (index + 1) << 1 | b >> 31;",
        "Of elements of one largest magnitude the last decides the sign of the scale.",
        Q4_0,
        "pack_ties",
    ),
    _fault(
        "q4-positive-wins",
        "const u32 key = (32 - index) << 1 | b >> 31;",
        "const u32 key = (b >> 31 ^ 1u) << 7 | (32 - index) << 1 | b >> 31;",
        "Of elements of one largest magnitude a positive one decides the sign of the scale.",
        K8V4,
        "pack_ties",
    ),
    _fault(
        "q4-index-in-lane",
        "i < 4 ? p * 4 + i : 16 + p * 4 + i - 4);",
        "p * 8 + i);",
        "Elements are met in the order of lanes, not of the block, where several have the largest magnitude.",
        Q4_0,
        "pack_ties",
    ),
    _fault(
        "q4-sign-dropped",
        "bits_to_float(largest[0] | (first[0] & 1u) << 31)",
        "bits_to_float(largest[0])",
        "The scale loses the sign of the largest element, which is then clamped when it was negative.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-stored-sign-dropped",
        "if (p == 0) store<u16>(to, bits);",
        "if (p == 0) store<u16>(to, static_cast<u16>(bits & 0x7fffu));",
        "Codes know the sign of the scale, and the stored scale has none.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "q4-subnormal-scale-flushed",
        "if (p == 0) store<u16>(to, bits);",
        "if (p == 0) store<u16>(to, static_cast<u16>(bits & 0x7c00u ? bits : bits & 0x8000u));",
        "Subnormal scales are stored as zeros.",
        Q4_0,
        "pack_decades",
    ),
    _fault(
        "q4-scale-cut",
        "const u16 bits = half_bits(d);",
        "const u16 bits = half_bits(bits_to_float(float_to_bits(d) & ~0x1fffu));",
        "Scales are cut to FP16, not rounded.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-stored-scale-used",
        "inverse = d == 0.0f ? 0.0f : __fdiv_rn(1.0f, d);",
        "inverse = half_value(half_bits(d)) == 0.0f ? 0.0f : __fdiv_rn(1.0f, half_value(half_bits(d)));",
        "Codes are taken against the stored scale, where the format's packers use the one before rounding.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "q4-zero-scale",
        "inverse = d == 0.0f ? 0.0f : __fdiv_rn(1.0f, d);",
        "inverse = __fdiv_rn(1.0f, d);",
        "In a block of zeros the inverse is infinite, and every code that of 0 times infinity.",
        Q4_0,
        "pack_sparse",
    ),
    _fault(
        "q4-division",
        "__fadd_rn(__fmul_rn(v[i], inverse), 8.5f)",
        "__fadd_rn(inverse == 0.0f ? 0.0f : __fdiv_rn(v[i], d), 8.5f)",
        "Codes are quotients, where the format's packers take products with 1 / d.",
        Q4_0,
        "pack_halfway",
    ),
    _fault(
        "q4-fused",
        "__fadd_rn(__fmul_rn(v[i], inverse), 8.5f)",
        "__fmaf_rn(v[i], inverse, 8.5f)",
        "Product and sum are rounded once, where the format's packers round twice.",
        K8V4,
        "pack_halfway",
    ),
    _fault(
        "q4-half-to-even",
        "__float2int_rz(__fadd_rn(__fmul_rn(v[i], inverse), 8.5f))",
        "__float2int_rn(__fadd_rn(__fmul_rn(v[i], inverse), 8.0f))",
        "The middle of two codes goes to the even one, not up.",
        Q4_0,
        "pack_halfway",
    ),
    _fault(
        "q4-cut",
        "inverse), 8.5f)",
        "inverse), 8.0f)",
        "Codes are cut, not rounded.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "q4-no-clamp-at-15",
        "code = code > 15 ? 15 : code < 0 ? 0 : code;",
        "code = code < 0 ? 0 : code;",
        "An element as large as the extreme one, of the other sign, gets code 16 and spills into its neighbour.",
        Q4_0,
        "pack_ties",
    ),
    _fault(
        "q4-nan-code",
        "    if (!finite(v[i])) v[i] = 0.0f, ++bad;\n"
        "    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;\n"
        "    largest[0] = magnitude > largest[0] ? magnitude : largest[0];\n  }\n  warp_max<4>(largest);",
        "    const u32 magnitude = float_to_bits(v[i]) & 0x7fffffffu;\n"
        "    if (!finite(v[i])) ++bad;\n"
        "    else largest[0] = magnitude > largest[0] ? magnitude : largest[0];\n  }\n  warp_max<4>(largest);",
        "A value that is not finite keeps the code that its conversion gives: that of the most extreme value.",
        Q4_0,
        "pack_lost",
    ),
    _fault(
        "q4-lost-twice",
        "if ((bits & 0x7fffu) >= 0x7c00u) bad = 8;",
        "if ((bits & 0x7fffu) >= 0x7c00u) bad = 16;",
        "A block whose scale overflows is counted twice.",
        K8V4,
        "pack_lost",
    ),
    _fault(
        "q4-overflow-positive",
        "if ((bits & 0x7fffu) >= 0x7c00u) bad = 8;",
        "if (bits == 0x7c00u) bad = 8;",
        "Scales that overflow to -infinity are not counted.",
        Q4_0,
        "pack_lost",
    ),
    _fault(
        "q4-block-pitch",
        "Format<FORMAT_Q4_0>::row_bytes + block * Format<FORMAT_Q4_0>::block_bytes;",
        "Format<FORMAT_Q4_0>::row_bytes + block * 16;",
        "Blocks lie 16 bytes apart, as if they had no scale.",
        K8V4,
        "pack_bell",
    ),
)

_ROTATION = (
    _fault(
        "rotation-level-missing",
        "for (int h = 1; h < 32; h *= 2)",
        "for (int h = 1; h < 16; h *= 2)",
        "The rotation leaves out one of its eight levels.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "rotation-last-level-missing",
        "for (int h = 1; h < 8; h *= 2)\n#pragma unroll\n    for (int i = 0; i < 8; ++i)\n      if",
        "for (int h = 1; h < 4; h *= 2)\n#pragma unroll\n    for (int i = 0; i < 8; ++i)\n      if",
        "The rotation leaves out its last level.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "rotation-sign",
        "__fsub_rn(other, v[i]) : __fadd_rn(v[i], other)",
        "__fsub_rn(v[i], other) : __fadd_rn(v[i], other)",
        "The upper lane of a pair takes the difference the other way around.",
        Q4_0,
        "pack_bell",
    ),
    _fault(
        "rotation-scale-omitted",
        "i * 32 + lane), 0.0625f);",
        "i * 32 + lane), 1.0f);",
        "The rotation is sixteen times too large.",
        K8V4,
        "pack_bell",
    ),
    _fault(
        "rotation-in-place-order",
        "store(out + row * kDim + i * 32 + lane, v[i]);",
        "store(out + row * kDim + lane * 8 + i, v[i]);",
        "The rotated row is stored in the order of lanes.",
        Q4_0,
        "pack_bell",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of packing."""
    yield from (*_ROWS, *_FP16, *_INT8, *_Q4_0, *_ROTATION)
