"""What a device says of a kernel: limits that no device has, and what speaks against a launch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.executors.base import Kernel
from strata.kernels.device_reading import SHARED_LIMITS, Reading, refusal, shared_limit
from strata.kernels.expert_fused import LARGE, SMALL, kernel
from strata.kernels.experts import DOWN, GATE_UP
from tests.strata.kernels.expert_devices import TURING


def test_memory_that_does_not_fit_is_refused_before_a_launch() -> None:
    size = kernel("iq2_s", 75, LARGE).shared_bytes

    def tight(program: Kernel, reading: Reading) -> Reading:
        return replace(reading, capability=70, shared_limit=max(48 << 10, size - 1))

    program = replace(kernel("iq2_s", 75, LARGE), shared_bytes=(48 << 10) + 1)
    assert refusal(program, replace(TURING, capability=70, shared_limit=48 << 10))[0] == (
        "49153 bytes of shared memory a block, the device gives 49152"
    )
    assert refusal(replace(program, shared_bytes=48 << 10), tight(program, TURING))[0] == ""


def test_spills_are_no_reason_where_they_are_known_to_be_cheap() -> None:
    assert refusal(
        kernel("iq2_s", 80, SMALL), replace(TURING, capability=90, shared_limit=227 << 10, local_bytes=60)
    ) == ("", "")


def test_turing_has_room_for_every_kernel() -> None:
    """iq2_s in the large shape, which other code has been too large for, needs 41,472 bytes of 65,536."""
    assert kernel("iq2_s", 75, LARGE).shared_bytes == 41472
    for form in (*GATE_UP, *DOWN):
        assert all(kernel(form, 75, shape).shared_bytes <= SHARED_LIMITS[75] for shape in (SMALL, LARGE))


@pytest.mark.parametrize(
    ("reported", "capability", "limit"),
    [
        (64 << 10, 75, 64 << 10),
        (0x100000001, 75, 64 << 10),
        (0x100000001, 61, 48 << 10),
        (0x100000001, 120, 99 << 10),
        (-1, 90, 227 << 10),
        (100 << 10, 75, 64 << 10),
        (227 << 10, 90, 227 << 10),
        (100 << 10, 121, 100 << 10),
    ],
)
def test_the_limit_of_shared_memory_is_one_that_devices_have(reported: int, capability: int, limit: int) -> None:
    got, note = shared_limit(reported, capability)
    assert got == limit
    assert (not note) == (reported == limit)
