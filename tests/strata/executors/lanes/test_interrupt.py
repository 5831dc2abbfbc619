"""Ctrl-C during a launch, progress, and arithmetic that the caller's process cannot disturb."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGINT, pthread_kill

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from strata.executors.lanes.build import find_compiler
from tests.strata.executors.lanes.number_inputs import KERNEL as NUMBERS
from tests.strata.executors.lanes.number_inputs import WHAT as FUNCTIONS
from tests.strata.executors.lanes.number_inputs import cases, evaluate
from tests.strata.executors.lanes.test_faults import KERNEL, WHAT, run
from tests.strata.executors.lanes.test_lanes_tensorcore import JOIN, Operands
from tests.strata.executors.lanes.test_lanes_tensorcore import run as run_matrix
from validation.numerics.tensorcore_data import tiles


@contextmanager
def _ctrl_c(after: float, times: int = 1) -> Iterator[None]:
    main = threading.get_ident()

    def press() -> None:
        for _ in range(times):
            time.sleep(after)
            pthread_kill(main, SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _interrupted(launch: Callable[[], object], after: float = 0.3, times: int = 1) -> None:
    """Runs what would take an hour, or for ever, with Ctrl-C pressed `times` times, `after` seconds apart."""
    with _ctrl_c(after, times), pytest.raises(KeyboardInterrupt):
        launch()


def _long_launch(executor: LanesExecutor) -> None:
    """An hour: 2^31 - 1 blocks, nearly all of them past the end of the array."""
    source = executor.array(np.ones((3, 1024), np.uint32), "in")
    out = executor.empty((1024,), np.uint32, name="out")
    executor.launch(NUMBERS, (2**31 - 1, 1, 1), [source, out, np.int32(1024), np.int32(FUNCTIONS.index("divide"))])


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_stops_between_blocks(threads: int) -> None:
    executor = LanesExecutor(threads=threads)
    run(executor, "kNothing")  # built before the clock starts
    evaluate(executor, "divide", np.ones(1, np.uint32))
    _interrupted(lambda: _long_launch(executor))
    assert run(executor, "kNothing").shape == (3, 64)


def test_ctrl_c_stops_a_kernel_that_never_ends() -> None:
    executor = LanesExecutor()
    run(executor, "kNothing")
    _interrupted(lambda: run(executor, "kEndless"))
    assert run(executor, "kNothing").shape == (3, 64)


def test_a_second_ctrl_c_waits_for_the_kernel_too() -> None:
    """The buffers belong to the caller: nothing may run on after the exception has come out."""
    executor = LanesExecutor()
    run(executor, "kNothing")
    before = threading.active_count()
    start = time.monotonic()
    run(executor, "kBusy")
    alone = time.monotonic() - start
    _interrupted(lambda: run(executor, "kBusy"), after=alone / 4, times=2)
    time.sleep(alone / 16)  # the thread ends a moment after its kernel, and the kernel not for another alone / 2
    assert threading.active_count() == before


def test_progress_counts_blocks() -> None:
    seen: list[int] = []
    executor = LanesExecutor(progress=seen.append)
    witness = executor.launch(
        KERNEL, (7, 1, 1),
        [executor.array(np.zeros(256, np.uint32)), executor.empty((7, 64), np.uint32), None,
         np.int32(WHAT["kNothing"]), np.int32(0)],
    )  # fmt: skip
    assert witness.blocks_run == 7
    assert seen == sorted(seen)
    assert seen[-1] == 7


@pytest.fixture(scope="module")
def control_word(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], None]:
    """Sets this thread's floating-point control word: MXCSR, or FPCR on Arm."""
    folder = tmp_path_factory.mktemp("control")
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    body = '"ldmxcsr %0" :: "m"(value)' if x86 else '"msr fpcr, %0" :: "r"((unsigned long)value)'
    source = f'extern "C" void set_control(unsigned value) {{ asm volatile({body}); }}\n'
    (folder / "control.cpp").write_text(source)
    library = folder / "control.so"
    subprocess.run(
        [*find_compiler().command, "-shared", "-fPIC", str(folder / "control.cpp"), "-o", str(library)], check=True
    )
    function = ctypes.CDLL(str(library)).set_control
    function.argtypes, function.restype = [ctypes.c_uint], None
    return lambda value: function(value)


@contextmanager
def _disturbed(control_word: Callable[[int], None]) -> Iterator[None]:
    """Flush to zero, subnormal inputs as zero, rounding up: what a fast-math library may leave behind."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    control_word(0x1F80 | 0x8040 | 0x4000 if x86 else 1 << 24 | 1 << 22)
    try:
        yield
    finally:
        control_word(0x1F80 if x86 else 0)


def test_the_callers_floating_point_mode_changes_no_bit(control_word: Callable[[int], None]) -> None:
    executor = LanesExecutor(rule=(8, 24), threads=2)
    multiply = next(case for case in cases() if case.what == "multiply")
    x = Operands.of(tiles("bits", 40, 16, 41), 8)
    program = [(16, i % 5, i % 3, i % 4) for i in range(9)] + [JOIN, (-1, 0, 0, 1), (-2, 0, 0, 2), (8, 0, 1, 0), JOIN]
    want = evaluate(executor, "multiply", *multiply.inputs), run_matrix(executor, x, program)
    one = np.array([0x007FFFFF, 0x3F7FFFFF], np.uint32).view(np.float32)
    plain = (one * np.float32(0.3)).view(np.uint32).tolist()
    with _disturbed(control_word):
        # The mode is in force here, or this test would prove nothing.
        assert (one * np.float32(0.3)).view(np.uint32).tolist() != plain
        got = evaluate(executor, "multiply", *multiply.inputs), run_matrix(executor, x, program)
    assert (one * np.float32(0.3)).view(np.uint32).tolist() == plain
    assert np.array_equal(got[0], want[0])
    assert np.array_equal(got[1], want[1])
