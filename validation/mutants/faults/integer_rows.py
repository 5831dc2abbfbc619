"""Mutants of records whose rows are integers, of the choice that FP64 allows, and of who serves where there are tiers."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FOLDER = "validation/operations/block_select"
WORDS, LAWFUL, RECORD = "validation/core/row_words.py", f"{_FOLDER}/lawful.py", f"{_FOLDER}/record.py"
DISPATCH, GATE = "strata/dispatch.py", "strata/gates/gate.py"


def _fault(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(f"ids-{name}", file, old, new, why, tests=(f"tests/{test}.py",))


def _words() -> Iterator[Mutant]:
    test = "validation/core/test_row_words"
    yield _fault(
        "kept-as-floats",
        WORDS,
        'return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))',
        'return np.ascontiguousarray(values, dtype="<f4")',
        "Integers of a row are kept as the floats that are nearest.",
        test,
    )
    yield _fault(
        "of-any-type",
        WORDS,
        '    if values.dtype.newbyteorder("=") not in WORDS:\n',
        "    if False:\n",
        "A row may be of elements whose bytes are no words.",
        test,
    )
    yield _fault(
        "compared-as-numbers",
        WORDS,
        'return np.flatnonzero(words(got).view("<u4") != words(due).view("<u4"))',
        "return np.flatnonzero(got != due)",
        "Zeros of both signs are one word, and a NaN differs from itself.",
        test,
    )


def _lawful() -> Iterator[Mutant]:
    test = "validation/operations/block_select/test_lawful"
    yield _fault(
        "any-order",
        LAWFUL,
        "        if high[x] < low[y]:\n",
        "        if False:\n",
        "A row of a record may hold any blocks.",
        test,
    )
    yield _fault(
        "bounds-of-one-side",
        LAWFUL,
        "for side in (-1, 1))",
        "for side in (-1, 0))",
        "Of two blocks that bounds cannot tell apart, the lower one may not be chosen.",
        test,
    )
    yield _fault(
        "tail-left",
        LAWFUL,
        "    if not np.array_equal(behind, due):\n",
        "    if False:\n",
        "Cells behind the last complete block may be left.",
        test,
    )
    yield _fault(
        "cut-anywhere",
        LAWFUL,
        "        if not np.array_equal(own, np.arange(counts[block])):\n",
        "        if False:\n",
        "Any cells of a block that is cut may be chosen.",
        test,
    )
    yield _fault(
        "record-unlooked-at",
        RECORD,
        "            if why:\n",
        "            if False:\n",
        "Rows of a record are not held against the choice by FP64.",
        "validation/operations/block_select/test_record",
    )


def _serving() -> Iterator[Mutant]:
    yield _fault(
        "one-tier-is-asked",
        DISPATCH,
        "    for path in tried:\n",
        "    for path in tried[:1]:\n",
        "Where the highest tier is refused the baseline serves, whatever else is open.",
        "strata/test_dispatch",
    )
    yield _fault(
        "lowest-tier-first",
        DISPATCH,
        "key=lambda path: -path.tier_number",
        "key=lambda path: path.tier_number",
        "The plain path serves before the tensor cores that were asked for.",
        "strata/test_dispatch",
    )
    yield _fault(
        "plain-paths-are-open",
        GATE,
        "    if rule is None or path.operation in policy.ungated:\n",
        '    if rule is None or path.tier == "simt" or path.operation in policy.ungated:\n',
        "A plain path that replaces another needs no record.",
        "strata/test_dispatch",
    )


def mutants() -> Iterator[Mutant]:
    yield from _words()
    yield from _lawful()
    yield from _serving()
