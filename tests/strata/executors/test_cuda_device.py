"""The cuda executor over a fake CuPy: memory, arguments, witness, refusals; see `fake_cupy` for its limits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors import base, cache
from strata.executors.base import (
    GUARD_BYTES,
    POISON_WORKSPACE,
    ContextLostError,
    Executor,
    ExecutorUnavailable,
    Kernel,
    LaunchError,
    StrataError,
    poisoned,
)
from strata.executors.cuda import CudaExecutor, device, target
from strata.executors.cuda.driver import Driver
from strata.executors.cuda.nvrtc import Nvrtc
from strata.executors.lanes import LanesExecutor
from tests.strata.executors.fake_cupy import FakeCard, Function
from tests.strata.test_forks import child_says
from validation.core.handed import InputsChangedError, handed

KERNEL = Kernel("probe", "probe", block=128, shared_bytes=1024)


@pytest.fixture(autouse=True)
def kernels(nvrtc: Nvrtc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "probe.cu").write_text('extern "C" __global__ void probe(float* out) { out[0] = 1; }')
    monkeypatch.setattr(base, "KERNELS", tmp_path / "kernels")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeCard:
    fake = FakeCard()
    monkeypatch.setattr(device, "find_driver", lambda: Driver("", (13, 0), "580.95.05", 1))
    monkeypatch.setattr(device, "import_cupy", lambda driver: fake.module)
    return fake


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (257, 1021)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int32, np.float64])
def test_round_trip_between_guards(card: FakeCard, shape: tuple[int, ...], dtype: type) -> None:
    executor = CudaExecutor()
    host: np.ndarray = (np.arange(np.prod(shape, dtype=int)) % 251).reshape(shape).astype(dtype)
    buffer = executor.array(host, "x")
    assert buffer.address % 256 == 0
    assert buffer.nbytes == host.nbytes
    np.testing.assert_array_equal(buffer.host(), host)
    assert buffer.host().dtype == dtype
    assert buffer.guards_intact()


def test_host_order_does_not_matter(card: FakeCard) -> None:
    host = np.arange(12, dtype=np.int32).reshape(3, 4).T
    np.testing.assert_array_equal(CudaExecutor().array(host).host(), host)


@pytest.mark.parametrize("nbytes", [0, 1, 3, 4, 1023, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 3])
def test_poison_fills_every_byte(card: FakeCard, nbytes: int) -> None:
    buffer = CudaExecutor().empty((nbytes,), np.uint8, poison=POISON_WORKSPACE)
    np.testing.assert_array_equal(buffer.host(), poisoned(nbytes, POISON_WORKSPACE))
    assert buffer.guards_intact()


@pytest.mark.parametrize("offset", [-GUARD_BYTES, -1, 0, GUARD_BYTES - 1])
def test_one_overwritten_byte_breaks_a_guard(card: FakeCard, offset: int) -> None:
    buffer = CudaExecutor().empty((7,), np.uint8)
    place = buffer.address + (offset if offset < 0 else buffer.nbytes + offset)
    ctypes.memset(place, 0, 1)
    assert not buffer.guards_intact()


def test_write_refuses_another_shape_or_type(card: FakeCard) -> None:
    buffer = CudaExecutor().empty((2, 3), np.float32, name="scores")
    for wrong in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float64)):
        with pytest.raises(ValueError, match=r"scores is float32\[2, 3\]"):
            buffer.write(wrong)
    with pytest.raises(ValueError, match="dtype object"):
        CudaExecutor().empty((2,), object)


def test_no_room_names_the_buffer_and_the_sizes(card: FakeCard) -> None:
    executor = CudaExecutor()
    with pytest.raises(StrataError, match=r"pool needs 4\.00 GiB on the card; 1\.00 of 128\.00 GiB"):
        executor.empty((1 << 32,), np.uint8, name="pool")
    executor.empty((16,), np.uint8)  # a refusal is not a fault


def test_kernel_gets_the_bytes_it_was_given(card: FakeCard) -> None:
    executor = CudaExecutor()
    seen: list[np.generic] = []
    card.bodies["probe"] = lambda *values: seen.extend(values)
    buffer = executor.empty((4,), np.float32)
    given = [
        buffer,
        None,
        np.int32(-5),
        np.float32(0.1),
        np.int64(1 << 40),
        np.float16(1.5),
        np.uint8(7),
        np.bool_(True),
    ]
    executor.launch(KERNEL, (3, 2, 1), given)
    assert [(value.dtype.itemsize, int.from_bytes(value.tobytes(), "little")) for value in seen] == [
        (8, buffer.address),
        (8, 0),
        (4, 2**32 - 5),
        (4, 0x3DCCCCCD),
        (8, 1 << 40),
        (2, 0x3E00),
        (1, 7),
        (1, 1),
    ]
    assert card.functions[-1].calls[0][0] == (3, 2, 1)
    assert card.functions[-1].calls[0][1] == (128, 1, 1)
    assert card.functions[-1].calls[0][3] == 1024


def test_arguments_without_a_type_or_of_another_card_are_refused(card: FakeCard) -> None:
    executor, stranger = CudaExecutor(), CudaExecutor()
    for wrong in (3, 2.5, np.complex64(1), np.zeros(3), stranger.empty((1,), np.uint8)):
        with pytest.raises(TypeError, match="argument 1 is"):
            executor.launch(KERNEL, (1, 1, 1), [None, wrong])  # type: ignore[list-item]


def test_witness_comes_from_the_loaded_image(card: FakeCard) -> None:
    executor = CudaExecutor()
    image = executor.build(KERNEL)
    witness = executor.launch(KERNEL, (4, 3, 2), [])
    assert witness.arch == image.arch == executor.arch == "sm_90"
    assert witness.image == image.digest
    assert (witness.grid, witness.block, witness.shared_bytes, witness.blocks_run) == ((4, 3, 2), 128, 1024, 24)
    assert image.figures["loaded_registers"] == 40
    assert image.figures["registers"] > 0


def test_ptx_on_a_newer_card_shows_both(card: FakeCard) -> None:
    executor = CudaExecutor(target="sm_75")
    assert executor.arch == "compute_75"
    assert executor.launch(KERNEL, (1, 1, 1), []).arch == "compute_75 on sm_90"


def test_an_image_of_another_architecture_is_refused(card: FakeCard) -> None:
    def pretend(function: Function) -> None:
        function.binary_version = 80

    card.adjust = pretend
    with pytest.raises(LaunchError, match="asked for is sm_90, the one loaded says sm_80"):
        CudaExecutor().build(KERNEL)


def test_more_shared_memory_is_asked_for_once_and_kept(card: FakeCard) -> None:
    executor = CudaExecutor()
    executor.launch(Kernel("probe", "probe", block=128, shared_bytes=96 * 1024), (1, 1, 1), [])
    assert card.functions[-1].max_dynamic_shared_size_bytes == 96 * 1024
    with pytest.raises(LaunchError, match=r"307264 bytes of shared memory a block, this card gives 232448"):
        executor.launch(Kernel("probe", "probe", block=128, shared_bytes=300 * 1024), (1, 1, 1), [])


def test_block_too_big_for_its_registers(card: FakeCard) -> None:
    def heavy(function: Function) -> None:
        function.max_threads_per_block, function.num_regs = 64, 255

    card.adjust = heavy
    with pytest.raises(LaunchError, match="128 threads a block, but with 255 registers this card runs 64"):
        CudaExecutor().build(KERNEL)


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 1), (1, -1, 1)])
def test_grid_must_be_positive(card: FakeCard, grid: tuple[int, int, int]) -> None:
    with pytest.raises(LaunchError, match="grid"):
        CudaExecutor().launch(KERNEL, grid, [])


def test_a_fault_names_the_kernel_and_ends_the_executor(card: FakeCard) -> None:
    executor = CudaExecutor()
    buffer = executor.empty((4,), np.float32, name="out")
    card.fault = "cudaErrorIllegalAddress: an illegal memory access was encountered"
    with pytest.raises(ContextLostError, match="running probe: cudaErrorIllegalAddress"):
        executor.launch(KERNEL, (1, 1, 1), [])
    with pytest.raises(ContextLostError, match="reading out: the card's context was lost while running probe"):
        buffer.host()


def test_timing_repeats_what_the_host_queued_too_late(card: FakeCard) -> None:
    executor = CudaExecutor()
    calls: list[int] = []

    def fn() -> None:
        calls.append(1)
        executor.launch(KERNEL, (1, 1, 1), [])

    card.late_starts = 2
    assert executor.time_launches(fn, 3) == [1.0, 1.0, 1.0]
    assert len(calls) == 2 + 3 + 2
    card.late_starts = 1000
    with pytest.raises(StrataError, match="waits for the card"):
        executor.time_launches(fn, 1)
    with pytest.raises(ValueError, match="reps is 0"):
        executor.time_launches(fn, 0)


def test_launches_wait_again_after_timing(card: FakeCard) -> None:
    executor = CudaExecutor()
    executor.time_launches(lambda: executor.launch(KERNEL, (1, 1, 1), []), 1)
    card.fault = "cudaErrorLaunchFailure: unspecified launch failure"
    with pytest.raises(LaunchError):
        executor.launch(KERNEL, (1, 1, 1), [])


def test_a_queue_waits_once_at_its_end_and_says_a_fault_there(card: FakeCard) -> None:
    executor = CudaExecutor()
    waits: list[int] = []

    def wait() -> None:
        waits.append(1)
        card.synchronise()

    card.module.cuda.runtime.deviceSynchronize = wait
    with executor.queue():
        with executor.queue():
            executor.launch(KERNEL, (1, 1, 1), [])
        executor.launch(KERNEL, (1, 1, 1), [])
        assert not waits
    assert len(waits) == 1
    executor.launch(KERNEL, (1, 1, 1), [])
    assert len(waits) == 2
    card.fault = "cudaErrorLaunchFailure: unspecified launch failure"
    with pytest.raises(LaunchError, match="ending what was queued"), executor.queue():
        executor.launch(KERNEL, (1, 1, 1), [])


def test_a_queue_that_an_error_leaves_is_ended_too(card: FakeCard) -> None:
    executor = CudaExecutor()
    with pytest.raises(ValueError, match="of the caller"), executor.queue():
        raise ValueError("of the caller")
    card.fault = "cudaErrorLaunchFailure: unspecified launch failure"
    with pytest.raises(LaunchError):
        executor.launch(KERNEL, (1, 1, 1), [])


def test_a_recording_runs_nothing_until_it_is_replayed_and_then_all_in_order(card: FakeCard) -> None:
    executor, ran = CudaExecutor(), []
    card.bodies["probe"] = lambda *args: ran.append(tuple(map(int, args)))
    buffer = executor.array(np.arange(4, dtype=np.int32), "x")
    witnesses = []

    def fn() -> None:
        for number in range(3):
            witnesses.append(executor.launch(KERNEL, (2, 1, 1), [buffer, np.int32(number)]))

    recording = executor.record(fn)
    assert recording.launches == 3
    assert not ran
    assert [witness.blocks_run for witness in witnesses] == [0, 0, 0]
    for _ in range(2):
        ran.clear()
        recording.replay()
        assert ran == [(buffer.address, number) for number in range(3)]
    executor.launch(KERNEL, (1, 1, 1), [buffer, np.int32(9)])
    assert ran[-1] == (buffer.address, 9)


def test_a_replay_waits_unless_it_is_queued(card: FakeCard) -> None:
    executor = CudaExecutor()
    recording = executor.record(lambda: executor.launch(KERNEL, (1, 1, 1), []))
    card.fault = "cudaErrorLaunchFailure: unspecified launch failure"
    with pytest.raises(LaunchError, match="replaying 1 launches"):
        recording.replay()


@pytest.mark.parametrize("make", [CudaExecutor, LanesExecutor])
def test_a_recording_of_nothing_and_one_inside_another_are_refused(card: FakeCard, make: Callable[[], Any]) -> None:
    executor = make()
    with pytest.raises(StrataError, match="a recording of no launch"):
        executor.record(lambda: None)
    with pytest.raises(StrataError, match="a recording inside of another one"):
        executor.record(lambda: executor.record(lambda: None))
    with pytest.raises(ZeroDivisionError):
        executor.record(lambda: 1 // 0)
    with pytest.raises(StrataError, match="a recording of no launch"):
        executor.record(lambda: None)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("at", [0, 30])
def test_a_kernel_that_changes_its_input_on_the_card_is_found_after_the_run(
    card: FakeCard, at: int, timed: bool
) -> None:
    """Its first and its last byte, which no build watches there: memory is read back and compared."""
    given, changes = np.arange(31, dtype=np.uint8), [False]

    def body(*args: np.generic) -> None:
        if changes[0]:
            ctypes.memset(int(args[0]) + at, 0xEE, 1)

    def run(executor: Executor, x: np.ndarray) -> None:
        kept, counts = executor.array(x, "x"), executor.array(np.zeros(4, np.uint8), "counts", written=True)
        launch = partial(executor.launch, KERNEL, (1, 1, 1), [kept, counts])
        clock = getattr(executor, "time_launches", None)
        assert clock is not None
        clock(launch, 2) if timed else launch()
        ctypes.memset(counts.address, 1, 4)

    card.bodies["probe"] = body
    executor = CudaExecutor()
    handed(run)(executor, given)
    changes[0] = True
    with pytest.raises(
        InputsChangedError, match=rf"buffer x differs in 1 of 31 bytes, byte {at} is ee and was {at:02x}"
    ):
        handed(run)(executor, given)
    assert given.tolist() == list(range(31))


def test_a_forked_child_is_told_at_once_that_the_card_is_not_its_own(card: FakeCard) -> None:
    executor = CudaExecutor()
    host = np.arange(4, dtype=np.uint8)
    buffer = executor.array(host, "x")

    def refused() -> bool:
        for use in (lambda: executor.launch(KERNEL, (1, 1, 1), [buffer]), buffer.host, lambda: executor.array(host)):
            with pytest.raises(ContextLostError, match=r"forked from the one that opened the card.*spawn"):
                use()
        return True

    assert child_says(refused)
    np.testing.assert_array_equal(buffer.host(), host)


def test_nvrtc_that_was_compiling_when_the_process_was_forked_is_refused_there(nvrtc: Nvrtc) -> None:
    """Its own locks are held in the child, by a thread that is not there."""

    def compiles() -> bool:
        return bool(nvrtc.compile(b"", "empty.cu", ["-arch=compute_90"]).code)

    def refused() -> bool:
        with pytest.raises(ExecutorUnavailable, match=r"compiling slow\.cu in another thread.*spawn"):
            compiles()
        return True

    nvrtc._compiling.append("slow.cu")
    try:
        assert child_says(refused)
        assert compiles()
    finally:
        nvrtc._compiling.remove("slow.cu")
    assert child_says(compiles)


def test_device_index(card: FakeCard) -> None:
    with pytest.raises(ExecutorUnavailable, match="device 1: this machine has 1"):
        CudaExecutor(device=1)


def test_describe_is_complete(card: FakeCard) -> None:
    facts = CudaExecutor().describe()
    assert facts["device"] == "Fake card"
    assert facts["capability"] == "9.0"
    assert facts["driver"] == "580.95.05"
    assert "--ftz=false" in facts["options"]
    assert all(value not in ("", None) for value in facts.values())


ARCHS = (75, 80, 86, 89, 90, 120)


@pytest.mark.parametrize(
    ("asked", "capability", "arch"),
    [
        (None, 75, "sm_75"),
        (None, 90, "sm_90"),
        ("sm_75", 75, "sm_75"),
        ("sm_75", 90, "compute_75"),
        ("compute_75", 75, "compute_75"),
        ("compute_80", 90, "compute_80"),
        ("sm_80", 86, "sm_80"),
        ("sm_90", 120, "compute_90"),
    ],
)
def test_target(asked: str | None, capability: int, arch: str) -> None:
    assert target.plan(asked, capability, ARCHS, "NVRTC") == arch


@pytest.mark.parametrize(
    ("asked", "capability", "words"),
    [
        ("sm_90", 86, "newer than this card, which is sm_86"),
        ("turing", 86, "'turing': expected sm_NN or compute_NN"),
        ("sm_70", 86, "NVRTC compiles for 75, 80"),
        (None, 61, "older CUDA"),
        (None, 130, "e.g. compute_120"),
    ],
)
def test_target_refused(asked: str | None, capability: int, words: str) -> None:
    with pytest.raises(ExecutorUnavailable, match=words):
        target.plan(asked, capability, ARCHS, "NVRTC")


@pytest.mark.parametrize(
    ("arch", "binary", "ptx"),
    [("sm_90", 80, 80), ("compute_75", 90, 80), ("compute_75", 80, 75), ("compute_80", 90, 90), ("sm_75", 90, 75)],
)
def test_loaded_image_must_be_the_one_asked_for(arch: str, binary: int, ptx: int) -> None:
    with pytest.raises(LaunchError, match=f"asked for is {arch}"):
        target.confirm(arch, binary, ptx, 90, "probe")


def test_the_names_used_exist_in_cupy() -> None:
    """The fake is worth something only while CuPy has the same names."""
    cupy = pytest.importorskip("cupy")
    fake = FakeCard().module
    for name in vars(fake.cuda.runtime):
        assert hasattr(cupy.cuda.runtime, name), name
    for name in vars(fake.cuda):
        assert hasattr(cupy.cuda, name), name
    for name in vars(fake.cuda.driver):
        assert hasattr(cupy.cuda.driver, name), name
    for name in ("binary_version", "ptx_version", "max_threads_per_block", "num_regs", "local_size_bytes", "kernel"):
        assert hasattr(cupy.RawKernel, name), name
    for name in ("shared_size_bytes", "max_dynamic_shared_size_bytes"):
        assert hasattr(cupy.RawKernel, name), name
    assert hasattr(cupy.cuda.Event, "done")
    assert hasattr(cupy.cuda.Stream, "null")
    assert hasattr(cupy.cuda.Stream, "begin_capture")
    assert hasattr(cupy.cuda.Stream, "end_capture")
    assert hasattr(cupy.cuda.Graph, "launch")
