"""One request: its prompt, what it has set in the verifier, and the phases that the engine goes through for it.

A loan destroys the verifier. Sampling parameters that were set before would be gone with it, and the answer would still
read well: hence one value on the host that holds all of them, which is applied after every restore and read back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Sampling:
    """Parameters of the sampler.

    Parameters
    ----------
    temperature
        0 is greedy.
    top_k, top_p, min_p
        What is left to sample from.
    repeat_penalty, presence_penalty, frequency_penalty
        What tokens of the history lose.
    last
        How many tokens of the history the penalties see.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    last: int = 64


@dataclass(frozen=True)
class RequestState:
    """What must be set when generation begins.

    Parameters
    ----------
    sampling
        The parameters of the sampler.
    seed, draws
        The seed of the generator, and how many numbers were drawn from it.
    penalty_history
        Tokens that penalties see; its length is part of the state.
    head_sampling
        Whether the head's kernel samples.
    pcie_fraction, pcie_mode
        How misses are computed.
    control_vector
        Whether it is added.
    tokens
        Tokens of the conversation so far.
    """

    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    draws: int = 0
    penalty_history: tuple[int, ...] = ()
    head_sampling: bool = False
    pcie_fraction: float = 0.0
    pcie_mode: str = ""
    control_vector: bool = False
    tokens: tuple[int, ...] = ()


class RequestTarget(Protocol):
    """What holds a request's state while decoding: the verifier and what hangs on it."""

    def apply(self, state: RequestState) -> None:
        """Set all of it. Raises StrataError when there is nothing to set it in."""
        ...

    def state(self) -> RequestState:
        """What is set. Raises StrataError when there is nothing to read it from."""
        ...


def fresh_tokens(prompt: int, resume: int) -> int:
    """Prompt tokens that will really be read: all but the last, which the first window reads, less the cached.

    Parameters
    ----------
    prompt
        Tokens of the prompt.
    resume
        Tokens of them that are in the KV cache already.
    """
    return max(0, prompt - 1 - resume)


@dataclass(frozen=True)
class Prompt:
    """One request.

    Parameters
    ----------
    tokens
        Tokens of the whole prompt.
    resume
        Tokens of them that are in the KV cache already.
    images
        Whether it has image rows.
    state
        What must be set when generation begins.
    """

    tokens: int
    resume: int = 0
    images: bool = False
    state: RequestState = field(default_factory=RequestState)

    @property
    def fresh(self) -> int:
        """Tokens that will really be read."""
        return fresh_tokens(self.tokens, self.resume)


class Read(NamedTuple):
    """What became of a prompt.

    Parameters
    ----------
    tokens
        Tokens that were read.
    cancelled
        Whether STOP ended it.
    plan
        `chunk/ring`.
    loan
        Whether resources were lent for it.
    """

    tokens: int
    cancelled: bool
    plan: str
    loan: bool


class Phase(StrEnum):
    """Where a prompt loan stands; `phases` says what each phase means."""

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
