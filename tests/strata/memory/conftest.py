"""Kinds of caches, and the drivers that the contract is tested on: the fake, the real one over a stand-in, and the real
one on a card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from strata.executors.base import ExecutorUnavailable
from strata.memory.driver import real_compare
from strata.memory.driver.fake import FakeCard, FakeDriver
from strata.memory.driver.real import RealDriver
from tests.strata.memory.driver.stub_cuda import StubBindings

GRANULARITY = 4096


@pytest.fixture(scope="session", params=["uniform", "sized"])
def kind(request: pytest.FixtureRequest) -> str:
    """Of a cache's slots, as `caches.small_cache` takes it: each in turn."""
    return str(request.param)


@pytest.fixture(params=["fake", "stub", "card"])
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Each driver in turn; without a card the last one is skipped, with the reason."""
    made: Any
    if request.param == "fake":
        made = FakeDriver(FakeCard(1 << 30), GRANULARITY)
    elif request.param == "stub":
        monkeypatch.setattr(real_compare, "_image", lambda kernel, bindings: b"image")
        monkeypatch.setattr(real_compare, "PIECE", 3000)
        made = RealDriver(bindings=StubBindings(GRANULARITY))
    else:
        try:
            made = RealDriver()
        except ExecutorUnavailable as error:
            pytest.skip(f"no card: {error}")
    yield made
    made.close()
