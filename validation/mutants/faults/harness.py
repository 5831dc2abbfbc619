"""Mutants of the harness: data, seeds, plans, runs, dispatch, and the controls themselves."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Edit, Mutant

POOLS, PLANES, PARITY, PROFILES = (
    f"validation/{name}.py"
    for name in (
        "operations/attention/pools",
        "operations/kv_pack/planes",
        "parity/command",
        "operations/attention/plan",
    )
)
STATIONS, RUNNER, OPERATIONS = (
    f"validation/{name}.py" for name in ("run/executors", "run/runner", "operations/attention/kernels")
)
WHOLE_RUN, REQUEST = "validation/ledger/whole_run.py", "validation/run/plan_request.py"
PAGES = "validation/operations/kv_pack/pages.py"
SELECTION, DRAWS = "validation/operations/attention/selection.py", "validation/core/random_streams.py"
PROOF, CONTROL = "validation/controls/self_test.py", "validation/core/control.py"


def _fault(name: str, file: str, old: str, new: str, why: str, *also: Edit) -> Mutant:
    return Mutant(f"harness-{name}", file, old, new, why, also=also, controls=True)


def _tested(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    return Mutant(f"harness-{name}", file, old, new, why, tests=tuple(f"tests/validation/{test}.py" for test in tests))


def _data() -> Iterator[Mutant]:
    """Generators that have gone soft."""
    coded = "    return np.asarray(bits + negative * _SIGN_BIT, dtype=np.uint16).view(np.float16)\n"
    placed = "    pool = place(keys, rows, mode, table, pages, case.page_size)\n    ids"
    yield _fault(
        "scales-positive",
        PLANES,
        coded,
        "    return np.asarray(bits, dtype=np.uint16).view(np.float16)\n",
        "Every scale is positive.",
    )
    for side, name in (("keys", "k"), ("rows", "v")):
        positive = f"    if {side}.scale is not None:\n        {side} = Cells({side}.data, np.abs({side}.scale))\n"
        why = f"INT8 scales of {name.upper()} are all positive."
        yield _fault(f"{name}-scales-positive", POOLS, placed, positive + placed, why)
    yield _fault(
        "fp16-v-positive",
        POOLS,
        placed,
        "    if rows.data.dtype == np.float16:\n        rows = Cells(np.abs(rows.data))\n" + placed,
        "FP16 values of V are all positive.",
    )
    yield _fault(
        "scales-of-one-size",
        PLANES,
        'bits = low + stream.child("scale").below(high - low, groups)',
        'bits = low + stream.child("scale").below(1 << _FP16_MANTISSA, groups)',
        "All scales lie in one binade.",
    )
    yield _fault(
        "group-signs-random",
        PLANES,
        "if plane.sign is Sign.BY_GROUP:",
        "if False:",
        "No group has scales of one sign.",
    )
    yield _fault(
        "v-is-k",
        POOLS,
        "planes.draw(case.stream(name), plane, form, case.context, case.n_head_kv)",
        'planes.draw(case.stream("k"), plane, form, case.context, case.n_head_kv)',
        "K and V are drawn from one stream.",
    )
    yield _fault(
        "codes-narrow",
        PLANES,
        "codes.octets((cells, heads, HEAD_DIM)).view(np.int8)",
        "(codes.octets((cells, heads, HEAD_DIM)).view(np.int8) // 4)",
        "INT8 codes use a quarter of their range.",
    )
    yield _fault(
        "spare-pages-zero",
        PAGES,
        "        return np.full(shape, POISON_HALF, np.uint16).view(np.float16)\n"
        "    out = np.full(shape, POISON_CODE, np.uint8).view(dtype)\n"
        "    if dtype == np.uint8:",
        "        return np.zeros(shape, np.float16)\n    out = np.zeros(shape, dtype)\n    if False:",
        "Slots that no cell lives in hold zeros.",
    )
    yield _fault(
        "scales-unpoisoned",
        PAGES,
        "return np.full(shape, POISON_HALF, np.uint16).view(np.float16)",
        "return np.zeros(shape, np.float16)",
        "Scales and FP16 values that nobody may read are zeros.",
    )
    yield _fault(
        "ids-behind-widths-on-a-cell",
        POOLS,
        "    beyond = logical * case.page_size if table_size > logical else case.context\n",
        "    beyond = 0\n",
        "Ids behind a row's width point at a cell that is there.",
    )
    yield _fault("no-ids-behind-widths", SELECTION, "TAIL = 5\n", "TAIL = 0\n", "The widest row has nothing behind it.")
    yield _fault(
        "no-page-absent",
        PAGES,
        "        table[:logical][absent] = -1\n",
        "",
        "Recipes of absent pages leave none out.",
    )
    yield _fault(
        "no-chunk-absent",
        PAGES,
        "            absent[first // page_size : -(-end // page_size)] = True\n",
        "            absent[first // page_size : first // page_size + 1] = True\n",
        "No whole chunk is absent.",
    )
    yield _fault(
        "pages-in-order",
        PAGES,
        'table[:logical] = 1 + stream.child("order").permutation(logical * spread)[:logical]',
        "table[:logical] = 1 + np.arange(logical * spread)[:logical]",
        "Page tables of every recipe are the identity.",
    )
    yield _fault(
        "no-page-shared",
        PAGES,
        "        table[3:logical:4] = table[2 : logical - 1 : 4]\n",
        "        pass\n",
        "No two logical pages share a physical one.",
    )
    yield _fault(
        "edges-at-tiles-only",
        POOLS,
        "for count in (1, 2, 3, 4) for step in (-1, 0, 1)}",
        "for count in (1, 2, 3, 4) for step in (0,)}",
        "No width lies one beside a tile.",
    )
    yield _fault(
        "selection-of-first-cells",
        SELECTION,
        "        row = np.concatenate([older.cells, np.arange(reach, cells)])\n",
        "        row = np.arange(cells)\n",
        "Sparse lists hold the first cells.",
    )
    yield _fault(
        "q-positive",
        POOLS,
        "    if recipe.q.loud:\n",
        "    q = np.abs(q)\n    if recipe.q.loud:\n",
        "Every q is positive.",
    )
    yield _fault(
        "no-loud-head", POOLS, "    if recipe.q.loud:\n", "    if False:\n", "No head is louder than its neighbours."
    )
    yield _fault("no-zero-rows", POOLS, "    if recipe.q.zero_rows:\n", "    if False:\n", "No row of q is zero.")


def _seeds() -> Iterator[Mutant]:
    """Seeds that do not matter."""
    stream = "return Stream.of(self.seed, self.recipe, *names)"
    for name, seed, why in (
        ("seed-ignored", "1", "Cases of all seeds have the data of one."),
        ("seed-halved", "self.seed & ~1", "A seed and its neighbour give the same data."),
        ("seed-of-32-bits", "self.seed & 0xFFFFFFFF", "Seeds that differ above bit 31 give the same data."),
    ):
        yield _fault(name, "validation/core/case.py", stream, stream.replace("self.seed", seed), why)
    yield _fault(
        "names-ignored",
        DRAWS,
        "        for name in names:\n",
        "        for name in ():\n",
        "Streams of all purposes are one.",
    )
    yield _fault(
        "seed-of-profile-fixed",
        PROFILES,
        "return Case(recipe, seed, _SMALL[0], queries, page_size)",
        "return Case(recipe, 1, _SMALL[0], queries, page_size)",
        "Small cases have seed 1, whatever was asked.",
    )
    yield _fault(
        "seed-of-packs-fixed",
        "validation/operations/kv_pack/plan.py",
        "Case(name, seed, cells, 0, page_size, group=1) for",
        "Case(name, 1, cells, 0, page_size, group=1) for",
        "Packing cases have seed 1.",
    )
    yield _fault(
        "seed-option-ignored",
        REQUEST,
        "profiles.entries(options.seed, options.profile, paths)",
        "profiles.entries(1, options.profile, paths)",
        "--seed does not reach a profile.",
    )
    yield _fault(
        "seed-of-sizes-ignored",
        REQUEST,
        "Case(options.recipe or attention_plan.SIZED_RECIPE, options.seed,",
        "Case(options.recipe or attention_plan.SIZED_RECIPE, 1,",
        "--seed does not reach a size of one's own.",
    )


def _runs() -> Iterator[Mutant]:
    """Runs that are green without their cases."""
    counted = "        if len(checks) != len(self.jobs):"
    yield _fault(
        "zero-cases-pass",
        WHOLE_RUN,
        "        return combine(checks)\n",
        "        return combine(checks) if checks else Verdict.EXACT\n",
        "A run that planned nothing, and ran it, passes.",
    )
    yield _fault(
        "fewer-than-planned-pass",
        WHOLE_RUN,
        counted,
        "        if False:",
        "Planned cases that never ran are not missed.",
    )
    yield _fault(
        "more-than-planned-pass",
        WHOLE_RUN,
        counted,
        "        if len(checks) < len(self.jobs):",
        "Cases nobody planned count.",
    )
    yield _fault(
        "last-case-decides",
        WHOLE_RUN,
        "        return combine(checks)\n",
        "        return combine(checks[-1:])\n",
        "Only the last case's verdict counts.",
    )
    yield _fault(
        "exit-0", WHOLE_RUN, "return PASSED if self.passed else FAILED", "return PASSED", "The exit status is always 0."
    )
    yield _fault(
        "jobs-skipped",
        RUNNER,
        "    for job in jobs:\n        starts(job)",
        "    for job in jobs[:1]:\n        starts(job)",
        "Only the first job is run.",
    )
    yield _fault(
        "jobs-run-once",
        RUNNER,
        "        result = run_case(job.case, job.path, executors.executor, own, memo, operations)\n"
        "        results.append(result)\n"
        "        finished(job, result)\n",
        "        result = run_case(job.case, job.path, executors.executor, own, memo, operations)\n"
        "        results.append(result)\n"
        "    for job in jobs:\n"
        "        finished(job, result)\n",
        "Every job gets the last one's result.",
    )
    yield _fault(
        "controls-ignored",
        WHOLE_RUN,
        "        if failed(self.controls):\n            return Verdict.VOID\n",
        "",
        "A run passes although its controls failed.",
    )
    yield _tested(
        "controls-not-asked",
        PARITY,
        "self_test.flat(self_test.prove())",
        '[Answer("one", "asked", "asked")]',
        "A run does not ask its controls.",
        "parity/test_command",
    )
    yield _tested(
        "interrupted-passes",
        PARITY,
        " markup=False, soft_wrap=True)\n        return FAILED\n",
        " markup=False, soft_wrap=True)\n        return PASSED\n",
        "A run that was stopped is green.",
        "parity/test_command",
    )
    yield _tested(
        "rest-run-after-failed-controls",
        PARITY,
        "    if failed(record.controls):\n        return _void(record, console)\n",
        "",
        "Failed controls are not said.",
        "parity/test_command",
    )
    # The controls cannot tell on themselves: their tests do.
    yield _tested(
        "wrong-answer-is-right",
        CONTROL,
        "return self.got == self.expected",
        "return True",
        "Whatever a control gets is what it expected.",
        "controls/test_self_test",
    )
    yield _tested(
        "failures-not-counted",
        CONTROL,
        "return [one for one in answers if not one.right]",
        "return []",
        "No control ever fails.",
        "controls/test_self_test",
    )
    yield _tested(
        "empty-groups-pass",
        PROOF,
        'return found or [Answer(f"{group}/rows", "none", "rows")]',
        "return found",
        "A group without controls is proved.",
        "controls/test_self_test",
    )
    yield _tested(
        "crash-is-an-answer",
        CONTROL,
        '        got = f"{type(error).__name__}: {error}".splitlines()[0]\n',
        "        got = control.expected\n",
        "A control that crashes has been answered.",
        "controls/test_self_test",
    )


def _dispatch() -> Iterator[Mutant]:
    """The wrong kernel, rule or rows; a rerun that runs something else."""
    yield Mutant(
        "harness-fallback-kernel",
        OPERATIONS,
        "    return prompt_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)\n",
        "    base = PATHS[str(path.baseline)]\n"
        "    return decode_attention.run(executor, base, inputs.q, inputs.pool, inputs.ids, inputs.steps)\n",
        "The baseline runs under the path's name.",
        also=(
            Edit(
                OPERATIONS, "from strata.kernels.paths import Path\n", "from strata.kernels.paths import PATHS, Path\n"
            ),
        ),
    )
    yield Mutant(
        "harness-other-tier",
        OPERATIONS,
        "    return prompt_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)\n",
        '    path = PATHS[f"prompt_attention/{path.mode}/sm80"]\n'
        "    return prompt_attention.run(executor, path, inputs.q, inputs.pool, inputs.ids, inputs.steps)\n",
        "The sm80 kernel runs under the name of sm75.",
        also=(
            Edit(
                OPERATIONS, "from strata.kernels.paths import Path\n", "from strata.kernels.paths import PATHS, Path\n"
            ),
        ),
    )
    yield _tested(
        "rule-of-any-card",
        "validation/numerics/tensorcore_rules.py",
        "return (rule, *_RIVALS.get(rule, ())) if executor.capability is not None and rule in RULES else ()",
        'return (rule, *_RIVALS.get(rule, ())) if rule in RULES else ("sm_90",)',
        "A card nobody measured is given a rule.",
        "numerics/test_tensorcore_rules",
    )
    yield _tested(
        "last-query-not-sampled",
        "validation/operations/attention/sampling.py",
        "| {count - 1}",
        "",
        "The last query has no reference.",
        "operations/attention/test_sampling",
    )
    yield _tested(
        "edge-widths-not-sampled",
        "validation/operations/attention/sampling.py",
        "chosen.update(np.flatnonzero(widths == edge)[:1].tolist())",
        "pass",
        "Queries at edge widths have no reference.",
        "operations/attention/test_sampling",
    )
    rerun = 'return f"{settings.invocation}{chosen} --case {shlex.quote(case.brief())}"'
    yield _tested(
        "rerun-of-all-paths",
        RUNNER,
        rerun,
        'return f"{settings.invocation} --case {shlex.quote(case.brief())}"',
        "A rerun runs other paths as well.",
        "run/test_runner",
    )
    yield _tested(
        "rerun-unquoted",
        RUNNER,
        rerun,
        'return f"{settings.invocation}{chosen} --case {case.brief()}"',
        "A rerun's case falls apart in a shell.",
        "run/test_runner",
    )
    for option, old in (
        ("rule", '["--rule", self.rule] if self.says_rule else []'),
        ("flavor", '["--flavor", flavor]'),
    ):
        yield _tested(
            f"rerun-without-{option}", STATIONS, old, "[]", f"A rerun loses --{option}.", "run/test_executors"
        )
    yield _tested(
        "rerun-without-schedule",
        STATIONS,
        '[] if seed is None else ["--schedule-seed", str(seed)]',
        "[]",
        "A rerun loses --schedule-seed.",
        "run/test_executors",
    )
    yield _tested(
        "rerun-without-target",
        STATIONS,
        '["--target", self.target] if self.target else []',
        "[]",
        "A rerun loses --target.",
        "run/test_executors",
    )
    yield _tested(
        "rerun-without-prediction",
        PARITY,
        '(["--predict", predict] if predict != "none" and not lanes else [])',
        "[]",
        "A rerun loses --predict.",
        "run/test_rerun",
    )
    yield _tested(
        "rerun-without-capture",
        PARITY,
        '["--capture", str(options.capture)] if options.capture else []',
        "[]",
        "A rerun loses --capture.",
        "run/test_rerun",
    )
    yield _tested(
        "twin-of-one-schedule",
        STATIONS,
        "(seed or 0) + 1)",
        "seed)",
        "The second run has the first one's schedule.",
        "run/test_executors",
    )


def _crashes() -> Iterator[Mutant]:
    """A case in which something falls over that nobody foresaw."""
    said = '        check = Check("run", Verdict.NOT_RUN, unforeseen(error))\n'
    why = "A case whose harness crashes has passed."
    yield _fault("crash-passes", RUNNER, said, said.replace("NOT_RUN", "WITHIN_BOUND"), why)
    why = "A crash in one case ends the run and all others."
    yield _fault("crash-ends-the-run", RUNNER, said, "        raise\n", why)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the harness."""
    yield from _crashes()
    yield from _data()
    yield from _seeds()
    yield from _runs()
    yield from _dispatch()
