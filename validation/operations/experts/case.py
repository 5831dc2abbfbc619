"""A case of an expert operation, as data with a one-line text form of its own.

For example `recipe=experts_plain seed=1 tokens=33 experts=6 top=3 n=256 ff=128`; n and ff may be left out and are
then those of the model, 2,560 and 640.
"""

from __future__ import annotations

from dataclasses import dataclass

from strata.arguments import shown
from validation.core.random_streams import Stream
from validation.operations.attention.case import Case, CaseError, number, unknown_key

#: The model's hidden size and expert width.
N, FF = 2560, 640
_FIELDS = ("seed", "tokens", "experts", "top", "n", "ff")
_DEFAULTS = {"n": N, "ff": FF}
_LARGEST = {
    "seed": (1 << 64) - 1,
    "tokens": 1 << 20,
    "experts": 1024,
    "top": 64,
    "n": 1 << 16,
    "ff": 1 << 16,
}
#: Divisors of n and ff: blocks of gate and up hold 256 values, and activations come in records of 64.
_MULTIPLES = {"n": 256, "ff": 64}


@dataclass(frozen=True)
class ExpertCase:
    """tokens: rows of x; experts: how many there are; top: ids of a token; n: hidden size; ff: features of an
    expert."""

    recipe: str
    seed: int
    tokens: int
    experts: int
    top: int
    n: int = N
    ff: int = FF

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value, lowest = getattr(self, name), 0 if name == "seed" else 1
            if not lowest <= value <= _LARGEST[name]:
                raise CaseError(f"case: {name} is {value}, expected {lowest}..{_LARGEST[name]}")
            if value % _MULTIPLES.get(name, 1):
                raise CaseError(f"case: {name} is {value}, expected a multiple of {_MULTIPLES[name]}")

    @property
    def pairs(self) -> int:
        return self.tokens * self.top

    def stream(self, *names: str | int) -> Stream:
        """The random stream of this case's seed and recipe for a purpose."""
        return Stream.of(self.seed, self.recipe, *names)

    def text(self) -> str:
        """The canonical one-line form; `ExpertCase.parse` is its inverse."""
        return " ".join([f"recipe={self.recipe}", *(f"{name}={getattr(self, name)}" for name in _FIELDS)])

    def brief(self) -> str:
        """The text form without n and ff where they are the model's."""
        usual = {f"{name}={value}" for name, value in _DEFAULTS.items()}
        return " ".join(word for word in self.text().split() if word not in usual)

    @staticmethod
    def parse(text: str) -> ExpertCase:
        """The case of a text form."""
        recipe, numbers, seen = "", dict(_DEFAULTS), set()
        for word in text.split():
            key, equals, value = word.partition("=")
            if not equals or not value:
                raise CaseError(f"case: {shown(word)} is not of the form key=value")
            if key in seen:
                raise CaseError(f"case: {key} is said twice, expected once")
            seen.add(key)
            if key == "recipe":
                recipe = value
            elif key not in _FIELDS:
                raise unknown_key(key, ["recipe", *_FIELDS])
            else:
                numbers[key] = number(key, value)
        missing = ["recipe"] * (not recipe) + [name for name in _FIELDS if name not in numbers]
        if missing:
            said = "recipe=experts_plain seed=1 tokens=33 experts=6 top=3"
            raise CaseError(f"case: {missing[0]} is missing, expected e.g. {said}")
        return ExpertCase(recipe, **numbers)


#: A case of any operation: what the runner takes.
AnyCase = Case | ExpertCase


def parse(text: str) -> AnyCase:
    """The case of a text form; one that says `tokens` or `experts` is an expert case."""
    keys = {word.partition("=")[0] for word in text.split()}
    return ExpertCase.parse(text) if keys & {"tokens", "experts"} else Case.parse(text)
