"""Numbers of fuzzed configurations, from a few decades to any bits at all.

`moderate`: finite, a few decades; `finite`: any finite bits; `special`: random bits among moderate ones; `raw`: random
bits throughout.
"""

from __future__ import annotations

import numpy as np

from validation.core.random_streams import Shape, Stream, scaled

NUMBERS = ("moderate", "finite", "special", "raw")
#: One value in so many is replaced by random bits in a configuration with specials.
RARE = 512


def halves(stream: Stream, shape: Shape, numbers: str) -> np.ndarray:
    """float16 values of `shape`, as far out as `numbers` says."""
    bits = stream.child("bits").below(1 << 16, shape).astype(np.uint16)
    if numbers == "raw":
        return bits.view(np.float16)
    if numbers == "finite":  # an exponent of all ones loses one bit
        return np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype(np.uint16).view(np.float16)
    # sign and fraction as drawn, exponents -12 to 3: four decades
    moderate = ((bits & 0x83FF) | (((bits >> 10 & 15) + 3) << 10)).astype(np.uint16)
    if numbers == "special":
        moderate = np.where(stream.child("rare").below(RARE, shape) == 0, bits, moderate)
    return moderate.view(np.float16)


def floats(stream: Stream, shape: Shape, numbers: str) -> np.ndarray:
    """float32 values of `shape`, six decades wide, or further out."""
    moderate = scaled(stream.child("value").normal_ints(shape), -20 - 10 + int(stream.child("size").below(21, 1)[0]))
    bits = stream.child("bits").below(1 << 31, shape).astype(np.uint32) * np.uint32(2)
    if numbers == "raw":
        # Half of those that would be NaN are infinities: chance alone never draws a fraction of zeros.
        bits = np.where((bits & 0x7FC00000) == 0x7F800000, bits & 0xFF800000, bits)
        return bits.astype(np.uint32).view(np.float32)
    if numbers == "finite":
        return np.where((bits & 0x7F800000) == 0x7F800000, bits & 0xBFFFFFFF, bits).astype(np.uint32).view(np.float32)
    if numbers == "special":
        rare = stream.child("rare").below(RARE, shape) == 0
        return np.where(rare, bits, moderate.view(np.uint32)).astype(np.uint32).view(np.float32)
    return moderate
