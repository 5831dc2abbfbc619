"""Buffers that are inputs: a lane of the checked build may not write to one, and the message names its line."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import Buffer, Executor, LaunchError
from strata.executors.lanes import LanesExecutor
from strata.kernels import combine, kv_pack, router
from strata.kernels.kv_pack import kernel
from strata.kernels.pool import HEAD_DIM
from tests.validation.stub import LanesCard
from validation.core.watched import Watched


@pytest.fixture(scope="module")
def checked() -> LanesExecutor:
    return LanesExecutor(flavor="checked", threads=1)


def rotate_in_place(executor: Executor, written: bool) -> None:
    x = executor.array(np.ones((1, HEAD_DIM), np.float32), "x", written=written)
    executor.launch(kernel("hadamard_256"), (1, 1, 1), (x, x, np.int32(1)))


def test_a_write_to_an_input_names_kernel_block_thread_and_line(checked: LanesExecutor) -> None:
    source = kernel("hadamard_256").path.read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(source) if "store(out + row * kDim" in text)
    said = rf"^hadamard_256: block \(0,0,0\), thread \(\d+,0,0\).*kv_pack\.cu:{line}: write to the input x$"
    with pytest.raises(LaunchError, match=said):
        rotate_in_place(checked, written=False)
    rotate_in_place(checked, written=True)


def test_kernels_write_to_counts_and_pools_alone(checked: LanesExecutor) -> None:
    """Of all that the host parts copy to an executor, what kernels may write to."""
    written: set[str] = set()

    class Telling(Watched):
        def array(self, host: np.ndarray, name: str = "", *, written: bool = False) -> Buffer:
            if written:
                names.add(name)
            return super().array(host, name, written=written)

    names = written
    executor, rows = Telling(checked), np.ones((2, 1, HEAD_DIM), np.float32)
    with executor.used() as used:
        for mode in ("int8", "q4_0"):
            kv_pack.pack(executor, mode, rows, rows, page_size=4, table=np.zeros(1, np.int32), pages=1)
        router.run(executor, np.ones((2, 5), np.float32), 2)
        combine.run(executor, np.ones((2, 2, 4), np.float32), np.ones((2, 2), np.float32))
    assert names == {"lost", "counts", "k pool", "k scales", "v pool", "v scales"}
    assert list(executor.changed(used)) == []


def test_what_no_build_watches_is_found_after_the_run() -> None:
    for executor in (LanesExecutor(threads=1), LanesCard("sm_90", 90)):
        watching = Watched(executor)
        with watching.used() as used:
            rotate_in_place(watching, written=False)
        (said,) = watching.changed(used)
        assert said.startswith("buffer x differs in ")
