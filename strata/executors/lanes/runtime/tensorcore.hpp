// The arithmetic of mma.sync f32.f16.f16.f32, bit for bit.
//
// One step takes `block` products and the accumulator. All addends are aligned to the largest
// exponent E among them (products keep e_a + e_b, they are not normalised; zeros do not count), each
// is cut towards zero below 2^(E-F), the integers are added exactly, and the sum is cut towards zero
// to fp32. Any NaN gives 7fffffff, a zero sum +0. Measured on an H200 with block 8 and 16, F 25.
#pragma once

#include <algorithm>

#include "floating.hpp"
#include "machine.hpp"

namespace lanes {

// ---- one output, any input: integers only ------------------------------------------------------

struct Special {   // infinities and NaN among the addends
  bool nan = false, plus = false, minus = false;
  bool any() const { return nan || plus || minus; }
  u32 bits() const { return nan || (plus && minus) ? kCanonicalNaN : plus ? 0x7f800000u : 0xff800000u; }
};

struct Product {
  i64 significand;   // signed, 20 fraction bits
  int exponent;
};

struct Addend {
  i64 significand;   // signed, 23 fraction bits
  int exponent;
};

inline Addend accumulator(u32 c, Special& special) {
  const int exponent = c >> 23 & 255;
  const u32 fraction = c & 0x7fffffu;
  const bool negative = c >> 31;
  if (exponent == 255) {
    if (fraction) special.nan = true;
    else (negative ? special.minus : special.plus) = true;
    return {0, 0};
  }
  const i64 significand = exponent ? fraction | 0x800000u : fraction;
  return {negative ? -significand : significand, std::max(exponent, 1) - 127};
}

inline Product product(u32 x, u32 y, Special& special) {
  const int xe = x >> 10 & 31, ye = y >> 10 & 31;
  const bool negative = (x ^ y) >> 15 & 1;
  if (xe == 31 || ye == 31) {
    const bool x_nan = xe == 31 && (x & 1023), y_nan = ye == 31 && (y & 1023);
    if (x_nan || y_nan || !(x & 0x7fff) || !(y & 0x7fff)) special.nan = true;
    else (negative ? special.minus : special.plus) = true;
    return {0, 0};
  }
  const i64 p = i64(xe ? (x & 1023) | 1024 : x & 1023) * i64(ye ? (y & 1023) | 1024 : y & 1023);
  return {negative ? -p : p, std::max(xe, 1) + std::max(ye, 1) - 30};
}

inline i64 shifted(i64 v, int by) {   // v * 2^by, cut towards zero
  const u64 magnitude = v < 0 ? u64(-v) : u64(v);
  const i64 out = by >= 0 ? i64(magnitude << by) : by <= -63 ? 0 : i64(magnitude >> -by);
  return v < 0 ? -out : out;
}

inline u32 step_any(const u16* a, int a_stride, const u16* b, int n, u32 c, int frac) {
  constexpr int kNone = -(1 << 20);
  Special special;
  Product p[16];
  int top = kNone;
  for (int k = 0; k < n; ++k) {
    p[k] = product(a[k * a_stride], b[k], special);
    if (p[k].significand) top = std::max(top, p[k].exponent);
  }
  const Addend held = accumulator(c, special);
  if (special.any()) return special.bits();
  if (held.significand) top = std::max(top, held.exponent);
  if (top == kNone) return 0;
  i64 sum = shifted(held.significand, frac - 23 + held.exponent - top);
  for (int k = 0; k < n; ++k)
    if (p[k].significand) sum += shifted(p[k].significand, frac - 20 + p[k].exponent - top);
  if (sum == 0) return 0;
  const u64 magnitude = sum < 0 ? u64(-sum) : u64(sum);
  const int leading = 63 - __builtin_clzll(magnitude) + top - frac;
  const int quantum = std::max(leading, -126) - 23, by = top - frac - quantum;
  const u64 cut = by >= 0 ? magnitude << by : by <= -63 ? 0 : magnitude >> -by;
  const i64 bits = (i64(quantum + 23 + 126) << 23) + i64(cut);   // adding carries into the exponent
  return (bits >= 0x7f800000 ? 0x7f800000u : u32(bits)) | (sum < 0 ? 0x80000000u : 0u);
}

// The real sum rounded once to nearest even: products are multiples of 2^-48 below 2^36, so a
// 128-bit integer holds their sum.
inline u32 step_exact(const u16* a, int a_stride, const u16* b, int n, u32 c) {
  Special special;
  __int128 sum = 0;   // in units of 2^-48
  for (int k = 0; k < n; ++k) {
    const Product p = product(a[k * a_stride], b[k], special);
    sum += __int128(p.significand) << (p.exponent + 28);
  }
  const Addend held = accumulator(c, special);
  if (special.any()) return special.bits();
  const i64 cs = held.significand;
  if (cs == 0 && sum == 0) return 0;
  if (sum == 0) return c;
  int unit = -48;                                  // value = sum * 2^unit, with a sticky bit below
  bool sticky = false, sticky_negative = false;
  const int c_unit = held.exponent - 23;           // c = cs * 2^c_unit
  if (cs) {
    if (c_unit > 60) return c;                     // beyond half an ulp of c by far
    sum <<= 30;                                    // below 2^114
    unit = -78;
    if (c_unit >= unit) {
      if (c_unit - unit > 100) {                   // c >= 2^46 * 2^23: products below 2^36 are kept as sticky
        const __int128 whole = __int128(cs) << 100;
        const int down = c_unit - unit - 100;
        sticky = (sum & ((__int128(1) << down) - 1)) != 0;   // the shift rounds down: what is left is positive
        sum = whole + (sum >> down);
        unit = c_unit - 100;
      } else {
        sum += __int128(cs) << (c_unit - unit);
      }
    } else {
      const int down = unit - c_unit;
      const i64 magnitude = cs < 0 ? -cs : cs;
      const i64 kept = down > 62 ? 0 : magnitude >> down;
      sticky = down > 62 || (kept << down) != magnitude;
      sticky_negative = cs < 0;
      sum += cs < 0 ? -__int128(kept) : __int128(kept);
    }
  }
  if (sum == 0) return 0;
  const bool below = sum < 0;
  unsigned __int128 magnitude = below ? static_cast<unsigned __int128>(-sum) : static_cast<unsigned __int128>(sum);
  // Two more bits: the sticky remainder is a little more or a little less than the integer.
  if (sticky) {
    const bool less = sticky_negative != below;
    const bool room = magnitude >> 125 == 0;
    if (room) {
      magnitude = (magnitude << 1);
      unit -= 1;
    }
    magnitude = less ? magnitude - 1 : magnitude | 1;
  }
  const u64 high = u64(magnitude >> 64), low = u64(magnitude);
  const int length = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(low);
  const int quantum = std::max(length - 1 + unit, -126) - 23, down = quantum - unit;
  u64 kept;
  if (down <= 0) {
    kept = u64(magnitude << -down);
  } else {
    kept = down >= 128 ? 0 : u64(magnitude >> down);
    const unsigned __int128 rest = down >= 128 ? magnitude : magnitude & ((static_cast<unsigned __int128>(1) << down) - 1);
    const unsigned __int128 half = down > 128 ? ~static_cast<unsigned __int128>(0) : static_cast<unsigned __int128>(1) << (down - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
  }
  const i64 bits = (i64(quantum + 23 + 126) << 23) + i64(kept);
  return (bits >= 0x7f800000 ? 0x7f800000u : u32(bits)) | (below ? 0x80000000u : 0u);
}

// ---- a tile, vectorised over its 16 rows ---------------------------------------------------------

typedef float F16 __attribute__((vector_size(64)));
typedef int I16 __attribute__((vector_size(64)));
typedef unsigned U16 __attribute__((vector_size(64)));
typedef short S16 __attribute__((vector_size(32)));

template <class V>
inline V larger(V a, V b) {
  return a > b ? a : b;
}

// Operands made ready once and used by every instruction that shares them.
struct alignas(64) ReadyA {
  u16 bits[16][16];   // [k][row], binary16
  F16 value[16];      // [k], 16 rows
  S16 exponent[16];   // -2000 for zero
  bool special;
};
struct alignas(64) ReadyB {
  float value[8][16];      // [column][k]
  short exponent[8][16];
  bool special;
};

// 16 halves: exact values and exponents. `most` keeps the largest exponent field seen, 31 for infinity or NaN.
inline void widen(const u16* h, void* value, void* exponent, S16& most) {
#if defined(__F16C__)
  _mm256_store_ps(static_cast<float*>(value), _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(h))));
  _mm256_store_ps(static_cast<float*>(value) + 8, _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(h + 8))));
