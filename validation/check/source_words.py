"""The words that a kernel's source may call, and those that stand in no source: docs/lanes_vocabulary.md has them."""

from __future__ import annotations


def _each(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Functions of `include/vocabulary.cuh`, of `include/exp2.cuh`, of `include/ptx.cuh` and of `include/int8.cuh`.
FUNCTIONS = _each(
    """
    load store shared_array ld st part atomicAdd atomicMax
    __fadd_rn __fsub_rn __fmul_rn __fdiv_rn __fsqrt_rn __fmaf_rn multiply_add
    __int2float_rn __float2int_rn __float2int_rz __clz __popc bits_to_float float_to_bits
    exp2_fma exp2_not_positive half_value half_bits half_pair half2_sub half2_fma bits_and_or byte_select
    __syncthreads __syncwarp __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync
    __ballot_sync __any_sync __all_sync warp_add warp_max
    mma_m16n8k8 mma_m16n8k16 mma_join ldmatrix_x4 cp_async cp_async_commit cp_async_wait
    mma_m16n8k32_s8 mma_m16n8k16_s8 mma_m8n8k16_s8 multiply_k32_s8 multiply_k16_s8 dots_k32_s8 dots_k16_s8 dp4a
    """
)
MARKERS = _each("__global__ __device__ __host__ __restrict__ __forceinline__ __launch_bounds__ DEVICE MEMBER")
TYPES = _each(
    "u8 u16 u32 u64 i8 i32 i64 size_t uint2 uint4 float2 float4 Shared "
    "bool int unsigned signed short float void char long auto"
)
#: Words of C++ that a parenthesis may follow, or a value.
KEYWORDS = _each(
    "if for while switch return sizeof alignof alignas decltype static_assert static_cast reinterpret_cast const_cast "
    "noexcept constexpr const operator case else do goto default break continue template typename using"
)
#: Words that no source may have, and why.
REFUSED = {
    "double": "cards of this kind are not asked for FP64: float, by __fadd_rn and its like",
    "long": "it has 32 bits on some systems and 64 on others: i32 or i64",
    "char": "it has a sign on some processors and none on others: i8 or u8",
    "wchar_t": "its size is the system's: u16 or u32",
    "std": "NVRTC has no standard library",
    "lanes": "a card has no lanes",
    "asm": "two compilers read a source: the functions of include/ptx.cuh",
    "new": "memory is the launch's: a workspace",
    "delete": "memory is the launch's: a workspace",
    "thread_local": "a thread's own variables are local ones",
    "volatile": "it orders nothing between threads: __syncthreads",
    "union": "bits_to_float and float_to_bits say which bits are meant",
    "try": "device code has no exceptions",
    "throw": "device code has no exceptions",
    **dict.fromkeys(("and", "or", "not", "xor", "bitand", "bitor", "compl"), "marks are written as marks, such as &&"),
    "goto": "lanes of a warp meet at instructions that a reader can find",
}
