"""What a kernel source may use in place of words of CUDA that lanes do not know.

A source is compiled as C++, so such a word is an undeclared name, and a compiler's guess at what was meant is none that
helps. docs/lanes_vocabulary.md has the same table.
"""

from __future__ import annotations

import re

_SHARED = "shared_array<T>(byte_offset, count), of the dynamic shared memory that the launch asks for"
_EXP2 = "exp2_fma of include/exp2.cuh: a library's bits differ from the card's"
_LIBRARY = "a polynomial of your own in __fmaf_rn: a library's bits differ from the card's"
_HALF = "u16 for the bits, half_value and half_bits of include/ptx.cuh"
_ATOMIC = "atomicAdd or atomicMax of integers: other orders of blocks must give the same bits"
_PTX = "a function of include/ptx.cuh or include/int8.cuh"
_SELECT = "a comparison, a > b ? a : b: of zeros and NaN the function leaves open which it gives"
_TIER = '#include "include/ptx.cuh", with -D TIER'
_ORDER = "launches one after another: blocks do not wait for blocks"
_BRACES = "float2, float4, uint2 or uint4, in braces"
_MASKED = "the function whose name ends in _sync, with the mask of its lanes"

#: Words of CUDA, and what stands for each in a source that runs on both.
INSTEAD: dict[str, str] = {
    "__shared__": _SHARED,
    "__constant__": "an argument of the kernel, read by load",
    "__ldg": "load(p)",
    **dict.fromkeys(("expf", "exp2f", "__expf", "exp", "exp2"), _EXP2),
    **dict.fromkeys(("logf", "log2f", "powf", "sinf", "cosf", "tanhf", "erff", "__logf", "__powf", "log"), _LIBRARY),
    **dict.fromkeys(("sqrtf", "sqrt"), "__fsqrt_rn(x)"),
    **dict.fromkeys(("rsqrtf", "__frsqrt_rn"), "__fdiv_rn(1.0f, __fsqrt_rn(x))"),
    "__frcp_rn": "__fdiv_rn(1.0f, x)",
    "__fdividef": "__fdiv_rn(a, b)",
    "INFINITY": "bits_to_float(0x7f800000u), or bits_to_float(0xff800000u) with a minus: NVRTC has no such name",
    **dict.fromkeys(("FLT_MAX", "HUGE_VALF"), "bits_to_float(0x7f7fffffu), the largest number: NVRTC has no such name"),
    "NAN": "bits_to_float(0x7fffffffu): NVRTC has no such name",
    **dict.fromkeys(("isnan", "isinf", "isfinite"), "x != x of a NaN, float_to_bits(x) & 0x7fffffffu of an infinity"),
    "printf": "an output or a workspace: lanes run many blocks at once, and standard output is the report's",
    **dict.fromkeys(("fmaf", "fma"), "__fmaf_rn(a, b, c)"),
    **dict.fromkeys(("fabsf", "fabs"), "bits_to_float(float_to_bits(x) & 0x7fffffffu)"),
    **dict.fromkeys(("fmaxf", "fminf", "max", "min", "fmax", "fmin"), _SELECT),
    **dict.fromkeys(("__half", "half", "half2", "__half2", "__float2half", "__half2float"), _HALF),
    **dict.fromkeys(("atomicCAS", "atomicExch", "atomicMin"), _ATOMIC),
    **dict.fromkeys(("__shfl", "__shfl_xor", "__shfl_down", "__shfl_up", "__ballot", "__any", "__all"), _MASKED),
    **dict.fromkeys(
        ("__threadfence", "cooperative_groups"), "launches one after another: blocks do not wait for blocks"
    ),
    **dict.fromkeys(
        ("mma_m16n8k16", "mma_m16n8k8", "ldmatrix_x4", "cp_async"), '#include "include/ptx.cuh", with -D TIER'
    ),
    **dict.fromkeys(("wmma", "nvcuda", "__dp4a"), _PTX),
    **dict.fromkeys(
        ("float3", "int4", "int2", "make_float4", "make_float2"), "float2, float4, uint2 or uint4, in braces"
    ),
    "warpSize": "32",
    "assert": "static_assert, or a value that the checks refuse",
}

#: Names of the vocabulary that a header declares, and the header.
HEADERS: dict[str, str] = {
    **dict.fromkeys(("exp2_fma", "exp2_not_positive"), "exp2"),
    **dict.fromkeys(("half_value", "half_bits", "half_pair", "mma_join"), "ptx"),
    **dict.fromkeys(
        ("__global__", "DEVICE", "i32", "i64", "u32", "load", "store", "Shared", "shared_array"), "vocabulary"
    ),
}

#: A name in quotes, alone or as that of a function with its parameters behind it.
_QUOTED = re.compile(r"['‘](?:int )?([A-Za-z_]\w*)[('’]")


def of(message: str) -> str:
    """What a compiler's message lacks: `; instead of W: ...` for the first word in quotes that is in `INSTEAD`, and
    which header to include for one that is in `HEADERS`.

    Parameters
    ----------
    message : str
        One line of the compiler's log.

    Returns
    -------
    str
        Text to put behind the message; empty when there is nothing to say.
    """
    for word in _QUOTED.findall(message):
        if word in INSTEAD:
            return f"; instead of {word}: {INSTEAD[word]}"
        if word in HEADERS:
            return f'; {word} is declared by #include "include/{HEADERS[word]}.cuh"'
    return ""
