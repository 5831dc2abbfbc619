"""The probe of work shapes, with devices that are not there: what is refused, what is reported, what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from strata.executors.base import ContextLostError, Kernel, LaunchError, StrataError
from strata.executors.lanes import LanesExecutor
from strata.kernels import expert_probe
from strata.kernels.expert_fused import LARGE, SMALL, kernel, shape_for
from strata.kernels.expert_probe import (
    KNOWN,
    SHARED_LIMITS,
    Probed,
    Probes,
    Reading,
    choose,
    lines,
    probe,
    refusal,
    shared_limit,
)
from strata.kernels.experts import DOWN, GATE_UP

TURING = Reading(75, 1024, 0, 64 << 10, 1)
MODE = "iq2_s/iq4_nl"


@dataclass
class Fake:
    """A device whose readings a test changes; trials: what went wrong, by form and shape."""

    change: Callable[[Kernel, Reading], Reading] = lambda program, reading: reading
    trials: dict[tuple[str, int], str] = field(default_factory=dict)
    launched: list[tuple[str, int]] = field(default_factory=list)
    fault: str = ""
    lost: str = ""

    def read(self, program: Kernel) -> Reading:
        return self.change(program, TURING)

    def trial(self, form: str, tier: int, shape: int) -> str:
        self.launched.append((form, shape))
        if self.fault:
            raise LaunchError(self.fault)
        if (form, shape) == ("iq2_s", LARGE) and self.lost:
            raise ContextLostError(self.lost)
        return self.trials.get((form, shape), "")


def chosen(device: Fake, adaptive: bool, capability: int = 75, tier: int = 75, pairs: int = 100) -> expert_probe.Shapes:
    return choose(MODE, tier, capability, pairs, 1, adaptive, lambda form, shape: probe(device, form, tier, shape))


def test_everything_passes_on_turing() -> None:
    assert chosen(Fake(), adaptive=True) == expert_probe.Shapes(LARGE, LARGE, ())
    device = Fake()
    assert chosen(device, adaptive=False) == expert_probe.Shapes(SMALL, SMALL, ())
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


def test_memory_that_does_not_fit_is_refused_before_a_launch() -> None:
    size = kernel("iq2_s", 75, LARGE).shared_bytes

    def tight(program: Kernel, reading: Reading) -> Reading:
        return replace(reading, capability=70, shared_limit=max(48 << 10, size - 1))

    program = replace(kernel("iq2_s", 75, LARGE), shared_bytes=(48 << 10) + 1)
    assert refusal(program, replace(TURING, capability=70, shared_limit=48 << 10))[0] == (
        "49153 bytes of shared memory a block, the device gives 49152"
    )
    assert refusal(replace(program, shared_bytes=48 << 10), tight(program, TURING))[0] == ""


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


def test_spills_are_no_reason_where_they_are_known_to_be_cheap() -> None:
    assert refusal(
        kernel("iq2_s", 80, SMALL), replace(TURING, capability=90, shared_limit=227 << 10, local_bytes=60)
    ) == ("", "")


def test_a_fault_is_a_reason() -> None:
    found = probe(Fake(fault="an illegal memory access"), "iq3_s", 75, LARGE)
    assert found == Probed("iq3_s", LARGE, "an illegal memory access")


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


def test_turing_has_room_for_every_kernel() -> None:
    """iq2_s in the large shape, which other code has been too large for, needs 41,984 bytes of 65,536."""
    assert kernel("iq2_s", 75, LARGE).shared_bytes == 41984
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


def test_trial_bits_are_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = LanesExecutor()
    for mode, digest in KNOWN.items():
        assert expert_probe.answer(lanes, mode, 80, (SMALL, SMALL)) == digest, mode
    card = expert_probe.Card(lanes)
    assert card.trial("iq3_xxs", 75, LARGE) == ""
    assert card.trial("iq4_nl", 80, LARGE) == ""
    monkeypatch.setitem(KNOWN, "iq3_xxs/q2_0", "0")
    assert "expected 0" in card.trial("iq3_xxs", 75, LARGE)


def test_a_form_that_is_not_covered_is_an_error_of_the_caller() -> None:
    with pytest.raises(StrataError, match="expert mode"):
        choose("q4_0/q4_0", 75, 75, 1, 1, False, lambda form, shape: Probed(form, shape))
