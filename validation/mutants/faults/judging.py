"""Mutants of what is built on the comparators: gates, bounds, battery, witness, cases and predictions."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

JUDGE, PROBES, CASE, RUNNER = (
    f"validation/{name}.py"
    for name in ("operations/attention/gates", "core/negative_probes", "operations/attention/operation", "run/runner")
)
BOUND = "validation/operations/attention/bound.py"
ORDER, ROWS = "validation/core/row_operation.py", "validation/core/row_checks.py"
LAUNCHES = "validation/core/launches.py"
GATES = "validation/operations/attention/bounds/prompt_attention.py"
REFERENCE = "validation/operations/attention/reference.py"


def _fault(name: str, file: str, old: str, new: str, why: str, *also: Edit) -> Mutant:
    return Mutant(f"judge-{name}", file, old, new, why, also=also, controls=True)


def _gates() -> Iterator[Mutant]:
    yield _fault(
        "reference-with-itself",
        JUDGE,
        "return within(name, new[rows], want, limit",
        "return within(name, want.astype(np.float32), want, limit",
        "The reference is compared with itself.",
    )
    yield _fault(
        "bound-times-1000",
        "validation/operations/attention/bound.py",
        "out[row] = limit.reshape(out.shape[1:])",
        "out[row] = 1000 * limit.reshape(out.shape[1:])",
        "Derived bounds are a thousand times too wide, for path and baseline alike.",
    )
    for name, axis in (("query", "None"), ("head", "-1")):
        widest = f"np.broadcast_to(limit.reshape(out.shape[1:]).max(axis={axis}, keepdims=True), out.shape[1:])"
        yield _fault(
            f"bound-of-its-{name}",
            "validation/operations/attention/bound.py",
            "out[row] = limit.reshape(out.shape[1:])",
            f"out[row] = {widest}",
            f"Every output has the widest derived bound of its {name}.",
        )
    yield _fault(
        "bound-of-all-queries",
        "validation/operations/attention/bound.py",
        "            list(workers.map(fill, range(len(out))))\n    return out\n",
        "            list(workers.map(fill, range(len(out))))\n"
        "    return np.broadcast_to(out.max(axis=0, keepdims=True), out.shape).copy()\n",
        "Every output has the widest derived bound of all queries.",
    )
    for name, file, old, axis in (
        (
            "router",
            "operations/router/bound",
            "return np.asarray((routed.weights * relative + absolute) * WIDENED)",
            "(0, 1)",
        ),
        (
            "router-ranks",
            "operations/router/bound",
            "return np.asarray((routed.weights * relative + absolute) * WIDENED)",
            "1",
        ),
    ):
        yield _fault(
            f"bound-of-all-{name}",
            f"validation/{file}.py",
            old,
            f"made = (routed.weights * relative + absolute) * WIDENED\n"
            f"    return np.broadcast_to(made.max(axis={axis}, keepdims=True), made.shape).copy()",
            "Every weight has the widest bound of all, or of its token.",
        )
    yield from _wide_in_one_place()
    yield _fault(
        "gate-1-of-itself",
        JUDGE,
        "bound = bounds.accuracy(base, reference.out)",
        "bound = bounds.accuracy(new[rows], reference.out)",
        "The path may be four times as wrong as the path is.",
    )
    yield _fault(
        "gate-2-on-samples",
        JUDGE,
        'within("gate 2", new, old, bounds.agreement(old), axes=AXES)',
        'within("gate 2", new[rows], base, bounds.agreement(old), axes=AXES)',
        "Rows without a reference are not held against the baseline.",
    )
    yield _fault(
        "gate-2-of-itself",
        JUDGE,
        'within("gate 2", new, old,',
        'within("gate 2", new, new.copy(),',
        "The path agrees with itself.",
    )
    yield _fault(
        "agreement-unbounded",
        JUDGE,
        'judged("agreement", base, truth.bound + truth.base_bound)',
        'judged("agreement", base, truth.bound + truth.base_bound + np.abs(base - new[rows]))',
        "Path and baseline agree as far as they differ.",
    )
    yield _fault(
        "anchor-dropped",
        CASE,
        "            checks.append(gates.baseline_within_bound(old, own.truth))\n",
        "            pass\n",
        "The baseline is right because it is the baseline.",
    )
    yield _fault(
        "anchor-of-itself",
        JUDGE,
        'within("baseline bound", old[rows], truth.reference.out,',
        'within("baseline bound", old[rows], old[rows].astype(np.float64),',
        "The baseline is compared with itself.",
    )
    yield _fault(
        "anchor-by-the-path",
        JUDGE,
        "truth.reference.out, truth.base_bound, labels",
        "truth.reference.out, 1000 * truth.base_bound, labels",
        "The baseline's own bound is a thousand times too wide.",
    )
    yield Mutant(
        "judge-reference-in-float32",
        REFERENCE,
        "            weights = softmax(of.scores)\n",
        "            weights = softmax(of.scores.astype(np.float32)).astype(np.float32)\n",
        "Weights of the reference are as wrong as those of the kernels.",
        tests=("tests/validation/operations/attention/test_reference.py",),
    )


def _wide_in_one_place() -> Iterator[Mutant]:
    """Bounds eight times too wide for one index: it changes no verdict of a sound kernel."""
    whole = "    return np.asarray(kernel_bound(path, inputs, reference, own, executor) + own)"
    router = "    return np.asarray((routed.weights * relative + absolute) * WIDENED)"
    combine = "    return np.asarray((((1 + U) ** (ranks + 1) - 1) * mass + off + (ranks + 1) * 2.0**-150) * WIDENED)"
    product = "    bound = CROSS * U * rounding + (x.shape[1] + 4) * UNIT * size + floor"
    decode = "    bound = CROSS * U * rounding + (len(sums) + _LANES + 4) * UNIT * size + floor"
    path = "    return Bounded(made.value, made.bound * CROSS + spread @ down.sizes.T * CROSS)"
    spread = "    spread = np.max([np.abs(corner - middle) for corner in corners], axis=0)"
    share = "    mass = np.einsum("
    rotation = "    total = np.abs(x.astype(np.float64)).sum(axis=-1, keepdims=True)"
    for name, file, line, wider in (
        ("query", "operations/attention/bound", whole, ("made", "made[-1:]")),
        ("head", "operations/attention/bound", whole, ("made", "made[:, -1]")),
        ("dim", "operations/attention/bound", whole, ("made", "made[..., -1]")),
        ("token-router", "operations/router/bound", router, ("made", "made[-1:]")),
        ("rank-router", "operations/router/bound", router, ("made", "made[:, -1]")),
        ("token-combine", "operations/combine/bound", combine, ("made", "made[-1:]")),
        ("column-combine", "operations/combine/bound", combine, ("made", "made[:, -1]")),
        ("token-experts", "operations/experts/bound", product, ("bound", "bound[-1:]")),
        ("row-experts", "operations/experts/bound", product, ("bound", "bound[:, -1]")),
        ("token-expert-decode", "operations/experts/bound_decode", decode, ("bound", "bound[-1:]")),
        ("row-expert-decode", "operations/experts/bound_decode", decode, ("bound", "bound[:, -1]")),
        ("column-experts-path", "operations/experts/bound", path, ("made", "made.bound[:, -1]")),
        ("hidden-value-experts", "operations/experts/bound", spread, ("spread", "spread[-1:]")),
        ("row-rotation", "operations/kv_pack/bound", rotation, ("total", "total[-1:]")),
    ):
        variable, part = wider
        if line.startswith("    return np.asarray("):
            value = line.removeprefix("    return ")
            new = f"    {variable} = {value}\n    {part} *= 8\n    return {variable}"
        elif line is path:
            new = f"    {part} *= 8\n{line}"
        else:
            new = f"{line}\n    {part} *= 8"
        yield _fault(f"wide-{name}", f"validation/{file}.py", line, new, "The bound is wider for one index alone.")
    yield _fault(
        "wide-rank-combine",
        "validation/operations/combine/bound.py",
        share,
        f"    weights = weights * np.float32([1] * (ranks - 1) + [8])\n{share}",
        "The last rank's share of the bound is eight times too wide.",
    )
    for name, part in (("query", "limit[-1:]"), ("head", "limit[:, -1]"), ("dim", "limit[..., -1]")):
        yield _fault(
            f"wide-{name}-of-the-case",
            BOUND,
            "    return Limits(own, kernel, kernel + own, base)",
            f"    limit = kernel + own\n    {part} *= 8\n    return Limits(own, kernel, limit, base)",
            "The bound that a case is held against is wider for one index alone.",
        )
    value = "own, kernel, kernel + own, base"
    for name in ("base", "own"):
        yield _fault(
            f"wide-head-of-the-{name}",
            BOUND,
            f"    return Limits({value})",
            f"    if base is not None:\n        {name} = {name}.copy()\n        {name}[:, -1] *= 8\n"
            f"    return Limits({value})",
            "The bound of baseline or reference is wider for one head alone.",
        )
    for name, part in (("token", "whole.bound[-1:]"), ("column", "whole.bound[:, -1]")):
        line = "        value[places], bound[places] = whole.value, whole.bound"
        yield _fault(
            f"wide-{name}-of-the-model",
            "validation/operations/experts/expected.py",
            line,
            f"        {part} *= 8\n{line}",
            "The bound that experts are held against is wider for one index alone.",
        )
    line = "            sides[name][0][places], sides[name][1][places] = held.value, held.bound"
    yield _fault(
        "wide-column-of-a-step",
        "validation/operations/experts/expected.py",
        line,
        f"            held.bound[:, -1] *= 8\n{line}",
        "The bound that a step of experts is held against is wider for one column alone.",
    )
    yield _fault(
        "bound-beside-the-data",
        "validation/operations/attention/bound.py",
        whole,
        whole.replace("+ own)", "+ own + 1e-6)"),
        "The bound has a term that does not follow the data.",
    )


def _battery() -> Iterator[Mutant]:
    yield _fault("battery-accepts", PROBES, "if judge(wrong):", "if False:", "No wrong answer voids a case.")
    yield _fault(
        "battery-lives-inverted",
        PROBES,
        "if _live(wrong, reference, limit):",
        "if not _live(wrong, reference, limit):",
        "Only wrong answers that are within bound are shown to the gates.",
    )
    yield _fault(
        "battery-blind",
        PROBES,
        "if blind and (wrong != right).any():",
        "if False:",
        "A case that cannot tell is sound.",
    )
    yield _fault(
        "battery-refuses-truth", PROBES, "if not judge(right):", "if False:", "Gates may refuse the reference itself."
    )
    yield _fault(
        "battery-nan-fits",
        PROBES,
        "(~(np.abs(wrong.astype(np.float64) - reference) <= limit))",
        "(np.abs(wrong.astype(np.float64) - reference) > limit)",
        "A NaN among wrong answers is not alive.",
    )
    yield _fault(
        "battery-one-stale-row",
        PROBES,
        "stale[-1, -1] = right[-2, -1]",
        "stale[-1, -1] = right[-1, -1]",
        "The stale row is the right one.",
    )
    yield _fault(
        "battery-first-head",
        PROBES,
        "for head in range(heads):",
        "for head in range(1):",
        "Only the first head is flipped.",
    )
    yield _fault(
        "battery-not-asked",
        CASE,
        "        checks.append(gates.battery(old, own.truth))\n",
        "",
        "A case does not prove itself.",
    )
    yield _fault(
        "bit-battery",
        PROBES,
        "wrong.view(np.uint8).reshape(-1)[-1] ^= 1",
        "pass",
        "No bit is flipped to see whether it is refused.",
    )


def _witness() -> Iterator[Mutant]:
    rows = (
        ("nothing-launched", "if not witnesses:", "if False:", "No launch at all is as good as one."),
        ("executor", "if witness.executor != executor.name:", "if False:", "It does not matter where a kernel ran."),
        (
            "arch",
            'if witness.arch.partition(" on ")[0] != executor.arch:',
            "if False:",
            "Any architecture's image will do.",
        ),
        ("image", "if images and images.get(witness.entry) != witness.image:", "if False:", "Any image will do."),
        (
            "digest",
            'if len(witness.image) != 64 or set(witness.image) - set("0123456789abcdef"):',
            "if False:",
            "An image without a digest will do.",
        ),
        (
            "grid",
            "if witness.blocks_run != x * y * z:",
            "if False:",
            "Blocks of a grid that did not run are not missed.",
        ),
        ("blocks", "if blocks is not None and total != blocks:", "if False:", "A smaller grid will do."),
        ("missing", "    if missing:\n", "    if False:\n", "A kernel that was never launched is not missed."),
        (
            "first-problem-only",
            'holds("witness", not wrong,',
            'holds("witness", len(wrong) < 2,',
            "One thing may be wrong with a launch.",
        ),
    )
    for name, old, new, why in rows:
        yield _fault(f"witness-{name}", LAUNCHES, old, new, why)
    yield _fault(
        "witness-not-asked",
        ROWS,
        "        *operation.witnessed(trial.case, run),\n",
        "        *(operation.witnessed(trial.case, run) if prefix else ()),\n",
        "Nobody looks what was launched.",
    )
    yield _fault(
        "baseline-witness-not-asked",
        CASE,
        'baseline_asked = ("guards", "witness", "selection")',
        'baseline_asked = ("guards", "selection")',
        "Nobody looks what the baseline launched.",
    )


def _case() -> Iterator[Mutant]:
    run = "trial.again = operation.run(trial.repeats_on, trial.path, turned)"
    yield _fault(
        "repeat-of-itself",
        ORDER,
        run,
        "made = {name: out[order].copy() for name, out in trial.outcome.outputs.items()}\n"
        "    trial.again = replace(trial.outcome, outputs=made)",
        "The second run is a copy of the first.",
    )
    expected = "got = {each: out if whole else out[rows] for each, out in outcome.outputs.items()}\n    checks"
    yield _fault(
        "prediction-of-itself",
        ROWS,
        expected,
        expected.replace(
            "    checks",
            "    expected = {rule: {each: out.copy() for each, out in got.items()} for rule in rules}\n    checks",
        ),
        "The prediction is a copy of the output.",
    )
    yield _fault(
        "prediction-left-out",
        ROWS,
        'if settings.predict == "none" or trial.executor.name == "lanes":',
        "if True:",
        "Nothing is predicted, whatever was asked.",
    )
    yield _fault(
        "unknown-rule-passes",
        ROWS,
        "return [Check(name, Verdict.INCONCLUSIVE, reason)], None",
        "return [], None",
        "A card whose rule nobody knows needs no prediction.",
    )
    yield _fault(
        "exact-for-a-sample",
        ROWS,
        "decides = whole and not prefix and operation.prediction_decides",
        "decides = True",
        "A sample of predicted bits makes a case exact.",
    )
    yield _fault(
        "guards-not-asked",
        ROWS,
        'holds("guards", outcome.guards_ok,',
        'holds("guards", outcome.guards_ok or not prefix,',
        "What was written beside a buffer is forgiven.",
    )
    yield _fault(
        "baseline-guards-not-asked",
        ROWS,
        'holds("guards", outcome.guards_ok,',
        'holds("guards", outcome.guards_ok or bool(prefix),',
        "The baseline may write beside its buffers.",
    )
    yield _fault(
        "written-not-asked",
        ROWS,
        "            if one.whole and name in outcome.outputs\n",
        "            if False\n",
        "Elements nobody wrote are answers.",
    )
    yield _fault(
        "shape-forgiven",
        ROWS,
        "if out.ndim != len(axes) or len(out) != length or out.shape != due:",
        "if out.ndim != len(axes):",
        "An output of fewer rows is an output.",
    )
    yield _fault(
        "data-not-asked",
        CASE,
        "found = [preconditions.kept(trial.case, trial.path.mode, trial.inputs)]",
        "found: list[Check] = []",
        "Data need not be what their recipe says.",
    )
    yield _fault(
        "timed-anything",
        ROWS,
        'holds(f"timed {name}", same,',
        'holds(f"timed {name}", True,',
        "What was timed need not be what was judged.",
    )
    yield _fault(
        "error-passes",
        RUNNER,
        'Check("run", Verdict.NOT_RUN, str(error))',
        'Check("run", Verdict.EXACT)',
        "A kernel that cannot run passes.",
    )
    yield _fault(
        "exact-too-soon",
        RUNNER,
        "return Verdict.EXACT if verdict is Verdict.WITHIN_BOUND and predicted else verdict",
        "return Verdict.EXACT if verdict is Verdict.WITHIN_BOUND else verdict",
        "Every case within bound is exact.",
    )
    yield _fault(
        "exact-whatever",
        RUNNER,
        "if verdict is Verdict.WITHIN_BOUND and predicted else verdict",
        "if predicted else verdict",
        "Predicted bits outweigh a check that failed.",
    )
    yield _fault(
        "held-for-another-case",
        "validation/core/memo.py",
        "if kind not in self._held or self._held[kind][0] != key:",
        "if kind not in self._held:",
        "Every case is judged on the first one's data.",
    )
    yield _fault(
        "held-for-another-mode",
        CASE,
        'memo.get("inputs", (case, path.mode), made)',
        'memo.get("inputs", case, made)',
        "Every mode is judged on the first one's data.",
    )
    yield _fault(
        "reference-of-another-mode",
        CASE,
        '"reference", key, lambda: attend(',
        '"reference", case, lambda: attend(',
        "Every mode is held against the first one's reference.",
    )
    yield _fault(
        "planes-skipped",
        "validation/operations/kv_pack/pools.py",
        '_PLANES = ("k", "v", "k_scale", "v_scale")',
        '_PLANES = ("k", "v")',
        "Stored scales are not compared.",
    )


def _order() -> Iterator[Mutant]:
    """What the one order asks of any operation, beside what the controls see of those that there are."""
    for name, file, old, new, why in (
        (
            "refused-inputs-run",
            ORDER,
            "        found.checks.append(refusal)\n        return found\n",
            "        found.checks.append(refusal)\n",
            "Inputs that a path must refuse are run and judged.",
        ),
        (
            "timed-without-its-baseline",
            ORDER,
            "if trial.settings.reps and not refused:",
            "if trial.settings.reps:",
            "A path is timed alone where its baseline refuses the inputs.",
        ),
        (
            "doubted-reference",
            ORDER,
            "    if not all(check.verdict.passes for check in doubts):\n",
            "    if False:\n",
            "A path is held against a reference that is wrong itself.",
        ),
        (
            "furthest-rule",
            ROWS,
            "rule = min(rules, key=",
            "rule = max(rules, key=",
            "A failed prediction is said of the rule that fits least.",
        ),
        (
            "part-of-a-buffer-timed",
            ROWS,
            "    if got.size != due.size:\n        return False\n",
            "    due = due.reshape(-1)[: got.size]\n",
            "What was timed may be a part of what was judged.",
        ),
        (
            "first-run-on-originals",
            "validation/core/row_hooks.py",
            'for name in ("run", "first_run"):',
            'for name in ("run",):',
            "The run that is judged gets what its expectation is made from.",
        ),
        (
            "second-output-not-predicted",
            ROWS,
            "one.verdict is Verdict.EXACT for one in checks[each])",
            "one.verdict is Verdict.EXACT for one in checks[each][1:])",
            "A rule fits when it predicts all outputs but the first.",
        ),
    ):
        yield Mutant(f"judge-{name}", file, old, new, why, tests=("tests/validation/core/test_row_operation.py",))


def mutants() -> Iterator[Mutant]:
    """Every mutant of what judges a case."""
    yield from _order()
    yield from _gates()
    yield from _battery()
    yield from _witness()
    yield from _case()
