"""STRATA_VERIFY_RECLAIM reaches everything that gives slots back and is opened without being told what to compare."""

from __future__ import annotations

from typing import Any

import pytest

from strata.memory.arena.pieces import MiB
from strata.memory.cache.cache_resize import Resizing
from strata.memory.cache.verification import Verified
from strata.memory.driver.fake import FakeCard, FakeDriver
from validation.memory.bench_world import fake_world
from validation.memory.loan_engine import SMALL, LoanEngine

VALUES = pytest.mark.parametrize(("value", "every"), [("", False), ("0", False), ("1", True), ("2", True)])


def whole(verified: Verified, every: bool) -> bool:
    """Whether so many slots came back that a sample is not all of them, and as many were compared as should be."""
    return verified.of > 0 and verified.nbytes > 0 and (verified.slots == verified.of) is every


@VALUES
def test_a_prompt_loan(value: str, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_VERIFY_RECLAIM", value)
    engine = LoanEngine(FakeDriver(FakeCard(512 * MiB), 64 << 10), SMALL)
    engine.loan.begin(engine.prompt)
    engine.loan.end()
    assert not engine.loan.note
    assert whole(engine.loan.verified, every)


@VALUES
def test_the_head_alias(value: str, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_VERIFY_RECLAIM", value)
    world = fake_world()
    world.open()
    alias = world.alias()
    alias.enter(world.sizes.fresh)
    alias.leave()
    assert not alias.note
    assert whole(alias.verified, every)


@VALUES
def test_resizing(value: str, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_VERIFY_RECLAIM", value)
    world = fake_world()
    world.open()
    resizing = Resizing(world.cache)
    resizing.shrink(world.sizes.piece)
    compared: list[int] = []
    real = world.driver.compare_all

    def compare_all(ranges: Any) -> Any:
        compared.append(len(ranges))
        return real(ranges)

    monkeypatch.setattr(world.driver, "compare_all", compare_all)
    lent = len(resizing.book)
    resizing.grow(world.cache.arena.reserved)
    assert (compared == [lent]) is every
