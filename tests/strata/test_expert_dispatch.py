"""Which path computes a layer of experts, and that the reason is never missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.device import LANES, PINNED_ARCHS, Device
from strata.dispatch import Gate
from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from strata.expert_dispatch import Layer, ServedLayer, beyond, serve_layer, uncovered
from strata.gates.gate import Decision
from strata.kernels import expert_mmq
from strata.kernels.expert_fused import LARGE, SHAPES, SMALL
from strata.kernels.expert_probe import Probed
from strata.kernels.experts import EXPERT_MODES, Experts, Geometry, layout, place
from strata.kernels.paths import PATHS, Path
from strata.switches import FUSED, FUSED_ADAPTIVE, FUSED_NATIVE, FUSED_SM75, FUSED_TILE, Switches

LAYER = Layer("iq3_xxs", "iq4_nl", 2560, 640, 512, 10, 2048)
T4 = Device("a T4", 75, (13, 0), 13, PINNED_ARCHS[13])
H200 = Device("an H200", 90, (13, 0), 13, PINNED_ARCHS[13])
ON = {FUSED: "1", FUSED_SM75: "1"}


def open_gate(path: Path, device: Device) -> Decision:
    return Decision(True, f"open: record 0123456789ab proves {path.name}", record="0" * 64)


def locked(path: Path, device: Device) -> Decision:
    return Decision(False, "locked: no record", "no way")


def passes(form: str, shape: int) -> Probed:
    return Probed(form, shape)


def served(
    layer: Layer = LAYER,
    device: Device = H200,
    values: dict[str, str] | None = None,
    gate: Gate = open_gate,
    tried: Callable[[str, int], Probed] = passes,
) -> ServedLayer:
    return serve_layer(layer, device, Switches(ON if values is None else values), gate, tried)


def operation(got: ServedLayer) -> str:
    assert got.served.path is not None
    return PATHS[got.served.path].operation


@pytest.mark.parametrize("mode", EXPERT_MODES)
@pytest.mark.parametrize(("device", "tier"), [(T4, "sm75"), (H200, "sm80")])
def test_where_all_is_asked_for_and_proved_the_fused_path_serves(mode: str, device: Device, tier: str) -> None:
    gate_up, down = mode.split("/")
    got = served(replace(LAYER, gate_up=gate_up, down=down), device)
    assert got.served.path == f"expert_fused/{mode}/{tier}"
    assert got.shapes is not None
    assert got.report == ()


@pytest.mark.parametrize(
    ("device", "values", "said"),
    [
        (H200, {}, f"{FUSED}=1 asks"),
        (H200, {FUSED: "0"}, f"{FUSED}=1 asks"),
        (H200, {FUSED: "1", FUSED_NATIVE: "0"}, f"{FUSED_NATIVE}=0 asks for it"),
        (T4, {FUSED: "1"}, f"{FUSED_SM75}=1 asks"),
        (T4, {FUSED_SM75: "1"}, f"{FUSED}=1 asks"),
    ],
)
def test_switches_keep_the_baseline(device: Device, values: dict[str, str], said: str) -> None:
    got = served(device=device, values=values)
    tier = "sm75" if device is T4 else "sm80"
    assert got.served.path == f"expert_mmq/{LAYER.mode}/{tier}"
    assert got.served.cause == "switch"
    assert said in got.served.reason
    assert got.shapes is None


def test_on_newer_cards_the_switch_of_turing_is_not_needed() -> None:
    assert operation(served(values={FUSED: "1"})) == "expert_fused"


def test_the_gate_decides_last() -> None:
    got = served(gate=locked)
    assert got.served.path == f"expert_mmq/{LAYER.mode}/sm80"
    assert got.served.cause == "gate"
    assert "locked: no record" in got.served.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"every_expert": False, "tokens": 3}, "3 tokens that does not go through every expert"),
        ({"devices": 2}, "on 2 devices"),
    ],
)
def test_layers_that_are_not_covered_go_to_the_baseline(change: dict[str, Any], said: str) -> None:
    layer = replace(LAYER, **change)
    assert said in uncovered(layer)
    got = served(layer)
    assert got.served.path == f"expert_mmq/{LAYER.mode}/sm80"
    assert got.served.instead_of == f"expert_fused/{LAYER.mode}/sm80"
    assert got.served.cause == "layer"
    assert said in got.served.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 2432}, "2432 x 640"),
        ({"ff": 96}, "2560 x 96"),
        ({"experts": 1025}, "1025 experts"),
        ({"experts": 0}, "0 experts"),
        ({"top": 65}, "65 a token"),
        ({"tokens": 0}, "0 tokens"),
        ({"tokens": 1 << 18}, "6710886400 values, expected up to 4294967295"),
    ],
)
@pytest.mark.parametrize("values", [ON, {}])
def test_layers_that_the_baseline_does_not_take_either_have_no_path(
    change: dict[str, Any], said: str, values: dict[str, str]
) -> None:
    layer = replace(LAYER, **change)
    assert said in beyond(layer)
    for device in (T4, H200, LANES):
        got = served(layer, device, values)
        assert got.served.path is None
        assert got.served.cause == "layer"
        assert said in got.served.reason
        assert got.shapes is None


@pytest.mark.parametrize("change", [{"n": 2432}, {"ff": 96}, {"experts": 1025}, {"top": 65}])
def test_what_has_no_path_is_what_the_baseline_refuses(change: dict[str, Any]) -> None:
    """Asked of the kernels' own checks, not of dispatch."""
    with pytest.raises(StrataError):
        _prepare(replace(replace(LAYER, n=256, ff=64, experts=1, top=1), **change))


