// Fragments of integer matrix products straight from a row of blocks: no decoded weight goes through shared memory.
//
// Four lanes t = 0..3 share a row, and a lane holds eight of 32 values: two registers of four codes, for k-slots 4t..4t+3
// and 16+4t..16+4t+3 of an m16n8k32. A sum of integers has no order, so slots may stand for any values as long as the
// activations agree. In PAIRED order lane t's slots are values 8t..8t+7, one entry of a codebook and one byte of signs;
// else they are the values of their own number. Where 16 values have a scale the halves are products of their own, and
// the order is the natural one.
#pragma once

#include "expert_formats.cuh"

// The scale of values 32p .. of a row, one for all of them: `at` as in fetch_fragment, of the row.
template <int TYPE, class At>
DEVICE float part_scale(const At& at, int p) {
  if constexpr (Blocks<TYPE>::values < 256) {
    return half_value(at(0, 32 * p / Blocks<TYPE>::values * Blocks<TYPE>::bytes));
  } else if constexpr (TYPE == TYPE_IQ3_XXS || TYPE == TYPE_IQ2_XXS) {
    const int top = TYPE == TYPE_IQ3_XXS ? at(0, 68 + 4 * p) : at(0, 8 + 8 * p);
    return __fmul_rn(__int2float_rn(top >> 11 | 1), scaled(at(0, 0), TYPE == TYPE_IQ3_XXS ? 0.25f : 0.125f));
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    return scaled(at(0, 0), __int2float_rn(2 * (at(0, 106 + p / 4 * 2) >> 4 * (p % 4) & 15) + 1));
  } else {
    static_assert(TYPE == TYPE_IQ4_XS, "no such format, or one with more scales or fewer values");
    const int low = at(0, 4 + p / 4 * 2) >> 4 * (p % 4) & 15, high = at(0, 2) >> 2 * p & 3;
    return scaled(at(0, 0), __int2float_rn((low | high << 4) - 32));
  }
}

// A value that the compiler keeps in a register instead of making it again where it is used.
DEVICE int kept(int x) {
#ifndef STRATA_LANES
  asm volatile("" : "+r"(x));
#endif
  return x;
}

template <int TYPE>
struct Fragment {
  static constexpr bool paired = TYPE == TYPE_IQ3_XXS || TYPE == TYPE_IQ3_S || TYPE == TYPE_IQ2_XXS;
  static constexpr int scales = Blocks<TYPE>::scales;
  // Whether the codebook in shared memory has every entry with all sixteen signs: entry | signs << 8.
  static constexpr bool signed_grid = TYPE == TYPE_IQ3_XXS;
  static constexpr int grid_words = Blocks<TYPE>::grid_words * (signed_grid ? 16 : 1);
  // 16-bit words that a lane reads for its eight values.
  static constexpr int halves = TYPE == TYPE_IQ3_XXS ? 4 : TYPE == TYPE_IQ3_S ? 5 : TYPE == TYPE_IQ4_XS ? 5 : TYPE == TYPE_IQ2_S ? 7
                                : TYPE == TYPE_IQ2_XXS ? 4 : TYPE == TYPE_IQ2_XS ? 4 : 3;
  u16 h[halves];
};

// Position, in 4-byte words, of values 4w..4w+3 of 32 in activations for a product in PAIRED order.
template <bool PAIRED>
DEVICE int word_place(int w) { return PAIRED ? (w & 1) * 4 + (w >> 1) : w; }

