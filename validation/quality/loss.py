"""Loss per token of one text: FP64, the engine in each setting, and a published runtime, in one table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from validation.core.verdict import Verdict
from validation.quality.fp64_model import log_likelihoods
from validation.quality.measures import Spread, spread
from validation.quality.parallel import each
from validation.quality.subject import Subject

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

FP64, ENGINE, PUBLISHED = "fp64", "engine", "published"
#: The format of the FP64 model that all others are compared with.
EXACT = "exact"


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Parameters
    ----------
    kind
        `fp64`, `engine` or `published`.
    name
        Of the FP64 model the KV format; a setting; the name of a runtime.
    kv
        The KV format.
    losses
        -ln p of each next token, float64 [n - 1]; empty where there are none.
    note
        Why there are none, or what computed them.
    """

    kind: str
    name: str
    kv: str
    losses: Float64 = field(default_factory=lambda: np.zeros(0))
    note: str = ""

    @property
    def mean(self) -> float:
        """The loss per token, in nats."""
        return float(self.losses.mean()) if len(self.losses) else math.nan


@dataclass(frozen=True)
class Table:
    """The table. tokens: how many there are, one more than losses."""

    tokens: int
    rows: Sequence[Row]

    def exact(self, kv: str) -> Row | None:
        """The FP64 model with keys and values of a format, where it is there."""
        return next((row for row in self.rows if (row.kind, row.kv) == (FP64, kv)), None)

    def against(self, row: Row, kv: str) -> Spread | None:
        """What a row loses more than the FP64 model with a KV format, token by token; None where one of both is absent.

        The standard error is that of the mean of differences at the same tokens, taken as independent.
        """
        base = self.exact(kv)
        if base is None or not len(row.losses) or not len(base.losses):
            return None
        return spread(row.losses - base.losses)

    @property
    def verdict(self) -> Verdict:
        """EXCEEDS when a loss is not finite. Figures are for the reader: how large a loss may be is nobody's to say."""
        found = [row for row in self.rows if len(row.losses)]
        if not found:
            return Verdict.NOT_RUN
        return Verdict.WITHIN_BOUND if all(np.isfinite(row.losses).all() for row in found) else Verdict.EXCEEDS


def of_subject(subject: Subject, tokens: Int64) -> Float64:
    """-ln p of each next token by a subject, float64 [n - 1]."""
    return -np.concatenate([np.zeros(0), *_parts(subject.logits(tokens), tokens)])


def _parts(slices: Iterable[tuple[int, NDArray[np.float32]]], tokens: Int64) -> Iterable[Float64]:
    for first, rows in slices:
        following = tokens[first + 1 : first + 1 + len(rows)]
        pairs = list(zip(rows, following, strict=False))
        yield np.array(each(lambda pair: log_likelihoods(pair[0][None], pair[1][None])[0], pairs), np.float64)
