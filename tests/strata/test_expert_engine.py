"""What an engine asks of a device: its own switches, records and probes."""

from __future__ import annotations

from typing import Any

import pytest

from strata.device import LANES, PINNED_ARCHS, Device
from strata.executors.base import ContextLostError, ExecutorUnavailable, Kernel
from strata.executors.cuda import CudaExecutor
from strata.executors.lanes import LanesExecutor
from strata.expert_dispatch import Layer
from strata.expert_engine import ExpertEngine, probes
from strata.gates.gate import Decision
from strata.kernels import expert_probe
from strata.kernels.expert_fused import LARGE, SMALL
from strata.kernels.expert_trial import KNOWN
from strata.kernels.paths import Path
from strata.switches import FUSED, FUSED_ADAPTIVE, FUSED_SM75

LAYER = Layer("iq3_xxs", "iq4_nl", 2560, 640, 512, 10, 2048)
T4 = Device("a T4", 75, (13, 0), 13, PINNED_ARCHS[13])
ON = {FUSED: "1", FUSED_SM75: "1", FUSED_ADAPTIVE: "1"}


class Turing:
    """The executor of a card that answers as Turing does and launches nothing."""

    capability = 75

    def attributes(self, program: Kernel) -> dict[str, int]:
        return {"capability": 75, "threads": 1024, "local_bytes": 0, "shared_limit": 64 << 10, "resident": 1}


def open_gate(path: Path, device: Device) -> Decision:
    return Decision(True, "open: record 0123456789ab", record="0" * 64)


def engine(monkeypatch: pytest.MonkeyPatch, answer: Any, environ: dict[str, str]) -> ExpertEngine:
    monkeypatch.setattr(expert_probe, "answer", answer)
    return ExpertEngine(Turing(), T4, environ, open_gate)


def test_the_adaptive_switch_reaches_the_probe_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, tuple[int, int]]] = []

    def answer(executor: Any, mode: str, tier: int, shapes: tuple[int, int]) -> str:
        asked.append((tier, shapes))
        return "0" if mode == "iq4_xs/iq4_nl" and shapes[1] == LARGE else KNOWN[mode]

    here = engine(monkeypatch, answer, ON)
    got = here.serve_layer(LAYER)
    assert got.served.path == "expert_fused/iq3_xxs/iq4_nl/sm75"
    assert got.shapes == (LARGE, SMALL)
    assert len(got.report) == 1
    assert got.report[0].startswith("iq4_nl, shape 4: the trial's rows have the digest 0")
    assert {tier for tier, _ in asked} == {75}
    times = len(asked)
    assert here.serve_layer(LAYER) == got
    assert len(asked) == times
    usual = engine(monkeypatch, answer, {name: ON[name] for name in (FUSED, FUSED_SM75)})
    assert usual.serve_layer(LAYER).shapes == (SMALL, SMALL)


def test_a_lost_context_stays_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(executor: Any, mode: str, tier: int, shapes: tuple[int, int]) -> str:
        raise ContextLostError("running expert_gate_up: an illegal memory access")

    here = engine(monkeypatch, answer, ON)
    for layer in (LAYER, Layer("iq2_s", "q2_0", 2560, 640, 512, 10, 2048)):
        got = here.serve_layer(layer)
        assert got.served.path is None
        assert "an illegal memory access" in got.served.reason


def test_without_a_card_nothing_is_probed() -> None:
    got = ExpertEngine(LanesExecutor(), LANES, ON).serve_layer(LAYER)
    assert got.served.path == "expert_mmq/iq3_xxs/iq4_nl/sm75"
    assert got.shapes is None


def test_every_kernel_passes_on_a_card_of_its_tier() -> None:
    """As `strata doctor` asks it."""
    try:
        executor = CudaExecutor()
    except ExecutorUnavailable as error:
        pytest.skip(str(error))
    if (executor.capability or 0) < 75:
        pytest.skip("no fused path is for this card")
    said = list(expert_probe.lines(probes(executor)))
    assert len(said) == 16
    assert [line for line in said if not line.endswith(": passes")] == []
