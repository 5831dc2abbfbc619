"""What a recipe promises of K and of V, counted from the stored rows and scales of resident cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from strata.kernels.pool import MODE_FORMATS, Pool
from validation.operations.attention.reference import values
from validation.operations.kv_pack.planes import EXTREME_SCALES, STAIR, STEP, along, slope
from validation.operations.kv_pack.recipes import Kind, Plane, Sign
from validation.operations.kv_pack.reference import INT8_GROUP, Q4_BYTES, q4_0_scales

#: Draws from which on both signs must occur, and both ends (an eighth each) of a range of exponents: chance
#: would break these promises once in 2**63 and in 2**49 cases.
SIGNS, DRAWS = 64, 256
#: Draws from which on each of the special scales, and each code of four bits, must occur.
MANY = 1024
#: Typical codes of full range are near 2**6 and 2**1: a recipe gives magnitudes of values, not of scales.
_TYPICAL = {"int8": 6, "q4_0": 1}
_BIAS, _MANTISSA, _MAGNITUDE = 15, 10, 0x7FFF
#: Scales of the published generator for INT8, in steps of 2**-14.
_PUBLISHED = (82, 491)
#: Cells from which on both stairs are among them.
STAIRS_SEEN = 2 * STAIR
_LARGEST, _SMALLEST_NORMAL = 65504.0, 2.0**-14


@dataclass(frozen=True)
class Stored:
    """K or V of some resident cells. name: `K` or `V`; form: its format; rows: as stored [cells, kv, row];
    scale: float16 [cells, kv, groups], None for FP16; values: float64 [cells, kv, 256]."""

    name: str
    form: str
    rows: np.ndarray
    scale: np.ndarray | None
    values: np.ndarray


def stored(pool: Pool, cells: np.ndarray) -> tuple[Stored, Stored]:
    """K and V of logical cells, all of them resident."""
    pages, slot = pool.table[cells // pool.page_size].astype(np.int64), cells % pool.page_size
    planes = []
    sides = zip("KV", MODE_FORMATS[pool.mode], (pool.k, pool.v), (pool.k_scale, pool.v_scale), strict=True)
    with np.errstate(invalid="ignore", over="ignore"):
        both = values(pool, cells)
    for (name, form, data, scales), exact in zip(sides, both, strict=True):
        rows = data[pages, :, slot]
        scale = None if scales is None else scales[pages, :, slot]
        planes.append(Stored(name, form, rows, q4_0_scales(rows) if form == "q4_0" else scale, exact))
    return planes[0], planes[1]


def broken(plane: Plane, of: Stored, captured: bool = False) -> Iterator[str]:
    """What is wanting in K or V; each a clause that follows `this recipe promises`."""
    nonzero = of.values[of.values != 0]
    if len(of.rows) and not np.isfinite(of.values).all():
        yield f"finite {of.name}, {int((~np.isfinite(of.values)).sum())} values are not"
    yield from both_signs(f"{of.name} values", nonzero)
    if captured or len(of.rows) == 0:
        return
    if of.rows.shape[1] > 1 and np.array_equal(of.rows[:, 0], of.rows[:, 1]):
        yield f"KV heads of their own, {of.name} of heads 0 and 1 is the same"
    alike = bool((of.rows == of.rows[:1]).all())
    if len(of.rows) > 1 and plane.kind is not Kind.SHINING and alike != (plane.kind is Kind.SAME):
        said = "cells of their own in {}, all rows are alike" if alike else "one row in {}, the rows differ"
        yield said.format(of.name)
    if plane.levels or plane.slopes or plane.kind in (Kind.LADDER, Kind.SHINING, Kind.STAIRS):
        yield from _sized(plane, of)
    if plane.kind is Kind.CLIMBING:
        yield from _climbing(of)
    elif plane.kind is Kind.OUTLIERS:
        yield from _outliers(of)
    elif plane.kind in (Kind.SCALED, Kind.PUBLISHED, Kind.EXTREMES):
        yield from _codes(of)
        if of.scale is None:
            yield from _halves(plane, of)
        elif plane.kind is Kind.EXTREMES:
            yield from _extremes(of)
        elif plane.kind is Kind.PUBLISHED and of.form == "int8":
            steps = of.scale.astype(np.float64) * 2.0**14
            yield from _range(f"{of.name} scales of 2^-14", steps, *_PUBLISHED)
        else:
            yield from _scales(plane, of)


def both_signs(what: str, numbers: np.ndarray) -> Iterator[str]:
    """Both signs among SIGNS numbers or more; -0 is negative."""
    negative = int(np.signbit(numbers).sum())
    if numbers.size >= SIGNS and negative in (0, numbers.size):
        yield f"both signs of {what}, all {numbers.size} are {'negative' if negative else 'positive'}"


def _range(what: str, numbers: np.ndarray, low: float, high: float) -> Iterator[str]:
    """Every number in low..high, and some in the lowest and highest eighth of it."""
    least, most = float(numbers.min()), float(numbers.max())
    if least < low or most > high:
        yield f"{what} in {low:g}..{high:g}, they lie in {least:g}..{most:g}"
    eighth = (high - low) / 8
    if numbers.size >= DRAWS and (least > low + eighth or most < high - eighth):
        yield f"{what} all over {low:g}..{high:g}, {numbers.size} lie in {least:g}..{most:g}"


def _ends(plane: Plane, form: str) -> tuple[int, int]:
    """FP16 bit patterns between which |scale| lies (subnormals below the smallest normal)."""
    low, high = (max(e - _TYPICAL.get(form, 0) + _BIAS, 0) << _MANTISSA for e in (plane.low, plane.high))
    return low, high


def _scales(plane: Plane, of: Stored) -> Iterator[str]:
    """Signs as the recipe says, and magnitudes all over its decades (FP16 patterns grow like logarithms)."""
    assert of.scale is not None
    yield from _range(f"{of.name} scale patterns", _patterns(of.scale) & _MAGNITUDE, *_ends(plane, of.form))
    if plane.sign is Sign.RANDOM:
        yield from both_signs(f"{of.name} scales", of.scale)
        return
    negative = np.signbit(of.scale)
    policy = (np.arange(of.scale.shape[1])[:, None] + np.arange(of.scale.shape[2])) % 3
    for wanted, which in (("negative", 0), ("positive", 1)):
        own = negative[:, policy == which]
        if own.size and not (own == (which == 0)).all():
            yield f"groups of {wanted} {of.name} scales, {int((own != (which == 0)).sum())} of {own.size} are not"
    yield from both_signs(f"{of.name} scales of the mixed groups", of.scale[:, policy == 2])


def _patterns(scale: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(scale).view(np.uint16).astype(np.int64)


def _extremes(of: Stored) -> Iterator[str]:
    assert of.scale is not None
    found, wanted = set(_patterns(of.scale).ravel().tolist()), set(EXTREME_SCALES)
    if found - wanted:
        yield f"special {of.name} scales alone, {min(found - wanted):#06x} is none"
    if of.scale.size >= MANY and wanted - found:
        yield f"every special {of.name} scale, {min(wanted - found):#06x} is missing"


def _codes(of: Stored) -> Iterator[str]:
    """Codes of the full range."""
    if of.form == "int8" and of.rows.size >= MANY and not (of.rows.min() < -100 and of.rows.max() > 100):
        yield f"{of.name} codes of the full range, they lie in {int(of.rows.min())}..{int(of.rows.max())}"
    if of.form == "q4_0":
        packed = of.rows.reshape(-1, Q4_BYTES)[:, 2:]
        for nibbles, which in ((packed & 15, "low"), (packed >> 4, "high")):
            found = np.unique(nibbles)
            if nibbles.size >= MANY and len(found) < 16:
                yield f"every {of.name} code in {which} nibbles, only {len(found)} of 16 occur"


def _halves(plane: Plane, of: Stored) -> Iterator[str]:
    """FP16 values show their groups' scales only by the largest of each group, 1 to 3 scales."""
    sizes = np.abs(of.values)
    if plane.kind is Kind.EXTREMES:
        small = (sizes > 0) & (sizes < _SMALLEST_NORMAL)
        for what, there in (("zeros", sizes == 0), ("subnormals", small), ("the largest", sizes == _LARGEST)):
            if sizes.size >= MANY * INT8_GROUP and not there.any():
                yield f"{what} among {of.name} values, there is none"
        return
    groups = sizes.reshape(*sizes.shape[:2], -1, INT8_GROUP).max(axis=-1)
    groups = groups[groups > 0]
    if plane.kind is Kind.SCALED and groups.size >= DRAWS:
        low, high = _ends(plane, of.form)
        spread, wanted = float(groups.max() / groups.min()), 2.0 ** (0.75 * (high - low) / (1 << _MANTISSA)) / 4
        if spread < wanted:
            yield f"groups of {of.name} a factor of {wanted:.0f} apart, the largest is {spread:.1f} times the smallest"


