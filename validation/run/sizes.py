"""Every constant of the kernels and of what launches them, and the cases on both sides of those at which something
changes: what docs/sizes.md lists and a test holds against the sources and the quick plan.

A size is measured over the cases of the quick profile, or of the checks beside them. Each operation says which
constants its kernels have, in its module `sizes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from strata.executors.base import KERNELS
from strata.kernels.paths import PATHS
from validation.core.sizes import Size, Sizes
from validation.operations import registry
from validation.run import plan as profiles


def known() -> list[Sizes]:
    """What the operations that have kernels of this repository say, in the order of lists and plans."""
    return [operation.sizes for operation in registry.kinds() if operation.sizes is not None]


def sizes() -> list[Size]:
    """Every size at which something changes."""
    return [size for own in known() for size in own.table]


def fixed() -> dict[str, list[str]]:
    """Constants at which no size of a case makes a difference, by the reason."""
    found: dict[str, list[str]] = {}
    for own in known():
        for reason, names in own.fixed.items():
            found.setdefault(reason, []).extend(names)
    return found


#: Names of modules that are no sizes.
_WORDS = (
    *("FORMATS", "MODE_FORMATS", "MODES", "EXPERT_MODES", "STAGES", "DESCRIPTOR"),
    *("KERNELS", "SIMT_SCORER", "SPLITTER", "TENSOR_SCORER"),
)


def constants() -> list[str]:
    """Every constant of the files that operations name, and of all headers, as `file:NAME`; once, where a source has it
    for several tiers."""
    return list(dict.fromkeys(_constants()))


def _constants() -> Iterator[str]:
    sources = [KERNELS / f"{name}.cu" for own in known() for name in own.sources]
    for file in (*sources, *sorted((KERNELS / "include").glob("*.cuh"))):
        for line in re.findall(r"^constexpr \w+ ([^;{]*);", file.read_text(encoding="utf-8"), re.MULTILINE):
            for name in re.findall(r"(k[A-Z]\w*) = ", line):
                yield f"{file.name}:{name}"
    for module in (name for own in known() for name in own.modules):
        text = (KERNELS / f"{module}.py").read_text(encoding="utf-8")
        for line in re.findall(r"^((?:_?[A-Z][A-Z0-9_]*(?:, )?)+)(?:: [^=\n]*)? = ", text, re.MULTILINE):
            for name in line.split(", "):
                if name not in _WORDS and not re.search(rf"^{name}: ", text, re.MULTILINE):
                    yield f"{module}.py:{name}"


def table() -> str:
    """The inventory as two tables of Markdown, as docs/sizes.md has it."""

    def row(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    def shown(names: Sequence[str]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    def number(value: int | tuple[int, ...]) -> str:
        return ", ".join(f"{one:,}" for one in ((value,) if isinstance(value, int) else value))

    sized = [
        row(shown(size.names), size.changes, number(size.value), f"{size.of}, {size.side.value}") for size in sizes()
    ]
    without = [row(reason, shown(names)) for reason, names in fixed().items()]
    heads = (row("constants", "what changes", "at", "quick cases"), row("---", "---", "---", "---"))
    others = (row("no size makes a difference", "constants"), row("---", "---"))
    return "\n".join([*heads, *sized, "", *others, *without, ""])


def measured() -> dict[str, frozenset[int]]:
    """What the quick cases have of each size."""
    found: dict[str, set[int]] = {}
    for own in known():
        for name, values in own.beside.items():
            found.setdefault(name, set()).update(values)
    for entry in profiles.entries(profiles.SEED, "quick", list(PATHS.values())):
        own_sizes = registry.of_case(entry.case).sizes
        if own_sizes is not None:
            for name, some in own_sizes.of(entry.case):
                found.setdefault(name, set()).update(some)
    return {name: frozenset(values) for name, values in found.items()}
