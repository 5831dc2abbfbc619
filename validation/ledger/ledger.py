"""The slack ledger: how much of their bounds the families of a profile used when somebody last looked.

A run at the ledger's seed is compared with it figure by figure. A figure that grew means that a kernel
lost accuracy or a bound became tighter; one that shrank, that a bound became looser or that the data
no longer reach what they reached. Either way somebody has to say why: `python -m validation ledger
--accept RUN.json --reason TEXT`.

Bits are pinned, so at one seed lanes under a tensor-core rule and a card that follows the rule give the
same outputs, and the figures of both are one number; only the FP64 reference may differ, far below the
bounds (RESOLUTION). Other seeds, rules and sizes are not compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from strata.executors.base import Executor, StrataError
from strata.executors.lanes import RULES, Rule
from validation.host import json_file, whole_file
from validation.ledger.slack_statistics import Family, Key
from validation.numerics.tensorcore_rules import rule_on

FILE = FilePath(__file__).with_name("ledger.json")
SCHEMA = "strata-slack-ledger/1"
#: Profiles whose figures are kept. A run of one under a rule of the ledger must find all its families there.
KEPT = ("quick", "standard")
#: A figure may move by this factor, up or down. At other seeds nothing changed and the figures of a quick
#: family still spread about their median by more: over 16 seeds one in a hundred `rms` is off by a factor of 2,
#: a `max` by 3. At one seed nothing moves at all until kernel, bound, data or reference do, so the factor is
#: below that spread: it leaves room for one rounding more or less in a sum, not for another bound.
FACTOR = 1.5
#: Figures below this are as good as 0. The reference is off by up to 260 roundings of 2**-53 in a score and by one
#: for each of up to 2,051 cells in a sum, so by 2**-42 of the sum; no bound is below 2**-22 of it, the split of q
#: and p (bounds.prompt_attention). That is 2**-20 of a bound, doubled twice for the difference of two outputs.
RESOLUTION = 2.0**-18
#: Digits of a figure in the file: far finer than FACTOR, and coarser than what another BLAS changes.
_DIGITS = 4


@dataclass(frozen=True)
class Ledger:
    """sections: families by rule and profile; history: every acceptance, oldest first."""

    sections: Mapping[tuple[str, str], Mapping[Key, Family]] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()

    @property
    def rules(self) -> set[str]:
        return {rule for rule, _ in self.sections}


@dataclass(frozen=True)
class Drift:
    """A figure outside what the ledger allows, or a family that is on one side only (figure empty): gone when it is the
    ledger's."""

    key: Key
    figure: str
    now: float | None
    then: float | None
    gone: bool = False

    def size(self) -> float:
        """How far it moved, as a factor of 1 or more: infinity from or to nothing, zero or NaN."""
        if not self.now or not self.then or not (math.isfinite(self.now) and math.isfinite(self.then)):
            return math.inf
        return max(self.now / self.then, self.then / self.now)

    def text(self) -> str:
        """One line: which figure of which family, now and in the ledger."""
        path, recipe = self.key
        if self.gone:
            return f"ledger: {path} {recipe}: the ledger has figures of it, and the profile plans it no more"
        if not self.figure:
            return f"ledger: {path} {recipe}: the ledger has no figures of these cases"
        sides = ["nothing" if x is None else f"{x:.{_DIGITS}g}" for x in (self.now, self.then)]
        return f"ledger: {path} {recipe}: {self.figure} is {sides[0]}, the ledger has {sides[1]} (factor {FACTOR})"


def rule_name(executor: Executor) -> str | None:
    """The tensor-core rule under which an executor's figures are kept: an architecture, or `block,F` where several
    share it. None where no rule is known."""
    rule: Rule | None = getattr(executor, "rule", None) or RULES.get(rule_on(executor) or "")
    if rule is None:
        return None
    names = [name for name, one in RULES.items() if one == rule]
    return names[0] if len(names) == 1 else f"{rule.block},{rule.frac}"


