"""What a request has set in the verifier, kept on the host so that a verifier made anew can be given it again.

A loan destroys the verifier. Sampling parameters that were set before would be gone with it, and the answer would still
read well: hence one value that holds all of them, which is applied after every restore and read back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Sampling:
    """Parameters of the sampler. temperature 0: greedy; last: how many tokens of the history the penalties see."""

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
    """seed, draws: of the generator, and how many numbers were drawn from it; penalty_history: tokens that penalties
    see, its length is part of the state; head_sampling: the head's kernel samples; pcie_fraction, pcie_mode: how misses
    are computed; control_vector: it is added; tokens: of the conversation so far."""

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
