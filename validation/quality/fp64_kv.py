"""What a KV format keeps of a key or a value, by the format's definition, for the FP64 model.

`fp16` rounds to binary16. `int8` has a binary16 scale for 64 elements, `q4_0` is ggml's, by the `gguf` package, after
the orthonormal Hadamard transform of 256 elements, which is turned back. `k8v4` has keys of `int8` and values of
`q4_0`. `exact` keeps everything. Nothing here comes from the engine or its packing kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError
from validation.quality.gguf_package import gguf

Float64 = NDArray[np.float64]
Rounding = Callable[[Float64], Float64]

#: Elements that share a scale of INT8, and its largest code.
GROUP, LARGEST = 64, 127


def hadamard(x: Float64) -> Float64:
    """The orthonormal Hadamard transform over the last axis, 2^k long, in Sylvester's order: its own inverse."""
    length = x.shape[-1]
    out, step = x.copy(), 1
    while step < length:
        pairs = out.reshape(*x.shape[:-1], -1, 2, step)
        out = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        out, step = out.reshape(x.shape), 2 * step
    return np.asarray(out / np.sqrt(float(length)))


def exact(x: Float64) -> Float64:
    """Everything."""
    return x


def fp16(x: Float64) -> Float64:
    """To binary16."""
    return x.astype(np.float16).astype(np.float64)


def int8(x: Float64) -> Float64:
    """To codes of 8 bits, with a scale for 64 elements."""
    groups = x.reshape(*x.shape[:-1], -1, GROUP)
    scale = (np.abs(groups).max(axis=-1, keepdims=True) / LARGEST).astype(np.float16).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(scale == 0, 0.0, np.clip(np.rint(groups / scale), -LARGEST, LARGEST))
    return np.asarray((codes * scale).reshape(x.shape))


def q4_0(x: Float64) -> Float64:
    """To codes of 4 bits, with a scale for 32 elements, in the rotated domain."""
    rows = hadamard(x).astype(np.float32).reshape(-1, x.shape[-1])
    package = gguf()
    form = package.GGMLQuantizationType.Q4_0
    kept = package.quants.dequantize(package.quants.quantize(rows, form), form)
    return hadamard(kept.astype(np.float64).reshape(x.shape))


#: Of each format, what it keeps of keys and of values.
FORMATS: dict[str, tuple[Rounding, Rounding]] = {
    "exact": (exact, exact),
    "fp16": (fp16, fp16),
    "int8": (int8, int8),
    "k8v4": (int8, q4_0),
    "q4_0": (q4_0, q4_0),
}


def roundings(kv: str) -> tuple[Rounding, Rounding]:
    """What a format keeps of keys and of values. Raises StrataError for a format that does not exist."""
    if kv not in FORMATS:
        raise StrataError(f"KV format {kv!r}, expected one of {', '.join(FORMATS)}")
    return FORMATS[kv]
