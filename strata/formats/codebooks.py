"""Codebooks of the IQ formats, read from the package `gguf` and compared with pinned digests.

A kernel and a quantiser that disagree in one entry give weights that are wrong in a few places and look healthy, so
a table whose digest is another one is refused and never used.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.imports import NotImportedError, optional

#: SHA-256 of the entries as bytes, in index order: of a grid its magnitudes, of the levels their int8.
DIGESTS = {
    "iq2_xxs": "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54",
    "iq2_xs": "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de",
    "iq2_s": "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88",
    "iq3_xxs": "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
    "iq3_s": "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
    "iq4_nl": "61aa47540aa024b5d6ddaa839b84ffe59f3d5a349af5c6c7ffcb5e0474b46163",
    "iq4_xs": "61aa47540aa024b5d6ddaa839b84ffe59f3d5a349af5c6c7ffcb5e0474b46163",
}
#: Formats whose codebook is a grid of magnitudes, with its shape: entries, values an entry.
GRIDS = {
    "iq2_xxs": (256, 8),
    "iq2_xs": (512, 8),
    "iq2_s": (1024, 8),
    "iq3_xxs": (256, 4),
    "iq3_s": (512, 4),
}
_INSTALL = "python -m pip install 'gguf>=0.18,<1'"


@cache
def codebook(name: str) -> np.ndarray:
    """The codebook of a format.

    Parameters
    ----------
    name
        A format that has one.

    Returns
    -------
    array, read-only
        uint8 [entries, values], magnitudes of a grid, or int8 [16], the levels of iq4_nl and iq4_xs.

    Raises
    ------
    StrataError
        For a format without a codebook, without `gguf`, or when the table of `gguf` has another digest.
    """
    if name not in DIGESTS:
        raise StrataError(f"{name!r} has no codebook, expected one of {', '.join(DIGESTS)}")
    table = _read(name)
    digest = hashlib.sha256(table.tobytes()).hexdigest()
    if digest != DIGESTS[name]:
        raise StrataError(f"codebook of {name}: SHA-256 {digest}, expected {DIGESTS[name]}; {_INSTALL}")
    table.flags.writeable = False
    return table


def device_table(name: str) -> np.ndarray:
    """uint32 words that `load_grid` of include/expert_formats.cuh takes; none for a format that has no grid.

    Word i holds magnitudes 4i..4i+3 of the grid in index order, the first in the low byte.
    """
    if name not in GRIDS:
        return np.zeros(0, np.uint32)
    return codebook(name).reshape(-1).view("<u4").astype(np.uint32)


def table_digest(name: str) -> str:
    """SHA-256 of the words of `device_table` as little-endian bytes, "" for a format that has none: what a kernel is
    given beside its code, and so a part of what a path is made of.

    Parameters
    ----------
    name
        The name of the format.

    Raises
    ------
    StrataError
        As `codebook`.
    """
    words = device_table(name)
    return hashlib.sha256(words.astype("<u4").tobytes()).hexdigest() if words.size else ""


def _read(name: str) -> np.ndarray:
    """A table as `gguf` has it. Raises StrataError when it is not there or of another shape."""
    try:
        quants: Any = optional("gguf.quants")
    except NotImportedError as error:
        what = "is not installed" if error.absent else f"does not import ({error})"
        raise StrataError(f"codebook of {name}: the package gguf {what}; {_INSTALL}") from None
    try:
        if name not in GRIDS:
            return np.array(quants.IQ4_NL.kvalues, np.int8)
        source = getattr(quants, name.upper())
        source.init_grid()
        grid = np.asarray(source.grid, np.float32).reshape(GRIDS[name])
        table = grid.astype(np.uint8)
    except (AttributeError, ValueError, OverflowError) as error:
        raise StrataError(f"codebook of {name}: the installed gguf holds none ({error}); {_INSTALL}") from None
    if not np.array_equal(table, grid):
        raise StrataError(f"codebook of {name}: an entry is no whole number from 0 to 255, expected magnitudes")
    return table
