"""The cuda executor on a real card; skipped, with the reason, where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from strata.executors import base, cache
from strata.executors.base import ExecutorUnavailable, Kernel, LaunchError
from strata.executors.cuda import CudaExecutor
from strata.executors.cuda.driver import find_driver

SOURCE = r"""
extern "C" __global__ void arguments(unsigned char* out, int i, float f, long long l, unsigned short h,
                                     unsigned char b, const float* null) {
    *(int*)(out) = i;
    *(float*)(out + 4) = f;
    *(long long*)(out + 8) = l;
    *(unsigned short*)(out + 16) = h;
    out[18] = b;
    out[19] = null == nullptr;
}
extern "C" __global__ void ids(int* out) {
    out[((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void write_at(unsigned char* out, long long place) { out[place] = 0; }
extern "C" __global__ void shared(int* out, int count) {
    extern __shared__ int pool[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) pool[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = pool[count - 1 - i];
}
extern "C" __global__ void arithmetic(const float* x, float* out) {
    out[0] = x[0] * x[1] + x[2];
    out[1] = x[3] * x[4];
    out[2] = x[5] / x[6];
}
extern "C" __global__ void mma(float* out, float start) {
    const unsigned ones = 0x3C003C00u;
    float d0 = start, d1 = start, d2 = start, d3 = start;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%5}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(ones), "r"(ones));
    float* mine = out + threadIdx.x * 4;
    mine[0] = d0, mine[1] = d1, mine[2] = d2, mine[3] = d3;
}
extern "C" __global__ void spin(long long cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {
    }
}
"""

#: What a process does that a fault would end: only a fresh one can look at it.
FAULT = """
from pathlib import Path
import numpy as np
from strata.executors import base
from strata.executors.base import Kernel, LaunchError
from strata.executors.cuda import CudaExecutor
base.KERNELS = Path({kernels!r})
executor = CudaExecutor()
out = executor.empty((4,), np.uint8, name="out")
for action in (
    lambda: executor.launch(Kernel("card", "write_at", block=1), (1, 1, 1), [None, np.int64(16)]),
    lambda: out.host(),
):
    try:
        action()
    except LaunchError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    (folder / "card.cu").write_text(SOURCE)
    return folder


@pytest.fixture(autouse=True)
def kernels(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(base, "KERNELS", sources)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return sources


@pytest.fixture
def open_card() -> Callable[..., CudaExecutor]:
    driver = find_driver()
    if driver.problem:
        pytest.skip(driver.problem)

    def opened(target: str | None = None) -> CudaExecutor:
        try:
            return CudaExecutor(target)
        except ExecutorUnavailable as error:
            # A card without CuPy is a matter of installation; anything else is a failure.
            if "CuPy is not installed" in str(error):
                pytest.skip(str(error))
            raise

    return opened


def kernel(entry: str, block: int = 1, shared_bytes: int = 0) -> Kernel:
    return Kernel("card", entry, block, shared_bytes)


def test_arguments_arrive_as_given(open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card()
    out = executor.empty((20,), np.uint8)
    scalars = (np.int32(-7), np.float32(0.1), np.int64(1 << 40), np.float16(1.5), np.bool_(True))
    executor.launch(kernel("arguments"), (1, 1, 1), [out, *scalars, None])
    assert out.host().tobytes() == b"".join(scalar.tobytes() for scalar in scalars) + b"\x01"


def test_every_block_runs(open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card()
    out = executor.empty((5 * 3 * 2, 96), np.int32)
    witness = executor.launch(kernel("ids", block=96), (5, 3, 2), [out])
    np.testing.assert_array_equal(out.host(), np.broadcast_to(np.arange(96, dtype=np.int32), (30, 96)))
    assert witness.blocks_run == 30
    assert out.guards_intact()


@pytest.mark.parametrize("offset", [-base.GUARD_BYTES, -1, 0, base.GUARD_BYTES - 1])
def test_a_write_outside_breaks_a_guard(offset: int, open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card()
    out = executor.empty((1000,), np.uint8)
    place = offset if offset < 0 else out.nbytes + offset
    executor.launch(kernel("write_at"), (1, 1, 1), [out, np.int64(place)])
    assert not out.guards_intact()


@pytest.mark.parametrize("target", [None, "compute_75"])
def test_tensor_core_and_witness(target: str | None, open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card(target)
    out = executor.empty((128,), np.float32)
    witness = executor.launch(kernel("mma", block=32), (1, 1, 1), [out, np.float32(5)])
    np.testing.assert_array_equal(out.host(), np.full(128, 13, np.float32))
    card = f"sm_{executor.describe()['capability'].replace('.', '')}"
    assert witness.arch == (card if target is None else f"compute_75 on {card}")


@pytest.mark.parametrize("target", [None, "compute_75"])
def test_arithmetic_is_pinned(target: str | None, open_card: Callable[..., CudaExecutor]) -> None:
    """Products are rounded before they are added, subnormals survive, division is rounded correctly."""
    executor = open_card(target)
    x = np.array([1 + 2**-12, 1 + 2**-12, -1, 2**-130, 0.5, 1, 3], np.float32)
    out = executor.empty((3,), np.float32)
    executor.launch(kernel("arithmetic"), (1, 1, 1), [executor.array(x), out])
    np.testing.assert_array_equal(out.host(), np.array([x[0] * x[1] + x[2], x[3] * x[4], x[5] / x[6]], np.float32))


def test_dynamic_shared_memory_up_to_the_cards_limit(open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card()
    limit = executor.describe()["shared_bytes_per_block"]
    assert limit >= 64 * 1024
    for size in (limit, 48 * 1024, limit - 4096):
        count = size // 4
        out = executor.empty((count,), np.int32)
        executor.launch(kernel("shared", block=256, shared_bytes=size), (1, 1, 1), [out, np.int32(count)])
        np.testing.assert_array_equal(out.host(), np.arange(count - 1, -1, -1, dtype=np.int32))
    with pytest.raises(LaunchError, match="bytes of shared memory a block, this card gives"):
        executor.build(kernel("shared", block=256, shared_bytes=limit + 1024))


def test_grid_beyond_the_hardware_is_a_refusal_not_a_fault(open_card: Callable[..., CudaExecutor]) -> None:
    executor = open_card()
    out = executor.empty((1,), np.int32)
    with pytest.raises(LaunchError, match="running ids"):
        executor.launch(kernel("ids"), (1, 65536, 1), [out])
    executor.launch(kernel("ids"), (1, 1, 1), [out])
    assert out.host()[0] == 0


def test_a_fault_is_one_line_and_final(open_card: Callable[..., CudaExecutor], kernels: Path) -> None:
    open_card()
    program = FAULT.format(kernels=str(kernels))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    first, second = done.stdout.splitlines()
    assert first.startswith("running write_at: cudaErrorIllegalAddress")
    assert second.startswith("reading out: the card's context was lost while running write_at")


def test_timing_is_device_time(open_card: Callable[..., CudaExecutor]) -> None:
    """A kernel that spins for two million ticks takes at least as long as those take at the highest clock."""
    executor = open_card()
    cycles = 2_000_000
    times = executor.time_launches(lambda: executor.launch(kernel("spin"), (1, 1, 1), [np.int64(cycles)]), 5)
    shortest = cycles / executor.describe()["clock_khz"]
    assert len(times) == 5
    assert min(times) >= shortest
    nothing = executor.time_launches(lambda: executor.launch(kernel("spin"), (1, 1, 1), [np.int64(0)]), 5)
    assert max(nothing) < shortest


def test_a_recording_reads_what_buffers_hold_when_it_is_replayed(open_card: Callable[..., CudaExecutor]) -> None:
    """Two launches in order, the second on the results of the first, again after the inputs have changed."""
    executor = open_card()
    start = np.array([2, 3, 4, 5, 6, 7, 2], np.float32)
    x, y, z = (executor.array(np.ones(7, np.float32), name, written=True) for name in "xyz")

    def fn() -> None:
        executor.launch(kernel("arithmetic"), (1, 1, 1), [x, y])
        executor.launch(kernel("arithmetic"), (1, 1, 1), [y, z])

    recording = executor.record(fn)
    assert recording.launches == 2
    np.testing.assert_array_equal(z.host(), np.ones(7, np.float32))
    for inputs in (start, 2 * start):
        x.write(inputs)
        with executor.queue():
            recording.replay()
        a, b, c = inputs[0] * inputs[1] + inputs[2], inputs[3] * inputs[4], inputs[5] / inputs[6]
        np.testing.assert_array_equal(y.host()[:3], [a, b, c])
        np.testing.assert_array_equal(z.host()[:3], [a * b + c, 1, 1])
