"""The floor: by name, what plans, controls and the ledger had when somebody last looked. Only a reason lowers it.

A case, a recipe, a control or a family that vanishes leaves everything else green: nothing fails that is not asked. So
what there was is a file, and what there is is compared with it before every run of parity, by `controls` and by
`ledger`. More than the floor is fine; `python -m validation floor --update` raises it, and lowers it where `--reason`
says why something went, which stays in the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Any

from strata.executors.base import StrataError
from strata.kernels.paths import PATHS
from validation.host import json_file, whole_file
from validation.ledger import ledger
from validation.ledger.ledger import Ledger
from validation.operations import registry
from validation.run import plan as profiles
from validation.soak.plan import cycle

FILE = FilePath(__file__).with_name("floor.json")
SCHEMA = "strata-floor/1"
UPDATE = "python -m validation floor --update"

#: Names by key: what one section of the floor holds.
Names = Mapping[str, frozenset[str]]
#: Sections by name.
Sections = Mapping[str, Names]


@dataclass(frozen=True)
class Floor:
    """sections: what there must be; lowered: every time it was lowered, oldest first."""

    sections: Sections = field(default_factory=dict)
    lowered: Sequence[Mapping[str, Any]] = ()


def _named(pairs: Iterable[tuple[str, str]]) -> Names:
    found: dict[str, set[str]] = {}
    for key, name in pairs:
        found.setdefault(key, set()).add(name)
    return {key: frozenset(names) for key, names in found.items()}


def _plan(entries: Sequence[profiles.Entry]) -> Names:
    """Paths by build on lanes and case."""
    jobs = profiles.plan(list(PATHS.values()), entries, lanes=True)
    return _named((f"{job.flavor} {job.case.text()}", job.path.name) for job in jobs)


def plans(seed: int = profiles.SEED) -> Iterator[tuple[str, Names]]:
    """What each profile and a record plan, on all paths."""
    for name in profiles.PROFILES:
        yield f"plan {name}", _plan(profiles.entries(seed, name, list(PATHS.values())))
    yield "plan of records", _plan(profiles.required(seed))


def parts() -> Iterator[tuple[str, Names]]:
    """What plans are made of: paths, recipes and laws, and the paths that a soak goes through."""
    yield "paths", _named((path.operation, name) for name, path in PATHS.items())
    yield "recipes", _named((recipe.operation, name) for name, recipe in registry.recipes_of_all().items())
    yield "laws", _named((law, path.name) for path in PATHS.values() for law in registry.of(path).relation_names(path))
    yield "soak", _named((path.operation, path.name) for path in cycle())


def of_ledger(held: Ledger) -> Names:
    """Paths by rule, profile and recipe."""
    return _named(
        (f"{rule} {profile} {recipe}", path)
        for (rule, profile), section in held.sections.items()
        for path, recipe in section
    )


def of_controls(names: Mapping[str, Iterable[str]]) -> Names:
    """Controls by group."""
    return {group: frozenset(own) for group, own in names.items()}


def present(controls: Mapping[str, Iterable[str]]) -> Sections:
    """Every section as it is now. controls: names by group."""
    return {
        **dict(plans()),
        **dict(parts()),
        "ledger": of_ledger(ledger.load()),
        "controls": of_controls(controls),
    }


def missing(held: Names, now: Names) -> list[str]:
    """What is in `held` and not in `now`, a line each: `key: names`, sorted, a whole key without its names."""
    lines = []
    for key, names in sorted(held.items()):
        gone = names - now.get(key, frozenset())
        if gone == names:
            lines.append(f"{key}: all of {len(names)}")
        elif gone:
            lines.append(f"{key}: {', '.join(sorted(gone))}")
    return lines


def load(file: FilePath | None = None) -> Floor:
    """The floor of a file (default: the repository's). Raises StrataError when it is not one."""
    file = FILE if file is None else file
    held = json_file.read(file, "the floor")
    try:
        if held["schema"] != SCHEMA:
            raise ValueError(f"schema is {held['schema']!r}, expected {SCHEMA!r}")
        paths = [name for names in held["sections"]["paths"].values() for name in names]
        sections = {
            section: {key: _expanded(names, paths if _of_paths(section) else ()) for key, names in keys.items()}
            for section, keys in held["sections"].items()
        }
        return Floor(sections, [dict(entry) for entry in held["lowered"]])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StrataError(f"{str(file)!r} is no floor: {type(error).__name__}: {error}") from error


def _of_paths(section: str) -> bool:
    """Whether the names of a section are paths, which the file writes as patterns of those it knows."""
    return section.startswith("plan ") or section in ("ledger", "laws", "soak")


def _expanded(names: Sequence[str], paths: Sequence[str]) -> frozenset[str]:
    found: set[str] = set()
    for name in names:
        own = [path for path in paths if fnmatchcase(path, name)] if "*" in name else [name]
        if not own:
            raise ValueError(f"{name!r} is no pattern of its paths")
        found.update(own)
    return frozenset(found)


def _patterns(names: frozenset[str], paths: frozenset[str]) -> list[str]:
    """Patterns of `paths` that give just `names`: an operation, or an operation and mode, where they have all of it."""
    left, out = set(names), []
    heads = {path.partition("/")[0] for path in names} | {path.rpartition("/")[0] for path in names}
    for head in sorted(heads, key=lambda head: (head.count("/"), head)):
        own = {path for path in paths if path.startswith(f"{head}/")}
        if own and own <= left and len(own) > 1:
            out.append(f"{head}/*")
            left -= own
    return sorted([*out, *left])


def text(floor: Floor) -> str:
    """The file's text: JSON, everything sorted, a line for each key."""
    paths = frozenset(name for names in floor.sections["paths"].values() for name in names)
    parts = []
    for section, keys in sorted(floor.sections.items()):
        lines = []
        for key, names in sorted(keys.items()):
            shown = _patterns(names, paths) if _of_paths(section) else sorted(names)
            lines.append(f"   {json.dumps(key)}: {json.dumps(shown, ensure_ascii=True)}")
        parts.append(f"  {json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n  }")
    lowered = [json.dumps(entry, sort_keys=True) for entry in floor.lowered]
    said = "[\n  " + ",\n  ".join(lowered) + "\n ]" if lowered else "[]"
    return f'{{\n "schema": "{SCHEMA}",\n "lowered": {said},\n "sections": {{\n' + ",\n".join(parts) + "\n }\n}\n"


def save(floor: Floor, file: FilePath | None = None) -> None:
    """Replace the file. Raises StrataError when it cannot be written."""
    file = FILE if file is None else file
    whole_file.write(file, text(floor))


def updated(held: Floor, now: Sections, reason: str, date: str) -> Floor:
    """The floor raised to what there is. Raises StrataError when something of it is gone and there is no reason."""
    gone = [
        f"{section}: {line}"
        for section, keys in sorted(held.sections.items())
        for line in missing(keys, now.get(section, {}))
    ]
    if gone and not reason:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise StrataError(f"{gone[0]}{more} would go from the floor, expected --reason TEXT that says why")
    entry = [{"date": date, "reason": reason, "gone": gone}] if gone else []
    return Floor(now, [*held.lowered, *entry])


#: Answers whether a section stands: what is said when it does.
WHOLE = "whole"


def standing(section: str, now: Callable[[], Names], held: Callable[[], Floor] = load) -> str:
    """WHOLE, or what a section lacks and how to lower it."""
    sections = held().sections
    if section not in sections:
        return f"{section} is not in the floor ({UPDATE})"
    gone = missing(sections[section], now())
    if not gone:
        return WHOLE
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return f"{section} lacks {gone[0]}{more} ({UPDATE} --reason TEXT lowers the floor)"
