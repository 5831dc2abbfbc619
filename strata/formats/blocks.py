"""The formats by name, and what a caller asks of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strata.executors.base import StrataError
from strata.formats import codes

#: The values that share a scale, or two, in every format here; a multiple of it is in every block.
PART = 32
#: What every NaN of a decoded value or scale becomes, as on the device.
_NAN = np.uint32(0x7FFFFFFF)


@dataclass(frozen=True)
class BlockFormat:
    """A block format of ggml.

    Parameters
    ----------
    name
        In lower case, as modes write it.
    ggml_type
        The number in GGUF files, in include/expert_formats.cuh and in include/linear_formats.cuh.
    values, nbytes
        Values and bytes of a block.
    scales
        Scales of 32 values, 1 or 2.
    split
        What reads codes, scales and offsets out of blocks, uint8 [..., nbytes].
    offset
        Whether a part has an offset as well (Q5_1, Q4_K, Q5_K).

    References
    ----------
    The formats are those of ggml, `ggml-common.h` and `ggml-quants.c`.
    """

    name: str
    ggml_type: int
    values: int
    nbytes: int
    scales: int
    split: Callable[[np.ndarray], codes.Parts]
    offset: bool = False

    def row_bytes(self, k: int) -> int:
        """Bytes of a row of k values. Raises StrataError when k is no positive multiple of a block."""
        if k <= 0 or k % self.values:
            raise StrataError(f"{k} values in a row of {self.name}, expected a positive multiple of {self.values}")
        return k // self.values * self.nbytes

    def quants(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The exact split of blocks, where value = scale * code without rounding.

        Parameters
        ----------
        blocks
            uint8 [..., nbytes].

        Returns
        -------
        (array, array)
            int8 codes [..., values] and float32 scales [..., values / 32 * scales].

        Raises
        ------
        StrataError
            For other dtypes and sizes, and for a format with an offset.
        """
        if self.offset:
            raise StrataError(f"{self.name} has an offset beside its scale, expected a format that is scale * code")
        parts = self.parts(blocks)
        return parts.codes, parts.scales

    def decode(self, blocks: np.ndarray) -> np.ndarray:
        """The values of blocks, with the bits of ggml's `to_float`.

        Infinite scales follow IEEE: infinity times a code of 0 is a NaN, and every NaN is 7fffffff.

        Parameters
        ----------
        blocks
            uint8 [..., nbytes].

        Returns
        -------
        float32 array [..., values]

        Raises
        ------
        StrataError
            For other dtypes and sizes.
        """
        parts = self.parts(blocks)
        shape = (*parts.scales.shape, self.values // parts.scales.shape[-1])
        with np.errstate(invalid="ignore"):
            values = parts.scales[..., None] * parts.codes.reshape(shape).astype(np.float32)
            if parts.offsets is not None:
                values -= parts.offsets[..., None]
        return plain(values.reshape(parts.codes.shape))

    def parts(self, blocks: np.ndarray) -> codes.Parts:
        """Codes, scales and, of formats that have them, offsets of blocks.

        A scale or offset that is not a number is the NaN 7fffffff.

        Parameters
        ----------
        blocks
            uint8 [..., nbytes].

        Raises
        ------
        StrataError
            For other dtypes and sizes.
        """
        if blocks.dtype != np.uint8 or blocks.ndim < 1 or blocks.shape[-1] != self.nbytes:
            raise StrataError(
                f"blocks of {self.name} are {blocks.dtype} {blocks.shape}, expected uint8 [..., {self.nbytes}]"
            )
        with np.errstate(invalid="ignore"):
            parts = self.split(blocks)
        return codes.Parts(parts.codes, plain(parts.scales), None if parts.offsets is None else plain(parts.offsets))


def plain(x: np.ndarray) -> np.ndarray:
    """float32 `x` with every NaN as 7fffffff."""
    return np.asarray(np.where(np.isnan(x), _NAN, np.ascontiguousarray(x).view(np.uint32)).view(np.float32))


#: Every format by name.
FORMATS = {
    form.name: form
    for form in (
        BlockFormat("q4_0", 2, 32, 18, 1, codes.q4_0),
        BlockFormat("q5_0", 6, 32, 22, 1, codes.q5_0),
        BlockFormat("q5_1", 7, 32, 24, 1, codes.q5_1, offset=True),
        BlockFormat("q8_0", 8, 32, 34, 1, codes.q8_0),
        BlockFormat("q4_k", 12, 256, 144, 1, codes.q4_k, offset=True),
        BlockFormat("q5_k", 13, 256, 176, 1, codes.q5_k, offset=True),
        BlockFormat("q6_k", 14, 256, 210, 2, codes.q6_k),
        BlockFormat("iq2_xxs", 16, 256, 66, 1, codes.iq2_xxs),
        BlockFormat("iq2_xs", 17, 256, 74, 2, codes.iq2_xs),
        BlockFormat("iq3_xxs", 18, 256, 98, 1, codes.iq3_xxs),
        BlockFormat("iq4_nl", 20, 32, 18, 1, codes.iq4_nl),
        BlockFormat("iq3_s", 21, 256, 110, 1, codes.iq3_s),
        BlockFormat("iq2_s", 22, 256, 82, 2, codes.iq2_s),
        BlockFormat("iq4_xs", 23, 256, 136, 1, codes.iq4_xs),
        BlockFormat("q2_0", 42, 64, 18, 1, codes.q2_0),
    )
}


def block_format(name: str) -> BlockFormat:
    """The format of a name. Raises StrataError for one that is not known."""
    try:
        return FORMATS[name]
    except KeyError:
        raise StrataError(f"format {name!r}: expected one of {', '.join(FORMATS)}") from None
