"""What the older expert kernels have alike: whose guards are looked at, and the threads of their passes."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from strata.executors.base import KERNELS, Buffer
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_decode, expert_mmq
from strata.kernels.experts import Geometry
from strata.kernels.experts_baseline import PASS_THREADS
from strata.kernels.paths import Path
from tests.strata.kernels.expert_data import draw, placed

MODE = "iq2_s/iq4_nl"


@pytest.mark.parametrize(
    ("kernel", "path"),
    [
        (expert_mmq, Path("expert_mmq", MODE, "sm80", 80)),
        (expert_decode, Path("expert_decode", MODE, "simt", 61)),
    ],
    ids=["mmq", "decode"],
)
def test_every_buffer_of_a_run_has_its_guards_looked_at(
    fast: LanesExecutor, monkeypatch: pytest.MonkeyPatch, kernel: ModuleType, path: Path
) -> None:
    made: list[Buffer] = []
    for name in ("array", "empty"):
        before = getattr(fast, name)

        def kept(*args: Any, before: Any = before, **words: Any) -> Buffer:
            made.append(before(*args, **words))
            return made[-1]

        monkeypatch.setattr(fast, name, kept)
    data = draw(MODE, 1, 5, 3, 2, Geometry(256, 64))
    on = placed(fast, data)
    ready = kernel.prepare(fast, path, on, data.x, data.ids)
    assert {id(buffer) for buffer in ready.buffers()} == {id(buffer) for buffer in made}
    assert ready.top == 2


def test_the_header_counts_as_many_threads() -> None:
    header = (KERNELS / "include" / "older_experts.cuh").read_text()
    assert re.findall(r"kPassThreads = (\d+)", header) == [str(PASS_THREADS)]
    assert f"kThreads = {PASS_THREADS};" in (KERNELS / "expert_mmq.cu").read_text()  # of expert_mmq_quantise
