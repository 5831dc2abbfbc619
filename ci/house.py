"""Counts how the house stands: `python -m ci.house`, whose figures a test holds to their goals.

Levels of imports, circles and loose files of `validation/`; every place that tells operations apart by name; and,
with `--touched A..B`, the files that a range of commits touches. Nothing is imported: it reads the syntax trees, and
git's history. Exit status: 0 when every figure meets its goal, 1 when one does not, 2 when it could not count.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath

from strata.command import command
from strata.executors.base import StrataError
from strata.kernels.registry import DESCRIPTORS
from validation.operations import registry

ROOT = FilePath(__file__).resolve().parent.parent
PACKAGE = "validation"
#: Where operations describe themselves, so that their names belong there.
OWN = ("strata/kernels/", "validation/operations/")
#: Files that name operations and tell none apart, each with the reason.
TABLES: Mapping[str, str] = {
    "strata/switches.py": "which operation a switch is about, for people; nothing asks it",
    "validation/controls/": "kernels that are wrong on purpose, by operation; a test says that none is without",
    "validation/mutants/faults/": "faults, each with the paths that it is judged on",
}
#: What takes the name of an operation, or of its data, to choose something by it.
_CHOOSERS = ("taking", "of_kind", "of_operation", "startswith", "endswith")
#: Levels of `validation`, at most.
MOST_LEVELS = 9


# ---- imports -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Module:
    """A file of Python.

    Parameters
    ----------
    file
        Where it is, from the root of the repository.
    name
        As it is imported.
    imports
        Names of the modules, or of what is in them, that it imports anywhere, also within functions.
    """

    file: FilePath
    name: str
    imports: frozenset[str]


def modules(root: FilePath = ROOT, package: str = PACKAGE) -> list[Module]:
    """Every module of a package, with the absolute imports that it has. Tests import nothing by dots."""
    made = []
    for file in sorted((root / package).rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        made.append(Module(file.relative_to(root), name, frozenset(_imported(_tree(file)))))
    return made


@cache
def _tree(file: FilePath) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


Graph = Mapping[str, frozenset[str]]


def floors(found: Sequence[Module], package: str = PACKAGE) -> Graph:
    """Which folder or loose file of a package imports which other one."""
    edges: dict[str, set[str]] = {}
    for module in found:
        own = module.name.split(".")[1] if "." in module.name else ""
        edges.setdefault(own, set())
        for name in module.imports:
            head, _, rest = name.partition(".")
            if head == package and rest:
                edges[own].add(rest.partition(".")[0])
    return {floor: frozenset(edges[floor] & set(edges) - {floor}) for floor in edges if floor}


def files(found: Sequence[Module]) -> Graph:
    """Which module imports which other one."""
    known = {module.name for module in found}
    edges = {}
    for module in found:
        exact = (name if name in known else name.rpartition(".")[0] for name in module.imports)
        edges[module.name] = frozenset(set(exact) & known - {module.name})
    return edges


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """Groups each member of which imports, on some way, every other one."""

    @cache
    def reached(of: str) -> frozenset[str]:
        seen: set[str] = set()
        waiting = list(graph[of])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph[one]
        return frozenset(seen)

    groups = {tuple(sorted(other for other in reached(one) if one in reached(other))) for one in graph}
    return sorted(group for group in groups if group)


def longest(graph: Graph) -> tuple[str, ...]:
    """The longest chain of imports, from the top. Raises StrataError where there is a circle, which has no end."""
    found = circles(graph)
    if found:
        raise StrataError(f"{', '.join(found[0])} import one another: expected no circle")

    @cache
    def below(of: str) -> tuple[str, ...]:
        chains = [below(one) for one in sorted(graph[of])]
        return (of, *max(chains, key=len, default=()))

    return max((below(one) for one in sorted(graph)), key=len)


def loose(root: FilePath = ROOT, package: str = PACKAGE) -> list[str]:
    """Files of Python that lie beside the folders of a package."""
    return sorted(file.name for file in (root / package).glob("*.py") if file.stem != "__init__")


# ---- names of operations -----------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Place:
    """A place that tells operations apart by name. said: the words as they stand there."""

    file: str
    line: int
    said: str

    def text(self) -> str:
        """As editors jump to it."""
        return f"{self.file}:{self.line}: {self.said}"


@dataclass(frozen=True)
class Words:
    """Names to look for.

    Parameters
    ----------
    names
        Of operations, which mean nothing else wherever they stand, alone or before a slash.
    ordinary
        Words that mean other things too, as kinds of data have: they count where something is chosen by them.
    """

    names: frozenset[str]
    ordinary: frozenset[str]


def words() -> Words:
    """Those of every operation that there is."""
    names = frozenset((*DESCRIPTORS, *registry.found()))
    kinds = {one.data for one in registry.found().values()} | {one.takes for one in DESCRIPTORS.values()}
    return Words(names, frozenset(kinds) - names)


def places(root: FilePath = ROOT, known: Words | None = None) -> list[Place]:
    """Every place of both packages that does, outside of what is an operation's own and of `TABLES`."""
    known = words() if known is None else known
    found: list[Place] = []
    for package in ("strata", PACKAGE):
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix()
            if not name.startswith((*OWN, *TABLES)):
                found += [Place(name, line, said) for line, said in told_apart(_tree(file), known)]
    return sorted(found)