#else
  for (int i = 0; i < 16; ++i) static_cast<float*>(value)[i] = half_to_float(h[i]);
#endif
  S16 bits;
  std::memcpy(&bits, h, sizeof bits);
  bits &= 0x7fff;
  const S16 field = bits >> 10;
  most = larger(most, field);
  S16 e = larger(field, S16{} + 1) - 15;
  e = bits == 0 ? S16{} - 2000 : e;
  std::memcpy(exponent, &e, sizeof e);
}

inline bool has_special(const S16& most) {
  bool found = false;
  for (int i = 0; i < 16; ++i) found |= most[i] == 31;
  return found;
}

// bits[column][row] = from[row][column], 8x8
inline void transpose(const u32* from, u16 (*bits)[16]) {
#if defined(__SSE2__)
  __m128i r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(from) + i);
  for (int i = 0; i < 4; ++i) s[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]), s[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
  for (int i = 0; i < 4; ++i) r[2 * i] = _mm_unpacklo_epi16(s[i], s[i + 4]), r[2 * i + 1] = _mm_unpackhi_epi16(s[i], s[i + 4]);
  for (int i = 0; i < 4; ++i) s[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]), s[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
  for (int i = 0; i < 8; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(bits[i]), s[i]);
#else
  const u16* h = reinterpret_cast<const u16*>(from);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) bits[j][i] = h[8 * i + j];
