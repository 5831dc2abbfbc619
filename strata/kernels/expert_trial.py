"""A small expert layer whose bits are known: what the fused expert kernels are tried with on a device."""

from __future__ import annotations

import hashlib

import numpy as np

from strata.executors.base import Executor
from strata.formats import FORMATS
from strata.kernels.expert_fused import run
from strata.kernels.experts import Experts, Geometry, formats_of, layout
from strata.kernels.path import Path

#: First digits of the SHA-256 of the rows of `trial_inputs`, by mode: the same on every device. A format of gate and up
#: is tried with q2_0, one of down with iq4_xs.
KNOWN = {
    "iq3_xxs/q2_0": "4dc5d25c2d7d91ce",
    "iq3_s/q2_0": "7165074a3a022db3",
    "iq4_xs/q2_0": "b1de06cfb6d704f9",
    "iq2_xxs/q2_0": "b541ae1334822575",
    "iq2_xs/q2_0": "19ca7895a6704b9a",
    "iq2_s/q2_0": "b4e1c967a4ace7d1",
    "iq4_xs/iq4_nl": "31e10e608973bbc3",
}
_TRIAL = Geometry(512, 128)


def trial_inputs(mode: str) -> tuple[Experts, np.ndarray, np.ndarray]:
    """Two small experts, tokens and ids of a mode, made of integers: the same bytes everywhere.

    Parameters
    ----------
    mode
        Formats of gate and up, and of down.

    Returns
    -------
    (Experts, float32 array [7, n], int32 array [7, 2])
        Two of the ids name no expert.

    Raises
    ------
    StrataError
        For a mode that does not exist.
    """
    gate_up, down = formats_of(mode)
    size = layout(gate_up, down, _TRIAL)
    blobs = []
    for e in range(2):
        state = np.arange(size.nbytes, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(977 * e + 1)
        state ^= state >> np.uint32(15)
        state *= np.uint32(2246822519)
        blob = (state >> np.uint32(13)).astype(np.uint8)
        for form, begin, end in ((gate_up, 0, size.down), (down, size.down, size.nbytes)):
            blocks = blob[begin:end].reshape(-1, FORMATS[form].nbytes)
            # d between 2^-13 and 2^-10, either sign
            blocks[:, 1] = (blocks[:, 1] & 0x83) | np.uint8(0x08) + (blocks[:, 0] & 0x04)
        blobs.append(blob)
    tokens = np.arange(7 * _TRIAL.n, dtype=np.int64).reshape(7, _TRIAL.n)
    x = ((tokens * 7919 % 2039 - 1019) / 512).astype(np.float32)
    x[3] = 0
    ids = np.array([[0, 1], [1, 0], [1, 1], [0, 1], [2, 0], [1, -1], [0, 0]], np.int32)
    return Experts(gate_up, down, _TRIAL, blobs, (0, 2)), x, ids


def answer(executor: Executor, mode: str, tier: int, shapes: tuple[int, int]) -> str:
    """First digits of the digest of the rows that an executor gives for `trial_inputs`.

    Parameters
    ----------
    executor
        Where the kernels run.
    mode
        Formats of gate and up, and of down.
    tier
        75 or 80.
    shapes
        The work shapes of gate and up, and of down.
    """
    experts, x, ids = trial_inputs(mode)
    routed = run(executor, Path("expert_fused", mode, f"sm{tier}", tier), experts, x, ids, shape=shapes)
    return digest(routed.rows)


def digest(rows: np.ndarray) -> str:
    """The digits by which `KNOWN` names float32 rows [tokens, top, n]."""
    return hashlib.sha256(rows.tobytes()).hexdigest()[:16]
