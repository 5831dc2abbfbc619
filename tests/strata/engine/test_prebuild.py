"""Kernels are compiled before the first token; whoever interrupts that does not wait for all of them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from strata.engine.runner import Runner

KERNELS = 200


def runner(build: Any) -> Runner:
    made = object.__new__(Runner)
    made._executor, made._logits = SimpleNamespace(build=build), None  # type: ignore[assignment]
    made._forward = SimpleNamespace(kernels=lambda logits: list(range(KERNELS)))  # type: ignore[assignment]
    return made


def test_every_kernel_is_built_and_told() -> None:
    built: list[int] = []
    told: list[tuple[int, int]] = []
    runner(built.append).prebuild(lambda done, total: told.append((done, total)))
    assert sorted(built) == list(range(KERNELS))
    assert told == [(done, KERNELS) for done in range(1, KERNELS + 1)]


def test_an_interrupt_leaves_what_has_not_begun() -> None:
    built: list[int] = []
    go = threading.Event()

    def build(kernel: int) -> None:
        built.append(kernel)
        if kernel:
            go.wait()

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner(build).prebuild(interrupt)
    go.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name.startswith("ThreadPoolExecutor"):
            thread.join()
    assert len(built) < KERNELS


def test_a_kernel_that_does_not_compile_ends_it() -> None:
    def build(kernel: int) -> None:
        raise ValueError(f"kernel {kernel}")

    with pytest.raises(ValueError, match="kernel 0"):
        runner(build).prebuild()
