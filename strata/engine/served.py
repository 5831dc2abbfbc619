"""Which paths serve an engine, and why: asked of `dispatch.serve` once, when the engine is opened.

One path of attention serves prompts and decoding alike, so the bits of a token never depend on how the work was cut.
Products have the same bits on every tier, so few rows go through `linear_dp4a` and more of them through the path that
dispatch serves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from strata import switches
from strata.device import LANES, Device, named, this_machine
from strata.dispatch import Gate, Served, serve
from strata.executors.base import Executor, StrataError
from strata.executors.lanes.rules import parse_rule
from strata.gates.gate import Decision
from strata.gates.installed import InstalledGate
from strata.kernels import linear, linear_f16, prompt_attention, registry, tiers
from strata.kernels.path import Path
from strata.kernels.paths import PATHS

#: The most rows that `linear_dp4a` multiplies where a tensor-core path serves more of them.
FEW_ROWS = 16
#: Matrices that are no blocks have an operation of their own.
_PLAIN = {"f16": linear_f16.DESCRIPTOR.name}


@dataclass(frozen=True)
class Plan:
    """What serves.

    Parameters
    ----------
    device
        The device that dispatch was asked about.
    mode
        The KV mode.
    attention
        What serves attention.
    linear
        What serves products of more than `FEW_ROWS` rows, by the format of the matrix.
    """

    device: Device
    mode: str
    attention: Served
    linear: Mapping[str, Served]

    @property
    def attention_path(self) -> Path:
        """The path of attention."""
        return PATHS[str(self.attention.path)]

    def linear_path(self, form: str, rows: int) -> Path:
        """The path of a product.

        Parameters
        ----------
        form
            The format of the matrix.
        rows
            How many rows are multiplied.
        """
        served = PATHS[str(self.linear[form].path)]
        few = rows <= FEW_ROWS and served.baseline is not None
        return PATHS[str(served.baseline)] if few else served

    def lines(self) -> list[str]:
        """One line for each path that serves, with the reason."""
        return [self.attention.reason, *(served.reason for _, served in sorted(self.linear.items()))]


def choose(
    executor: Executor,
    mode: str,
    formats: Iterable[str],
    capability: int | None = None,
    environ: Mapping[str, str] = os.environ,
    gate: Gate | None = None,
) -> Plan:
    """What serves a model on an executor.

    Parameters
    ----------
    executor
        Where it will run.
    mode
        The KV mode.
    formats
        The formats of the model's matrices.
    capability
        On lanes, the compute capability, times ten, of the card whose bits are wanted: what would serve there serves
        here. None for what serves on the executor itself.
    environ
        The variables that switches and the directory of records are read from.
    gate
        The decision for a path and a device; None for the gate of this installation.

    Raises
    ------
    StrataError
        For a capability on a card, for one whose tensor-core rule the lanes do not follow, for a mode or a format that
        does not exist, and where nothing can run on the device.
    """
    device = _device(executor, capability)
    asked = switches.read(environ)
    decides = _installed(environ) if gate is None else gate
    attention = _able(serve(prompt_attention.DESCRIPTOR.name, mode, device, asked, decides))
    path = PATHS[str(attention.path)]
    if capability is not None and registry.find(path.operation).rounded_sums and tiers.find(path.tier).tensor_cores:
        _follows(executor, capability, path)
    products = {form: _linear(executor, form, device, asked, decides) for form in set(formats)}
    return Plan(device, mode, attention, products)


def _device(executor: Executor, capability: int | None) -> Device:
    if executor.capability is None:
        return LANES if capability is None else named(capability)
    if capability is not None:
        raise StrataError(f"capability {capability} is asked for on a card, expected none: it is for lanes")
    return this_machine()


def _installed(environ: Mapping[str, str]) -> Gate:
    """The gate of this installation, whose records are read when it is first asked: lanes never ask."""
    made: list[InstalledGate] = []

    def decide(path: Path, device: Device) -> Decision:
        if not made:
            made.append(InstalledGate(environ))
        return made[0](path, device)

    return decide


def _able(served: Served) -> Served:
    if served.path is None:
        raise StrataError(served.reason)
    return served


def _follows(executor: Executor, capability: int, path: Path) -> None:
    """Refuse lanes whose tensor cores sum by another rule than the card's whose bits are wanted."""
    rule, expected = getattr(executor, "rule", None), parse_rule(f"sm_{capability}")
    if rule != expected:
        raise StrataError(
            f"{path.name} on lanes of rule {rule}, expected sm_{capability} ({expected}) for the bits of that card"
        )


def _linear(executor: Executor, form: str, device: Device, asked: switches.Switches, gate: Gate) -> Served:
    operation = _PLAIN.get(form, linear.DESCRIPTOR.name)
    served = _able(serve(operation, form, device, asked, gate))
    path = PATHS[str(served.path)]
    if executor.capability is None and path.baseline is not None:
        # Tensor cores of int8 are exact, so the baseline has their bits; on lanes it has them sooner.
        return Served(path.baseline, f"{path.baseline}: on lanes it computes the same bits as {path.name}")
    return served
