"""A kernel of CuPy, checked on a card: `python -m validation check examples/rawkernel/dot_rows.py`.

The kernel is the text below, in plain CUDA, and CuPy compiles and launches it: out[r] = sum of a[r, i] b[r, i]. Such
a kernel needs no file and no header of this project, and it gets what a card can give: outputs that begin poisoned,
guards around every array, hostile data, permuted rows and rows in two parts, an FP64 reference and a bound. It does
not get what needs its source: no CPU runs it, no race is looked for, no fault is planted in it, and nothing attests
that this text is what ran. So the report says "launch not attested" and no case of it is EXACT. CuPy makes zeros of
subnormal numbers whatever it is told, so no case has them. Without a card `check` ends with 2. The bound counts an
FMA for each element of a thread and an addition for each of the eight halvings; terms cancel, so the magnitude is the
sum of |a b|. Inputs lie from 2^-40 to 2^40: no product overflows or loses bits below.
"""

from __future__ import annotations

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, Values

THREADS = 256

SOURCE = r"""
extern "C" __global__ void dot_rows(const float* a, const float* b, float* out, int width) {
  __shared__ float part[THREADS];
  const long long row = blockIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < width; i += THREADS) sum = fmaf(a[row * width + i], b[row * width + i], sum);
  part[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[row] = part[0];
}
"""


def raw(cupy):
    return cupy.RawKernel(SOURCE, "dot_rows", options=(f"-DTHREADS={THREADS}", "--fmad=false"))


def launch(sizes):
    return Launch((sizes["rows"], 1, 1), ("a", "b", "out", np.int32(sizes["width"])))


def reference(inputs, sizes):
    with np.errstate(invalid="ignore"):  # zero times an infinity
        return (inputs["a"] * inputs["b"]).sum(axis=1)


def magnitude(inputs, sizes):
    return abs(inputs["a"] * inputs["b"]).sum(axis=1)


dot_rows = OwnKernel(
    name="dot_rows",
    raw=raw,
    block=THREADS,
    sizes={"rows": Size(1, 1 << 20), "width": Size(1, 1 << 16, tile=THREADS)},
    inputs={name: Values("float32", ("rows", "width"), within=(-40, 40)) for name in ("a", "b")},
    outputs={"out": Output("float32", ("rows",))},
    independent="rows",
    launch=launch,
    reference=reference,
    bound=Roundings(count=lambda sizes: -(-sizes["width"] // THREADS) + 8, magnitude=magnitude),
)
