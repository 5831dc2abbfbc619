"""Mutants by which something is asked no more: cases, recipes, laws, controls, and the floor that misses them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

PROFILES, PLAN = "validation/operations/attention/plan.py", "validation/operations/router/plan.py"
PROOF, VALUES = "validation/controls/self_test.py", "validation/controls/values.py"


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"vanished-{name}", file, old, new, why, controls=True)


def _tested(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    return Mutant(f"vanished-{name}", file, old, new, why, tests=tuple(f"tests/validation/{test}.py" for test in tests))


def mutants() -> Iterator[Mutant]:
    """What is gone, and ways in which nobody would say so."""
    yield _fault(
        "recipe",
        PROFILES,
        'names = [name for name in _attention_names() if name != "width_edges"]',
        'names = [name for name in _attention_names() if name not in ("width_edges", "flat")]',
        "A recipe of attention is in no quick case.",
    )
    yield _fault("laws-of-quick", PROFILES, "    cases += _law_cases(seed)\n", "", "No quick case asks the laws.")
    yield _fault(
        "mode-of-a-case",
        PROFILES,
        'n_head_kv=3, group=8), ("int8",)),',
        'n_head_kv=3, group=8), ("fp16",)),',
        "Another mode has the case of three KV heads.",
    )
    yield _fault(
        "checked-build",
        PROFILES,
        '*(Planned(case, flavor="checked") for case in [*cases, wide]),',
        '*(Planned(case, flavor="fast") for case in [*cases, wide]),',
        "Quick cases of attention are run in the build that watches nothing.",
    )
    yield _fault(
        "required-size",
        PROFILES,
        "REQUIRED = _REQUIRED.sizes",
        "REQUIRED = _REQUIRED.sizes[:1]",
        "A record needs no ragged size.",
    )
    yield _fault(
        "page-size",
        "validation/operations/kv_pack/plan.py",
        "for page_size in PAGE_SIZES]\n    page_size, heads",
        "for page_size in PAGE_SIZES[1:]]\n    page_size, heads",
        "Packing meets no pages of one cell.",
    )
    yield _fault(
        "pairs-of-formats",
        "validation/operations/experts/plan.py",
        'every = [small(name, seed) for name in ("experts_plain", "experts_decades", "experts_golden")]',
        'every = [small(name, seed) for name in ("experts_plain", "experts_decades")]',
        "Blocks that ggml quantised are run in two pairs of formats alone.",
    )
    yield _fault(
        "router-sizes",
        PLAN,
        "_QUICK = ((9, 70, 10), (5, 512, 10), (3, 256, 8), (4, 5, 1))",
        "_QUICK = ((9, 70, 10), (3, 256, 8), (4, 5, 1))",
        "No quick case routes among 512 experts.",
    )
    yield _fault(
        "law",
        "validation/operations/attention/metamorphic.py",
        '    "order": order,\n',
        "",
        "Cells of a tensor-core step are never asked in another order.",
    )
    yield _fault(
        "control", VALUES, '    ("NaN", NAN, 1.0, 1e30, WRONG),\n', "", "Nobody asks whether a NaN is within a bound."
    )
    yield _fault(
        "controls-of-a-kind",
        PROOF,
        '    "gates": judgements.gating,\n',
        "",
        "The gates are not asked what they refuse.",
    )
    yield _tested(
        "floor-not-asked",
        PROOF,
        "    if groups is GROUPS:\n",
        "    if False:\n",
        "Nothing is held against the floor.",
        "controls/test_self_test",
    )
    yield _tested(
        "floor-lowers-itself",
        "validation/ledger/floor.py",
        "    if gone and not reason:\n",
        "    if False:\n",
        "What vanished goes from the floor without a reason.",
        "ledger/test_floor",
    )
    yield _tested(
        "section-without-a-floor",
        "validation/ledger/floor.py",
        '        return f"{section} is not in the floor ({UPDATE})"\n',
        "        return WHOLE\n",
        "A section that the floor does not have stands.",
        "ledger/test_floor",
    )
    yield _tested(
        "ledger-keeps-quiet",
        "validation/ledger/command.py",
        "    return 1 if gone else 0\n",
        "    return 0\n",
        "The ledger command exits 0 although families are missing.",
        "ledger/test_floor",
    )
    yield _tested(
        "family-not-missed",
        "validation/ledger/review.py",
        "for key in section if key[0] in paths and key not in plan]",
        "for key in section if False]",
        "A run does not miss a family that is planned no more.",
        "ledger/test_review",
    )
