"""Which work shape is chosen, from probes of devices that are not there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.executors.base import Kernel, StrataError
from strata.kernels.device_reading import Reading
from strata.kernels.expert_fused import LARGE, SMALL, shape_for
from strata.kernels.expert_probe import Probed, Probes, probe
from strata.kernels.expert_shapes import Shapes, choose
from tests.strata.kernels.expert_devices import Fake

MODE = "iq2_s/iq4_nl"


def chosen(device: Fake, adaptive: bool, capability: int = 75, tier: int = 75, pairs: int = 100) -> Shapes:
    return choose(MODE, tier, capability, pairs, 1, adaptive, lambda form, shape: probe(device, form, tier, shape))


def test_everything_passes_on_turing() -> None:
    assert chosen(Fake(), adaptive=True) == Shapes(LARGE, LARGE, ())
    device = Fake()
    assert chosen(device, adaptive=False) == Shapes(SMALL, SMALL, ())
    assert all(shape == SMALL for _, shape in device.launched)


def test_a_large_shape_that_fails_leaves_its_format_small_and_is_reported() -> None:
    found = chosen(Fake(trials={("iq2_s", LARGE): "wrong bits"}), adaptive=True)
    assert (found.gate_up, found.down) == (SMALL, LARGE)
    assert found.report == ("iq2_s, shape 4: wrong bits",)
    found = chosen(Fake(trials={("iq4_nl", LARGE): "wrong bits"}), adaptive=True)
    assert (found.gate_up, found.down) == (LARGE, SMALL)


def test_a_small_shape_that_fails_closes_the_path() -> None:
    found = chosen(Fake(trials={("iq4_nl", SMALL): "wrong bits"}), adaptive=True)
    assert not found.usable
    assert "iq4_nl, shape 2: wrong bits" in found.report


def test_a_trial_that_costs_the_context_closes_every_path() -> None:
    """Nothing is launched after it, small shapes that passed before serve no more, and the error is told."""
    device = Fake(lost="running expert_gate_up: an illegal memory access")
    tried = Probes(device, 75)
    assert choose(MODE, 75, 75, 100, 1, False, tried).usable
    launched = len(device.launched)
    found = choose(MODE, 75, 75, 100, 1, True, tried)
    assert (found.gate_up, found.down, found.lost) == (None, None, True)
    assert found.report == ("iq2_s, shape 4: running expert_gate_up: an illegal memory access",)
    assert device.launched[launched:] == [("iq2_s", LARGE)]
    again = choose("iq3_s/q2_0", 75, 75, 100, 1, False, tried)
    assert again.lost
    assert "an illegal memory access" in again.report[0]
    assert len(device.launched) == launched + 1


def test_from_ampere_on_a_lost_context_closes_the_path_too() -> None:
    device = Fake(lambda program, reading: replace(reading, capability=90, shared_limit=227 << 10), lost="a fault")
    found = chosen(device, adaptive=False, capability=90, tier=80)
    assert found.lost
    assert not found.usable
    assert device.launched[-1] == ("iq2_s", LARGE)


def test_an_odd_limit_is_reported_and_the_trial_decides() -> None:
    found = chosen(Fake(change=lambda program, reading: replace(reading, shared_limit=0x100000001)), adaptive=True)
    assert (found.gate_up, found.down) == (LARGE, LARGE)
    assert len(found.report) == 4
    assert all("4294967297" in line for line in found.report)


def test_from_ampere_on_rows_an_expert_decide_and_both_shapes_must_pass() -> None:

    def hopper(program: Kernel, reading: Reading) -> Reading:
        return replace(reading, capability=90, shared_limit=227 << 10)

    for pairs in (56, 57, 112, 113):
        found = chosen(Fake(hopper), adaptive=False, capability=90, tier=80, pairs=pairs)
        assert found.gate_up == found.down == shape_for(pairs, 1) == (SMALL if pairs in (57, 112) else LARGE)
    device = Fake(hopper, trials={("iq2_s", LARGE): "wrong"})
    found = chosen(device, adaptive=False, capability=90, tier=80)
    assert not found.usable
    assert found.report == ("iq2_s, shape 4: wrong",)


def test_a_form_that_is_not_covered_is_an_error_of_the_caller() -> None:
    with pytest.raises(StrataError, match="expert mode"):
        choose("q4_0/q4_0", 75, 75, 1, 1, False, lambda form, shape: Probed(form, shape))
