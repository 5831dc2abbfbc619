"""Gemma 3 in a GGUF file: its sizes, its constants and its tensors by role, all checked when it is loaded.

What is checked is what the kernels here compute. A file that asks for anything else, by a key or by a tensor without a
role, is refused, because to leave that out would give other numbers in silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np

from strata.engine.gguf_file import GgufFile, Tensor
from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.pool import GROUPS, HEAD_DIM
from strata.shown import shown

ARCHITECTURE = "gemma3"
#: Gemma 3 fixes these two by definition, so its files leave them out: the rope base of local layers, and the period in
#: which one global layer follows local ones.
LOCAL_ROPE_BASE = 10_000.0
GLOBAL_PERIOD = 6
#: The values that share a scale of an activation: every width is a multiple of it.
WIDTH_UNIT = 32
#: Formats that the products read, and those of the vectors of a norm.
MATRIX_FORMATS = (*LINEAR_FORMATS, "f16")
NORM_FORMATS = ("f32",)
#: Bounds of what a file may claim, far above every model of this kind.
MOST_LAYERS = 1 << 10
MOST_WIDTH = 1 << 16
MOST_VOCABULARY = 1 << 20
MOST_CONTEXT = 1 << 24
#: Numbers of a file are between these, so that float32 has them with all their bits.
LEAST, LARGEST = 1e-37, 1e37
#: The largest weight of a norm: what it makes of any row is finite then.
MOST_WEIGHT = 1e30
#: Keys that would change the arithmetic in a way that no kernel here has, by the values that change nothing.
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "rope.scaling.type": (None, "none"),
    "rope.scaling.factor": (None, 1.0),
    "rope.scale_linear": (None, 1.0),
    "attn_logit_softcapping": (None, 0.0),
    "attention.causal": (None, True),
    "attention.scale": (None, 1.0 / math.sqrt(HEAD_DIM)),
    "expert_count": (None, 0),
}
#: Keys of the architecture that say nothing about the arithmetic, or what tensors say as well.
_HARMLESS = (f"{ARCHITECTURE}.vocab_size",)
_SHOWN = 60


@dataclass(frozen=True, eq=False)
class Layer:
    """The tensors of one layer, by the names that GGUF files give them: matrices (outputs, inputs) and vectors.

    Parameters
    ----------
    attn_norm, post_attention_norm, ffn_norm, post_ffw_norm
        f32 [n_embd].
    attn_q, attn_k, attn_v
        [n_head * head_dim, n_embd] and twice [n_head_kv * head_dim, n_embd].
    attn_q_norm, attn_k_norm
        f32 [head_dim].
    attn_output
        [n_embd, n_head * head_dim].
    ffn_gate, ffn_up, ffn_down
        Twice [n_ff, n_embd], and [n_embd, n_ff].
    """

    attn_norm: Tensor
    attn_q: Tensor
    attn_k: Tensor
    attn_v: Tensor
    attn_q_norm: Tensor
    attn_k_norm: Tensor
    attn_output: Tensor
    post_attention_norm: Tensor
    ffn_norm: Tensor
    ffn_gate: Tensor
    ffn_up: Tensor
    ffn_down: Tensor
    post_ffw_norm: Tensor


@dataclass(frozen=True, eq=False)
class Gemma3:
    """A model.

    Parameters
    ----------
    n_layer, n_embd, n_ff, vocab
        Layers, width, width of the feed-forward part, pieces of the vocabulary.
    n_head, n_head_kv, head_dim
        Query heads, KV heads, elements of a head.
    context_length
        Cells that the model was made for.
    window
        Cells that a local layer sees, the query's own included.
    global_period
        Every such layer is global, the last of each period.
    rms_epsilon
        What is added to the mean square.
    rope_base_global, rope_base_local
        The bases of rope's frequencies.
    softcap
        The cap of the logits; None without one.
    token_embd, output, output_norm
        [vocab, n_embd] twice, the same tensor where the file has no `output.weight`, and f32 [n_embd].
    layers
        The layers, in order.
    """

    n_layer: int
    n_embd: int
    n_ff: int
    vocab: int
    n_head: int
    n_head_kv: int
    head_dim: int
    context_length: int
    window: int
    global_period: int
    rms_epsilon: float
    rope_base_global: float
    rope_base_local: float
    softcap: float | None
    token_embd: Tensor
    output: Tensor
    output_norm: Tensor
    layers: tuple[Layer, ...]

    def is_global(self, layer: int) -> bool:
        """Whether a layer sees every cell, and uses the global base of rope, or only the window."""
        return (layer + 1) % self.global_period == 0

    @property
    def embedding_factor(self) -> float:
        """What a token's embedding is multiplied by: the root of the width, rounded to float32."""
        return float(np.float32(math.sqrt(self.n_embd)))

    @property
    def tied(self) -> bool:
        """Whether the embedding is the output matrix as well."""
        return self.output is self.token_embd


