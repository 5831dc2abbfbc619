"""The bits of a float64 as text: what a record holds in place of a number."""

from __future__ import annotations

import struct


def bits_of(number: float) -> str:
    """16 hex digits: the bits of a float64."""
    return struct.pack(">d", number).hex()


def float_of(bits: str) -> float:
    """The float64 of 16 hex digits."""
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])
