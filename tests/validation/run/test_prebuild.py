"""Kernels of planned jobs are compiled once each, ahead of their cases, and failures wait for their case."""

from __future__ import annotations

import threading
from typing import Any

from strata.executors.base import BuildError, Image, Kernel
from strata.kernels.paths import PATHS, select
from tests.strata.test_forks import child_says
from tests.validation.stub import DIGEST, StubCard, StubExecutor
from validation.operations.kv_pack.case import Case
from validation.run.executors import ExecutorPool
from validation.run.prebuild import Prebuild, kernels_of
from validation.run.runner import Executors, Job

CASE = Case("uniform", 1, 64, 2)
JOBS = [Job(CASE, path, flavor) for flavor in ("checked", "fast") for path in select("prompt_attention/q4_0/*")]


class Builder(StubExecutor):
    built: list[Kernel]
    fails = False

    def build(self, kernel: Kernel) -> Image:
        if self.fails:
            raise BuildError("does not compile")
        self.built.append(kernel)
        return Image(kernel, self.arch, DIGEST, (), "stub")


def executor_pool(fails: bool = False, card: bool = False) -> tuple[ExecutorPool, list[Kernel]]:
    built: list[Kernel] = []

    def open_(name: str, **options: Any) -> StubExecutor:
        if card:
            return StubCard()
        builder = Builder()
        builder.built, builder.fails = built, fails
        return builder

    return ExecutorPool("auto", open=open_), built


def test_a_job_launches_its_path_and_its_baseline() -> None:
    entries = [kernel.entry for kernel in kernels_of(JOBS[0])]
    assert entries == ["prompt_attention", "decode_attention_chunk", "decode_attention_merge"]
    packing = [kernel.entry for kernel in kernels_of(Job(CASE, PATHS["kv_pack/q4_0/simt"]))]
    assert packing == ["kv_pack_q4_0", "hadamard_256"]


def test_every_kernel_is_built_once_for_each_flavor_before_its_case() -> None:
    where, built = executor_pool()
    with Prebuild(JOBS, where) as ahead:
        for job in JOBS:
            executors = where.of(job, [])
            assert ahead.wait(job, executors) is executors
            assert set(kernels_of(job)) <= set(built)
    assert len(built) == 2 * len({kernel for job in JOBS for kernel in kernels_of(job)})


def test_a_build_that_fails_is_left_to_its_case() -> None:
    where, _ = executor_pool(fails=True)
    with Prebuild(JOBS, where) as ahead:
        ahead.wait(JOBS[0], where.of(JOBS[0], []))


def test_a_card_builds_when_it_runs() -> None:
    where, built = executor_pool(card=True)
    with Prebuild(JOBS, where) as ahead:
        ahead.wait(JOBS[0], Executors(where.first, None, ""))
    assert built == []


def test_a_forked_child_builds_for_itself() -> None:
    """The threads that build are the parent's: what they have not finished would never come."""
    begun, leave = threading.Event(), threading.Event()

    class Slow(StubExecutor):
        def build(self, kernel: Kernel) -> Image:
            begun.set()
            leave.wait()
            return Image(kernel, self.arch, DIGEST, (), "stub")

    where = ExecutorPool("auto", open=lambda name, **options: Slow())
    with Prebuild(JOBS, where) as ahead:
        begun.wait()
        executors = where.of(JOBS[0], [])
        try:
            assert child_says(lambda: ahead.wait(JOBS[0], executors) is executors)
        finally:
            leave.set()


def test_leaving_early_does_not_wait_for_what_is_left() -> None:
    where, _ = executor_pool()
    before = threading.active_count()
    try:
        with Prebuild(JOBS, where):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert threading.active_count() <= before + 8


def test_on_a_card_what_predictions_need_is_built_when_they_are_asked_for() -> None:
    built: list[Kernel] = []

    def open_(name: str, **options: Any) -> StubExecutor:
        if name != "lanes":
            return StubCard()
        builder = Builder()
        builder.built = built
        return builder

    where = ExecutorPool("auto", open=open_)
    with Prebuild(JOBS, where):
        pass
    assert built == []
    with Prebuild(JOBS, where, predict=True) as ahead:
        for job in JOBS:
            ahead.wait(job, where.of(job, []))
            assert set(kernels_of(job)) <= set(built)
    assert len(built) == len({kernel for job in JOBS for kernel in kernels_of(job)})
