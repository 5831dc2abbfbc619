"""A Gemma 3 GGUF file as the `gguf` package reads it: sizes, and weights as numbers.

Nothing here comes from the engine: a mistake in its reader would otherwise be in both of what is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError
from validation.quality.gguf_package import gguf

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

ARCHITECTURE = "gemma3"
#: By definition of Gemma 3, whose files leave these out: the base of local layers' rotation, and the period in which
#: a global layer follows local ones.
LOCAL_BASE, PERIOD = 10_000.0, 6
#: What would change the mathematics in a way that the model here does not know.
UNKNOWN = ("rope.scaling.type", "attn_logit_softcapping", "final_logit_softcapping")


@dataclass(frozen=True)
class Sizes:
    """Sizes and constants of a model.

    Parameters
    ----------
    layers, width, heads, kv_heads, head_dim, context
        Counts of layers, residual elements, query heads, KV heads, elements of a head, and cells.
    window
        Cells that a local layer's query sees, its own included.
    period
        Each layer whose number, from 1, is a multiple of it is global.
    epsilon
        What RMSNorm adds to the mean square.
    global_base, local_base
        Bases of the rotation.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    window: int
    period: int
    epsilon: float
    global_base: float
    local_base: float

    def window_of(self, layer: int) -> int | None:
        """Cells that a layer's query sees, None for all."""
        return None if (layer + 1) % self.period == 0 else self.window

    def base_of(self, layer: int) -> float:
        """The base of a layer's rotation."""
        return self.local_base if self.window_of(layer) else self.global_base


class Fp64File:
    """An open file.

    Parameters
    ----------
    path
        A GGUF file, mapped for as long as this lives.

    Raises
    ------
    StrataError
        When it is no Gemma 3 file that the mathematics here covers.
    """

    def __init__(self, path: FilePath) -> None:
        try:
            self._reader = gguf().GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise StrataError(f"model {str(path)!r} cannot be read as GGUF: {' '.join(str(error).split())}") from None
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.sizes = self._sizes()
        self.vocabulary = len(self._stored("token_embd.weight").data)

    def matrix(self, name: str, rows: slice | NDArray[np.int64] = slice(None)) -> Float32:
        """Weights, float32 as their format defines them: every format's value is exact in FP32 or rounded to it once.

        Parameters
        ----------
        name
            A tensor's name.
        rows
            Rows of a matrix, all of them when left out.
        """
        stored = self._stored(name)
        return np.asarray(gguf().quants.dequantize(stored.data[rows], stored.tensor_type), np.float32)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def _stored(self, name: str) -> Any:
        if name not in self._tensors:
            raise StrataError(f"the model has no tensor {name!r}; expected a Gemma 3 file")
        return self._tensors[name]

    def _get(self, key: str, *default: Any) -> Any:
        field = self._reader.get_field(key)
        if field is not None:
            return field.contents()
        if default:
            return default[0]
        raise StrataError(f"the model has no metadata {key!r}; expected a Gemma 3 file")

    def _sizes(self) -> Sizes:
        found = self._get("general.architecture")
        if found != ARCHITECTURE:
            raise StrataError(f"the model's architecture is {found!r}, expected {ARCHITECTURE!r}")
        for key in UNKNOWN:
            if self._get(f"{ARCHITECTURE}.{key}", None) not in (None, "none"):
                raise StrataError(f"the model has {key}, which the FP64 model does not know")
        if "output.weight" in self:
            raise StrataError("the model has an output table of its own; expected Gemma 3's, which is the embedding")

        def get(key: str, *default: Any) -> Any:
            return self._get(f"{ARCHITECTURE}.{key}", *default)

        return Sizes(
            layers=int(get("block_count")),
            width=int(get("embedding_length")),
            heads=int(get("attention.head_count")),
            kv_heads=int(get("attention.head_count_kv")),
            head_dim=int(get("attention.key_length")),
            context=int(get("context_length")),
            window=int(get("attention.sliding_window")),
            period=int(get("attention.sliding_window_pattern", PERIOD)),
            epsilon=float(get("attention.layer_norm_rms_epsilon")),
            global_base=float(get("rope.freq_base")),
            local_base=float(get("rope.freq_base_swa", LOCAL_BASE)),
        )