def _sized(plane: Plane, of: Stored) -> Iterator[str]:
    """Levels of KV heads, steps of dims, and what goes along the cells, where the recipe has them: each within a factor
    of 8, but for a SHINING cell, which is exact."""
    largest = np.abs(of.values)
    if len(largest) < SIGNS:
        return
    heads = largest.shape[1]
    ends, steps = along(plane, len(largest), heads)[[0, -1]], slope(plane, heads)
    for head in range(heads):
        found = largest[:, head].max(axis=0).reshape(-1, STEP).max(axis=-1)
        yield from _powers(f"steps of dims of {of.name} that grow alike", found, steps[head, ::STEP])
        if plane.kind is Kind.LADDER:
            found = largest[[0, -1], head].max(axis=-1)
            yield from _powers(f"{of.name} on a ladder of cells", found, ends[:, head])
        elif plane.kind is Kind.SHINING:
            large, others = (0, slice(1, None)) if ends[0, head] else (-1, slice(None, -1))
            if not (of.values[large, head] == 2 * of.values[others, head]).all():
                yield f"one cell of {of.name} that is twice each other, head {head} has others"
        elif plane.kind is Kind.STAIRS and len(largest) >= STAIRS_SEEN:
            found = np.array([largest[:, head].max(), largest[:, head].max(axis=-1).min()])
            yield from _powers(f"{of.name} on two stairs", found, np.array([plane.high, plane.low]))
    if plane.levels:
        due = np.resize(plane.levels, heads) + steps.max(axis=1)
        yield from _powers(f"KV heads of {of.name} at levels of their own", largest.max(axis=(0, 2)), due)


