"""A model that retrieves by construction: after a key it answers with the token that followed that key before.

No weight is trained. Two layers with four query heads on one KV head of 256 elements, as Gemma 3 has them, do what
induction heads do. Let c(t), of 256 signs, be row t of the Hadamard matrix of 256 points: codes of different tokens are
orthogonal. The residual stream has two halves, what is said of this token and of the one before.

- The embedding is [c(t), 0].
- Layer 0 sees its window. q and k are constants that the rotation turns: with k ahead by one step, cos of the angle
  between them is 1 for the cell before and smaller for all others, so attention copies. v is the token as one element
  of 256, and Wo makes it c(previous) in the second half.
- Layer 1 sees every cell. q is the match code of this token, k that of the one before: rows of a Hadamard matrix of 32
  points in the elements that the rotation hardly turns within the context. So a key attends to the cell behind its
  earlier self, whose v is that cell's own token, and Wo adds c(answer) to the first half, louder than the key's code.
- Logits are products with the codes again; the feed-forward parts are zero.

It survives quantisation because codes are far apart: groups of the codes are signs, which int8 holds exactly, another
token's score is lower by more than 100 (in nats), the right logit is the largest by a factor.

And it meets a fault: values of layer 1 are M/4 (e(0) 16 + 3 16 e(t)) before the rotation of Q4_0, so their Hadamard
transform is M (1 + 3 c(t)) / 4, which is M or -M/2. Each group of 32 has an M (t is no multiple of 32), so every Q4_0
scale of every cell is M / -8, negative, in every chunk. A kernel that bounds a chunk's scales by the largest positive
one finds none, takes 1, and M / 8 times 2^14 overflows binary16: M is 128, the limit lies at 32.

References
----------
C. Olsson and others, "In-context Learning and Induction Heads", arXiv:2209.11895, 2022.
"""

from __future__ import annotations

import math
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from validation.quality import model_file
from validation.quality.fp64_file import LOCAL_BASE, Sizes
from validation.quality.fp64_kv import hadamard

Float64 = NDArray[np.float64]

#: Elements of a head, and of a code.
CODE = 256
HEADS = 4
#: Rows of the match codes, and pairs of elements that hold them: the last ones, which the rotation turns least.
MATCH = 32
#: Pairs of elements in which layer 0 looks for the cell before: the first ones, which turn fastest.
STEP_PAIRS = 16
#: Root of the scores: q and k have 256 elements of mean square SHARP^2, so the best score is 16 SHARP^2 nats.
SHARP = 5.0
#: The largest transformed value of layer 1, and how much louder the answer is than the key's own code.
LARGEST, LOUDER = 128.0, 8.0

SIZES = Sizes(
    layers=2,
    width=2 * CODE,
    heads=HEADS,
    kv_heads=1,
    head_dim=CODE,
    context=32_768,
    window=512,
    period=2,
    epsilon=1e-6,
    global_base=1e6,
    local_base=LOCAL_BASE,
)

#: Tokens whose match code is their own. All others share one. No token is a multiple of 32 (see above).
KEYS = tuple(range(1, 17))
ANSWERS = tuple(range(33, 64))
FILLERS = tuple(t for t in range(65, CODE) if t % MATCH)


def codes() -> Float64:
    """Row t is the code of token t: float64 [256, 256] of signs."""
    return hadamard(np.eye(CODE)) * math.sqrt(CODE)


def match_codes() -> Float64:
    """Row t is the match code of token t: float64 [256, 32] of signs."""
    rows = hadamard(np.eye(MATCH)) * math.sqrt(MATCH)
    return np.stack([rows[t if t in KEYS else 0] for t in range(CODE)])


def weights() -> dict[str, Float64]:
    """The weights by GGUF name."""
    code = codes()
    found = {"token_embd": np.hstack([code, np.zeros_like(code)]) / math.sqrt(SIZES.width)}
    found["output_norm"] = np.ones(SIZES.width)
    for layer in range(SIZES.layers):
        one = {
            # The stream's mean square is 1/2 before layer 0 has written its half, and 1 after it.
            "attn_norm": np.full(SIZES.width, math.sqrt(0.5) if layer == 0 else 1.0),
            "attn_q_norm": np.full(CODE, SHARP),
            "attn_k_norm": np.full(CODE, SHARP),
            "post_attention_norm": np.full(SIZES.width, math.sqrt(0.5) * (1.0 if layer == 0 else LOUDER)),
            "ffn_norm": np.ones(SIZES.width),
            "ffn_gate": np.zeros((MATCH, SIZES.width)),
            "ffn_up": np.zeros((MATCH, SIZES.width)),
            "ffn_down": np.zeros((SIZES.width, MATCH)),
            "post_ffw_norm": np.ones(SIZES.width),
            **(_previous(code) if layer == 0 else _retrieval(code)),
        }
        found |= {f"blk.{layer}.{name}": array for name, array in one.items()}
    return found


def write(path: FilePath) -> None:
    """Write the model, matrices in Q8_0."""
    model_file.write(path, SIZES, weights())


def _previous(code: Float64) -> dict[str, Float64]:
    """Layer 0: attend to the cell before, and say its token in the second half. Element 0 of every code is 1."""
    half = CODE // 2
    turn = LOCAL_BASE ** (-np.arange(STEP_PAIRS) / half)
    q, k = np.zeros((CODE, SIZES.width)), np.zeros((CODE, SIZES.width))
    q[:STEP_PAIRS, 0] = 1
    k[:STEP_PAIRS, 0], k[half : half + STEP_PAIRS, 0] = np.cos(turn), np.sin(turn)
    v = np.hstack([16 * code / CODE, np.zeros_like(code)])
    return {"attn_q": np.tile(q, (HEADS, 1)), "attn_k": k, "attn_v": v, "attn_output": _said(code, second=True)}


def _retrieval(code: Float64) -> dict[str, Float64]:
    """Layer 1: attend to the cell behind the same key, and say that cell's own token in the first half."""
    half = CODE // 2
    pairs = np.arange(half - MATCH // 2, half)
    slow = np.concatenate([pairs, pairs + half])
    match = match_codes().T @ code / CODE
    q, k = np.zeros((CODE, SIZES.width)), np.zeros((CODE, SIZES.width))
    q[slow, :CODE], k[slow, CODE:] = match, match
    v = np.hstack([0.75 * 16 * LARGEST * code / CODE, np.zeros_like(code)])
    v[0, 0] += 0.25 * 16 * LARGEST
    return {"attn_q": np.tile(q, (HEADS, 1)), "attn_k": k, "attn_v": v, "attn_output": _said(code, second=False)}


def _said(code: Float64, second: bool) -> Float64:
    """Wo: element t of every head's output becomes c(t) in a half of the stream. Element 0, which every value of
    layer 1 has, says nothing."""
    one = np.zeros((SIZES.width, CODE))
    one[CODE if second else 0 :][:CODE] = code / CODE
    one[:, 0] = 0
    return np.tile(one, (1, HEADS))
