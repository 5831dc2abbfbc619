"""Both attention kernels as chains of operations in FP64, every one wrong by all that it may be, in a chosen direction.

`prompt` and `decode` follow the kernels' sources operation by operation (chunks, slices, halves, warps), but where a
kernel rounds, the result is moved by the whole allowed error: of scores and weights towards raising output
`dim` (or lowering it: direction -1), of the numerator upwards, of the denominator downwards. No kernel can be as wrong.
The errors are those of the operations (one float32 rounding, one cut of the tensor core), not those of
the bounds of attention.
"""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import Rule
from strata.kernels.paths import Path
from strata.kernels.pool import Pool
from strata.kernels.prompt_attention import WARPS, cells_per_chunk
from validation.operations.attention.reference import values

U = 2.0**-24
#: exp2's largest error of 0.83 ulp is at most this, of the value.
EXP2 = 0.83 * 2.0**-23


def moved(x: np.ndarray, towards: np.ndarray | float, by: float) -> np.ndarray:
    """x moved by `by` of its magnitude, towards +1 up and -1 down."""
    return np.asarray(x + towards * by * np.abs(x))


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """hi, the number rounded to 11 bits, and all that it leaves; what lo loses of that is added by the caller."""
    exponent = np.floor(np.log2(np.where(x == 0, 1, np.abs(x))))
    unit = 2.0 ** (exponent - 10)
    hi = np.rint(x / unit) * unit
    return hi, x - hi


def step(rule: Rule, c: np.ndarray, products: np.ndarray, towards: np.ndarray | float) -> np.ndarray:
    """One step of the tensor core: c plus the products of the last axis."""
    total = c + products.sum(axis=-1)
    if rule.block == 0:
        return moved(total, towards, U)
    largest = np.maximum(np.abs(products).max(axis=-1), np.abs(c))
    unit = 2.0 ** (np.floor(np.log2(np.where(largest == 0, 1, largest))) - rule.frac) * (largest > 0)
    addends = (products != 0).sum(axis=-1) + (c != 0)
    return moved(total + towards * addends * unit, towards, 2.0**-23)


def chain(rule: Rule, products: int, lo: np.ndarray, hi: np.ndarray, towards: np.ndarray | float) -> np.ndarray:
    """lo and hi products [..., total] through one accumulator, `products` an instruction."""
    count = min(rule.block or products, products)
    c = np.zeros(hi.shape[:-1])
    for part in (lo, hi):
        for at in range(0, part.shape[-1], count):
            c = step(rule, c, part[..., at : at + count], towards)
    return c


def order(path: Path) -> np.ndarray:
    """Dims in the order in which instructions take them: INT8 gives a thread four neighbours, two in each half."""
    if path.mode in ("int8", "k8v4") and path.tier == "sm75":
        return np.arange(256).reshape(16, 4, 2, 2).transpose(0, 2, 1, 3).reshape(256)
    return np.arange(256)


