"""Launches on lanes that are recorded, and run later with what buffers hold then."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from strata import executors
from strata.executors.base import Kernel
from strata.executors.first_launch import first_launch
from strata.executors.lanes import LanesExecutor

NUMBER = 7
KERNEL = Kernel("first_launch", "first_launch", 32, 0, (("NUMBER", NUMBER),), str(Path(executors.__file__).parent))


def test_a_recording_runs_nothing_until_it_is_replayed_and_reads_what_buffers_hold_then() -> None:
    executor = LanesExecutor()
    x = executor.array(np.array([2, 3, 4], np.float32), "x")
    out = executor.array(np.zeros((32, 2), np.uint32), "out", written=True)
    witnesses = []
    recording = executor.record(lambda: witnesses.append(executor.launch(KERNEL, (1, 1, 1), (x, out))))
    assert recording.launches == 1
    assert witnesses[0].blocks_run == 0
    assert not out.host().any()
    for values in ([2, 3, 4], [5, 6, 7]):
        x.write(np.array(values, np.float32))
        with executor.queue():
            recording.replay()
        got = out.host()
        assert got[:, 0].tolist() == list(range(NUMBER, NUMBER + 32))
        assert got[:, 1].copy().view(np.float32).tolist() == [values[0] * values[1] + values[2]] * 32


def test_launches_run_again_after_a_recording() -> None:
    executor = LanesExecutor()
    executor.record(lambda: first_launch_of(executor))
    first_launch(executor)


def first_launch_of(executor: LanesExecutor) -> None:
    """A launch whose results nobody reads."""
    x = executor.array(np.zeros(3, np.float32), "x")
    executor.launch(KERNEL, (1, 1, 1), (x, executor.empty((32, 2), np.uint32)))
