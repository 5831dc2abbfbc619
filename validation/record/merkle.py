"""Binds many rows to one hash, so that a few can be shown later: a Merkle tree over SHA-256.

Leaves and inner nodes are hashed under different prefixes, so no node passes for a leaf; the number of leaves is
part of the root, so no tree passes for one of another size. An odd node goes up as it is (as in RFC 6962).

References
----------
R. C. Merkle, "A Digital Signature Based on a Conventional Encryption Function", CRYPTO '87.
RFC 6962, Certificate Transparency, 2013, section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

_LEAF, _NODE, _ROOT = b"\x00", b"\x01", b"\x02"


def leaf(data: bytes) -> bytes:
    """The hash of one row, 32 bytes."""
    return hashlib.sha256(_LEAF + data).digest()


def root(leaves: Sequence[bytes]) -> str:
    """The root over leaf hashes, 64 hex digits. Raises ValueError for no leaf."""
    if not leaves:
        raise ValueError("a tree needs at least one leaf")
    level = list(leaves)
    while len(level) > 1:
        level = _above(level)
    return _top(len(leaves), level[0])


def proof(leaves: Sequence[bytes], index: int) -> list[str]:
    """The siblings of a leaf from the bottom up, as hex digits.

    Parameters
    ----------
    leaves
        The hashes of all rows.
    index
        The place of the leaf.

    Raises
    ------
    ValueError
        For a place where there is no leaf.
    """
    if not 0 <= index < len(leaves):
        raise ValueError(f"leaf {index}, expected 0..{len(leaves) - 1}")
    level, at, found = list(leaves), index, []
    while len(level) > 1:
        if at ^ 1 < len(level):
            found.append(level[at ^ 1].hex())
        level, at = _above(level), at // 2
    return found


def root_from(data: bytes, index: int, count: int, siblings: Sequence[str]) -> str | None:
    """The root that a row and its proof give.

    Parameters
    ----------
    data
        The bytes of the row.
    index, count
        Its place among so many rows.
    siblings
        The proof, as hex digits.

    Returns
    -------
    str or None
        64 hex digits; None when the proof has another length than it must have.
    """
    if not 0 <= index < count:
        return None
    node, at, width, rest = leaf(data), index, count, list(siblings)
    while width > 1:
        if at ^ 1 < width:
            if not rest:
                return None
            other = bytes.fromhex(rest.pop(0))
            node = _node(other, node) if at & 1 else _node(node, other)
        at, width = at // 2, (width + 1) // 2
    return None if rest else _top(count, node)


def _above(level: Sequence[bytes]) -> list[bytes]:
    paired = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    return [*paired, level[-1]] if len(level) % 2 else paired


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()


def _top(count: int, node: bytes) -> str:
    return hashlib.sha256(_ROOT + count.to_bytes(8, "big") + node).hexdigest()
