"""The drivers that the contract is tested on: the fake, the real one over a stand-in, and the real one on a card."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from strata.executors.base import ExecutorUnavailable
from strata.memory import real_compare
from strata.memory.bindings import Bindings
from strata.memory.fake import FakeCard, FakeDriver
from strata.memory.real import RealDriver

from tests.strata.memory.stub_cuda import StubCuda

GRANULARITY = 4096


class StubBindings(Bindings):
    """The bindings over `StubCuda`."""

    def __init__(self) -> None:
        self.cuda = StubCuda(GRANULARITY)
        self.device = 0
        self.extra = "cuda13x"
        self._bound = threading.local()
        self._context = 1
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                UnownedMemory=lambda va, n, owner, device: (va, n),
                MemoryPointer=lambda memory, offset: (memory[0] + offset, memory[1]),
            ),
            uint8="uint8",
            ndarray=lambda shape, dtype, memptr: self.cuda.memory.array(memptr[0], shape[0]),
        )


@pytest.fixture(params=["fake", "stub", "card"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Each driver in turn; without a card the last one is skipped, with the reason."""
    made: Any
    if request.param == "fake":
        made = FakeDriver(FakeCard(1 << 30), GRANULARITY)
    elif request.param == "stub":
        monkeypatch.setattr(real_compare, "_image", lambda kernel, bindings: b"image")
        monkeypatch.setattr(real_compare, "PIECE", 3000)
        made = RealDriver(bindings=StubBindings())
    else:
        try:
            made = RealDriver()
        except ExecutorUnavailable as error:
            pytest.skip(f"no card: {error}")
    yield made
    made.close()