// Reads what lane t needs of part s + i of a block, values 32(s + i) .., where s is even and i 0 or 1: at(moving, fixed)
// gives the 16-bit word at byte moving + fixed of the block. `fixed` is a constant, which costs no instruction.
template <int TYPE, class At>
DEVICE Fragment<TYPE> fetch_fragment(const At& at, int s, int i, int t) {
  Fragment<TYPE> f;
  f.h[0] = at(0, 0);   // d
  const auto pair = [&](int to, int moving, int fixed) { f.h[to] = at(moving, fixed), f.h[to + 1] = at(moving, fixed + 2); };
  if constexpr (TYPE == TYPE_IQ4_NL) {
    pair(1, 4 * t, 2);
  } else if constexpr (TYPE == TYPE_Q2_0) {
    f.h[1] = at(t & 2, 2 + 8 * i);
    f.h[2] = at(t & 2, 6 + 8 * i);
  } else if constexpr (TYPE == TYPE_IQ4_XS) {
    pair(1, 16 * s + 4 * t, 8 + 16 * i);
    f.h[3] = at(0, 2);
    f.h[4] = at(s / 4 * 2, 4);
  } else if constexpr (TYPE == TYPE_IQ3_XXS) {
    f.h[1] = at(8 * s + 2 * t, 2 + 8 * i);
    pair(2, 4 * s, 66 + 4 * i);
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    f.h[1] = at(8 * s + 2 * t, 2 + 8 * i);
    f.h[2] = at(4 * s + (t & 2), 74 + 4 * i);
    f.h[3] = at(s, 66);
    f.h[4] = at(s / 4 * 2, 106);
  } else if constexpr (TYPE == TYPE_IQ2_XXS) {
    f.h[1] = at(8 * s + (t & 2), 2 + 8 * i);
    pair(2, 8 * s, 6 + 8 * i);
  } else if constexpr (TYPE == TYPE_IQ2_XS) {
    f.h[1] = at(8 * s + (t & 2), 2 + 8 * i);
    f.h[2] = at(8 * s + (t & 2), 6 + 8 * i);
    f.h[3] = at(s, 66);
  } else {
    static_assert(TYPE == TYPE_IQ2_S, "no such format");
    pair(1, 4 * s, 2 + 4 * i);
    pair(3, 4 * s, 34 + 4 * i);
    f.h[5] = at(s, 66);
    f.h[6] = at(s, 74);
  }
  return f;
}

// Copies a format's codebook to shared memory as decode_fragment reads it; see load_grid.
template <int TYPE>
DEVICE void load_fragment_grid(const u32* table, Shared<u32> grid, int thread, int threads) {
  if constexpr (Fragment<TYPE>::signed_grid) {
    static_assert(Blocks<TYPE>::grid_words == 256, "signs lie above eight bits of index");
    for (int i = thread; i < Fragment<TYPE>::grid_words; i += threads)
      grid.st(i, signed_bytes(load(table + (i & 255)), static_cast<u32>(i) >> 8));
  } else {
    load_grid<TYPE>(table, grid, thread, threads);
  }
}

// The sixteen levels of IQ4_NL and IQ4_XS as nibble_lookup takes them. zero: 0, which the compiler must not know, nor
// that it is the same for all lanes: a table's words that are constants it would make anew for each instruction.
using Levels = u32[4];
template <int TYPE>
DEVICE void make_levels(Levels& levels, u32 zero) {
  if constexpr (TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS) {
    levels[0] = 0xbfad9881u ^ zero, levels[1] = 0xf6eaddcfu;
    levels[2] = 0x26190d01u ^ zero, levels[3] = 0x71594535u;
  }
}

// A sign byte from seven bits: bit 7 is their parity.
DEVICE u32 seven_signs(u32 seven) { return seven | static_cast<u32>(__popc(seven) & 1) << 7; }

// The bits of a, turned left by 1..31 places.
DEVICE u32 rotated(u32 a, int places) { return a << places | a >> (32 - places); }

