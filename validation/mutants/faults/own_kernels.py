"""Mutants of what checks a kernel of anybody's own: each question asked of its cases, its data, bounds and mutants."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_CHECK = "validation/check/"


def _of(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    files = tuple(f"tests/validation/check/{test}.py" for test in tests)
    return Mutant(f"own-{name}", f"{_CHECK}{file}.py", old, new, why, tests=files)


def _questions() -> Iterator[Mutant]:
    """What a case asks and what its verdict is made of."""
    yield _of(
        "poisons-alike",
        "launching",
        "POISONS = (POISON_OUTPUT, POISON_OUTPUT ^ 0xFFFFFFFF)",
        "POISONS = (POISON_OUTPUT, POISON_OUTPUT)",
        "The repeat begins with the poison of the first run, so what neither wrote is the same in both.",
        "test_runner",
    )
    yield _of(
        "stale-either",
        "launching",
        "held &= np.ascontiguousarray",
        "held |= np.ascontiguousarray",
        "Every element counts as one that was never written.",
        "test_runner",
    )
    yield _of(
        "guards-unread",
        "launching",
        "all(buffer.guards_intact() for buffer in buffers.values())",
        "all(buffer.guards_intact() for buffer in ())",
        "Nobody looks at the guards around the author's buffers.",
        "test_runner",
    )
    yield _of(
        "originals",
        "launching",
        "return handed(run)(executor, inputs)",
        "return run(executor, inputs)",
        "A kernel that writes to its inputs is not found.",
        "test_runner",
    )
    yield _of(
        "grid-unheld",
        "judging",
        "blocks = sum(int(np.prod(one.grid, dtype=np.int64)) for _, one in due)",
        "blocks = None",
        "A launch on another grid than the author's passes for his.",
        "test_runner",
    )
    yield _of(
        "order-of-the-whole",
        "judging",
        "turned, due = run(order), data.along(axis, axes_out, first.outputs, order)",
        "turned, due = run(np.arange(count)), first.outputs",
        "The permuted run has the items in their own order.",
        "test_runner",
    )
    yield _of(
        "one-part",
        "judging",
        "for items in (np.arange(cut), np.arange(cut, count))]",
        "for items in (np.arange(count), np.arange(0))][:1]",
        "The run in two parts is one in one part.",
        "test_runner",
    )
    yield _of(
        "rules-not-run",
        "operation",
        'Check(RULES_CHECK, Verdict.EXCEEDS, f"{error}{more}")',
        'Check("run", Verdict.NOT_RUN, f"{error}{more}")',
        "A kernel with a race counts as one that could not run.",
        "test_runner",
    )
    yield _of(
        "raw-exact",
        "judging",
        'whole = {} if loaded.kernel.raw is not None else {"all_bits": True}',
        'whole = {"all_bits": True}',
        "A kernel of CuPy, whose launch nobody attests, is EXACT.",
        "test_runner",
    )
    yield _of(
        "unattested-exact",
        "judging",
        'return [*checks, Check("attested", Verdict.WITHIN_BOUND)]',
        "return checks",
        "A kernel of CuPy, whose launch nobody attests, is EXACT where its outputs are integers.",
        "test_operation",
    )
    yield _of(
        "nan-exact",
        "judgement",
        '        return Check(name, Verdict.WITHIN_BOUND, "", figures)\n    index',
        '        return Check(name, Verdict.EXACT, "", figures)\n    index',
        "A case whose outputs are NaN alone is EXACT, whichever NaN they are.",
        "test_judgement",
    )
    yield _of(
        "any-rule",
        "judging",
        'rules = known_rules if loaded.tensor_cores else (known_rules[:1] or ("exact",))',
        'rules = known_rules or ("exact",)',
        "Bits of tensor cores are predicted on a card whose rule nobody knows.",
        "test_runner",
    )
    yield _of(
        "twin-forgotten",
        "judging",
        "again = launch(trial.repeats_on, loaded",
        "again = launch(trial.executor, loaded",
        "The repeat has the schedule of the first run.",
        "test_runner",
    )


def _numbers() -> Iterator[Mutant]:
    """References, bounds and the comparison."""
    yield _of(
        "infinity-of-either-sign",
        "judgement",
        "np.isinf(got) & (np.signbit(got) == np.signbit(reference))",
        "np.isinf(got)",
        "Minus infinity is taken where plus infinity is due.",
        "test_judgement",
    )
    yield _of(
        "nan-anywhere",
        "judgement",
        "np.where(np.isnan(reference), np.isnan(got), np.where(",
        "np.where(np.isnan(reference), True, np.where(",
        "Any number is taken where a NaN is due.",
        "test_runner",
        "test_judgement",
    )
    yield _of(
        "overflow-finite",
        "judgement",
        "return np.asarray(np.isinf(self.reference) | (np.isfinite(self.reference) & far))",
        "return np.asarray(np.isinf(self.reference))",
        "A number beyond the type's largest may have any value within the bound.",
        "test_judgement",
    )
    yield _of(
        "battery-of-nothing",
        "judgement",
        "check = self_check(own.reference, own.limit, judge)",
        "check = self_check(own.reference, 0 * own.limit, lambda candidate: True)",
        "Wrong answers are held against a verdict that is not the case's own.",
        "test_runner",
    )
    yield _of(
        "gamma-halved",
        "roundings",
        "return count * U / (1 - count * U)",
        "return count * U / 2",
        "The bound of two roundings allows one.",
        "test_description",
    )
    yield _of(
        "half-unrounded",
        "roundings",
        "if dtype in _STORED:",
        "if dtype in ():",
        "The bound of an FP16 output leaves out its last rounding.",
        "test_description",
    )
    yield _of(
        "inputs-shared",
        "expected",
        "    return frozen(made)\n",
        "    return made\n",
        "The author's functions may write to what he is handed, and nobody notices.",
        "test_runner",
    )


def _data() -> Iterator[Mutant]:
    """Recipes, promises and texts."""
    yield _of(
        "one-target",
        "data",
        "[able[seed % len(able)]]",
        "[able[0]]",
        "Recipes about one input are always about the first.",
        "test_recipes",
        "test_plan",
    )
    yield _of(
        "promises-unasked",
        "preconditions",
        "said = _domain(recipe, own, array, target) or PROMISES[recipe.name](own, array, target)",
        "said = _domain(recipe, own, array, target)",
        "Data that are not what their recipe promises are judged as if they were.",
        "test_recipes",
    )
    yield _of(
        "drawn-once",
        "data",
        "    if first.tobytes() != again.tobytes():",
        "    if first.shape != again.shape:",
        "An input that changes from call to call passes for a function of the case.",
        "test_recipes",
    )
    yield _of(
        "size-unasked",
        "case",
        """    fields(kernel).check({"seed": seed, **sizes})\n""",
        "",
        "A case has sizes for which the kernel was not written.",
        "test_case",
    )
    yield _of(
        "hidden-axis",
        "plan",
        "if len(set(others)) > 1 or list(array.axes).count(axis) > 1:",
        "if list(array.axes).count(axis) > 1:",
        "An array whose length follows from the independent size in a hidden way is permuted all the same.",
        "test_plan",
    )


def _domains() -> Iterator[Mutant]:
    """Signs, offsets and flushed results."""
    yield _of(
        "one-sign-both",
        "recipes",
        "return _floats(f, _large(f, kind // 2), signs=2 * (kind % 2) - 1)",
        "return _floats(f, _large(f, kind // 2))",
        "No row has one sign, so a maximum may begin at zero.",
        "test_recipes",
        "test_textbook",
    )
    yield _of(
        "idle-threads",
        "plan",
        "    if _OF_IDLE in names:",
        "    if _OF_IDLE in ():",
        "No case has a thread without an element where that could be seen.",
        "test_plan",
    )
    yield _of(
        "flush-anywhere",
        "roundings",
        "limit = np.where(right - limit < self.flushed, np.maximum(limit, right), limit)",
        "limit = np.maximum(limit, right)",
        "Any result may be zero where subnormal ones are flushed.",
        "test_description",
    )
    yield _of(
        "arguments-exceed",
        "launching",
        "        except ArgumentsError as error:",
        "        except () as error:",
        "Wrong arguments of a launch pass for a fault of the kernel.",
        "test_runner",
    )
    yield _of(
        "folds-nothing",
        "folding",
        'return str(result["explain"]) if own and all(kind(other) != own for other in before) else ""',
        'return str(result["explain"])',
        "Every failing case is said in full, though all fail alike.",
        "test_folding",
    )
    yield _of(
        "limit-kept",
        "source_values",
        'yield Edit("limit", i + 1, last, "0.0f")',
        "yield from ()",
        "No mutant of an author's source has a maximum that begins at zero instead of a first element.",
        "test_source_mutants",
    )


def _mutants() -> Iterator[Mutant]:
    """The author's own mutants."""
    yield _of(
        "mutant-original",
        "load",
        "return own if self.directory is None else self.directory / own.name",
        "return own",
        "Every mutant of an author's source is the source itself.",
        "test_mutants",
    )
    yield _of(
        "mutant-without-headers",
        "mutant_worker",
        "        for header in bench.loaded.image().headers:",
        "        for header in ():",
        "Mutants of a source with a header beside it do not compile, and count as none.",
        "test_command",
    )
    yield _of(
        "mutant-first-case",
        "mutant_worker",
        "        for job, memo in zip(self.jobs, self._memos, strict=True):\n",
        "        for job, memo in zip(self.jobs[:1], self._memos):\n",
        "Mutants are judged by one case alone.",
        "test_mutants",
    )
    yield _of(
        "mutant-same-unasked",
        "mutant_worker",
        'return {"fate": SAME if bench.same(again) else SURVIVED}',
        'return {"fate": SURVIVED}',
        "A mutant that is the same program becomes a question.",
        "test_mutants",
    )
    yield _of(
        "mutant-crash-fatal",
        "mutants",
        "if not built or process.returncode >= 0 or",
        "if not built or process.returncode >= -99 or",
        "A mutant that takes its process along ends the run.",
        "test_mutants",
    )
    yield _of(
        "mutant-disk-full",
        "mutants",
        "if not built or process.returncode >= 0 or",
        "if process.returncode >= 99 or",
        "A process that could not judge counts as a mutant killed.",
        "test_mutants",
    )
    yield _of(
        "survivors-of-a-failure",
        "command",
        "    if faults is not None and not own.verdict.passes:",
        "    if faults is None:",
        "Mutants of a kernel that fails as it is are all killed.",
        "test_command",
    )
    yield _of(
        "interrupt-a-pass",
        "command",
        "        return _interrupted(own, interrupt, console)\n    own",
        "        pass\n    own",
        "A run whose mutants Ctrl-C ended is complete.",
        "test_command",
    )
    yield _of(
        "author-fault-a-verdict",
        "operation",
        "ends_a_run = (AuthorError, BuildError, ExecutorUnavailable)",
        "ends_a_run = (BuildError, ExecutorUnavailable)",
        "A fault in the author's file is a case that was not run, and the status a verdict.",
        "test_runner",
    )
    yield _of(
        "memo-of-another-case",
        "judging",
        'trial.memo.get("own", (loaded.kernel, case, rule),',
        'trial.memo.get("own", (loaded.kernel, case.recipe, rule),',
        "What is known of one case is held against another of its recipe.",
        "test_operation",
    )
    yield _of(
        "lost-card-a-verdict",
        "operation",
        "        except ContextLostError:",
        "        except ZeroDivisionError:",
        "A card that is gone is a fault of the kernel.",
        "test_runner",
    )


