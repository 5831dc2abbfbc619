"""Stacks of lanes stay for the next launch, whatever its kernel; a launch that was stopped leaves none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import Kernel, LaunchError
from strata.executors.lanes import LanesExecutor, library
from tests.strata.executors.lanes.test_faults import KERNEL, run

#: Of a block of KERNEL.
THREADS = KERNEL.block


def kept() -> list[int]:
    """Addresses of the stacks that are kept for blocks of that size."""
    return [place for place in library._spare(THREADS) if place]


@pytest.fixture(autouse=True)
def _none_before() -> None:
    """Stacks that earlier tests left are lost to this one: nothing else can free them."""
    places = library._spare(THREADS)
    for i in range(len(places)):
        places[i] = None


def test_the_next_launch_takes_the_stacks_of_the_one_before() -> None:
    executor = LanesExecutor(threads=1)
    expected = run(executor, "kNothing")
    first = kept()
    assert len(first) == 1
    other = replace(KERNEL, defines=(*KERNEL.defines, ("OTHER_IMAGE", 1)))
    assert (run(executor, "kNothing", program=other) == expected).all()
    assert kept() == first


def test_no_two_workers_leave_the_same() -> None:
    """One that begins when another has ended may take what that one left."""
    run(LanesExecutor(threads=3), "kNothing")
    assert 1 <= len(set(kept())) == len(kept()) <= 3


def test_a_launch_that_was_stopped_leaves_none() -> None:
    executor = LanesExecutor(threads=1)
    run(executor, "kNothing")
    with pytest.raises(LaunchError):
        run(executor, "kTrap")
    assert kept() == []
    run(executor, "kNothing")
    assert len(kept()) == 1


def test_a_kernel_from_elsewhere_is_looked_up_at_each_launch(tmp_path: Path) -> None:
    source = '#include "include/vocabulary.cuh"\nextern "C" __global__ void one(i32* out) { store(out, %d); }\n'
    executor, kernel = LanesExecutor(threads=1), Kernel("one", "one", 1, 0, (), str(tmp_path))
    out = executor.empty((1,), np.int32, name="out")
    for number in (4, 5):
        (tmp_path / "one.cu").write_text(source % number)
        executor.launch(kernel, (1, 1, 1), [out])
        assert out.host()[0] == number