// codes[0], codes[1]: the lane's two registers; scale[0] of both, or of the first and scale[1] of the second.
template <int TYPE>
DEVICE void decode_fragment(const Fragment<TYPE>& f, int s, int t, Shared<u32> grid, const Levels& levels, u32 (&codes)[2],
                            float (&scale)[Fragment<TYPE>::scales]) {
  if constexpr (TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS) {
    nibble_lookup(joined(f.h[1], f.h[2]), levels, codes[0], codes[1]);
    if constexpr (TYPE == TYPE_IQ4_NL) {
      scale[0] = half_value(f.h[0]);
    } else {
      const int low = f.h[4] >> 4 * (s % 4) & 15, high = f.h[3] >> 2 * s & 3;
      scale[0] = scaled(f.h[0], __int2float_rn((low | high << 4) - 32));
    }
  } else if constexpr (TYPE == TYPE_Q2_0) {
    scale[0] = half_value(f.h[0]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {   // four values of two bits in a byte
      const u32 four = byte_of(f.h[1 + i], t & 1), two = four | four << 4;
      codes[i] = byte_lookup(0x020100ffu, 0, (two & 0x0303u) | (two << 2 & 0x3030u));
    }
  } else if constexpr (TYPE == TYPE_IQ3_XXS) {
    const u32 a = joined(f.h[2], f.h[3]);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.25f);
    // Seven signs at bits 8..14, the eighth above them. Places in the codebook are 4-bit signs above 8-bit indices.
    const u32 seven = rotated(a, (8 - 7 * t) & 31) & 0x7f00u;
    const u32 eight = seven + (static_cast<u32>(__popc(seven)) << 15);
    codes[0] = grid.ld(static_cast<int>((seven & 0xf00u) | (f.h[1] & 255u)));
    codes[1] = grid.ld(static_cast<int>(((eight & 0xf000u) | static_cast<u32>(f.h[1]) >> 4) >> 4));
  } else if constexpr (TYPE == TYPE_IQ3_S) {
    u32 index[2] = {byte_of(f.h[1], 0), byte_of(f.h[1], 1)};
    const u32 high = byte_of(f.h[3], s % 2) >> 2 * t;   // bits of the two indices
    index[0] |= (high & 1u) << 8, index[1] |= (high & 2u) << 7;
    const u32 signs = byte_of(f.h[2], t & 1);
    scale[0] = scaled(f.h[0], __int2float_rn(2 * (f.h[4] >> 4 * (s % 4) & 15) + 1));
#pragma unroll
    for (int i = 0; i < 2; ++i) codes[i] = signed_bytes(grid.ld(static_cast<int>(index[i])), signs >> 4 * i);
  } else if constexpr (TYPE == TYPE_IQ2_XXS) {
    const u32 a = joined(f.h[2], f.h[3]), signs = seven_signs(a >> 7 * t & 127u);
    scale[0] = scaled(f.h[0], __int2float_rn(static_cast<int>(a >> 28) * 2 + 1) * 0.125f);
    const uint2 magnitudes = grid.template ld<uint2>(2 * static_cast<int>(byte_of(f.h[1], t & 1)));
    codes[0] = signed_bytes(magnitudes.x, signs);
    codes[1] = signed_bytes(magnitudes.y, signs >> 4);
  } else {
    // Values 4t..4t+3 and 16+4t..: a half of group t/2, and of group 2 + t/2.
    const int half = t & 1;
    u32 index[2], signs[2], steps;
    if constexpr (TYPE == TYPE_IQ2_XS) {
      steps = byte_of(f.h[3], s % 2);
#pragma unroll
      for (int i = 0; i < 2; ++i) index[i] = f.h[1 + i] & 511u, signs[i] = seven_signs(static_cast<u32>(f.h[1 + i]) >> 9);
    } else {
      static_assert(TYPE == TYPE_IQ2_S, "no such format");
      steps = byte_of(f.h[6], s % 2);
      const u32 high = byte_of(f.h[5], s % 2);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int group = 2 * i + (t >> 1);
        index[i] = byte_of(f.h[1 + i], t >> 1) | (high >> 2 * group & 3u) << 8;
        signs[i] = byte_of(f.h[3 + i], t >> 1);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      scale[i] = scaled(f.h[0], __int2float_rn(static_cast<int>(steps >> 4 * i & 15u) * 2 + 1) * 0.125f);
      codes[i] = signed_bytes(grid.ld(2 * static_cast<int>(index[i]) + half), signs[i] >> 4 * half);
    }
  }
}

// Says that an address read from memory points to global memory, so that loads need not find out.
DEVICE const u8* global_bytes(u64 address) {
  const u8* p = reinterpret_cast<const u8*>(address);
#ifndef STRATA_LANES
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}