def _prepare(layer: Layer) -> None:
    """All that the baseline asks of a layer before it runs."""
    lanes, size = LanesExecutor(), Geometry(layer.n, layer.ff)
    blob = np.zeros(layout(layer.gate_up, layer.down, size).nbytes, np.uint8)
    placed = place(lanes, Experts(layer.gate_up, layer.down, size, [blob] * layer.experts))
    x, ids = np.zeros((1, layer.n), np.float32), np.zeros((1, layer.top), np.int32)
    expert_mmq.prepare(lanes, PATHS[f"expert_mmq/{layer.mode}/sm80"], placed, x, ids)


@pytest.mark.parametrize(
    ("gate_up", "down", "said"),
    [
        ("iq4_nl", "q2_0", "gate and up in iq4_nl"),
        ("q8_0", "q8_0", "gate and up in q8_0"),
        ("iq3_s", "iq4_xs", "down in iq4_xs"),
    ],
)
def test_formats_that_no_path_has_are_named(gate_up: str, down: str, said: str) -> None:
    got = served(replace(LAYER, gate_up=gate_up, down=down))
    assert got.served.path is None
    assert said in got.served.reason


def test_a_probe_that_fails_at_the_small_shape_closes_the_path() -> None:
    def tried(form: str, shape: int) -> Probed:
        return Probed(form, shape, "no block fits a multiprocessor" if form == "iq4_nl" else "")

    for device, tier in ((T4, "sm75"), (H200, "sm80")):
        got = served(device=device, tried=tried)
        assert got.served.path == f"expert_mmq/{LAYER.mode}/{tier}"
        assert got.served.cause == "probe"
        assert "iq4_nl, shape 2: no block fits a multiprocessor" in got.served.reason
        assert got.report


def test_on_turing_the_large_shape_is_taken_format_by_format() -> None:
    def tried(form: str, shape: int) -> Probed:
        return Probed(form, shape, "too much" if (form, shape) == ("iq3_xxs", LARGE) else "")

    assert served(device=T4, tried=tried).shapes == (SMALL, SMALL)
    got = served(device=T4, tried=tried, values={**ON, FUSED_ADAPTIVE: "1"})
    assert got.served.path == f"expert_fused/{LAYER.mode}/sm75"
    assert got.shapes == (SMALL, LARGE)
    assert got.report == (f"iq3_xxs, shape {LARGE}: too much",)


@pytest.mark.parametrize("device", [T4, H200])
def test_a_probe_that_costs_the_context_leaves_no_path(device: Device) -> None:
    """The baseline would run on the same context; a small shape that passed before the fault does not serve."""

    def tried(form: str, shape: int) -> Probed:
        lost = shape == LARGE
        return Probed(form, shape, "an illegal memory access" if lost else "", lost=lost)

    got = served(device=device, tried=tried, values={**ON, FUSED_ADAPTIVE: "1"})
    assert got.served.path is None
    assert got.served.cause == "probe"
    assert got.shapes is None
    assert "an illegal memory access" in got.served.reason
    assert len(got.report) == 1


@pytest.mark.parametrize("tile", ["64", "128"])
def test_a_tile_is_forced_on_newer_cards_alone(tile: str) -> None:
    values = {**ON, FUSED_TILE: tile}
    forced = served(values=values).shapes
    assert forced is not None
    assert {SHAPES[shape][1] for shape in forced} == {int(tile)}
    assert served(device=T4, values=values).shapes == (SMALL, SMALL)


def test_the_cpu_has_the_baseline() -> None:
    got = served(device=LANES)
    assert operation(got) == "expert_mmq"
    assert "no card" in got.served.reason
