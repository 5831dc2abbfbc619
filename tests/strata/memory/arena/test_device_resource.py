"""Resources in device memory, and graphs that hold their addresses."""

from __future__ import annotations

import numpy as np
import pytest

from strata.executors.base import StrataError
from strata.memory.arena.device_resource import DeviceResource
from strata.memory.cache.pattern import pattern
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.errors import Fatal
from strata.memory.driver.fake import FakeCard, FakeDriver, FaultPlan
from strata.memory.driver.fault_plan import Corrupt, Fail
from strata.memory.driver.graphs import BoundGraph, StaleGraph
from tests.strata.memory.cache.caches import assert_nothing_left

PAGE, SIZE, PIECE = 4096, 50_001, 16_384
CONTENT = pattern(1, SIZE)


def made(plan: FaultPlan | None = None) -> tuple[DeviceResource, FakeDriver]:
    driver = FakeDriver(FakeCard(1 << 20), PAGE, plan=plan)
    return DeviceResource(driver, "H", SIZE, lambda: CONTENT, (), PIECE), driver


def holds(driver: FakeDriver, resource: DeviceResource) -> bool:
    return resource.present and np.array_equal(driver.copy_out(resource.address, SIZE), CONTENT)


def test_memory_goes_and_comes_back_at_its_address() -> None:
    resource, driver = made()
    assert (resource.present, driver.card.used) == (False, 0)
    address = resource.address
    for generation in range(1, 4):
        resource.restore()
        assert holds(driver, resource)
        assert (resource.address, resource.generation) == (address, generation)
        assert driver.card.used == resource.mapped_bytes == 13 * PAGE
        resource.release()
        assert (resource.present, driver.card.used) == (False, 0)
    resource.close()
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["unmap", "release"])
def test_a_refused_release(name: str, after: bool) -> None:
    """A refused unmap is undone and the bytes are loaded again; a refused release of a handle waits."""
    resource, driver = made()
    resource.restore()
    driver.plan.nth(name, 2, Fail(Code.UNKNOWN, after))
    if name == "unmap":
        with pytest.raises(DriverError, match="unmap: UNKNOWN"):
            resource.release()
        assert holds(driver, resource)
    resource.release()
    assert not resource.present
    resource.restore()
    assert holds(driver, resource)
    assert driver.card.used == 13 * PAGE
    resource.close()
    assert_nothing_left(driver)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("name", ["create", "map", "set_access", "copy_in", "compare"])
def test_a_refused_restore_leaves_it_absent(name: str, after: bool) -> None:
    resource, driver = made()
    driver.plan.nth(name, 1 if name in ("copy_in", "compare") else 3, Fail(Code.OUT_OF_MEMORY, after))
    with pytest.raises(DriverError, match=f"{name}: OUT_OF_MEMORY"):
        resource.restore()
    assert (resource.present, driver.card.used, driver.lost) == (False, 0, "")
    resource.restore()
    assert holds(driver, resource)


def test_wrong_bytes_are_not_kept() -> None:
    resource, driver = made()
    driver.plan.next("copy_in", Corrupt(40_000, 8))
    with pytest.raises(StrataError, match=r"H: byte 40000 is .*50001 of 50001 bytes were compared"):
        resource.restore()
    assert (resource.present, driver.card.used) == (False, 0)


def test_an_undo_that_fails_is_fatal() -> None:
    resource, driver = made()
    resource.restore()
    driver.plan.nth("unmap", 2, Fail(Code.UNKNOWN))
    driver.plan.nth("create", 5, Fail(Code.OUT_OF_MEMORY), times=9)
    with pytest.raises(Fatal, match=r"H: unmap: .*undoing it failed too: create: OUT_OF_MEMORY"):
        resource.release()
    assert not resource.present


def test_content_of_another_size() -> None:
    driver = FakeDriver(FakeCard(1 << 20), PAGE)
    resource = DeviceResource(driver, "D", SIZE, lambda: CONTENT[:-1], (), PIECE)
    with pytest.raises(StrataError, match="D: 50000 bytes to load, expected 50001"):
        resource.restore()


def test_a_graph_over_memory_that_came_back_is_right() -> None:
    """The address is the same, so the graph captured before the release may be launched after the restore."""
    resource, driver = made()
    resource.restore()
    graph = BoundGraph("window", driver.capture([(resource.address, SIZE)]), [resource])
    resource.release()
    with pytest.raises(StaleGraph, match="H is absent"):
        graph.launch()
    resource.restore()
    assert np.array_equal(np.asarray(graph.launch()), CONTENT)
    assert driver.misuse == []
