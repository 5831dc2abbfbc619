"""Probes of devices that are not there: what is refused, what is reported, what is tried once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.kernels.expert_fused import LARGE, SMALL
from strata.kernels.expert_probe import Probed, Probes, lines, probe
from strata.kernels.experts import DOWN, GATE_UP
from tests.strata.kernels.expert_devices import Fake


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threads": 100}, "its registers allow 100"),
        ({"resident": 0}, "no block fits a multiprocessor"),
        ({"local_bytes": 8}, "8 bytes of a thread lie in local memory"),
    ],
)
def test_readings_that_speak_against_a_launch(change: dict[str, int], words: str) -> None:
    device = Fake(change=lambda program, reading: replace(reading, **change))
    found = probe(device, "iq3_s", 75, LARGE)
    assert words in found.reason
    assert not found.passed
    assert device.launched == []


def test_a_fault_is_a_reason() -> None:
    found = probe(Fake(fault="an illegal memory access"), "iq3_s", 75, LARGE)
    assert found == Probed("iq3_s", LARGE, "an illegal memory access")


def test_a_probe_is_made_once() -> None:
    device = Fake()
    tried = Probes(device, 75)
    assert [tried("iq3_s", SMALL) for _ in range(3)] == [Probed("iq3_s", SMALL)] * 3
    assert device.launched == [("iq3_s", SMALL)]


def test_lines_tell_of_every_format_and_end_with_the_context() -> None:
    said = list(lines(Probes(Fake(trials={("q2_0", LARGE): "wrong bits"}), 75)))
    assert len(said) == 2 * len((*GATE_UP, *DOWN))
    assert said[0] == "iq3_xxs at 128 x 128: passes"
    assert [line for line in said if not line.endswith("passes")] == ["q2_0 at 256 x 64: wrong bits"]
    said = list(lines(Probes(Fake(lost="a fault"), 75)))
    assert said[-1] == "iq2_s at 256 x 64: a fault"
    assert not any("iq4_nl" in line for line in said)
