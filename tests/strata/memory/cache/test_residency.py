"""The two tables of residency."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.memory.cache.residency import MISS, Residency
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fault_plan import Fail
from tests.strata.memory.cache.caches import assert_nothing_left, fake


def test_the_device_has_the_hosts_table_after_an_upload_only() -> None:
    driver = fake()
    table = Residency(driver, 6, 4)
    assert table.stale
    table.upload()
    table.promote(3, 1)
    assert table.stale
    assert table.device().tolist() == [MISS] * 6
    table.upload()
    assert not table.stale
    assert table.device().tolist() == table.host.tolist() == [MISS, MISS, MISS, 1, MISS, MISS]
    with pytest.raises(ValueError, match="read-only"):
        table.host[0] = 1
    table.close()
    assert_nothing_left(driver)


def test_rows_and_slots_name_each_other() -> None:
    table = Residency(fake(), 6, 4)
    table.promote(5, 0)
    table.promote(2, 3)
    assert (table.slot(5), table.row(0), table.slot(0), table.row(1)) == (0, 5, MISS, MISS)
    assert table.resident() == [(5, 0), (2, 3)]
    assert table.resident(1) == [(2, 3)]
    assert table.resident(0, 3) == [(5, 0)]
    assert table.by_slot.tolist() == [5, MISS, MISS, 2]
    assert table.demote(2) == 3
    assert (table.slot(2), table.row(3)) == (MISS, MISS)


def test_a_slot_has_one_row_and_a_row_one_slot() -> None:
    table = Residency(fake(), 6, 4)
    table.promote(5, 0)
    for row, slot in ((5, 1), (4, 0)):
        with pytest.raises(StrataError, match="expected neither"):
            table.promote(row, slot)
    with pytest.raises(StrataError, match="row 4 is in no slot"):
        table.demote(4)
    assert table.resident() == [(5, 0)]


def test_a_failed_upload_is_fatal_and_leaves_the_table_stale() -> None:
    driver = fake()
    table = Residency(driver, 6, 4)
    table.upload()
    driver.plan.next("copy_in", Fail())
    with pytest.raises(Fatal, match="what the device reads is unknown"):
        table.upload()
    assert table.stale


def test_the_table_of_the_reference_model_has_96_kib() -> None:
    driver = fake()
    table = Residency(driver, 48 * 512, 1)
    driver.log.clear()
    table.upload()
    assert [(call.name, call.args[1]) for call in driver.log] == [("copy_in", 96 * 1024)]
    assert np.array_equal(table.device(), np.full(48 * 512, MISS, np.int32))


@pytest.mark.parametrize("pairs", [[], [(3, 1)], [(0, 2), (5, 0), (1, 3)]])
def test_many_rows_are_promoted_as_one_by_one(pairs: list[tuple[int, int]]) -> None:
    many, single = Residency(fake(), 8, 4), Residency(fake(), 8, 4)
    many.promote_all(pairs)
    for row, slot in pairs:
        single.promote(row, slot)
    assert np.array_equal(many.host, single.host)
    assert np.array_equal(many.by_slot, single.by_slot)


@pytest.mark.parametrize("wrong", [(0, 3), (5, 2), (4, 2), (6, 1)], ids=["row twice", "slot twice", "row", "slot"])
def test_of_many_rows_the_one_that_is_wrong_is_refused(wrong: tuple[int, int]) -> None:
    residency = Residency(fake(), 8, 4)
    residency.promote(4, 1)
    with pytest.raises(StrataError, match=f"row {wrong[0]} in slot"):
        residency.promote_all([(0, 2), wrong])
    assert residency.slot(0) == 2
    assert residency.row(2) == 0