def _powers(what: str, found: np.ndarray, due: np.ndarray) -> Iterator[str]:
    """Numbers that lie apart by powers of two, the first taken as it is."""
    wanted = np.ldexp(float(found[0]), due - due[0])
    wrong = ~((found >= wanted / 8) & (found <= wanted * 8))
    if wrong.any():
        at = int(np.argmax(wrong))
        yield f"{what}, number {at} is {float(found[at]):g} instead of about {float(wanted[at]):g}"


def _climbing(of: Stored) -> Iterator[str]:
    signs = np.sign(of.values)
    if ((signs.max(axis=0) > 0) & (signs.min(axis=0) < 0)).any():
        yield f"one direction in {of.name}, some dims have both signs"
    sizes = np.abs(of.values).max(axis=(1, 2))
    if len(sizes) >= SIGNS and sizes[-1] < 8 * sizes[0]:
        yield f"{of.name} that grows along the cells, it goes from {sizes[0]:.3g} to {sizes[-1]:.3g}"


def _outliers(of: Stored) -> Iterator[str]:
    # Medians over cells: a single loud cell must not decide.
    sizes = np.sort(np.median(np.abs(of.values), axis=(0, 1)))
    if of.values.shape[0] * of.values.shape[1] >= SIGNS and sizes[-4] < 4 * sizes[len(sizes) // 2]:
        yield f"four loud channels in {of.name}, the fourth is {sizes[-4]:.2f} beside {sizes[len(sizes) // 2]:.2f}"