def drifted(now: float, then: float, factor: float = FACTOR) -> bool:
    """Whether a figure left [then / factor, then * factor]. NaN has; 0 must stay 0, to the reference's resolution."""
    if not (math.isfinite(now) and math.isfinite(then)) or now < 0 or then < 0:
        return True
    if then == 0:
        return now > RESOLUTION
    a, b = max(now, RESOLUTION), max(then, RESOLUTION)
    return not b <= a * factor or not a <= b * factor


def compare(key: Key, now: Family, then: Family | None) -> Iterator[Drift]:
    """What a family differs in from the ledger's."""
    if then is None or then.digest != now.digest or then.cases != now.cases:
        yield Drift(key, "", None, None)
        return
    for name in sorted({*now.figures, *then.figures}):
        one, two = now.figures.get(name), then.figures.get(name)
        if one is None or two is None or drifted(one, two):
            yield Drift(key, name, one, two)


def load(file: FilePath | None = None) -> Ledger:
    """The ledger of a file (default: the repository's). Raises StrataError when it is not one."""
    file = FILE if file is None else file
    held = json_file.read(file, "the slack ledger")
    try:
        if held["schema"] != SCHEMA:
            raise ValueError(f"schema is {held['schema']!r}, expected {SCHEMA!r}")
        sections = {
            (rule, profile): {
                (path, recipe): _family(entry) for path, recipes in paths.items() for recipe, entry in recipes.items()
            }
            for rule, by_profile in held["rules"].items()
            for profile, paths in by_profile.items()
        }
        strange = {profile for _, profile in sections} - set(KEPT)
        if strange:
            raise ValueError(f"profile {min(strange)!r}, expected one of {', '.join(KEPT)}")
        return Ledger(sections, [dict(entry) for entry in held["history"]])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StrataError(f"{str(file)!r} is no slack ledger: {type(error).__name__}: {error}") from error


def _family(entry: Mapping[str, Any]) -> Family:
    figures = {}
    for name, value in entry["figures"].items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{name} is {value!r}, expected a number")
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value!r}, expected a finite number of 0 or more")
        figures[name] = float(value)
    cases, digest = entry["cases"], entry["digest"]
    if not isinstance(cases, int) or cases < 1 or not isinstance(digest, str):
        raise ValueError(f"{cases!r} cases of digest {digest!r}, expected a number of 1 or more and a text")
    return Family(cases, digest, figures)


def rounded(family: Family) -> Family:
    """A family with its figures as the file writes them."""
    figures = {name: float(f"{value:.{_DIGITS}g}") for name, value in family.figures.items()}
    return Family(family.cases, family.digest, dict(sorted(figures.items())))


def text(ledger: Ledger) -> str:
    """The file's text: JSON, everything sorted, one line a family and one an acceptance."""
    rules: dict[str, Any] = {}
    for (rule, profile), families in sorted(ledger.sections.items()):
        paths = rules.setdefault(rule, {}).setdefault(profile, {})
        for (path, recipe), family in sorted(families.items()):
            kept = rounded(family)
            line = {"cases": kept.cases, "digest": kept.digest, "figures": kept.figures}
            paths.setdefault(path, {})[recipe] = line
    history = [json.dumps(entry, sort_keys=True, allow_nan=False) for entry in ledger.history]
    accepted = "[\n  " + ",\n  ".join(history) + "\n ]" if history else "[]"
    return f'{{\n "schema": "{SCHEMA}",\n "history": {accepted},\n "rules": {_nested(rules, 4, 1)}\n}}\n'


def _nested(value: Mapping[str, Any], depth: int, indent: int) -> str:
    """JSON of `depth` levels of objects on lines of their own, the rest of each on its line."""
    if depth == 0 or not value:
        return json.dumps(value, allow_nan=False)
    pad = " " * (indent + 1)
    lines = [f"{pad}{json.dumps(key)}: {_nested(item, depth - 1, indent + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


def save(ledger: Ledger, file: FilePath | None = None) -> None:
    """Replace the file. Raises StrataError when it cannot be written."""
    file = FILE if file is None else file
    whole_file.write(file, text(ledger))