def load(file: GgufFile) -> Gemma3:
    """The model of a file.

    Parameters
    ----------
    file
        The open file.

    Raises
    ------
    ModelError
        In one line, where it is no Gemma 3 model, asks for something that the kernels here do not compute, lacks a
        tensor, or has one of a shape or a format that does not fit its role.
    """
    return _Loading(file).model()


class _Loading:
    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._used: set[str] = set()
        self._asked: set[str] = set(_HARMLESS)

    def model(self) -> Gemma3:
        self._kind()
        n_embd = self._width("embedding_length")
        n_ff = self._width("feed_forward_length")
        n_head, n_head_kv, head_dim = self._heads()
        vocab = self._vocabulary()
        n_layer = self._whole("block_count", 1, MOST_LAYERS)
        constants = self._constants()
        token_embd = self._matrix("token_embd", vocab, n_embd)
        separate = "output.weight" in self._file.tensors
        shapes = {
            "attn_norm": (n_embd,),
            "attn_q": (n_head * head_dim, n_embd),
            "attn_k": (n_head_kv * head_dim, n_embd),
            "attn_v": (n_head_kv * head_dim, n_embd),
            "attn_q_norm": (head_dim,),
            "attn_k_norm": (head_dim,),
            "attn_output": (n_embd, n_head * head_dim),
            "post_attention_norm": (n_embd,),
            "ffn_norm": (n_embd,),
            "ffn_gate": (n_ff, n_embd),
            "ffn_up": (n_ff, n_embd),
            "ffn_down": (n_embd, n_ff),
            "post_ffw_norm": (n_embd,),
        }
        found = Gemma3(
            n_layer=n_layer,
            n_embd=n_embd,
            n_ff=n_ff,
            vocab=vocab,
            n_head=n_head,
            n_head_kv=n_head_kv,
            head_dim=head_dim,
            **constants,
            softcap=self._cap(),
            token_embd=token_embd,
            output=self._matrix("output", vocab, n_embd) if separate else token_embd,
            output_norm=self._norm("output_norm", n_embd),
            layers=tuple(self._layer(layer, shapes) for layer in range(n_layer)),
        )
        for key in self._file.values:
            if key.startswith(f"{ARCHITECTURE}.") and key not in self._asked:
                self._file.refuse(
                    f"key {shown(key, _SHOWN)} is not known here; expected none that may change the arithmetic"
                )
        for name in self._file.tensors:
            if name not in self._used:
                self._file.refuse(f"tensor {shown(name, _SHOWN)} has no role in a Gemma 3 model; expected none such")
        return found

    def _kind(self) -> None:
        architecture = self._file.metadata("general.architecture")
        if architecture != ARCHITECTURE:
            self._file.refuse(f"its architecture is {shown(repr(architecture), _SHOWN)}; expected {ARCHITECTURE!r}")
        parts = self._file.metadata("split.count", 0)
        if type(parts) is not int or parts not in (0, 1):
            self._file.refuse(f"it is one of {shown(parts, _SHOWN)} parts of a model; expected a whole one")
        for key, harmless in _UNSUPPORTED.items():
            value = self._key(f"{ARCHITECTURE}.{key}", None)
            if not any(value is known or (type(value) is type(known) and value == known) for known in harmless):
                expected = " or ".join(str(known) for known in harmless[1:])
                self._file.refuse(f"key {ARCHITECTURE}.{key} is {shown(value, _SHOWN)}; expected {expected}, or none")

    def _heads(self) -> tuple[int, int, int]:
        head_dim = self._whole("attention.key_length", 1, MOST_WIDTH)
        for key, default in (
            ("attention.key_length", ()),
            ("attention.value_length", ()),
            ("rope.dimension_count", (HEAD_DIM,)),
        ):
            length = self._whole(key, 1, MOST_WIDTH, *default)
            if length != HEAD_DIM:
                self._file.refuse(f"key {ARCHITECTURE}.{key} is {length}; expected {HEAD_DIM}, which attention is for")
        n_head = self._whole("attention.head_count", 1, MOST_WIDTH // HEAD_DIM)
        n_head_kv = self._whole("attention.head_count_kv", 1, n_head)
        if n_head % n_head_kv or n_head // n_head_kv not in GROUPS:
            groups = ", ".join(map(str, GROUPS[:-1])) + f" or {GROUPS[-1]}"
            self._file.refuse(f"it has {n_head} query heads on {n_head_kv} KV heads; expected {groups} on each")
        return n_head, n_head_kv, head_dim

    def _vocabulary(self) -> int:
        shape = self._file.tensor("token_embd.weight").shape
        if len(shape) != 2 or shape[0] > MOST_VOCABULARY:
            self._file.refuse(f"tensor token_embd.weight is {_times(shape)}; expected at most {MOST_VOCABULARY} rows")
        return shape[0]

    def _constants(self) -> dict[str, Any]:
        epsilon = self._real("attention.layer_norm_rms_epsilon")
        if not epsilon < 1:
            self._refuse_key("attention.layer_norm_rms_epsilon", epsilon, "a number above 0 and below 1")
        return {
            "context_length": self._whole("context_length", 1, MOST_CONTEXT),
            "window": self._whole("attention.sliding_window", 1, MOST_CONTEXT),
            "global_period": self._whole("attention.sliding_window_pattern", 1, MOST_LAYERS, GLOBAL_PERIOD),
            "rms_epsilon": epsilon,
            "rope_base_global": self._real("rope.freq_base", least=1.0),
            "rope_base_local": self._real("rope.freq_base_swa", LOCAL_ROPE_BASE, least=1.0),
        }

    def _cap(self) -> float | None:
        cap = self._key(f"{ARCHITECTURE}.final_logit_softcapping", 0.0)
        if type(cap) is not float or not (cap == 0 or LEAST < cap < LARGEST):
            self._refuse_key("final_logit_softcapping", cap, "a number above 0 that float32 has, or none")
        return cap or None

    def _layer(self, layer: int, shapes: dict[str, tuple[int, ...]]) -> Layer:
        tensors = {}
        for role in (role.name for role in fields(Layer)):
            name, shape = f"blk.{layer}.{role}", shapes[role]
            tensors[role] = self._norm(name, *shape) if len(shape) == 1 else self._matrix(name, *shape)
        return Layer(**tensors)

    def _matrix(self, name: str, outputs: int, width: int) -> Tensor:
        return self._tensor(name, (outputs, width), MATRIX_FORMATS)

    def _norm(self, name: str, n: int) -> Tensor:
        found = self._tensor(name, (n,), NORM_FORMATS)
        # Nothing behind a norm would tell in every case: attention may give 0 for a query that is no number.
        sizes = np.abs(found.blocks.reshape(-1).view("<f4"))
        if not (sizes <= MOST_WEIGHT).all():
            self._file.refuse(
                f"tensor {found.name} has weights that are not finite; expected up to {MOST_WEIGHT:g} in size"
            )
        return found

    def _tensor(self, name: str, shape: tuple[int, ...], formats: tuple[str, ...]) -> Tensor:
        found = self._file.tensor(f"{name}.weight")
        if found.shape != shape:
            self._file.refuse(f"tensor {found.name} is {_times(found.shape)}; expected {_times(shape)}")
        if found.format not in formats:
            self._file.refuse(f"tensor {found.name} is {found.format}; expected {', '.join(formats)}")
        self._used.add(found.name)
        return found

    def _width(self, key: str) -> int:
        width = self._whole(key, WIDTH_UNIT, MOST_WIDTH)
        if width % WIDTH_UNIT:
            self._refuse_key(key, width, f"a multiple of {WIDTH_UNIT}")
        return width

    def _whole(self, key: str, least: int, most: int, *default: int) -> int:
        value = self._key(f"{ARCHITECTURE}.{key}", *default)
        if type(value) is not int or not least <= value <= most:
            self._refuse_key(key, value, f"a whole number of {least} to {most}")
        return value

    def _real(self, key: str, *default: float, least: float = LEAST) -> float:
        """A number of at least `least` that float32 has."""
        value = self._key(f"{ARCHITECTURE}.{key}", *default)
        if type(value) is not float or not least <= value < LARGEST:
            self._refuse_key(key, value, f"a number of at least {least:g}")
        return value

    def _key(self, key: str, *default: Any) -> Any:
        """The value of a key, which is then known to have been asked for."""
        self._asked.add(key)
        return self._file.metadata(key, *default)

    def _refuse_key(self, key: str, value: Any, expected: str) -> NoReturn:
        self._file.refuse(f"key {ARCHITECTURE}.{key} is {shown(value, _SHOWN)}; expected {expected}")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
