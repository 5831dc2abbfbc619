"""The kernel that `doctor` asks for: it runs wherever kernels run, and a wrong answer is no yes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors import cache
from strata.executors.base import Executor, LaunchError
from strata.executors.cuda import images
from strata.executors.cuda.nvrtc import Nvrtc
from strata.executors.first_launch import first_launch
from strata.executors.lanes import LanesExecutor


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_runs_where_kernels_run_and_leaves_nothing(every_executor: Executor, root: Path) -> None:
    witness = first_launch(every_executor)
    assert (witness.entry, witness.grid, witness.blocks_run) == ("first_launch", (3, 1, 1), 3)
    assert os.listdir(root) == []


@pytest.mark.parametrize("stored", ["nothing", "numbers of another build", "one rounding"])
def test_wrong_numbers_are_no_yes(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = LanesExecutor()

    def launch(kernel: Any, grid: Any, args: Any) -> None:
        out = args[1]
        values = out.host()
        if stored != "nothing":
            (_, number), *_ = kernel.defines
            values[:, 0] = number + np.arange(len(values)) + (stored == "numbers of another build")
            values[:, 1] = 0
        if stored == "one rounding":
            values[:, 1] = np.float32(2.0**-24).view(np.uint32)
        out.write(values)

    monkeypatch.setattr(executor, "launch", launch)
    with pytest.raises(LaunchError, match="stored wrong numbers"):
        first_launch(executor)


def test_it_compiles_for_every_architecture(nvrtc: Nvrtc) -> None:
    from strata.executors import first_launch as module
    from strata.executors.base import Kernel

    place = str(Path(module.__file__).parent)
    for arch in ("sm_75", "sm_120", "compute_75"):
        images.build(Kernel("first_launch", "first_launch", 64, 0, (("NUMBER", 7),), place), arch, nvrtc)
