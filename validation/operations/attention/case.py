"""A case: everything that decides the bytes of its inputs, as data with a one-line text form.

The text form, for example `recipe=uniform seed=7 context=64 queries=8 page=4 kv=2 group=12 top=2051`,
is what a run records and what `python -m validation parity --case '...'` takes; a failing verdict
prints it without its usual sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata import arguments
from strata.arguments import shown
from strata.executors.base import StrataError
from strata.nearest import hint
from validation.core.random_streams import Stream
from validation.operations.attention.selection import TOP

#: Text keys of the integer fields, in the order in which they are written.
_FIELDS = {
    "seed": "seed",
    "context": "context",
    "queries": "queries",
    "page": "page_size",
    "kv": "n_head_kv",
    "group": "group",
    "top": "top",
}
_DEFAULTS = {"page": 4, "kv": 2, "group": 12, "top": TOP}
#: What a recipe may add: `layer` of a capture, `packer` of its pool.
OPTIONS = ("layer", "packer")
#: The largest value of a number, by its key.
MOST = {"seed": (1 << 64) - 1, "context": 1 << 24, "queries": 1 << 20, "page": 4096, "kv": 64, "group": 64}


class CaseError(StrataError):
    """A case that cannot exist; the message names the value and what was expected."""


def number(key: str, value: str) -> int:
    """The number of a word `key=value` of a case. Raises CaseError for anything but decimal digits; the range of each
    key is the case's own."""
    try:
        return arguments.of(f"case: {key} is", arguments.whole(), value)
    except arguments.BadValueError as error:
        raise CaseError(str(error)) from None


def unknown_key(key: str, known: Sequence[str]) -> CaseError:
    """Of a word whose key no case has."""
    said = hint(key, known, f"expected one of {', '.join(known)}")
    return CaseError(f"case: unknown key {shown(key)}; {said}")


@dataclass(frozen=True)
class Case:
    """One case; it knows nothing of modes, paths or executors.

    context: cells that the last query sees; queries: how many, at positions context-queries ..
    context-1; page_size: cells of a page; group: query heads of one KV head; top: the most cells a
    query selects; options: what a recipe needs besides, sorted by name.
    """

    recipe: str
    seed: int
    context: int
    queries: int
    page_size: int = 4
    n_head_kv: int = 2
    group: int = 12
    top: int = TOP
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for key, name in _FIELDS.items():
            value = getattr(self, name)
            smallest = 0 if key in ("seed", "queries") else 1
            largest = MOST.get(key, 1 << 24)
            if not smallest <= value <= largest:
                raise CaseError(f"case: {key} is {value}, expected {smallest}..{largest}")
        if self.queries > self.context:
            raise CaseError(f"case: queries is {self.queries}, expected at most the context of {self.context}")
        for key, value in self.options:
            if key not in OPTIONS:
                raise CaseError(f"case: unknown option {key!r}, expected one of {', '.join(OPTIONS)}")
            if not value or any(char.isspace() or char in "='\"" for char in value):
                raise CaseError(f"case: option {key} is {value!r}, expected one word without '=' or quotes")
        if list(self.options) != sorted(set(self.options)):
            raise CaseError("case: options must be sorted and unique")

    @property
    def n_head(self) -> int:
        return self.n_head_kv * self.group

    def option(self, key: str, default: str) -> str:
        return dict(self.options).get(key, default)

    def stream(self, *names: str | int) -> Stream:
        """The random stream of this case's seed and recipe for a purpose."""
        return Stream.of(self.seed, self.recipe, *names)

    def text(self) -> str:
        """The canonical one-line form; `Case.parse` is its inverse."""
        words = [f"recipe={self.recipe}"]
        words += [f"{key}={getattr(self, name)}" for key, name in _FIELDS.items()]
        words += [f"{key}={value}" for key, value in self.options]
        return " ".join(words)

    def brief(self) -> str:
        """The text form without what may be left out: `page`, `kv`, `group` and `top` at their defaults."""
        usual = {f"{key}={value}" for key, value in _DEFAULTS.items()}
        return " ".join(word for word in self.text().split() if word not in usual)

    @staticmethod
    def parse(text: str) -> Case:
        """The case of a text form. `page`, `kv`, `group` and `top` may be left out."""
        recipe = ""
        numbers: dict[str, int] = dict(_DEFAULTS)
        options: dict[str, str] = {}
        seen: set[str] = set()
        for word in text.split():
            key, equals, value = word.partition("=")
            if not equals or not value:
                raise CaseError(f"case: {shown(word)} is not of the form key=value")
            if key in seen:
                raise CaseError(f"case: {key} is said twice, expected once")
            seen.add(key)
            if key == "recipe":
                recipe = value
            elif key in _FIELDS:
                numbers[key] = number(key, value)
            elif key in OPTIONS:
                options[key] = value
            else:
                raise unknown_key(key, ["recipe", *_FIELDS, *OPTIONS])
        missing = [key for key in ("recipe", *_FIELDS) if key not in numbers and not (key == "recipe" and recipe)]
        if missing:
            raise CaseError(f"case: {missing[0]} is missing, expected e.g. recipe=uniform seed=1 context=64 queries=8")
        fields = {_FIELDS[key]: value for key, value in numbers.items()}
        return Case(recipe=recipe, options=tuple(sorted(options.items())), **fields)
