"""A case of RMSNorm, as data with a one-line text form: `recipe=rms_bell seed=1 rows=9 n=640 eps=1e-6`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strata.kernels.rms_norm import LARGEST_EPS, LEAST_EPS
from validation.core.case import MOST_SEED, CaseError, FieldCase, Fields, Number

#: What a model has, and so a case that does not say.
EPS = "1e-6"
FIELDS = Fields(
    {"seed": Number(0, MOST_SEED), "rows": Number(1, 1 << 20), "n": Number(4, 1 << 16, 4, 640)},
    ("eps",),
    "recipe=rms_bell seed=1 rows=9 n=640",
)


@dataclass(frozen=True)
class NormCase(FieldCase):
    """rows, n: of x; options: `eps`, what is added to the mean, as a decimal number."""

    fields = FIELDS
    recipe: str
    seed: int
    rows: int
    n: int = 640
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        FIELDS.check_options(self.options)
        if not LEAST_EPS <= self.eps <= LARGEST_EPS:
            raise CaseError(f"case: eps is {self.eps:.8g}, expected {LEAST_EPS:.8g} to {LARGEST_EPS:.8g}")

    @property
    def eps(self) -> float:
        """As the float32 that the kernel adds. Raises CaseError for a word that is no number."""
        word = dict(self.options).get("eps", EPS)
        try:
            return float(np.float32(word))
        except ValueError:
            raise CaseError(f"case: eps is {word!r}, expected a number") from None
