"""What a model needs of device memory: experts, the prompt path's buffers, what decoding alone needs, the KV cache.

Defaults are the reference model: 48 layers of 512 experts, 2,560 wide, experts 640 wide, 10 of them for each token.
Blobs, KV cells and the buffers of the expert layer are counted from the arrays themselves; what is an estimate says so
in `ESTIMATES`, and `strata memory plan` prints the mark and takes better figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strata.executors.base import StrataError
from strata.formats import FORMATS
from strata.kernels.pool import mode_formats
from strata.memory.arena.pieces import MiB

#: Terms that nobody has counted from arrays of this project.
ESTIMATES = ("trunk", "GDN", "QSA", "dense weights", "draft head", "verifier")
#: Values of a block of 8-bit activations, and its bytes with the FP32 scale.
Q8_VALUES, Q8_BYTES = 32, 36


def row_bytes(name: str, values: int) -> int:
    """Bytes of a row of weights.

    Parameters
    ----------
    name
        The name of the block format.
    values
        How many weights.

    Raises
    ------
    StrataError
        For an unknown format or a row of broken blocks.
    """
    if name not in FORMATS:
        raise StrataError(f"format {name!r}: expected one of {', '.join(FORMATS)}")
    return FORMATS[name].row_bytes(values)


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a model.

    Parameters
    ----------
    layers, experts
        Layers, and experts of each, all routed.
    hidden, width
        The width of the trunk, and of one expert.
    top_k
        Experts of a token.
    heads, kv_heads, head_dim
        Of attention: query heads, KV heads, and values of a head.
    selected
        Cells that attention selects for a token.
    attention_every
        One layer in so many has attention and so a KV cache; the others are recurrent.
    vocab
        Rows of the head.
    gate_up, down, head, mtp
        Formats of the weights, `mtp` as a pair.
    fp16_experts
        Whether the FP16 fallback of the expert layer is counted.
    blob
        Bytes of the largest expert, 0 for those of the pair.
    slack
        Bytes that the workspace has beyond its blocks.
    kv_stage
        Bytes of K and V that the workspace stages.

    Raises
    ------
    StrataError
        For sizes that no model has.
    """

    layers: int = 48
    experts: int = 512
    hidden: int = 2560
    width: int = 640
    top_k: int = 10
    heads: int = 24
    kv_heads: int = 2
    head_dim: int = 256
    selected: int = 2051
    attention_every: int = 4
    vocab: int = 248_320
    gate_up: str = "iq3_xxs"
    down: str = "iq4_nl"
    head: str = "q5_k"
    mtp: tuple[str, str] = ("q2_0", "q2_0")
    fp16_experts: bool = False
    blob: int = 0
    slack: int = 8 * MiB
    kv_stage: int = 0

    def __post_init__(self) -> None:
        names = ("layers", "experts", "hidden", "width", "top_k", "heads", "kv_heads", "attention_every", "vocab")
        for name in names:
            if getattr(self, name) < 1:
                raise StrataError(f"model shape: {name} {getattr(self, name)}, expected at least 1")
        if self.top_k > self.experts:
            raise StrataError(
                f"model shape: top {self.top_k} of {self.experts} experts, expected at most {self.experts}"
            )
        if self.hidden % 256 or self.width % 64:
            raise StrataError(
                f"model shape: {self.hidden} x {self.width}, expected a multiple of 256 and a multiple of 64"
            )
        if self.blob < 0:
            raise StrataError(f"model shape: blobs of {self.blob} bytes, expected 0 or more")
        # Formats are looked up here, so that a bad pair is refused where it is given.
        _ = self.max_blob, self.mtp_blob, self.head_bytes

    def blob_bytes(self, gate_up: str, down: str) -> int:
        """Bytes of an expert `[gate | up | down]`: `width` rows of `hidden` values twice, `hidden` rows of `width`.

        Parameters
        ----------
        gate_up, down
            Formats of its weights.

        Raises
        ------
        StrataError
            For an unknown format or rows of broken blocks.
        """
        return 2 * self.width * row_bytes(gate_up, self.hidden) + self.hidden * row_bytes(down, self.width)

    @cached_property
    def max_blob(self) -> int:
        """Bytes of the largest expert, which is a uniform slot."""
        return self.blob or self.blob_bytes(self.gate_up, self.down)

    @cached_property
    def mtp_blob(self) -> int:
        """Bytes of one routed expert of the draft layer."""
        return self.blob_bytes(*self.mtp)

    @cached_property
    def head_bytes(self) -> int:
        """Bytes of the output head's weights."""
        return self.vocab * row_bytes(self.head, self.hidden)

    @property
    def rows(self) -> int:
        """Experts of the whole model: rows of the residency table."""
        return self.layers * self.experts

    def kv_bytes(self, mode: str, context: int) -> int:
        """Bytes of K and V in every layer that has them, the draft layer's among them.

        Parameters
        ----------
        mode
            The mode of the KV pool.
        context
            Cells.

        Raises
        ------
        StrataError
            For an unknown mode.
        """
        return (self.layers // self.attention_every + 1) * self.layer_kv_bytes(mode, context)

    def layer_kv_bytes(self, mode: str, context: int) -> int:
        """Bytes of K and V in one layer.

        Parameters
        ----------
        mode
            The mode of the KV pool.
        context
            Cells.

        Raises
        ------
        StrataError
            For an unknown mode.
        """
        planes = mode_formats(mode)
        row = sum(np.dtype(fmt.dtype).itemsize * fmt.row + 2 * fmt.scales for fmt in planes)
        return context * self.kv_heads * row

    @property
    def constant(self) -> tuple[tuple[str, int], ...]:
        """Blocks of the workspace that do not grow with the chunk, bytes."""
        expert = 3 * self.hidden * self.width * 2
        dense = 2 * self.heads * self.head_dim * self.hidden * 2
        return (
            ("GEMM workspace", 32 * MiB),
            ("GEMM scratch: the largest dense matrix as FP16", dense),
            ("dequantised expert 0", expert),
            ("dequantised expert 1", expert),
            ("expert tables", 16 * self.experts),
            *((("K and V of one layer", self.kv_stage),) if self.kv_stage else ()),
        )

    @property
    def trunk(self) -> tuple[tuple[str, int], ...]:
        """Bytes of a token outside the layers' own sets: 192 KiB at 2,560 values."""
        return (("trunk", 384 * self.hidden // 5),)

    @property
    def gdn(self) -> tuple[tuple[str, int], ...]:
        """Bytes of a token in a recurrent layer: 141 KiB at 2,560 values."""
        return (("recurrent layer", 282 * self.hidden // 5),)

    @property
    def qsa(self) -> tuple[tuple[str, int], ...]:
        """Bytes of a token in a layer with attention: about 123 KiB for the reference."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return (
            ("queries and gates", 2 * q * 4),
            ("rotated queries", q * 4),
            ("K and V", 2 * kv * 4),
            ("output", q * 4),
            ("output as FP16", q * 2),
            ("selected cells", self.selected * 4),
            ("index queries and key", 5 * 128 * 4),
        )

    @property
    def moe(self) -> tuple[tuple[str, int], ...]:
        """Bytes of a token in the expert layer: about 229 KiB for the reference, 291 with the FP16 fallback."""
        pairs, n, ff = self.top_k, self.hidden, self.width
        counted = (
            ("rows of the experts, FP32", pairs * n * 4),
            ("gate and up, FP32", pairs * 2 * ff * 4),
            ("gathered activations, 8 bits", pairs * n * Q8_BYTES // Q8_VALUES),
            ("hidden, FP32", pairs * ff * 4),
            ("hidden, 8 bits", pairs * ff * Q8_BYTES // Q8_VALUES),
            ("shared expert", 3 * ff * 4 + n * 4),
            ("router logits", self.experts * 4),
            ("grouping", pairs * 16),
        )
        fallback = (("activations and hidden, FP16", pairs * (n + ff) * 2),)
        return counted + (fallback if self.fp16_experts else ())
