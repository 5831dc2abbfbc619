"""Faults of what makes mutants of an author's source, and of what a compiler's refusal is followed by."""

from __future__ import annotations

from validation.mutants.mutant import Mutant

_TESTS = ("tests/validation/check/test_source_mutants.py",)
_PAGE = ("tests/docs/test_lanes_vocabulary.py",)
_NUMBERS = ("tests/strata/executors/lanes/test_numbers.py",)
_CHECK = "validation/check"


def mutants() -> list[Mutant]:
    """The table of this module."""
    return [
        Mutant(
            "source-mutant-dead-branch",
            f"{_CHECK}/source_branches.py",
            "            taken = here and _holds(name, condition, known)",
            "            taken = here",
            "A branch that the preprocessor drops gets faults, which no check can notice.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-over-comments",
            f"{_CHECK}/source_structure.py",
            'if token.kind in ("comment", "directive")]',
            'if token.kind == "comment"]',
            "An edit reaches over a directive and takes it along.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-declarations",
            f"{_CHECK}/source_declarations.py",
            '"__attribute__", "shared_array"}',
            '"__attribute__"}',
            "The length of a shared array is edited, which the launch's own length holds in check.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-maximum",
            f"{_CHECK}/source_edits.py",
            "    sides = {_plain(code, first, i - 1), _plain(code, i + 1, last)}",
            "    sides = {_plain(code, first, i), _plain(code, i + 1, last)}",
            "A maximum is not known for one, so its boundary is moved, which changes nothing.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-any-thread",
            f"{_CHECK}/source_edits.py",
            "    return not code.thread_names.isdisjoint(",
            "    return code.thread_names.isdisjoint(",
            "The one thread of a block that stores is taken for another, which stores the same.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-endless",
            f"{_CHECK}/source_control.py",
            'if loop is not None and text == ">" and',
            'if loop is not None and text == "<" and',
            "A loop that halves its offset down to zero runs forever.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-undefined",
            f"{_CHECK}/source_edits.py",
            "        if loop.condition[0] <= i <= loop.condition[1]:",
            "        if loop.condition[0] <= i < loop.condition[0]:",
            "A loop walks past the end of a thread's own array, of which a compiler may make anything.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-operands",
            f"{_CHECK}/source_values.py",
            "            first, last = code.left(i, level(text)), code.right(i, level(text) + 1)",
            "            first, last = code.left(i, level(text) + 1), code.right(i, level(text) + 1)",
            "Of a product with a quotient after it one factor is exchanged alone.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-spread",
            f"{_CHECK}/source_mutants.py",
            "group[(2 * j + 1) * len(group) // (2 * number)].name",
            "group[j].name",
            "Where some mutants are tried, they all lie at the beginning of the source.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-names",
            f"{_CHECK}/source_mutants.py",
            "        unique = place if met[place] == 1 else",
            "        unique = place if met[place] <= 2 else",
            "Two mutants of a line have one name.",
            tests=_TESTS,
        ),
        Mutant(
            "source-mutant-other-source",
            f"{_CHECK}/source_mutants.py",
            "        if source[first:last] != self.old:",
            "        if not source[first:last]:",
            "A mutant is put into a source that it was not made from.",
            tests=_TESTS,
        ),
        Mutant(
            "contrast-any-fate",
            f"{_CHECK}/contrast.py",
            "if all(holds(sizes[name], tile) != passes for sizes, passes in fates):",
            "if all(holds(sizes[name], tile) or passes for sizes, passes in fates):",
            "Sizes are said to fail although some of them pass.",
            tests=("tests/validation/check/test_contrast.py",),
        ),
        Mutant(
            "contrast-of-one",
            f"{_CHECK}/contrast.py",
            "_LEAST = 2",
            "_LEAST = 1",
            "One failing case is taken for a rule.",
            tests=("tests/validation/check/test_contrast.py",),
        ),
        Mutant(
            "advice-first-word",
            "strata/executors/lanes/advice.py",
            "for word in _QUOTED.findall(message):",
            "for word in _QUOTED.findall(message)[:1]:",
            "The compiler's first word in quotes is looked up even when nothing is known of it.",
            tests=_PAGE,
        ),
        Mutant(
            "advice-unsaid",
            "strata/executors/lanes/build.py",
            "{said}{advice.of(said)}",
            "{said}",
            "A refused word of CUDA comes without what to take instead.",
            tests=_PAGE,
        ),
        Mutant(
            "lanes-square-root",
            "strata/executors/lanes/runtime/vocabulary.hpp",
            "return __builtin_sqrtf(a); }",
            "return 1.0f / (1.0f / __builtin_sqrtf(a)); }",
            "A square root is rounded three times.",
            tests=_NUMBERS,
        ),
    ]
