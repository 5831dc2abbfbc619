"""Mutants of what judges block selection: its definition, near ties, and what must stay unwritten."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FOLDER, _TESTS = "validation/operations/block_select", "tests/validation/operations/block_select"


def _by_test(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(
        f"selection-{name}", f"{_FOLDER}/{file}", old, new, why, "block_select/*", tests=(f"{_TESTS}/{test}",)
    )


_ALL = (
    _by_test(
        "near-ties-of-twice-the-bound",
        "near_ties.py",
        "if share[at] > 1:",
        "if share[at] > 2:",
        "Scores twice as far apart as the bounds allow pass as near ties.",
        "test_near_ties.py",
    ),
    _by_test(
        "near-ties-of-one-scorer",
        "near_ties.py",
        "worse = shares[0] >= shares[1]",
        "worse = shares[0] >= 0",
        "Only the path's own preference is asked to be a near tie, not its baseline's.",
        "test_near_ties.py",
    ),
    _by_test(
        "near-ties-of-the-tail",
        "near_ties.py",
        "if strange or len(gained) != len(lost):",
        "if len(gained) != len(lost):",
        "Cells that have no score pass as near ties.",
        "test_near_ties.py",
    ),
    _by_test(
        "bound-without-cuts",
        "bound.py",
        "total += slice_error(rule, products, before, now, inside, most)",
        "total += 0 * slice_error(rule, products, before, now, inside, most)",
        "The bound leaves out what a tensor core cuts.",
        "test_bound.py",
    ),
    _by_test(
        "bound-without-a-lane",
        "bound.py",
        "after = np.abs(np.cumsum(_slices(q, k, FINE), axis=0))",
        "after = 0 * np.abs(np.cumsum(_slices(q, k, FINE), axis=0))",
        "The bound of a chain takes its sums to be nothing.",
        "test_bound.py",
    ),
    Mutant(
        "selection-definition-ties-to-later",
        f"{_FOLDER}/choice.py",
        'blocks = np.argsort(-scores, kind="stable")',
        'blocks = np.argsort(scores, kind="stable")[::-1]',
        "The definition prefers the later of equal blocks.",
        "block_topk/fp32/simt",
        ("topk_equal",),
    ),
    Mutant(
        "selection-stray-scores",
        f"{_FOLDER}/written.py",
        "(strayed(result.scores, steps[:, 2]) if scored else 0)",
        "0",
        "Scores behind the blocks of a query may be written to.",
        "block_select/fp32/simt",
        tests=(f"{_TESTS}/test_operation.py",),
    ),
)


def mutants() -> Iterator[Mutant]:
    """All of them."""
    yield from _ALL
