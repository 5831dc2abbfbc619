"""The prompt path's workspace: one walk over its blocks, which counts them or gives them addresses.

`bytes_needed` and `workspace_at` run the same walk, so they cannot disagree about a block. The count rounds every block
to `roundup256(size + 256)`, which covers the padding that a start at any address can cost: by induction a layout that
began at `base` has used at most what the count has counted, block by block. The shape's slack lies on top.

A layout computes addresses and touches no memory: between prompts they are those of live experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from strata.memory.arena.pieces import KiB, MiB, round_up
from strata.memory.driver.errors import Refused

#: Alignment of every block, bytes.
ALIGN = 256
#: Grid of prompt chunks, tokens.
GRID = 256
#: The least staging ring, experts.
LEAST_RING = 8
#: The largest staging ring, experts.
MOST_RING = 512


#: Blocks by name, with their bytes.
Blocks = Sequence[tuple[str, int]]


class PromptShape(Protocol):
    """What the walk needs of a model.

    Attributes
    ----------
    constant
        Blocks of a workspace of any size.
    trunk
        Blocks of each token.
    gdn, qsa, moe
        Blocks of each token, of which one set is in use at a time.
    max_blob
        Bytes of a staged expert.
    slack
        Bytes that a region must have beyond the counted blocks.
    """

    @property
    def constant(self) -> Blocks: ...
    @property
    def trunk(self) -> Blocks: ...
    @property
    def gdn(self) -> Blocks: ...
    @property
    def qsa(self) -> Blocks: ...
    @property
    def moe(self) -> Blocks: ...
    @property
    def max_blob(self) -> int: ...
    @property
    def slack(self) -> int: ...


@dataclass(frozen=True)
class Block:
    """A named part of the workspace.

    Parameters
    ----------
    name
        What it holds.
    address
        The address of its first byte, 0 in a count.
    nbytes
        Bytes without padding.
    """

    name: str
    address: int
    nbytes: int


class Walk:
    """Adds up blocks from an address, or from nowhere to count them.

    Its attributes are `blocks`, in order, and `used`, bytes from `base` to the end of the last block, with padding.

    Parameters
    ----------
    base
        Where the region begins, any address; None only counts.
    """

    def __init__(self, base: int | None = None) -> None:
        self.base = base
        self.used = 0
        self.blocks: list[Block] = []

    def block(self, name: str, count: int, size: int) -> None:
        """The next block; one of 0 bytes is a block too.

        Parameters
        ----------
        name
            What it holds.
        count
            How many elements.
        size
            Bytes of an element.
        """
        nbytes = count * size
        if self.base is None:
            self.blocks.append(Block(name, 0, nbytes))
            self.used += round_up(nbytes + ALIGN, ALIGN)
        else:
            address = round_up(self.base + self.used, ALIGN)
            self.blocks.append(Block(name, address, nbytes))
            self.used = address + nbytes - self.base

    def overlay(self, alternatives: Sequence[tuple[str, Blocks]], count: int) -> None:
        """One stretch that holds one of several sets of blocks at a time, as long as the longest of them.

        Parameters
        ----------
        alternatives
            A title and the blocks of each set.
        count
            How often each block is there, once a token.
        """
        start, longest = self.used, self.used
        for title, blocks in alternatives:
            self.used = start
            for name, size in blocks:
                self.block(f"{title}: {name}", count, size)
            longest = max(longest, self.used)
        self.used = longest


def walk(place: Walk, shape: PromptShape, chunk: int, ring: int) -> Walk:
    """Walk all blocks of the workspace.

    Parameters
    ----------
    place
        What adds them up, which is returned.
    shape
        What the workspace consists of.
    chunk
        Tokens.
    ring
        Staged experts.
    """
    for name, nbytes in shape.constant:
        place.block(name, 1, nbytes)
    for name, nbytes in shape.trunk:
        place.block(name, chunk, nbytes)
    place.overlay([("GDN", shape.gdn), ("QSA", shape.qsa), ("MoE", shape.moe)], chunk)
    place.block("ring", ring, shape.max_blob)
    return place


def bytes_needed(chunk: int, ring: int, shape: PromptShape) -> int:
    """Bytes of a region in which a workspace can be laid out anywhere.

    Parameters
    ----------
    chunk
        Tokens.
    ring
        Staged experts.
    shape
        What the workspace consists of.
    """
    return walk(Walk(), shape, chunk, ring).used + shape.slack


@dataclass(frozen=True)
class Workspace:
    """Where the prompt path's blocks lie.

    Parameters
    ----------
    address, nbytes
        The region.
    chunk
        Tokens.
    ring
        Staged experts.
    used
        Bytes of the region that blocks take.
    blocks
        In order.
    """

    address: int
    nbytes: int
    chunk: int
    ring: int
    used: int
    blocks: tuple[Block, ...]


def workspace_at(address: int, nbytes: int, chunk: int, ring: int, shape: PromptShape) -> Workspace:
    """The workspace in a region.

    Parameters
    ----------
    address, nbytes
        The region.
    chunk
        Tokens.
    ring
        Staged experts.
    shape
        What the workspace consists of.

    Raises
    ------
    Refused
        Before any address is computed, when the region is null or smaller than `bytes_needed`, and for a chunk below 1
        or a ring below 0.
    """
    if address <= 0:
        raise Refused(f"workspace at address {address}: expected a region")
    if chunk < 1 or ring < 0:
        raise Refused(f"workspace of {chunk} tokens and {ring} staged experts: expected at least 1 and 0")
    needed = bytes_needed(chunk, ring, shape)
    if nbytes < needed:
        raise Refused(
            f"workspace of {chunk} tokens and {ring} staged experts: the region has {nbytes} bytes, "
            f"expected at least {needed}"
        )
    place = walk(Walk(address), shape, chunk, ring)
    return Workspace(address, nbytes, chunk, ring, place.used, tuple(place.blocks))


def per_token(shape: PromptShape) -> int:
    """Bytes that one more token of a chunk costs, without alignment: the trunk and the largest of the three sets."""
    sets = (shape.gdn, shape.qsa, shape.moe)
    return sum(n for _, n in shape.trunk) + max(sum(n for _, n in one) for one in sets)


def coarse_bytes(chunk: int) -> int:
    """The rule of thumb that sizes a cache before a prompt path with buffers of its own exists."""
    return (160 * MiB) + chunk * 680 * KiB
