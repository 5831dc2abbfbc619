// What a warp and a block can do, one piece a value of `what`; every block has a row of inputs of its own.
#include "include/ptx.cuh"

enum What {
  kXor, kIndex, kUp, kDown, kBallot, kAny, kAll,   // 0..6: lanes of the mask; the others keep the sentinel
  kAddButterfly, kMaxButterfly, kMaxUnsigned,      // 7..9
  kLdmatrix, kLdmatrixTransposed,                  // 10, 11
  kAsync,                                          // 12
  kAtomics,                                        // 13
  kBlockSum,                                       // 14
  kOrder                                           // 15
};

constexpr u32 kSentinel = 0xabad1deau;

template <int WIDTH>
DEVICE void butterfly(int what, float (&v)[3]) {
  if (what == kAddButterfly) {
    warp_add<WIDTH>(v);
  } else if (what == kMaxButterfly) {
    warp_max<WIDTH>(v);
  } else {
    u32 bits[3];
    for (int j = 0; j < 3; ++j) bits[j] = float_to_bits(v[j]);
    warp_max<WIDTH>(bits);
    for (int j = 0; j < 3; ++j) v[j] = bits_to_float(bits[j]);
  }
}

DEVICE u32 warp_call(int what, u32 mask, u32 value, int argument, int width) {
  switch (what) {
    case kXor: return __shfl_xor_sync(mask, value, argument, width);
    case kIndex: return __shfl_sync(mask, value, argument, width);
    case kUp: return __shfl_up_sync(mask, value, static_cast<u32>(argument), width);
    case kDown: return __shfl_down_sync(mask, value, static_cast<u32>(argument), width);
    case kBallot: return __ballot_sync(mask, static_cast<int>(value));
    case kAny: return static_cast<u32>(__any_sync(mask, static_cast<int>(value)));
    default: return static_cast<u32>(__all_sync(mask, static_cast<int>(value)));
  }
}

// settings [block][3]: mask, argument for every lane or -1 for its own, width; in [block][4][threads],
// out the same. 4096 bytes of shared memory.
extern "C" __global__ void vocabulary(const u32* in, u32* out, const i32* settings, u32* counters, i32 what) {
  const int threads = static_cast<int>(blockDim.x), lane = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const u32* mine = in + block * 4 * threads + lane;
  u32* result = out + block * 4 * threads + lane;
  const u32 mask = static_cast<u32>(load(settings + block * 3));
  const int setting = load(settings + block * 3 + 1), width = load(settings + block * 3 + 2);
  if (what <= kAll) {
    u32 r = kSentinel;
    const int argument = setting >= 0 ? setting : static_cast<int>(load(mine + threads));
    if (mask >> lane & 1) r = warp_call(what, mask, load(mine), argument, width);
    store(result, r);
  } else if (what <= kMaxUnsigned) {
    float v[3];
    for (int j = 0; j < 3; ++j) v[j] = bits_to_float(load(mine + j * threads));
    if (width == 32) butterfly<32>(what, v);
    else if (width == 16) butterfly<16>(what, v);
    else if (width == 8) butterfly<8>(what, v);
    else if (width == 4) butterfly<4>(what, v);
    else butterfly<2>(what, v);
    for (int j = 0; j < 3; ++j) store(result + j * threads, float_to_bits(v[j]));
  } else if (what <= kLdmatrixTransposed) {
    // in row 0: byte offset of the lane's matrix row; shared halves count up
    const Shared<u16> halves = shared_array<u16>(0, 1024);
    for (int i = lane; i < 1024; i += threads) halves.st(i, static_cast<u16>(i));
    __syncwarp();
    u32 r[4];
    const Shared<u8> bytes = shared_array<u8>(0, 2048);
    const int offset = static_cast<int>(load(mine));
    if (what == kLdmatrix) ldmatrix_x4<false>(r, bytes, offset);
    else ldmatrix_x4<true>(r, bytes, offset);
    for (int i = 0; i < 4; ++i) store(result + i * threads, r[i]);
#if TIER >= 80
  } else if (what == kAsync) {
    // Each lane copies 4, 8 and 16 bytes, each a group of its own, then 4 as part of the third group, and looks
    // after every wait. The checked build would refuse to look early, so only the fast one runs this.
    const Shared<u32> words = shared_array<u32>(0, 1024);
    const Shared<u32> own = words.part(lane * 12, 12);
    const u32* from = in + block * 4 * threads;
    const bool valid = mask >> lane & 1;
    cp_async<4>(own, 0, from + lane, valid);
    cp_async_commit();
    cp_async<8>(own, 2, from + threads + 2 * (lane >> 1), valid);
    cp_async_commit();
    cp_async<16>(own, 4, from + 2 * threads + 4 * (lane >> 2), valid);
    cp_async<4>(own, 8, from + lane, true);
    cp_async_commit();
    u32 seen = own.ld(0) == 0xffffffffu && own.ld(2) == 0xffffffffu && own.ld(4) == 0xffffffffu;
    cp_async_wait<3>();
    seen |= (own.ld(0) == 0xffffffffu) << 1;
    cp_async_wait<2>();
    seen |= (own.ld(0) != 0xffffffffu && own.ld(2) == 0xffffffffu && own.ld(3) == 0xffffffffu) << 2;
    cp_async_wait<1>();
    seen |= (own.ld(2) != 0xffffffffu && own.ld(4) == 0xffffffffu && own.ld(8) == 0xffffffffu) << 3;
    cp_async_wait<0>();
    seen |= (own.ld(7) != 0xffffffffu && own.ld(8) != 0xffffffffu) << 4;
    // A copy after the last commit belongs to no group yet: a wait for all groups leaves it.
    cp_async<4>(own, 9, from + lane, true);
    cp_async_wait<0>();
    seen |= (own.ld(9) == 0xffffffffu) << 5;
    cp_async_commit();
    cp_async_wait<0>();
    store(result, seen);
    store(result + threads, own.ld(0) ^ own.ld(8) << 1 ^ own.ld(9) << 2);
    store(result + 2 * threads, own.ld(2) ^ own.ld(3) << 1);
    store(result + 3 * threads, own.ld(4) ^ own.ld(5) << 1 ^ own.ld(6) << 2 ^ own.ld(7) << 3);
#endif
  } else if (what == kAtomics) {
    store(result, atomicAdd(counters, 1u));
    store(result + threads, atomicMax(counters + 1, load(mine)));
  } else if (what == kBlockSum) {
    // The sum of a block in a fixed order, through shared memory and two barriers.
    const Shared<float> part = shared_array<float>(0, 1024);
    float v[1] = {bits_to_float(load(mine))};
    warp_add<32>(v);
    part.st(lane, v[0]);
    __syncthreads();
    float total = 0;
    for (int w = 0; w < threads; w += 32) total = __fadd_rn(total, part.ld(w));
    __syncthreads();
    part.st(lane, total);
    __syncwarp();
    store(result, float_to_bits(__fadd_rn(part.ld(lane ^ 1), bits_to_float(load(mine)))));
    store(result + threads, atomicAdd(counters, 1u) * 0);
  } else {
    store(result, atomicAdd(counters, 1u));
    __syncwarp();
    store(result + threads, atomicAdd(counters, 1u));
    __syncthreads();
    store(result + 2 * threads, atomicAdd(counters, 1u));
  }
}
