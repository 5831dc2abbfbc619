"""What an engine asks before it computes a layer of experts on an executor: `ExpertEngine.serve_layer`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from strata import switches
from strata.device import Device
from strata.dispatch import Gate
from strata.expert_dispatch import Layer, ServedLayer, serve_layer
from strata.gates.installed import InstalledGate
from strata.kernels import tiers
from strata.kernels.expert_probe import Card, Probes


class ExpertEngine:
    """The switches, records and probes of one executor, which are read or made once each.

    Parameters
    ----------
    executor
        A CudaExecutor, whose card is `device`, or lanes, with `strata.device.LANES`.
    device
        What dispatch knows of the executor's device.
    environ
        The variables that switches and the directory of records are read from.
    gate
        The decision for a path and a device; None for the gate of this installation.
    """

    def __init__(
        self, executor: Any, device: Device, environ: Mapping[str, str] = os.environ, gate: Gate | None = None
    ) -> None:
        self._device = device
        self._switches = switches.read(environ)
        self._gate = InstalledGate(environ) if gate is None else gate
        self._tried = probes(executor)

    def serve_layer(self, layer: Layer) -> ServedLayer:
        """The path, its work shapes, and why: probes are made where the answer needs them, the first time alone."""
        return serve_layer(layer, self._device, self._switches, self._gate, self._tried)


def probes(executor: Any) -> Probes:
    """The probes of an executor's device, for the tier that it has."""
    return Probes(Card(executor), tiers.of_capability(executor.capability).number)