#endif
}

inline void ready(ReadyA& out, const u32 a[4][kWarp], int k) {
  for (int half = 0; half < k / 8; ++half)
    for (int low = 0; low < 2; ++low)
      transpose(a[2 * half + low], reinterpret_cast<u16(*)[16]>(&out.bits[8 * half][8 * low]));
  S16 most{};
  for (int i = 0; i < k; ++i) widen(out.bits[i], &out.value[i], &out.exponent[i], most);
  out.special = has_special(most);
}

inline void ready(ReadyB& out, const u16 b[8][16]) {
  S16 most{};
  for (int j = 0; j < 8; ++j) widen(b[j], out.value[j], out.exponent[j], most);
  out.special = has_special(most);
}

// One step of one column: c += sum over N products, 16 rows at once. Returns rows whose numbers lie
// outside the exact range of this path as a mask of ones. Runs with truncating arithmetic.
template <int N>
inline I16 step_rows(const ReadyA& a, const ReadyB& b, int column, int k0, F16& c, int frac) {
  const I16 c_bits = I16(c) & 0x7fffffff;
  I16 top;
  {
    S16 products = a.exponent[k0] + b.exponent[column][k0];
    for (int k = k0 + 1; k < k0 + N; ++k) {
      const S16 e = a.exponent[k] + b.exponent[column][k];
      products = larger(e, products);
    }
    I16 c_exponent = c_bits >> 23;
    c_exponent = larger(c_exponent, I16{} + 1) - 127;
    c_exponent = c_bits == 0 ? I16{} - 3000 : c_exponent;
    top = larger(__builtin_convertvector(products, I16), c_exponent);
  }
  // Inside [-90, 120] every scaled addend is exact in fp32. A tile column of zeros is exact too.
  I16 outside = (top > 120) | ((top < -90) & (top > -1000));
  top = larger(top, I16{} - 90);
  const F16 up = F16((127 + frac - top) << 23), down = F16((127 - frac + top) << 23);
  I16 sum = __builtin_convertvector(c * up, I16);
  for (int k = k0; k < k0 + (N < 8 ? N : 8); ++k)
    sum += __builtin_convertvector(a.value[k] * b.value[column][k] * up, I16);
  if constexpr (N > 8) {   // 16 products below 2^(F+2) may leave 32 bits
    I16 rest = I16{};
    for (int k = k0 + 8; k < k0 + N; ++k) rest += __builtin_convertvector(a.value[k] * b.value[column][k] * up, I16);
    const I16 both = I16(U16(sum) + U16(rest));   // wraps, by unsigned addition
    outside |= ((sum ^ both) & (rest ^ both)) < 0;
    sum = both;
  }
  c = __builtin_convertvector(sum, F16) * down;
  return outside;
}

inline bool any(const I16& v) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask(__m512i(v), __m512i(v)) != 0;
#else
  int found = 0;
  for (int i = 0; i < 16; ++i) found |= v[i];
  return found != 0;
#endif
}

template <int N>
inline void steps(const ReadyA& a, const ReadyB& b, const MmaEntry& raw, F16* c, int k, int frac) {
  for (int k0 = 0; k0 < k; k0 += N)
    for (int j = 0; j < 8; ++j) {
      const F16 before = c[j];
      const I16 outside = step_rows<N>(a, b, j, k0, c[j], frac);
      if (__builtin_expect(any(outside), 0))
        for (int i = 0; i < 16; ++i)
          if (outside[i])
            c[j][i] = bit_cast<float>(step_any(&a.bits[k0][i], 16, &raw.b[j][k0], N, bit_cast<u32>(float(before[i])), frac));
    }
}

