"""Devices: which machine code and which PTX run on them, and what is assumed of those that are not here."""

from __future__ import annotations

import pytest

from strata.device import LANES, PINNED_ARCHS, Device, dotted, named
from strata.executors.base import StrataError
from strata.executors.cuda.nvrtc import load_nvrtc


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
        nvrtc = load_nvrtc((major,))
    except StrataError as error:
        pytest.skip(str(error))
    if not nvrtc.pinned:
        pytest.skip(f"NVRTC {nvrtc.version} is not a pinned one")
    assert nvrtc.archs == PINNED_ARCHS[major]
