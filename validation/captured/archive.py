"""The file of a capture: what it holds, and everything that is checked before it is believed.

An `.npz` file holds float32 arrays `q_L` [n, n_head, head_dim], `k_L` and `v_L` [n, n_head_kv, head_dim] for
each layer L, and `metadata`, a JSON string. q and k are taken after norm and rope and without the softmax
scale, v as projected. Nothing in it is pickled.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError
from validation.captured.forward import AttentionInputs
from validation.host import json_file, whole_file
from validation.host.json_file import JsonError

FORMAT = "strata-capture/1"
PARTS = ("q", "k", "v")
_METADATA = "metadata"
#: What NumPy and zipfile raise for files that are damaged or no archives.
_UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


class CaptureError(StrataError):
    """A capture cannot be made as asked, or a file is not the capture it claims to be."""


@dataclass(frozen=True)
class Metadata:
    """How a capture was made. loss: mean -ln p of the next token; loss_limit: what it had to stay below, the
    tokens' unigram entropy; text_sha256: of the text that the tokens spell, in UTF-8."""

    format: str
    model_sha256: str
    text_source: str
    text_sha256: str
    tokens: int
    layers: tuple[int, ...]
    n_head: int
    n_head_kv: int
    head_dim: int
    rope_included: bool
    loss: float
    loss_limit: float
    numpy: str
    python: str


#: q, k, v of one layer; see AttentionInputs for shapes.
LayerCapture = AttentionInputs


@dataclass(frozen=True)
class Capture:
    """Attention inputs by layer, and how they were made."""

    layers: Mapping[int, LayerCapture]
    metadata: Metadata


def check_loss(loss: float, limit: float) -> None:
    """Raise CaptureError unless `loss` lies between 0 and `limit`, both in nats per token; NaN never does."""
    if not 0 <= loss < limit:
        raise CaptureError(
            f"loss is {loss:.3f} per token; expected below {limit:.3f}, the tokens' unigram entropy: "
            "the forward pass or its linear algebra library is wrong"
        )


def save(result: Capture, out: Path) -> None:
    """Write a capture; the file appears whole or not at all. Raises CaptureError."""
    arrays = {f"{part}_{layer}": getattr(inputs, part) for layer, inputs in result.layers.items() for part in PARTS}
    try:
        with whole_file.replacing(out) as file:
            np.savez(file, allow_pickle=False, **{_METADATA: np.array(json.dumps(asdict(result.metadata)))}, **arrays)
    except StrataError as error:
        raise CaptureError(str(error)) from error


def load(path: Path) -> Capture:
    """Read a capture and check all that it says of itself: format, names, dtypes, shapes, finite elements, a
    loss below its limit. Raises CaptureError naming the first thing that is wrong."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise CaptureError(f"{path} is a single array; expected a capture (.npz)")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise CaptureError(f"cannot read {path} as a capture (.npz): {' '.join(reason.split())}") from None
    metadata = _parse_metadata(path, arrays.pop(_METADATA, None))
    check_loss(metadata.loss, metadata.loss_limit)
    heads = {"q": metadata.n_head, "k": metadata.n_head_kv, "v": metadata.n_head_kv}
    shapes = {
        f"{part}_{layer}": (metadata.tokens, heads[part], metadata.head_dim)
        for layer in metadata.layers
        for part in PARTS
    }
    if arrays.keys() != shapes.keys():
        raise CaptureError(f"{path} holds {listed(sorted(arrays))}; expected {listed(sorted(shapes))}")
    for name, shape in shapes.items():
        _check_array(path, name, arrays[name], shape)
    layers = {layer: LayerCapture(*(arrays[f"{part}_{layer}"] for part in PARTS)) for layer in metadata.layers}
    return Capture(layers, metadata)


def _parse_metadata(path: Path, stored: NDArray[Any] | None) -> Metadata:
    if stored is None or stored.dtype.kind != "U" or stored.shape != ():
        raise CaptureError(f"{path} has no metadata string; expected a capture of format {FORMAT}")
    try:
        values = json_file.parse(stored.item())
    except JsonError as error:
        raise CaptureError(f"metadata of {path} is not JSON of a capture: {error}; expected format {FORMAT}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else values
        raise CaptureError(f"{path} has format {str(found)[:40]!r}; expected {FORMAT!r}")
    names = [field.name for field in fields(Metadata)]
    if sorted(values) != sorted(names):
        raise CaptureError(f"metadata of {path} has {listed(sorted(values))}; expected {listed(sorted(names))}")
    for name, hint in get_type_hints(Metadata).items():
        if not _is_a(values[name], hint):
            raise CaptureError(f"metadata {name} of {path} is {str(values[name])[:40]!r}; expected {_NAMES[hint]}")
    metadata = Metadata(**{**values, "layers": tuple(values["layers"])})
    if not metadata.layers or len(set(metadata.layers)) != len(metadata.layers):
        raise CaptureError(f"metadata layers of {path} is {listed(metadata.layers)}; expected distinct numbers")
    if not metadata.rope_included:
        raise CaptureError(f"metadata rope_included of {path} is false; expected q and k after rope")
    return metadata


_NAMES: dict[Any, str] = {
    str: "a string",
    bool: "true or false",
    int: "a positive whole number",
    float: "a finite number",
    tuple[int, ...]: "a list of layer numbers",
}


def _is_a(value: Any, hint: Any) -> bool:
    if hint is int:
        return type(value) is int and value > 0
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    if hint == tuple[int, ...]:
        return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
    return type(value) is hint


def _check_array(path: Path, name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.dtype != np.dtype("<f4"):
        raise CaptureError(f"{name} of {path} has dtype {array.dtype}; expected float32")
    if array.shape != shape:
        raise CaptureError(f"{name} of {path} has shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        raise CaptureError(f"{name} of {path} holds {int((~np.isfinite(array)).sum())} elements that are not finite")


def listed(items: Sequence[Any]) -> str:
    """Items in one line of a message."""
    return ", ".join(str(item) for item in items) or "nothing"
