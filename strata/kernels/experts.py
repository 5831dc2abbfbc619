"""What the expert operations share: sizes, experts as bytes, their place on an executor, and the result.

An expert is one blob, `[gate rows | up rows | down rows]`: `ff` rows of `n` values for gate and as many for up, then
`n` rows of `ff` values for down, every row whole blocks of its format as ggml writes them. Its first byte may lie at
any even address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from strata.executors.base import Buffer, Executor, StrataError, Witness
from strata.formats import FORMATS
from strata.kernels.counts import check_counted

#: Formats of gate and up, and of down, that the grouped kernels take.
GATE_UP = ("iq3_xxs", "iq3_s", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s")
DOWN = ("iq4_nl", "q2_0")
#: Modes of the expert paths, `gate_up/down`.
EXPERT_MODES = tuple(f"{gate_up}/{down}" for gate_up in GATE_UP for down in DOWN)

#: Values that share an activation scale.
BLOCK = 32
MAX_EXPERTS = 1024
MAX_TOP = 64
#: Stages in whose order `Routed.status` counts what is not finite: blocks of x, blocks of h, outputs.
STAGES = ("x", "h", "output")


def formats_of(mode: str) -> tuple[str, str]:
    """The formats of gate and up, and of down, that a mode names. Raises StrataError for another mode."""
    if mode not in EXPERT_MODES:
        raise StrataError(f"expert mode {mode!r}: expected gate_up/down, one of {', '.join(EXPERT_MODES)}")
    gate_up, down = mode.split("/")
    return gate_up, down


@dataclass(frozen=True)
class Geometry:
    """Sizes of an expert.

    Parameters
    ----------
    n
        The hidden size, a multiple of 256.
    ff
        Features, a multiple of 64.

    Raises
    ------
    StrataError
        For other sizes, and for those above 65536.
    """

    n: int = 2560
    ff: int = 640

    def __post_init__(self) -> None:
        if self.n < 256 or self.n % 256 or self.ff < 64 or self.ff % 64 or max(self.n, self.ff) > 1 << 16:
            raise StrataError(f"expert of {self.n} x {self.ff}: expected multiples of 256 and of 64, up to 65536")


@dataclass(frozen=True)
class Layout:
    """Where the matrices of an expert lie in its blob, in bytes.

    Parameters
    ----------
    gate_up_row, down_row
        Bytes of a row of gate or up, and of a row of down.
    up, down
        Where the rows of up and of down begin.
    nbytes
        Bytes of the blob.
    """

    gate_up_row: int
    down_row: int
    up: int
    down: int
    nbytes: int


def layout(gate_up: str, down: str, geometry: Geometry) -> Layout:
    """The layout of an expert.

    Parameters
    ----------
    gate_up, down
        Names of its block formats.
    geometry
        Its sizes.

    Raises
    ------
    StrataError
        When a row is not whole blocks of its format.
    """
    wide, narrow = FORMATS[gate_up].row_bytes(geometry.n), FORMATS[down].row_bytes(geometry.ff)
    half = geometry.ff * wide
    return Layout(wide, narrow, half, 2 * half, 2 * half + geometry.n * narrow)


@dataclass(frozen=True, eq=False)
class Experts:
    """The experts of a layer on the host.

    Parameters
    ----------
    gate_up, down
        Names of block formats in `strata.formats`.
    geometry
        The sizes of every expert.
    blobs
        uint8 [layout.nbytes] of each expert.
    offsets
        Even numbers of bytes from an aligned address to each blob where it is placed; 0 for all when empty.

    Raises
    ------
    StrataError
        For a number, a dtype, a shape or an offset that does not fit.
    """

    gate_up: str
    down: str
    geometry: Geometry
    blobs: Sequence[np.ndarray]
    offsets: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.blobs) <= MAX_EXPERTS:
            raise StrataError(f"{len(self.blobs)} experts: expected 1 to {MAX_EXPERTS}")
        if self.offsets and len(self.offsets) != len(self.blobs):
            raise StrataError(f"{len(self.offsets)} offsets for {len(self.blobs)} blobs")
        nbytes = self.layout.nbytes
        for e, blob in enumerate(self.blobs):
            if blob.dtype != np.uint8 or blob.shape != (nbytes,):
                raise StrataError(f"blob of expert {e} is {blob.dtype} {blob.shape}, expected uint8 ({nbytes},)")
        odd = [offset for offset in self.offsets if offset % 2 or offset < 0]
        if odd:
            raise StrataError(f"a blob at offset {odd[0]}: expected an even number")

    @property
    def layout(self) -> Layout:
        """Where the matrices of each lie in its blob."""
        return layout(self.gate_up, self.down, self.geometry)

    @property
    def mode(self) -> str:
        """The mode of the paths of their formats, `gate_up/down`."""
        return f"{self.gate_up}/{self.down}"


@dataclass(frozen=True, eq=False)
class PlacedExperts:
    """Experts on an executor, each in memory of its own.

    Parameters
    ----------
    experts
        The experts as they are on the host.
    blobs
        The memory of each.
    table
        uint64 [experts], the address of each blob.
    """

    experts: Experts
    blobs: list[Buffer]
    table: Buffer

    @property
    def count(self) -> int:
        """How many experts there are."""
        return len(self.blobs)


def place(executor: Executor, experts: Experts) -> PlacedExperts:
    """Copy the blobs of experts to an executor.

    Before a blob that begins at an offset lie that many bytes a5.

    Parameters
    ----------
    executor
        Where the buffers are made.
    experts
        The experts.
    """
    offsets = experts.offsets or [0] * len(experts.blobs)
    buffers, addresses = [], []
    for e, (blob, offset) in enumerate(zip(experts.blobs, offsets, strict=True)):
        lead = np.full(offset, 0xA5, np.uint8)
        buffer = executor.array(np.concatenate([lead, blob]), f"expert {e}")
        buffers.append(buffer)
        addresses.append(buffer.address + offset)
    return PlacedExperts(experts, buffers, executor.array(np.array(addresses, np.uint64), "expert addresses"))


@dataclass(frozen=True, eq=False)
class Routed:
    """One run of an expert operation over `tokens` tokens of `top` ranks.

    Pair i is (token i / top, rank i % top). A path without some of these leaves them None.

    Parameters
    ----------
    rows
        float32 [tokens, top, n], not yet weighted; +0 for a pair whose id names no expert.
    witnesses
        One for each launch.
    guards_ok
        Whether no byte beside any buffer changed.
    ignored
        How many ids name no expert.
    status
        How many values are not finite, by `STAGES`.
    h_codes
        int8 [tokens, top, ff].
    h_scales
        float32 [tokens, top, ff / 32].
    slot
        int32 [tokens * top], the place of a pair among the grouped rows, -1 without one.
    source
        int32 [grouped rows], the token of each.
    offsets
        int32 [experts + 1], where each expert's rows begin.
    gate, up
        float32 [tokens, top, ff], the accumulators, where a trace was asked for.
    notes
        Lines on what was odd.
    """

    rows: np.ndarray
    witnesses: list[Witness]
    guards_ok: bool
    ignored: int
    status: tuple[int, int, int] | None = None
    h_codes: np.ndarray | None = None
    h_scales: np.ndarray | None = None
    slot: np.ndarray | None = None
    source: np.ndarray | None = None
    offsets: np.ndarray | None = None
    gate: np.ndarray | None = None
    up: np.ndarray | None = None
    notes: tuple[str, ...] = field(default=())


def check_tokens(experts: Experts, x: np.ndarray, ids: np.ndarray) -> None:
    """Refuse tokens and ids that experts do not take.

    Parameters
    ----------
    experts
        The experts.
    x
        float32 [tokens, n].
    ids
        int32 [tokens, top], any values, in order of rank.

    Raises
    ------
    StrataError
        For other dtypes and shapes, and for more pairs than one call takes.
    """
    n = experts.geometry.n
    if x.dtype != np.float32 or x.ndim != 2 or x.shape[1] != n or x.shape[0] < 1:
        raise StrataError(f"x is {x.dtype} {x.shape}, expected float32 [tokens, {n}]")
    if ids.dtype != np.int32 or ids.ndim != 2 or len(ids) != len(x) or not 1 <= ids.shape[1] <= MAX_TOP:
        raise StrataError(f"ids is {ids.dtype} {ids.shape}, expected int32 [{len(x)}, 1 to {MAX_TOP}]")
    check_pairs(ids.size, experts.geometry)


def check_pairs(pairs: int, geometry: Geometry) -> None:
    """Refuse more pairs than one call takes.

    Parameters
    ----------
    pairs
        Tokens times ranks.
    geometry
        The sizes of an expert.

    Raises
    ------
    StrataError
        Where more values could be lost than a count holds.
    """
    width = max(geometry.n, geometry.ff)
    check_counted(pairs * width, f"{pairs} pairs of {width} values")
