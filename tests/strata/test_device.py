"""Devices: which machine code and which PTX run on them, and what is assumed of those that are not here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from strata.device import LANES, PINNED_ARCHS, Device, dotted, named, this_machine
from strata.executors.base import ExecutorUnavailable, StrataError
from strata.executors.cuda import driver, environment, nvrtc
from strata.executors.cuda.driver import Driver
from strata.executors.cuda.nvrtc import load_nvrtc
from tests.strata.executors.fake_cupy import FakeCard


@pytest.mark.parametrize(
    ("capability", "code", "ptx"),
    [
        (75, 75, 75),
        (76, 75, 75),
        (87, 87, 87),
        (91, 90, 90),
        (122, 121, 121),
        (130, None, 121),
        (70, None, None),
        (74, None, None),
    ],
)
def test_machine_code_stays_within_its_major(capability: int, code: int | None, ptx: int | None) -> None:
    device = Device("x", capability, (13, 0), 13, PINNED_ARCHS[13])
    assert (device.machine_code, device.ptx) == (code, ptx)
    assert Device("x", capability).machine_code is None


def test_lanes_have_neither() -> None:
    assert (LANES.machine_code, LANES.ptx, LANES.dotted, LANES.title) == (None, None, "none", LANES.name)


def test_titles() -> None:
    assert Device("NVIDIA H200", 90).title == "NVIDIA H200, compute capability 9.0"
    assert [dotted(capability) for capability in (60, 75, 121)] == ["6.0", "7.5", "12.1"]


def test_a_named_device_has_a_compiler_that_knows_it() -> None:
    for capability in {arch for archs in PINNED_ARCHS.values() for arch in archs}:
        device = named(capability)
        assert device.driver is not None
        assert device.compiler == device.driver[0]
        assert device.machine_code is not None
        assert device.machine_code // 10 == capability // 10


@pytest.mark.parametrize("major", PINNED_ARCHS)
def test_the_table_is_what_the_pinned_compiler_says(major: int) -> None:
    try:
        library = load_nvrtc((major,))
    except StrataError as error:
        pytest.skip(str(error))
    if not library.pinned:
        pytest.skip(f"NVRTC {library.version} is not a pinned one")
    assert library.archs == PINNED_ARCHS[major]


@pytest.mark.parametrize(("cuda", "majors"), [((12, 4), (12,)), ((13, 0), (13, 12))])
def test_this_machine_is_its_card_and_the_compiler_that_the_executor_takes(
    cuda: tuple[int, int], majors: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def load(wanted: tuple[int, ...]) -> SimpleNamespace:
        asked.append(wanted)
        return SimpleNamespace(release=f"{wanted[0]}.9", archs=(75, 80))

    monkeypatch.setattr(driver, "find_driver", lambda: Driver("", cuda, "580.95.05", 1))
    monkeypatch.setattr(environment, "import_cupy", lambda found: FakeCard(75).module)
    monkeypatch.setattr(nvrtc, "load_nvrtc", load)
    assert this_machine() == Device("Fake card", 75, cuda, majors[0], (75, 80))
    assert asked == [majors]
    with pytest.raises(StrataError, match="device 1: this machine has 1, counted from 0"):
        this_machine(1)


def test_a_card_without_a_compiler_is_a_card_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(wanted: tuple[int, ...]) -> None:
        raise ExecutorUnavailable("no NVRTC")

    monkeypatch.setattr(driver, "find_driver", lambda: Driver("", (13, 0), "580.95.05", 1))
    monkeypatch.setattr(environment, "import_cupy", lambda found: FakeCard(75).module)
    monkeypatch.setattr(nvrtc, "load_nvrtc", load)
    assert this_machine() == Device("Fake card", 75, (13, 0))


def test_no_card_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "find_driver", lambda: Driver("no NVIDIA driver here"))
    with pytest.raises(ExecutorUnavailable, match="no NVIDIA driver here"):
        this_machine()
