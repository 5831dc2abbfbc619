"""Mutants of the comparators and of what verdicts mean. The controls judge them, before any case."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

VERDICT = "validation/core/verdict.py"

_FINE = "fine = error <= limit\n"
_ERROR = "error = np.abs(got.astype(np.float64) - want)"
_FINITE = "if not np.isfinite(want).all():"
_ALL = "if bool(fine.all()):"
_DIFFERS = "differs = raw[0] != raw[1]\n"
_EMPTY = """expected {}")
    if got.size == 0:
        return Check(name, Verdict.VOID, "there is no element to compare")
    if np.may_share_memory"""
_SHARED = """    if np.may_share_memory(got, want):
        return Check(name, Verdict.VOID, "both sides are the same memory")
    {}"""
_PASSES = "return self in (Verdict.EXACT, Verdict.WITHIN_BOUND)"


def _fault(name: str, old: str, new: str, why: str, *also: tuple[str, str]) -> Mutant:
    edits = tuple(Edit(VERDICT, before, after) for before, after in also)
    return Mutant(f"compare-{name}", VERDICT, old, new, why, also=edits, controls=True)


def _numbers() -> Iterator[Mutant]:
    """Comparisons of numbers that accept what they must not."""
    both_nan = "(np.isnan(got) & np.isnan(want))"
    both_inf = "(np.isinf(got) & np.isinf(want))"
    angle = "float((got * want).sum()) >= 0.999 * float(np.linalg.norm(got)) * float(np.linalg.norm(want))"
    rows: tuple[tuple[str, str, str, str, tuple[tuple[str, str], ...]], ...] = (
        ("nan-not-greater", _FINE, "fine = ~(error > limit)\n", "A NaN is not greater than any bound.", ()),
        ("nan-dropped-by-max", _ALL, "if np.nanmax(error - limit) <= 0:", "The largest error leaves NaN out.", ()),
        (
            "finite-elements-only",
            _FINE,
            "fine = (error <= limit) | ~(np.isfinite(got) & np.isfinite(want))\n",
            "Only elements that are finite on both sides are compared.",
            (),
        ),
        (
            "nan-of-reference-skipped",
            _FINE,
            "fine = (error <= limit) | np.isnan(want)\n",
            "Elements whose reference is NaN are skipped.",
            ((_FINITE, "if np.isinf(want).any():"),),
        ),
        (
            "nan-equals-nan",
            _FINE,
            f"fine = (error <= limit) | {both_nan}\n",
            "NaN on both sides counts as equal.",
            ((_FINITE, f"if (~np.isfinite(want) & ~{both_nan}).any():"),),
        ),
        (
            "infinity-equals-infinity",
            _FINE,
            f"fine = (error <= limit) | {both_inf}\n",
            "Infinities of any sign count as equal.",
            ((_FINITE, f"if (~np.isfinite(want) & ~{both_inf}).any():"),),
        ),
        ("absolute-tolerance", _FINE, "fine = error <= limit + 1e-6\n", "A constant is added to the bound.", ()),
        (
            "relative-tolerance",
            _FINE,
            "fine = error <= limit + 1e-6 * np.abs(want)\n",
            "A share of the reference is added to the bound.",
            (),
        ),
        ("bound-times-1000", _FINE, "fine = error <= 1000 * limit\n", "The bound is a thousand times too wide.", ()),
        (
            "bound-of-its-query",
            _FINE,
            "fine = error <= (limit.max(axis=tuple(range(1, limit.ndim)), keepdims=True) if limit.ndim > 1 else limit)\n",
            "Every element has the widest bound of its query.",
            (),
        ),
        (
            "bound-of-its-head",
            _FINE,
            "fine = error <= (limit.max(axis=-1, keepdims=True) if limit.ndim > 1 else limit)\n",
            "Every element has the widest bound of its query and head.",
            (),
        ),
        (
            "bound-of-its-dim",
            _FINE,
            "fine = error <= (limit.max(axis=0, keepdims=True) if limit.ndim > 1 else limit)\n",
            "Every element has the widest bound of all queries.",
            (),
        ),
        (
            "odd-element-left-out",
            _ALL,
            "if bool(fine.reshape(-1)[: max(1, fine.size // 2 * 2)].all()):",
            "Elements are compared two at a time.",
            (),
        ),
        (
            "rest-of-four-left-out",
            _ALL,
            "if bool(fine.reshape(-1)[: fine.size // 4 * 4 or None].all()):",
            "Elements are compared four at a time.",
            (),
        ),
        ("largest-bound", _FINE, "fine = error <= limit.max()\n", "Every element has the widest bound of all.", ()),
        ("angle", _FINE, f"fine = np.full(got.shape, {angle})\n", "Only the angle between both sides counts.", ()),
        (
            "mean-error",
            _FINE,
            "fine = np.full(got.shape, error.mean() <= limit.mean())\n",
            "The mean error counts in place of the worst.",
            (),
        ),
        ("percentile", _ALL, "if bool(fine.mean() >= 0.999):", "One element in a thousand may be anything.", ()),
        ("first-query", _ALL, "if bool(fine[:1].all()):", "Only the first query is compared.", ()),
        ("first-rows", _ALL, "if bool(fine[:2].all()):", "Only the first rows are compared.", ()),
        (
            "first-head",
            _ALL,
            "if bool((fine[:, :1] if fine.ndim > 2 else fine).all()):",
            "Only the first head is compared.",
            (),
        ),
        (
            "last-row-left-out",
            _ALL,
            "if bool((fine[:-1] if len(fine) > 1 else fine).all()):",
            "The last row is not compared.",
            (),
        ),
        ("signed-error", _ERROR, "error = got.astype(np.float64) - want", "Errors below zero are no errors.", ()),
        (
            "sizes-only",
            _ERROR,
            "error = np.abs(np.abs(got.astype(np.float64)) - np.abs(want))",
            "A flipped sign is no error.",
            (),
        ),
        (
            "candidate-with-itself",
            _ERROR,
            "error = np.abs(got.astype(np.float64) - got)",
            "Both sides are the candidate.",
            (),
        ),
        (
            "error-in-float32",
            _ERROR,
            "error = np.abs(got - want.astype(np.float32))",
            "The reference is rounded to float32 before it is compared.",
            (),
        ),
        (
            "infinite-bound",
            "if not (np.isfinite(limit).all() and (limit >= 0).all()):",
            "if not (limit >= 0).all():",
            "A bound of infinity is a bound like any other.",
            (),
        ),
    )
    for name, old, new, why, also in rows:
        yield _fault(name, old, new, why, *also)


def _forms() -> Iterator[Mutant]:
    """Shapes, dtypes and memory."""
    yield _fault(
        "broadcast",
        "    if got.shape != want.shape:\n",
        "    try:\n        got = np.broadcast_to(got, want.shape).copy()\n    except ValueError:\n",
        "A row, a column or a scalar is compared with a whole array.",
    )
    yield _fault(
        "bound-broadcast",
        "if limit.shape not in ((), want.shape):",
        "if limit.ndim > want.ndim:",
        "A bound of one row serves all rows.",
    )
    yield _fault(
        "any-float",
        "    if got.dtype != np.float32:\n"
        '        return Check(name, Verdict.EXCEEDS, f"dtype is {got.dtype}, expected float32")\n'
        "    if want",
        "    got = got.astype(np.float32)\n    if want",
        "An output of another dtype is cast before it is compared.",
    )
    yield _fault(
        "empty-within-bound",
        _EMPTY.format("{want.shape}"),
        _EMPTY.format("{want.shape}")
        .replace("Verdict.VOID", "Verdict.WITHIN_BOUND")
        .replace('"there is no element to compare"', '""'),
        "All of no elements are within their bound.",
    )
    yield _fault(
        "own-memory-within-bound",
        _SHARED.format("if not np.isfinite(want)"),
        "    if not np.isfinite(want)",
        "An output that is its own expected buffer is right.",
    )
    yield _fault(
        "own-memory-identical",
        _SHARED.format("size = got"),
        "    size = got",
        "A second run that hands out the first one's buffer repeats it.",
    )


def _bits() -> Iterator[Mutant]:
    """Comparisons of bytes that accept what they must not."""
    step = (
        "    if got.dtype == np.float32:\n"
        "        ints = [np.ascontiguousarray(a).view(np.int32).astype(np.int64) for a in (got, want)]\n"
        "        differs &= np.abs(ints[0] - ints[1]) > 1\n"
    )
    nan = '    if got.dtype.kind == "f":\n        differs &= ~(np.isnan(got) & np.isnan(want))\n'
    yield _fault(
        "minus-zero", _DIFFERS, f"{_DIFFERS}    differs &= got != want\n", "-0 is +0 where bytes are compared."
    )
    for count in (2, 4, 8):
        yield _fault(
            f"rest-of-{count}-bits",
            _DIFFERS,
            f"{_DIFFERS}    differs.reshape(-1)[differs.size // {count} * {count} or None :] = False\n",
            f"Bytes are compared {count} elements at a time.",
        )
    yield _fault("nan-payload", _DIFFERS, f"{_DIFFERS}{nan}", "Any NaN is any other where bytes are compared.")
    yield _fault(
        "one-step", _DIFFERS, f"{_DIFFERS}{step}", "One unit in the last place is equal where bytes are compared."
    )
    yield _fault(
        "cast-before-bytes",
        "    if got.shape != want.shape or got.dtype != want.dtype:",
        "    got = got.astype(want.dtype)\n    if got.shape != want.shape:",
        "Bytes are compared after a cast.",
    )
    yield _fault(
        "first-byte",
        _DIFFERS,
        "differs = raw[0] >> 8 * size - 8 != raw[1] >> 8 * size - 8\n",
        "Only the highest byte of each element is compared.",
    )
    yield _fault(
        "empty-identical",
        'f"array is {shapes}")\n'
        "    if got.size == 0:\n"
        '        return Check(name, Verdict.VOID, "there is no element to compare")',
        'f"array is {shapes}")\n    if got.size == 0:\n        return Check(name, Verdict.EXACT)',
        "Two arrays of nothing are equal.",
    )
    stale = "stale = (words == POISON_OUTPUT) | (words == POISON_WORKSPACE)"
    yield _fault("output-poison", stale, "stale = words == POISON_WORKSPACE", "The poison of outputs is an answer.")
    yield _fault("workspace-poison", stale, "stale = words == POISON_OUTPUT", "The poison of workspaces is an answer.")
    yield _fault(
        "rest-of-two-written",
        stale,
        f"{stale}\n    stale.reshape(-1)[stale.size // 2 * 2 or None :] = False",
        "The last element of an odd output may be poison.",
    )
    yield _fault(
        "some-written", "if not stale.any():", "if not stale.all():", "An output of which some was written is one."
    )


def _meanings() -> Iterator[Mutant]:
    """What verdicts mean, alone and together."""
    for value in ("NOT_RUN", "VOID", "INCONCLUSIVE", "EXCEEDS"):
        new = f"return self in (Verdict.EXACT, Verdict.WITHIN_BOUND, Verdict.{value})"
        yield _fault(f"{value.lower().replace('_', '-')}-passes", _PASSES, new, f"{value} counts as a pass.")
    yield _fault(
        "best-of-checks",
        "for verdict in _WORST_FIRST:",
        "for verdict in reversed(_WORST_FIRST):",
        "The best of a case's checks decides.",
    )
    yield _fault(
        "no-check-passes",
        "return Verdict.EXACT if found else Verdict.NOT_RUN",
        "return Verdict.EXACT",
        "A case without a check is exact.",
    )
    yield _fault(
        "condition-of-any-kind",
        "if not isinstance(condition, bool | np.bool_):",
        "if condition is None:",
        "A number that is not zero, NaN among them, is a condition that holds.",
    )
    yield _fault(
        "condition-holds",
        "verdict = Verdict.EXACT if condition else Verdict.EXCEEDS",
        "verdict = Verdict.EXACT",
        "Every condition holds.",
    )


def mutants() -> Iterator[Mutant]:
    """Every mutant of `verdict.py`.

    Left out because nothing changes: testing `limit >= 0` after the comparison (a negative bound lets nothing pass),
    and `excess` formed with another sign for NaN (it chooses the element that is said, not the verdict).
    """
    yield from _numbers()
    yield from _forms()
    yield from _bits()
    yield from _meanings()