def _page() -> Iterator[Mutant]:
    """The page about a run."""
    for name, file, old, new, why in (
        (
            "page-nan-share",
            "from_check",
            "share if share != share or share > own else own",
            "share if share > own else own",
            "Of several outputs a share that is NaN is not shown.",
        ),
        (
            "page-command-copied",
            "commands",
            '    if known is None or not text:\n        return ""\n',
            "    if known is None or not text:\n        return told\n",
            "The page offers the command that the author of a file wrote for a case of check.",
        ),
        (
            "page-integers-unsaid",
            "from_check",
            '_BITS = ("bits", "prediction", "bound")',
            '_BITS = ("bits", "prediction")',
            "A page says nothing of integer outputs.",
        ),
    ):
        tests = ("tests/validation/report/test_from_check.py",)
        yield Mutant(f"own-{name}", f"validation/report/{file}.py", old, new, why, tests=tests)


def _machine() -> Iterator[Mutant]:
    """What lanes see of a kernel whose numbers are right."""
    shadow = "strata/executors/lanes/runtime/global_shadow.hpp"
    build = "strata/executors/lanes/build.py"
    for name, file, old, new, why in (
        (
            "blocks-ordered",
            shadow,
            "if (before.block != now.block) return false;",
            "if (before.block != now.block) return true;",
            "Threads of two blocks count as ordered, so that no race between blocks is seen.",
        ),
        (
            "unwritten-read",
            shadow,
            "if (how != Touch::write && !extent.written",
            "if (false && !extent.written",
            "An element of a workspace is read and nobody wrote it, which nobody sees.",
        ),
        (
            "readers-forgotten",
            shadow,
            "} else if (b.reader.block != 0 && !ordered(b.reader, now)) {",
            "} else if (false) {",
            "A write of what another thread has read, with no barrier between, is no race.",
        ),
        (
            "same-value-race",
            shadow,
            "!b.atomic && from && from[i] == p[i]",
            "false",
            "All threads of a block store one number, and that is called a race.",
        ),
        (
            "builds-alike",
            build,
            '"fast": ("-ftrivial-auto-var-init=zero",),',
            '"fast": ("-ftrivial-auto-var-init=pattern",),',
            "Local variables begin alike in both builds, and one that nobody wrote shows in neither.",
        ),
        (
            "shifts-unseen",
            build,
            '_UNDEFINED = ("shift", ',
            "_UNDEFINED = (",
            "A shift by the width of its type passes, of which a card makes another number.",
        ),
    ):
        yield Mutant(f"own-{name}", file, old, new, why, tests=("tests/validation/check/test_planted.py",))


