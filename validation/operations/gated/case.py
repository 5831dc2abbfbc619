"""A case of an operation on elements, as data with a one-line text form: `recipe=softcap_bell seed=1 rows=3 columns=7`.

The kernels know no rows: they take rows * columns elements in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strata.kernels.softcap import LARGEST_CAP, LEAST_CAP
from validation.core.case import MOST_SEED, CaseError, FieldCase, Fields, Number

#: Of logits, as models have it, and so of a case that does not say.
CAP = "30"
FIELDS = Fields(
    {"seed": Number(0, MOST_SEED), "rows": Number(1, 1 << 20), "columns": Number(1, 1 << 20)},
    ("cap",),
    "recipe=gated_bell seed=1 rows=3 columns=640",
)


@dataclass(frozen=True)
class ElementCase(FieldCase):
    """rows, columns: of all arrays; options: `cap` of soft capping, as a decimal number."""

    fields = FIELDS
    recipe: str
    seed: int
    rows: int
    columns: int
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        FIELDS.check_options(self.options)
        if self.options and not self.recipe.startswith("softcap_"):
            raise CaseError(f"case: cap is said of {self.recipe}, expected it of soft capping alone")
        if not LEAST_CAP <= self.cap <= LARGEST_CAP:
            raise CaseError(f"case: cap is {self.cap:.8g}, expected {LEAST_CAP:.8g} to {LARGEST_CAP:.8g}")

    @property
    def cap(self) -> float:
        """As the float32 that the kernel multiplies by. Raises CaseError for a word that is no number."""
        word = dict(self.options).get("cap", CAP)
        try:
            with np.errstate(over="ignore"):
                return float(np.float32(word))
        except ValueError:
            raise CaseError(f"case: cap is {word!r}, expected a number") from None
