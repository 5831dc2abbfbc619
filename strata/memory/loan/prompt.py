"""A prompt to be read, what its reading says, and the phases that the engine goes through for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from strata.memory.loan.loan_switches import fresh_tokens
from strata.memory.loan.request_state import RequestState


class Phase(StrEnum):
    COLD = "COLD"
    READING = "READING"
    RESTORING = "RESTORING"
    DECODING = "DECODING"
    RELEASING = "RELEASING"
    FAILED = "FAILED"


#: Where each phase may lead.
FOLLOWS = {
    Phase.COLD: (Phase.READING, Phase.RESTORING, Phase.FAILED),
    Phase.READING: (Phase.RESTORING,),
    Phase.RESTORING: (Phase.DECODING, Phase.FAILED),
    Phase.DECODING: (Phase.RELEASING, Phase.READING, Phase.FAILED),
    Phase.RELEASING: (Phase.READING, Phase.RESTORING, Phase.FAILED),
    Phase.FAILED: (),
}


@dataclass(frozen=True)
class Prompt:
    """One request. tokens: of the whole prompt; resume: of them in the KV cache already; images: it has image rows;
    state: what must be set when generation begins."""

    tokens: int
    resume: int = 0
    images: bool = False
    state: RequestState = field(default_factory=RequestState)

    @property
    def fresh(self) -> int:
        """Tokens that will really be read."""
        return fresh_tokens(self.tokens, self.resume)


class Read(NamedTuple):
    """tokens: that were read; cancelled: by STOP; plan: `chunk/ring`; loan: whether resources were lent for it."""

    tokens: int
    cancelled: bool
    plan: str
    loan: bool