def cells_of(pool: Pool, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether each listed cell is resident, and K and V [n, kv, 256], zeros where it is not."""
    here = pool.table[ids // pool.page_size] >= 0
    k, v = (np.zeros((len(ids), pool.n_head_kv, 256)) for _ in range(2))
    k[here], v[here] = values(pool, ids[here].astype(np.int64))
    return here, k, v


def prompt(
    path: Path, rule: Rule, q: np.ndarray, pool: Pool, ids: np.ndarray, out: np.ndarray, dim: int, direction: int
) -> np.ndarray:
    """float64 [heads, 256] of one query and KV head 0. q: float32 [heads, 256]; out: the right answer."""
    products = 8 if path.tier == "sm75" else 16
    here, k, v = (x if x.ndim == 1 else x[:, 0] for x in cells_of(pool, ids))
    push = direction * np.where(v[:, dim] > out[:, dim, None], 1.0, -1.0)  # [heads, n]
    wide = q.astype(np.float64)
    hi, lo = halves(wide)
    # Scores: q as hi + lo keeps 22 bits and a half, a sum of 32 dims, then the K scale and the warps' shares.
    raw = []
    at = order(path)
    for first in range(0, 256, 32):
        of = at[first : first + 32]
        low, high = lo[:, None, of] * k[None, :, of], hi[:, None, of] * k[None, :, of]
        split = 2.0**-23 * np.abs(wide[:, None, of] * k[None, :, of]).sum(axis=-1)
        raw.append(chain(rule, products, low, high, push) + push * split)
    score = np.zeros(push.shape)
    for warp in range(WARPS):
        share = moved(raw[2 * warp] + raw[2 * warp + 1], push, U)
        share = moved(share, push, U) if path.mode != "fp16" else share
        score = share if warp == 0 else moved(score + share, push, U)
    score = np.where(here, score / 16, -np.inf)
    # Online softmax.
    size = cells_per_chunk(path.mode, path.tier_number)
    heads = len(q)
    top, total, acc = np.full((heads, 1), -np.inf), np.zeros((heads, 1)), np.zeros((heads, 256))
    down = -direction * np.sign(out[:, dim, None])
    before_sum = np.zeros((heads, 1))  # what earlier cells pull at output `dim`
    for first in range(0, len(ids), size):
        some = slice(first, first + size)
        if not here[some].any():
            continue
        new = np.maximum(top, score[:, some].max(axis=1, keepdims=True))
        with np.errstate(invalid="ignore", under="ignore"):
            # A difference, log2(e)/16 as a float32, and the product with it: three roundings of the exponent.
            gap = np.where(here[some], moved(score[:, some] - new, push[:, some], 3 * U), -np.inf)
            weight = np.where(here[some], moved(np.exp(gap), push[:, some], EXP2), 0.0)
            back = direction * np.where(before_sum >= 0, 1.0, -1.0)
            shrink = np.where(top == new, 1.0, moved(np.exp(moved(top - new, back, 3 * U)), back, EXP2))
        shrink = np.where(np.isneginf(top), 0.0, shrink)
        # Sum of weights: serial in a thread, a butterfly over eight, one fma.
        pad = np.zeros((heads, size))
        pad[:, : weight.shape[1]] = weight
        lanes = pad.reshape(heads, 8, size // 8)
        here_sum = lanes[:, :, 0]
        for i in range(1, size // 8):
            here_sum = moved(here_sum + lanes[:, :, i], down, U)
        while here_sum.shape[1] > 1:
            here_sum = moved(here_sum[:, ::2] + here_sum[:, 1::2], down, U)
        total = moved(total * shrink + here_sum, down, U)
        # p.v: V scale, split, 32 cells a sum, added to the accumulator.
        for part in range(0, size, 32):
            cells = slice(part, min(part + 32, weight.shape[1]))
            p = weight[:, cells]
            terms = p[:, None, :] * v[some][cells].T[None]
            lost = (U + 2.0**-23) * np.abs(terms)
            low, high = terms * 2.0**-11 * 0.5, terms * (1 - 2.0**-12)
            width = 32 - terms.shape[-1]
            low, high = (np.pad(x, ((0, 0), (0, 0), (0, width))) for x in (low, high))
            made = chain(rule, products, low, high, direction) + direction * lost.sum(axis=-1)
            acc = moved(acc * (shrink if part == 0 else 1.0) + made, direction, U)
        before_sum = before_sum * shrink + (weight * (v[some, dim] - out[:, dim, None])).sum(axis=1, keepdims=True)
        top = new
    return moved(acc / np.where(total == 0, 1, total), direction, U)


def decode(q: np.ndarray, pool: Pool, ids: np.ndarray, out: np.ndarray, dim: int, direction: int) -> np.ndarray:
    """The FP32 baseline, as `prompt`: chunks of 64 cells, then their merge."""
    here, k, v = (x if x.ndim == 1 else x[:, 0] for x in cells_of(pool, ids))
    push = direction * np.where(v[:, dim] > out[:, dim, None], 1.0, -1.0)
    lanes = q.astype(np.float64)[:, None].reshape(len(q), 1, 32, 8) * k.reshape(1, len(ids), 32, 8)
    towards = push[..., None]
    dot = moved(lanes[..., 0], towards, U)
    for i in range(1, 8):
        dot = moved(dot + lanes[..., i], towards, U)
    while dot.shape[-1] > 1:
        dot = moved(dot[..., ::2] + dot[..., 1::2], towards, U)
    score = np.where(here, moved(dot[..., 0] / 16, push, 2 * U), -np.inf)
    top = score.max(axis=1, keepdims=True)
    down = -direction * np.sign(out[:, dim, None])
    total, acc = np.zeros((len(q), 1)), np.zeros((len(q), 256))
    for first in range(0, len(ids), 64):
        some = slice(first, first + 64)
        if not here[some].any():
            continue
        high = score[:, some].max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            gap = np.where(here[some], moved(score[:, some] - high, push[:, some], U), -np.inf)
            weight = moved(np.exp(gap), push[:, some], EXP2)
            pull = (weight * (v[some, dim] - out[:, dim, None])).sum(axis=1, keepdims=True)
            back = direction * np.where(pull >= 0, 1.0, -1.0)
            outer = moved(np.exp(moved(high - top, back, U)), back, EXP2)
        pad = np.zeros((len(q), 64))
        pad[:, : weight.shape[1]] = weight
        while pad.shape[1] > 1:
            pad = moved(pad[:, ::2] + pad[:, 1::2], down, U)
        total = moved(total + pad * outer, down, U)
        inner = np.zeros((len(q), 256))
        for cell in range(weight.shape[1]):
            # V times its scale is exact in float32 (18 bits); one fma a cell.
            inner = moved(inner + weight[:, cell, None] * v[some][cell], direction, U)
        acc = moved(acc + inner * outer, direction, U)
    return moved(acc / np.where(total == 0, 1, total), direction, U)