def told_apart(tree: ast.Module, known: Words) -> Iterator[tuple[int, str]]:
    """Line and text of each constant of a module that is a name of an operation, docstrings apart."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    choosing = {id(inner) for node in ast.walk(tree) for inner in _chosen_by(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        word = node.value.partition("/")[0]
        if word in known.names or (word in known.ordinary and id(node) in choosing):
            yield node.lineno, repr(node.value)


def _chosen_by(node: ast.AST) -> Iterator[ast.AST]:
    """Everything in a comparison, in the pattern of a match, and in a call of what chooses by name."""
    called = node.func if isinstance(node, ast.Call) else None
    name = getattr(called, "id", None) or getattr(called, "attr", None)
    if isinstance(node, (ast.Compare, ast.match_case)) or name in _CHOOSERS:
        yield from ast.walk(node.pattern if isinstance(node, ast.match_case) else node)


# ---- files to touch ----------------------------------------------------------------------------------------------


def touched(commits: str, root: FilePath = ROOT) -> list[str]:
    """Files that a range of commits adds or changes, tests aside. Raises StrataError for a range that git does not
    know."""
    done = subprocess.run(
        ["git", "diff", "--name-only", "--no-renames", commits, "--"], cwd=root, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise StrataError(f"git cannot compare {commits!r}: {said}")
    return [line for line in done.stdout.splitlines() if not line.startswith("tests/")]


# ---- the figures -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """One of them.

    Parameters
    ----------
    name, count, goal
        What is counted, how many there are, and how many there may be at most.
    found
        What was counted, a line each.
    """

    name: str
    count: int
    goal: int
    found: tuple[str, ...] = ()

    @property
    def met(self) -> bool:
        """Whether it is no more than its goal."""
        return self.count <= self.goal

    def text(self) -> str:
        """A line for the figure, and what was counted where that is too much."""
        said = f"{self.name}: {self.count}, goal {'at most ' if self.goal else ''}{self.goal}"
        return said if self.met else "\n".join([said, *(f"  {line}" for line in self.found)])


def figures(root: FilePath = ROOT) -> list[Figure]:
    """All of them, of a checkout."""
    found = modules(root)
    between = circles(files(found)) + circles(floors(found))
    chain = () if circles(floors(found)) else longest(floors(found))
    apart = places(root)
    return [
        Figure("circles of imports", len(between), 0, tuple(", ".join(one) for one in between)),
        Figure("import levels of validation/", len(chain), MOST_LEVELS, (" > ".join(chain),)),
        Figure("loose files of validation/", len(loose(root)), 1, tuple(loose(root))),
        Figure("places that tell operations apart by name", len(apart), 0, tuple(one.text() for one in apart)),
    ]


@command()
def main() -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--touched", metavar="A..B", help="count the files that a range of commits touches instead")
    options = parser.parse_args()
    if options.touched:
        named = touched(options.touched)
        print("\n".join([f"{len(named)} files besides tests", *(f"  {name}" for name in named)]))
        return 0
    counted = figures()
    print("\n".join(figure.text() for figure in counted))
    return 0 if all(figure.met for figure in counted) else 1


if __name__ == "__main__":
    sys.exit(main())