def _greens() -> Iterator[Mutant]:
    """What keeps a wrong kernel from passing where its numbers, its bound or its file would let it."""
    yield _of(
        "builds-uncompared",
        "judging",
        'getattr(trial.executor, "flavor", "") == "checked"',
        'getattr(trial.executor, "flavor", "") == "never"',
        "Nobody compares the bits of two builds.",
        "test_planted",
    )
    yield _of(
        "endless-again",
        "operation",
        'self._endless = f"a launch of an earlier case took too long: {error}"',
        'self._endless = ""',
        "Every case of an endless kernel takes its time limit.",
        "test_planted",
    )
    yield _of(
        "early-end-left",
        "early_end",
        "        for name, own in before.items():\n            for module in (os, posix):\n                setattr(module, name, own)",
        "        for name, own in before.items():\n            for module in (posix,):\n                setattr(module, name, own)",
        "After a check the process cannot end itself.",
        "test_planted",
    )
    yield _of(
        "wide-bound-passes",
        "sensitivity",
        "elif float(np.median(shares)) < MOST:",
        "elif max(shares) < 0:",
        "A bound of half of every number passes in silence.",
        "test_sensitivity",
    )
    yield _of(
        "noise-is-a-number",
        "judgement",
        "NOISE = 2.0**-20",
        "NOISE = 0.0",
        "The noise of FP64 beside a true zero makes a case void.",
        "test_sensitivity",
    )
    yield _of(
        "conditions-free",
        "source_vocabulary",
        'if word not in self.macros and word not in ("defined", "true", "false"):',
        "if not word:",
        "A body for lanes alone is judged, and a card runs the other.",
        "test_source_vocabulary",
    )
    yield _of(
        "stars-free",
        "source_accesses",
        'elif token.text == "*" and self._unary(i)',
        'elif token.text == "*" and not token.text',
        "Memory is read by a star, and nothing watches it.",
        "test_source_vocabulary",
    )
    yield _of(
        "pointers-as-arrays",
        "source_accesses",
        "if name in self._others.get(here, ()):",
        "if not name:",
        "A pointer with the name of an array is indexed, and nothing watches it.",
        "test_source_vocabulary",
    )
    yield _of(
        "launch-bounds-free",
        "load",
        "if image.block > most:",
        "if image.block < 0:",
        "A block has more threads than its function is compiled for, which every card refuses.",
        "test_resources",
    )
    yield _of(
        "one-infinity",
        "recipes",
        '"places", row).permutation(columns)[:2]',
        '"places", row).permutation(columns)[:1]',
        "No row has two infinities.",
        "test_recipes",
    )


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from _machine()
    yield from _greens()
    yield from _questions()
    yield from _numbers()
    yield from _data()
    yield from _domains()
    yield from _mutants()
    yield from _page()
