"""Blocks of a format that together hold every value of every field at every one of its places.

One sweep a field: down the blocks, each place goes through all values in an order of its own, so that a decoder that
takes one place for another is seen, and the other fields are drawn.
"""

from __future__ import annotations

import numpy as np

from strata.formats import FORMATS
from validation.core.arrays import frozen
from validation.core.random_streams import Stream
from validation.numerics.blocks import layout, pack

#: Blocks of a sweep, or as many as the field has values: enough for orders of 2-bit values to differ.
_LEAST = 128
#: binary16 scales that a sweep of another field may have: normal, either sign, far from overflow.
_ORDINARY = frozen(np.array([0x1400, 0x2E66, 0x3555, 0x3C00, 0xB801, 0xC248, 0x0400, 0x9BFF]))
#: Both zeros, the least and the largest subnormal, the least normal, one and its neighbours, the largest, infinity
#: and NaNs, then all of them negative.
_POSITIVE = frozen(np.array([0, 1, 0x3FF, 0x400, 0x3BFF, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7C01, 0x7E00]))
SCALE_CLASSES = frozen(np.concatenate([_POSITIVE, _POSITIVE | 0x8000]))


def drawn(name: str, n: int, stream: Stream) -> dict[str, np.ndarray]:
    """Fields of n blocks, all bits drawn, with ordinary scales."""
    fields = {}
    for field, places in layout(name).items():
        count, bits = places.shape
        if field in ("d", "dmin"):
            fields[field] = _ORDINARY[stream.child(field).below(len(_ORDINARY), (n, count))]
        else:
            fields[field] = stream.child(field).below(1 << bits, (n, count))
    return fields


def sweep(name: str, field: str) -> dict[str, np.ndarray]:
    """Fields of 2^bits blocks, or of 128: every value of `field`, neither `d` nor `dmin`, at each of its places."""
    count, bits = layout(name)[field].shape
    n = max(1 << bits, _LEAST)
    stream = Stream.of(1, "block sweeps", name, field)
    fields = drawn(name, n, stream)
    fields[field] = np.argsort(stream.child("order").words((n, count)), axis=0, kind="stable") % (1 << bits)
    return fields


def every_scale(name: str, field: str) -> np.ndarray:
    """uint8 [65536, nbytes]: one drawn block under every value of `field`, which is `d` or `dmin`."""
    blocks = pack(name, drawn(name, 1, Stream.of(1, "block sweeps", name, field))).repeat(1 << 16, axis=0)
    at = int(layout(name)[field][0, 0]) // 8
    blocks[:, at : at + 2] = np.arange(1 << 16, dtype="<u2")[:, None].view(np.uint8)
    return blocks


def classes(name: str) -> dict[str, np.ndarray]:
    """Fields of a block for every class of scales; of every pair of classes where a format has two."""
    n = len(SCALE_CLASSES)
    pairs = n * n if "dmin" in layout(name) else n
    fields = drawn(name, pairs, Stream.of(1, "block sweeps", name, "classes"))
    fields["d"] = SCALE_CLASSES[np.arange(pairs) % n][:, None]
    if "dmin" in fields:
        fields["dmin"] = SCALE_CLASSES[np.arange(pairs) // n][:, None]
    return fields


def field_names(name: str) -> list[str]:
    """Fields of a format that are not scales."""
    return [field for field in layout(name) if field not in ("d", "dmin")]


def all_but_scales(name: str) -> np.ndarray:
    """uint8 [n, nbytes]: the sweeps of every field that is no scale, and the classes of scales."""
    made = [pack(name, sweep(name, field)) for field in field_names(name)]
    blocks = np.concatenate([*made, pack(name, classes(name))])
    assert blocks.shape[1] == FORMATS[name].nbytes
    return blocks
