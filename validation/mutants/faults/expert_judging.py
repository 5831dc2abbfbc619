"""Mutants of what judges expert kernels: comparisons that look away, bounds that are too wide, data that has gone soft."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

OPERATION, REPEATS, CHECKS, EXPECTED = (
    "validation/operations/experts/operation.py",
    "validation/operations/experts/repeats.py",
    "validation/operations/experts/checks.py",
    "validation/operations/experts/expected.py",
)
PROMISES, BOUNDS = "validation/operations/experts/preconditions.py", "validation/operations/experts/bound.py"
REFERENCE, ROWS = "validation/operations/experts/reference.py", "validation/core/row_operation.py"
ROW_CHECKS, ROW_HOOKS = "validation/core/row_checks.py", "validation/core/row_hooks.py"
_BOUNDS = ("tests/validation/operations/experts/test_bound.py",)
_REFERENCE = ("tests/validation/operations/experts/test_reference.py",)
FMA, _FMA = "validation/numerics/fma.py", ("tests/validation/numerics/test_fma.py",)
_PATH = "expert_decode/iq3_xxs/iq4_nl/simt"


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    """Judged by the controls."""
    return Mutant(f"expert-judge-{name}", file, old, new, why, _PATH, controls=True)


def _tested(name: str, file: str, old: str, new: str, why: str, tests: tuple[str, ...]) -> Mutant:
    return Mutant(f"expert-judge-{name}", file, old, new, why, tests=tests)


_CASE = (
    _fault(
        "bits-with-itself",
        CHECKS,
        "return identical(said, one, two, labels=(pairs,), axes=_PAIR_AXES)",
        "return identical(said, one, one.copy(), labels=(pairs,), axes=_PAIR_AXES)",
        "Predicted bits are compared with themselves.",
    ),
    _fault(
        "nan-as-zero",
        FMA,
        "out[np.isnan(out)] = NAN.view(np.float32)",
        "out[np.isnan(out)] = 0",
        "A NaN compares as a zero.",
    ),
    _fault(
        "infinity-as-nan",
        FMA,
        "out[np.isnan(out)] = NAN.view(np.float32)",
        "out[~np.isfinite(out)] = NAN.view(np.float32)",
        "An infinity compares as a NaN.",
    ),
    _fault(
        "bits-in-half",
        FMA,
        "    out = np.array(x)\n    out[np.isnan(out)]",
        "    out = np.array(x)\n    out.view(np.uint32)[...] &= 0xFFFFFFFE\n    out[np.isnan(out)]",
        "The last bit is not compared.",
    ),
    _fault(
        "first-rank-alone",
        CHECKS,
        "    return np.ascontiguousarray(x.reshape(-1, x.shape[-1])[pairs])",
        "    return np.ascontiguousarray(np.broadcast_to(x[:, :1], x.shape).reshape(-1, x.shape[-1])[pairs])",
        "Every rank is taken from the first.",
    ),
    _fault(
        "codes-of-h-unseen",
        CHECKS,
        'found.append(same("of h", got.h.q[pairs], want.h.q))',
        'found.append(same("of h", want.h.q.copy(), want.h.q))',
        "Codes of h are compared with themselves.",
    ),
    _fault(
        "ties-everywhere",
        CHECKS,
        "wrong, scales = due.h.wrong(h), due.h.wrong_scales(h)",
        "wrong, scales = due.h.wrong(h) & (np.abs(h.q - due.h.nearest) > 1), due.h.wrong_scales(h)",
        "A code of h may be one off anywhere.",
    ),
    _fault("scales-of-h-unseen", CHECKS, "    elif scales.any():", "    elif False:", "Scales of h may be anything."),
    _fault(
        "images-more-accepted",
        CHECKS,
        "more, missing = sorted(ran - due), sorted(due - ran)",
        "more, missing = [], sorted(due - ran) if not ran else []",
        "Other images than the path's may run.",
    ),
    _fault(
        "nothing-launched",
        CHECKS,
        "return [witnessed(executor, witnesses, None, {}), holds",
        "return [holds",
        "Nobody asks whether anything was launched.",
    ),
    _fault(
        "strays-uncounted",
        CHECKS,
        'holds("ignored", got.ignored == count,',
        'holds("ignored", got.ignored <= count,',
        "Too few pairs reported ignored are accepted.",
    ),
    _fault(
        "nobody-by-value",
        CHECKS,
        'holds("nobody\'s rows", not bits.any(),',
        'holds("nobody\'s rows", not bits.view(np.float32).any(),',
        "Rows of nobody may hold -0.",
    ),
    _fault(
        "broken-rows-some",
        CHECKS,
        "hidden_rows = int((~np.isnan(got.out[broken])).any(axis=1).sum())",
        "hidden_rows = int((got.out[broken] != 0).any(axis=1).sum()) * 0",
        "Rows of tokens that are not finite may hold numbers.",
    ),
    _fault(
        "lost-x-at-most",
        CHECKS,
        "got.lost[0] == due_x",
        "got.lost[0] <= due_x",
        "Too few blocks of x reported lost are accepted.",
    ),
    _fault(
        "lost-h-unseen",
        CHECKS,
        '    for name, seen, wanted in zip(("h", "out"), got.lost[1:], due, strict=True):',
        "    for name, seen, wanted in ():",
        "Counts of h and of outputs are not looked at.",
    ),
    _fault(
        "grouping-offsets",
        CHECKS,
        "if not np.array_equal(grouping.offsets, due):",
        "if len(grouping.offsets) != len(due):",
        "First rows of experts may be anything.",
    ),
    _fault(
        "grouping-shared-rows",
        CHECKS,
        "if not np.array_equal(np.sort(slot), np.arange(len(real))):",
        "if False:",
        "Two pairs may share a row.",
    ),
    _fault(
        "grouping-other-expert",
        CHECKS,
        "if not inside.all():",
        "if not inside.any():",
        "A pair may lie among another expert's rows.",
    ),
    _fault(
        "grouping-source",
        CHECKS,
        'return holds("grouping", bool(right.all()),',
        'return holds("grouping", True,',
        "A row may have another pair's token.",
    ),
    _fault(
        "repeat-with-itself",
        ROW_CHECKS,
        'checks = operation.compared(trial, "repeat", trial.again.outputs, due, (order,))',
        'checks = operation.compared(trial, "repeat", due, due, (order,))',
        "The second run is compared with itself.",
    ),
    _fault(
        "shapes-unseen",
        REPEATS,
        "    for shape in _shapes(kernels, trial):",
        "    for shape in ():",
        "Work shapes are not compared.",
    ),
    _fault(
        "repeats-unasked",
        REPEATS,
        "    for check in (check for own in asked for check in own):",
        "    for check in ():",
        "Of the runs that repeat the first only the bits are looked at: nothing may have been launched, or elsewhere.",
    ),
    _fault(
        "repeats-lost-unasked",
        REPEATS,
        "return holds(said, total == due,",
        "return holds(said, total <= due,",
        "Runs that repeat the first may count too little of what is lost.",
    ),
    _fault(
        "launches-uncounted",
        CHECKS,
        "if not said and count is not None and len(witnesses) != count:",
        "if not said and count is not None and len(witnesses) < count:",
        "What is launched twice is accepted.",
    ),
    _fault(
        "parts-unseen",
        REPEATS,
        "    if small and tokens > 1:",
        "    if small and tokens > 1 << 20:",
        "Cuts into parts are not compared.",
    ),
    _fault("tiers-unseen", REPEATS, "    if tier == path.tier:", "    if tier:", "Tiers are not compared."),
    _fault(
        "baseline-unseen",
        OPERATION,
        "if name in self.under_test else None",
        "if False else None",
        "The baseline is not run.",
    ),
    _fault(
        "guards-of-none",
        ROW_CHECKS,
        'holds("guards", outcome.guards_ok, who)',
        'holds("guards", True, who)',
        "Memory beside a buffer may be overwritten.",
    ),
    _fault(
        "shape-unseen",
        ROW_CHECKS,
        "if out.ndim != len(axes) or len(out) != length or out.shape != due:",
        "if out.ndim != len(axes) or out.shape[1:] != due[1:]:",
        "Fewer rows than pairs are accepted.",
    ),
    _fault(
        "data-unseen",
        OPERATION,
        "return [preconditions.kept(trial.case, trial.inputs)]",
        "return []",
        "Inputs that break their promise are taken.",
    ),
    _fault(
        "same-experts",
        PROMISES,
        "    if len(data.blobs) > 1 and any(",
        "    if len(data.blobs) > 1 << 20 and any(",
        "Experts may all have the same bytes.",
    ),
    _fault(
        "router-ids-unseen",
        ROW_HOOKS,
        "                self.comparable(got[name]),\n",
        "                self.comparable(got[name] if name == trial.outcome.main else due[name].copy()),\n",
        "Outputs behind the first are not compared: the router's choice.",
    ),
    _fault(
        "router-nans-at-most",
        ROW_CHECKS,
        'holds(name, got == due, f"{got} reported as {name}, expected {due}")',
        'holds(name, got <= due, f"{got} reported as {name}, expected {due}")',
        "Too few values reported by a kernel are accepted.",
    ),
    _fault(
        "combine-bits-unseen",
        ROW_CHECKS,
        'checks = operation.compared(trial, "bits", outcome.outputs, expected.outputs)',
        "made = {name: out.copy() for name, out in expected.outputs.items()}\n"
        '    checks = operation.compared(trial, "bits", made, expected.outputs)',
        "Bits are not compared with those of the model.",
    ),
    _fault(
        "combine-lost-unseen",
        ROWS,
        "    found.checks += operation.judged(trial)\n",
        "",
        "What an operation asks besides is not asked.",
    ),
    _fault(
        "combine-broken-unseen",
        "validation/operations/combine/operation.py",
        'holds("broken", strange == 0,',
        'holds("broken", strange >= 0,',
        "Outputs that cannot be finite may be numbers.",
    ),
    _fault(
        "bound-of-rows-unseen",
        ROWS,
        "        found.checks += operation.bounded(trial, reference)\n",
        "",
        "Rows are not held against FP64.",
    ),
    _fault(
        "rows-of-any-shape",
        ROWS,
        "    if misshapen:",
        "    if misshapen and not trial.first.outputs:",
        "Outputs may have other names, axes and rows than the operation's.",
    ),
    _fault(
        "rows-not-repeated",
        ROWS,
        "    found.checks += repeated(operation, trial, order, whole)\n",
        "",
        "Rows may depend on their place in the launch.",
    ),
)

_NUMBERS = (
    _fault(
        "product-bound-times-1000",
        BOUNDS,
        "    bound = CROSS * U * rounding +",
        "    bound = 1000 * CROSS * U * rounding +",
        "Bounds of products are a thousand times too wide.",
    ),
    _tested(
        "product-bound-too-small",
        BOUNDS,
        "                rounding += one\n",
        "                rounding += one / 64\n",
        "Bounds of products leave out most roundings.",
        _BOUNDS,
    ),
    _tested(
        "swiglu-bound-too-small",
        BOUNDS,
        "relative = CROSS * (share * (2 * np.abs(gate) + 2) + 3) * U + 2.0**-125",
        "relative = U / 64 + 2.0**-125 + 0 * share",
        "The bound of SwiGLU leaves out the exponential.",
        _BOUNDS,
    ),
    _tested(
        "codes-without-interval",
        BOUNDS,
        "ends = [value - bound, value + bound]",
        "ends = [value, value]",
        "No tie of h is legal.",
        _BOUNDS,
    ),
    _tested(
        "reference-ties-away",
        REFERENCE,
        "codes = np.rint(np.where(live[..., None], blocks, np.float32(0)) * inverse[..., None])",
        "codes = np.trunc(np.where(live[..., None], blocks, np.float32(0)) * inverse[..., None] + np.float32(0.5) * np.sign(np.where(live[..., None], blocks, np.float32(0))))",
        "The predicted codes round ties away from zero.",
        _REFERENCE,
    ),
    _tested(
        "reference-fma-twice",
        FMA,
        "doubtful = low == _HALF_WAY if low.size and low.min() == _HALF_WAY else None",
        "doubtful = None",
        "The predicted sums are rounded twice where FP64 lies half way.",
        _FMA,
    ),
    _tested(
        "reference-scale-twice",
        REFERENCE,
        "                add(x.scale[:, block, None], one, acc, out=acc)\n",
        "                d = canonical(w.scale[None, :, block] * x.scale[:, block, None])\n"
        "                pair = (x.scale[:, block, None], one) if each > 1 else (d, dot[block - part.start])\n"
        "                add(*pair, acc, out=acc)\n",
        "The predicted product rounds scale and dot in another order.",
        _REFERENCE,
    ),
    _tested(
        "reference-zero-with-sign",
        REFERENCE,
        "    made += np.float32(0)\n",
        "",
        "The predicted product of a scale and a dot may be -0.",
        _REFERENCE,
    ),
    _tested(
        "reference-infinity-stays",
        REFERENCE,
        "np.where(np.isfinite(scale), scale, NAN.view(np.float32))",
        "scale",
        "Infinite scales of blocks are predicted to give infinities.",
        _REFERENCE,
    ),
)


def mutants() -> Iterator[Mutant]:
    yield from (*_CASE, *_NUMBERS)
