"""One parser and one text form for the cases of every operation.

A case is everything that decides the bytes of its inputs, as data. Its text form, for example
`recipe=uniform seed=7 context=64 queries=8 page=4`, is what a run records and what `--case` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

from strata import arguments
from strata.arguments import shown
from strata.executors.base import StrataError
from strata.nearest import hint
from validation.core.random_streams import Stream

#: The largest seed: Streams take 64 bits.
MOST_SEED = (1 << 64) - 1


class CaseError(StrataError):
    """A case that cannot exist; the message names the value and what was expected."""


def written(recipe: str, values: Sequence[tuple[str, object]]) -> str:
    """The canonical one-line form of a case: its recipe, and keys with their values in their order."""
    return " ".join([f"recipe={recipe}", *(f"{key}={value}" for key, value in values)])


class AnyCase(Protocol):
    """What a case of every operation has."""

    @property
    def recipe(self) -> str: ...

    @property
    def seed(self) -> int: ...

    def text(self) -> str:
        """The canonical one-line form."""
        ...

    def brief(self) -> str:
        """The text form without the sizes that are usual."""
        ...


@dataclass(frozen=True)
class Number:
    """A key of a case whose value is a whole number.

    Parameters
    ----------
    low, high
        The range, both ends included.
    multiple
        What the value must be a multiple of.
    default
        The value where the key is left out; None where it must be said.
    name
        The attribute of the case that holds it, by default the key itself.
    """

    low: int
    high: int
    multiple: int = 1
    default: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Fields:
    """The keys of an operation's cases, in the order in which they are written, after `recipe`.

    Parameters
    ----------
    numbers
        Keys whose values are whole numbers.
    options
        Keys of words that a recipe may need besides; each may be left out.
    example
        A case, for messages.
    """

    numbers: Mapping[str, Number]
    options: Sequence[str] = ()
    example: str = ""
    names: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {key: number.name or key for key, number in self.numbers.items()})

    def check(self, values: Mapping[str, int]) -> None:
        """Raises CaseError for a value out of its range, values by key."""
        for key, number in self.numbers.items():
            value = values[key]
            if not number.low <= value <= number.high:
                raise CaseError(f"case: {key} is {value}, expected {number.low}..{number.high}")
            if value % number.multiple:
                raise CaseError(f"case: {key} is {value}, expected a multiple of {number.multiple}")

    def check_options(self, options: Sequence[tuple[str, str]]) -> None:
        """Raises CaseError for options that are unknown, no single word, not sorted or said twice."""
        for key, value in options:
            if key not in self.options:
                raise CaseError(f"case: unknown option {key!r}, expected one of {', '.join(self.options)}")
            if not value or any(char.isspace() or char in "='\"" for char in value):
                raise CaseError(f"case: option {key} is {value!r}, expected one word without '=' or quotes")
        if list(options) != sorted(set(options)):
            raise CaseError("case: options must be sorted and unique")

    def text(self, case: Any) -> str:
        """The canonical one-line form of a case with an attribute for each key."""
        values = [(key, getattr(case, name)) for key, name in self.names.items()]
        return written(case.recipe, [*values, *getattr(case, "options", ())])

    def brief(self, case: Any) -> str:
        """The text form without numbers at their defaults."""
        usual = {f"{key}={number.default}" for key, number in self.numbers.items() if number.default is not None}
        return " ".join(word for word in self.text(case).split() if word not in usual)

    def parse(self, text: str) -> dict[str, Any]:
        """The attributes of the case that a text says: recipe, numbers and, where there may be some, sorted options.

        Raises CaseError for a word that is no `key=value`, an unknown or repeated key, a value that is no number, and
        a key that is missing. Ranges are checked when the case is made.
        """
        said: dict[str, str] = {}
        for word in text.split():
            key, equals, value = word.partition("=")
            if not equals or not value:
                raise CaseError(f"case: {shown(word)} is not of the form key=value")
            if key in said:
                raise CaseError(f"case: {key} is said twice, expected once")
            known = ["recipe", *self.numbers, *self.options]
            if key not in known:
                near = hint(key, known, f"expected one of {', '.join(known)}")
                raise CaseError(f"case: unknown key {shown(key)}; {near}")
            said[key] = value
        missing = [key for key in ("recipe", *self.numbers) if key not in said and self._default(key) is None]
        if missing:
            raise CaseError(f"case: {missing[0]} is missing, expected e.g. {self.example}")
        numbers = {
            self.names[key]: _number(key, said[key]) if key in said else self._default(key) for key in self.numbers
        }
        found: dict[str, Any] = {"recipe": said["recipe"], **numbers}
        if self.options:
            found["options"] = tuple(sorted((key, said[key]) for key in self.options if key in said))
        return found

    def _default(self, key: str) -> int | None:
        return None if key == "recipe" else self.numbers[key].default


def _number(key: str, value: str) -> int:
    try:
        return arguments.of(f"case: {key} is", arguments.whole(), value)
    except arguments.BadValueError as error:
        raise CaseError(str(error)) from None


class FieldCase:
    """What cases with the same fields have in common: a frozen dataclass of this kind names them in `fields`.

    Attributes
    ----------
    fields
        Keys, ranges and defaults; the case has an attribute for each.
    """

    fields: ClassVar[Fields]
    recipe: str
    seed: int

    def __post_init__(self) -> None:
        """Raises CaseError for a value out of its range."""
        self.fields.check({key: getattr(self, name) for key, name in self.fields.names.items()})

    def stream(self, *names: str | int) -> Stream:
        """The random stream of this case's seed and recipe for a purpose."""
        return Stream.of(self.seed, self.recipe, *names)

    def text(self) -> str:
        """The canonical one-line form; `parse` is its inverse."""
        return self.fields.text(self)

    def brief(self) -> str:
        """The text form without numbers at their defaults."""
        return self.fields.brief(self)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The case of a text form. Raises CaseError as `Fields.parse` does, and for a value out of its range."""
        return cls(**cls.fields.parse(text))
