"""Which path computes a layer of experts, and in which work shape: switches, gate and compiler as for every
operation, then whether the layer is one that the path covers, then the probe of the device.

Nothing is refused silently: what goes to the baseline says why, and so does a format that stays at the small shape. A
layer that the baseline does not take either has no path, nor has any after a probe that cost the card's context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from strata.device import Device
from strata.dispatch import Gate, Refused, Served, serve
from strata.executors.base import StrataError
from strata.kernels.expert_fused import DESCRIPTOR, SHAPES
from strata.kernels.expert_probe import Probed
from strata.kernels.expert_shapes import Shapes, choose
from strata.kernels.experts import DOWN, EXPERT_MODES, GATE_UP, MAX_EXPERTS, MAX_TOP, Geometry, check_pairs
from strata.kernels.paths import PATHS
from strata.switches import FUSED_ADAPTIVE, FUSED_TILE, Switches


@dataclass(frozen=True)
class Layer:
    """A layer of experts, and a call of it that asks for a path.

    Parameters
    ----------
    gate_up, down
        Names of the block formats of the gate and up matrices, and of the down matrix.
    n, ff
        The hidden size, and the features of an expert.
    experts, top
        Experts of the layer, and experts that each token is routed to.
    tokens
        Tokens of the call.
    every_expert
        Whether the call goes through all experts of the layer, as a prompt's does and a short one does not.
    devices
        How many cards share the layer.
    """

    gate_up: str
    down: str
    n: int
    ff: int
    experts: int
    top: int
    tokens: int
    every_expert: bool = True
    devices: int = 1

    @property
    def mode(self) -> str:
        """The mode of the paths of its formats, `gate_up/down`."""
        return f"{self.gate_up}/{self.down}"


@dataclass(frozen=True)
class ServedLayer:
    """Which path computes a layer, and in which work shapes.

    Parameters
    ----------
    served
        The path, and why.
    shapes
        The work shapes of gate and up, and of down, of the fused path; None where another path serves.
    report
        One line for each format that a probe held back.
    """

    served: Served
    shapes: tuple[int, int] | None = None
    report: tuple[str, ...] = ()


def beyond(layer: Layer) -> str:
    """Why no path takes a layer of these sizes, the baseline no more than the fused one; "" when both do."""
    if not 1 <= layer.experts <= MAX_EXPERTS or not 1 <= layer.top <= MAX_TOP:
        return f"{layer.experts} experts and {layer.top} a token, expected up to {MAX_EXPERTS} and {MAX_TOP}"
    if layer.tokens < 1:
        return f"a call of {layer.tokens} tokens, expected at least 1"
    try:
        check_pairs(layer.tokens * layer.top, Geometry(layer.n, layer.ff))
    except StrataError as error:
        return str(error)
    return ""


def uncovered(layer: Layer) -> str:
    """Why the fused path does not take a layer that the baseline takes; "" when it does."""
    if layer.gate_up not in GATE_UP:
        return f"gate and up in {layer.gate_up}, it covers {', '.join(GATE_UP)}"
    if layer.down not in DOWN:
        return f"down in {layer.down}, it covers {', '.join(DOWN)}"
    if not layer.every_expert:
        return f"a call of {layer.tokens} tokens that does not go through every expert"
    if layer.devices != 1:
        return f"a layer on {layer.devices} devices, it runs on one"
    return ""


def serve_layer(
    layer: Layer, device: Device, switches: Switches, gate: Gate, tried: Callable[[str, int], Probed]
) -> ServedLayer:
    """The path that computes a layer on a device.

    Parameters
    ----------
    layer
        The layer and the call.
    device
        The device that asks.
    switches
        What the environment asks for.
    gate
        The decision for a path and a device.
    tried
        The probe of a format in a work shape on that device.

    Returns
    -------
    ServedLayer
        The fused path where switches, gate, layer and probe let it serve, else the baseline; without a path where
        neither takes the layer, where nothing can run, or where a probe cost the card's context.
    """
    if layer.mode not in EXPERT_MODES:
        reason = f"no path computes experts of {layer.mode}: {uncovered(layer)}"
        return ServedLayer(Served(None, reason, cause="layer"))
    why = beyond(layer)
    if why:
        return ServedLayer(Served(None, f"no path computes this layer: {why}", cause="layer"))
    served = serve(DESCRIPTOR.name, layer.mode, device, switches, gate)
    if served.path is None or PATHS[served.path].operation != DESCRIPTOR.name:
        return ServedLayer(served)
    why = uncovered(layer)
    if why:
        return ServedLayer(_instead(served, "layer", why))
    assert device.capability is not None
    tier = PATHS[served.path].tier_number
    adaptive = switches.value(FUSED_ADAPTIVE) == "1"
    pairs = layer.tokens * layer.top
    shapes: Shapes = choose(layer.mode, tier, device.capability, pairs, layer.experts, adaptive, tried)
    if shapes.gate_up is None or shapes.down is None:
        said = "; ".join(shapes.report) or "its probe failed"
        if shapes.lost:
            reason = f"no path can run in this process: {said}"
            lost = Served(None, reason, instead_of=served.path, cause="probe")
            return ServedLayer(lost, None, shapes.report)
        return ServedLayer(_instead(served, "probe", said), None, shapes.report)
    return ServedLayer(served, _forced(switches, device, (shapes.gate_up, shapes.down)), shapes.report)


def _instead(served: Served, cause: str, why: str) -> Served:
    """The baseline in place of the fused path."""
    assert served.path is not None
    base = PATHS[served.path].baseline
    reason = f"{base} instead of {served.path}: {why}"
    refused = (Refused(served.path, cause, why),)
    return replace(served, path=base, reason=reason, instead_of=served.path, cause=cause, refused=refused)


def _forced(switches: Switches, device: Device, shapes: tuple[int, int]) -> tuple[int, int]:
    """The work shape that a switch forces, from capability 8.0 on."""
    tile = switches.value(FUSED_TILE)
    if not tile or device.capability is None or device.capability < 80:
        return shapes
    forced = next(shape for shape, (_, columns) in SHAPES.items() if columns == int(tile))
    return forced, forced
