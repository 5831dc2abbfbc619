"""Mutants of what counts how the house stands, and of what operations say in the place of tables by their names."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_HOUSE, _REGISTRY, _SOAK = "ci/house.py", "validation/operations/registry.py", "validation/soak/plan.py"


def _of(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(f"house-{name}", file, old, new, why, tests=(f"tests/{test}.py",))


def mutants() -> Iterator[Mutant]:
    yield _of(
        "circles-unseen",
        _HOUSE,
        "sorted(other for other in reached(one) if one in reached(other))",
        "sorted(other for other in graph[one] if one in graph[other])",
        "A circle of three modules is none.",
        "ci/test_house",
    )
    yield _of(
        "imports-of-the-head-alone",
        _HOUSE,
        "for node in ast.walk(tree):\n        if isinstance(node, ast.Import):",
        "for node in tree.body:\n        if isinstance(node, ast.Import):",
        "Imports within functions are not read.",
        "ci/test_house",
    )
    yield _of(
        "paths-unseen",
        _HOUSE,
        'word = node.value.partition("/")[0]',
        "word = node.value",
        "The name of a path tells no operations apart.",
        "ci/test_house",
    )
    yield _of(
        "kinds-unseen",
        _HOUSE,
        "isinstance(node, (ast.Compare, ast.match_case)) or name in _CHOOSERS",
        "isinstance(node, ast.match_case)",
        "Comparisons with a kind of data are not seen.",
        "ci/test_house",
    )
    yield _of(
        "figures-always-met",
        _HOUSE,
        "return self.count <= self.goal",
        "return self.count >= 0",
        "Every figure meets its goal.",
        "ci/test_house",
    )
    yield _of(
        "tests-counted",
        _HOUSE,
        ' if not line.startswith("tests/")]',
        "]",
        "Tests count among the files that a change touches.",
        "ci/test_house",
    )
    yield _of(
        "operations-here-alone",
        _REGISTRY,
        "iter_modules(operations.__path__)",
        "iter_modules(operations.__path__[:1])",
        "Folders of operations in a second place are not found.",
        "validation/operations/test_new_operation",
    )
    yield _of(
        "turns-of-a-soak",
        _SOAK,
        "for _ in range(registry.of(path).soak_turns)",
        "for _ in range(1)",
        "An operation that asks for more turns of a soak gets one.",
        "validation/soak/test_plan",
    )