// c[column][row] += a * b under `rule`.
inline void multiply(const ReadyA& a, const ReadyB& b, const MmaEntry& raw, F16* c, Rule rule) {
  const int k = raw.k, block = rule.block < k ? rule.block : k;
  if (rule.block == 0) {
    for (int j = 0; j < 8; ++j)
      for (int i = 0; i < 16; ++i)
        c[j][i] = bit_cast<float>(step_exact(&a.bits[0][i], 16, raw.b[j], k, bit_cast<u32>(float(c[j][i]))));
  } else if (a.special || b.special || rule.frac > 25) {
    for (int k0 = 0; k0 < k; k0 += block)
      for (int j = 0; j < 8; ++j)
        for (int i = 0; i < 16; ++i)
          c[j][i] = bit_cast<float>(step_any(&a.bits[k0][i], 16, &raw.b[j][k0], block, bit_cast<u32>(float(c[j][i])), rule.frac));
  } else if (block == 16) {
    steps<16>(a, b, raw, c, k, rule.frac);
  } else if (block == 8) {
    steps<8>(a, b, raw, c, k, rule.frac);
  } else {
    steps<4>(a, b, raw, c, k, rule.frac);
  }
}

// The accumulators of some recent instructions, kept as [column][row]. Lane 4g+t holds rows g, g+8 and
// columns 2t, 2t+1.
struct Accumulators {
  static constexpr int kSlots = 4;
  alignas(64) F16 c[kSlots][8];
  float* const* owner[kSlots] = {};
  int turn = 0;

  void exchange(int slot, bool into) {
    for (int lane = 0; lane < kWarp; ++lane) {
      float* mine = owner[slot][lane];
      float* spot = reinterpret_cast<float*>(c[slot]) + 2 * (lane & 3) * 16 + (lane >> 2);
      if (into)
        spot[0] = mine[0], spot[16] = mine[1], spot[8] = mine[2], spot[24] = mine[3];
      else
        mine[0] = spot[0], mine[1] = spot[16], mine[2] = spot[8], mine[3] = spot[24];
    }
  }
  F16* of(float* const* d) {
    for (int i = 0; i < kSlots; ++i)
      if (owner[i] && std::memcmp(owner[i], d, kWarp * sizeof *d) == 0) return c[i];
    // Lanes may index their accumulators differently; then one lane's array lies in two slots.
    for (int i = 0; i < kSlots; ++i) {
      int shared = 0;
      for (int lane = 0; owner[i] && lane < kWarp; ++lane) shared |= owner[i][lane] == d[lane];
      if (shared) exchange(i, false), owner[i] = nullptr;
    }
    const int slot = turn++ % kSlots;
    if (owner[slot]) exchange(slot, false);
    owner[slot] = d;
    exchange(slot, true);
    return c[slot];
  }
  void finish() {
    for (int i = 0; i < kSlots; ++i)
      if (owner[i]) exchange(i, false);
  }
};

// Runs the queued instructions of a warp in order. Operands with the same bits as those of an
// instruction shortly before are made ready once: hi and lo alternate over several tiles.
__attribute__((noinline)) void run_queue(MmaEntry* entry, int count, Rule rule) {
  constexpr int kKept = 4;
  const Truncating truncating;
  ReadyA a[kKept];
  ReadyB b[2];
  Accumulators accumulators;
  int a_entry[kKept] = {-1, -1, -1, -1}, b_entry[2] = {-1, -1};
  for (int i = 0; i < count; ++i) {
    MmaEntry& e = entry[i];
    int at = -1, bt = -1;
    for (int s = 0; s < kKept && at < 0; ++s)
      if (a_entry[s] >= 0 && entry[a_entry[s]].k == e.k && std::memcmp(entry[a_entry[s]].a, e.a, e.k * 32) == 0) at = s;
    if (at < 0) {
      at = i % kKept;
      ready(a[at], e.a, e.k);
      a_entry[at] = i;
    }
    for (int s = 0; s < 2 && bt < 0; ++s)
      if (b_entry[s] >= 0 && std::memcmp(entry[b_entry[s]].b, e.b, sizeof e.b) == 0) bt = s;
    if (bt < 0) {
      bt = i % 2;
      ready(b[bt], e.b);
      b_entry[bt] = i;
    }
    multiply(a[at], b[bt], e, accumulators.of(e.d), rule);
  }
  accumulators.finish();
}

}  // namespace lanes
