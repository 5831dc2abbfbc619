"""Gemma 3 270M as its PyPI packages hold it: one GGUF file cut into four parts.

The parts are found without importing the packages, joined in a temporary file that lives as long as the
model is open, and compared with the SHA-256 of the whole. Every size and constant comes from the metadata;
the two that Gemma 3 files leave out are named below.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strata.engine.gguf_file import ModelError
from strata.engine.packaged import INSTALL, PARTS, SHA256, find_model, join
from strata.engine.tokenizer import Vocabulary
from strata.executors.base import system_reason
from strata.imports import NotImportedError, optional

if TYPE_CHECKING:
    from gguf import GGUFReader

__all__ = ["PARTS", "SHA256", "Hyperparameters", "Model", "ModelError", "find_model", "open_model"]

Float32 = NDArray[np.float32]

ARCHITECTURE = "gemma3"
#: Gemma 3 fixes these two by definition, so its files leave them out: the rope base of local layers, and
#: the period in which one global layer follows local ones.
LOCAL_ROPE_BASE = 10_000.0
GLOBAL_PERIOD = 6
#: Keys that would change the arithmetic in a way that `forward` does not know.
UNSUPPORTED = ("rope.scaling.type", "attn_logit_softcapping", "final_logit_softcapping")


@dataclass(frozen=True)
class Hyperparameters:
    """Sizes and constants of a Gemma 3 model. Lengths count elements; `window` counts cells, the query's own
    included, that a local layer sees."""

    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    context_length: int
    window: int
    global_period: int
    rms_epsilon: float
    rope_base_global: float
    rope_base_local: float

    def is_global(self, layer: int) -> bool:
        """Whether `layer` sees every cell (and uses the global rope base) or only the window."""
        return (layer + 1) % self.global_period == 0


class Model:
    """An open GGUF file: hyperparameters, vocabulary and weights as float32, dequantised when asked for."""

    def __init__(self, reader: GGUFReader, sha256: str) -> None:
        self.sha256 = sha256
        self._reader = reader
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.hyper = self._hyperparameters()

    def tensor(self, name: str) -> Float32:
        """Weights `name`, float32 [outputs, inputs] or [inputs]. Raises ModelError when there are none."""
        return self._dequantized(name, slice(None))

    def rows(self, name: str, index: slice | NDArray[np.int64]) -> Float32:
        """Only the rows `index` of matrix `name`; the token table is too large to unpack at once."""
        return self._dequantized(name, index)

    def n_rows(self, name: str) -> int:
        """How many rows matrix `name` has."""
        return int(self._stored(name).data.shape[0])

    def vocabulary(self) -> Vocabulary:
        """The tokenizer's pieces. Raises ModelError for a tokenizer of another kind than Gemma's."""
        for key, expected in (("model", "llama"), ("add_space_prefix", False), ("add_bos_token", True)):
            found = self._metadata(f"tokenizer.ggml.{key}")
            if found != expected:
                raise ModelError(f"metadata tokenizer.ggml.{key} is {found!r}; expected {expected!r}")
        return Vocabulary(
            pieces=self._metadata("tokenizer.ggml.tokens"),
            scores=self._metadata("tokenizer.ggml.scores"),
            types=self._metadata("tokenizer.ggml.token_type"),
            bos=int(self._metadata("tokenizer.ggml.bos_token_id")),
            unknown=int(self._metadata("tokenizer.ggml.unknown_token_id")),
        )

    def _hyperparameters(self) -> Hyperparameters:
        architecture = self._metadata("general.architecture")
        if architecture != ARCHITECTURE:
            raise ModelError(f"model architecture is {architecture!r}; expected {ARCHITECTURE!r}")
        for key in UNSUPPORTED:
            if (found := self._metadata(f"{ARCHITECTURE}.{key}", None)) not in (None, "none"):
                raise ModelError(f"metadata {ARCHITECTURE}.{key} is {found!r}; expected none")

        def read(key: str, *default: float) -> Any:
            return self._metadata(f"{ARCHITECTURE}.{key}", *default)

        if read("attention.key_length") != read("attention.value_length"):
            raise ModelError(
                f"keys have {read('attention.key_length')} elements and values "
                f"{read('attention.value_length')}; expected one head dimension"
            )
        return Hyperparameters(
            n_layer=int(read("block_count")),
            n_embd=int(read("embedding_length")),
            n_head=int(read("attention.head_count")),
            n_head_kv=int(read("attention.head_count_kv")),
            head_dim=int(read("attention.key_length")),
            context_length=int(read("context_length")),
            window=int(read("attention.sliding_window")),
            global_period=int(read("attention.sliding_window_pattern", GLOBAL_PERIOD)),
            rms_epsilon=float(read("attention.layer_norm_rms_epsilon")),
            rope_base_global=float(read("rope.freq_base")),
            rope_base_local=float(read("rope.freq_base_swa", LOCAL_ROPE_BASE)),
        )

    def _metadata(self, key: str, *default: Any) -> Any:
        field = self._reader.get_field(key)
        if field is None:
            if not default:
                raise ModelError(f"model file has no metadata {key}; expected a Gemma 3 GGUF file")
            return default[0]
        return field.contents()

    def _stored(self, name: str) -> Any:
        if name not in self._tensors:
            raise ModelError(f"model file has no tensor {name}; expected a Gemma 3 GGUF file")
        return self._tensors[name]

    def _dequantized(self, name: str, index: slice | NDArray[np.int64]) -> Float32:
        from gguf.quants import dequantize

        stored = self._stored(name)
        return np.asarray(dequantize(stored.data[index], stored.tensor_type), dtype=np.float32)


@contextmanager
def open_model(parts: Sequence[Path], sha256: str = SHA256) -> Iterator[Model]:
    """Open the model whose file is `parts` joined. Raises ModelError when its digest is not `sha256`, when
    the `gguf` package is missing or when the temporary directory has no room."""
    # Windows refuses to delete a file that is still mapped; the system's cleaner takes it then.
    with tempfile.TemporaryDirectory(prefix="strata-model-", ignore_cleanup_errors=True) as folder:
        joined = Path(folder) / "model.gguf"
        digest = _join(parts, joined)
        if digest != sha256:
            raise ModelError(f"model file has SHA-256 {digest}; expected {sha256}")
        yield Model(_reader(joined), digest)


def _reader(path: Path) -> GGUFReader:
    try:
        base: Any = optional("gguf").GGUFReader
    except NotImportedError as error:
        what = "is not installed" if error.absent else f"does not import ({error})"
        raise ModelError(f"package gguf {what}; expected after: {INSTALL}") from None

    class Reader(base):  # type: ignore[misc]
        """Reads the mapped file through a plain array: slicing a memmap costs microseconds more, and an index
        of 262,144 pieces is a million slices (3 seconds instead of 11)."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if isinstance(value, np.memmap) else value)

    try:
        return Reader(path)
    except (ValueError, IndexError, KeyError) as error:
        raise ModelError(f"model file is no GGUF file that the gguf package can read: {error}") from None


def _join(parts: Sequence[Path], joined: Path) -> str:
    """Write `parts` one after the other to `joined`; the SHA-256 of the whole."""
    try:
        with joined.open("wb") as target:
            return join(parts, target)
    except OSError as error:
        raise ModelError(f"cannot join the model file in {joined.parent}: {system_reason(error)}") from None
