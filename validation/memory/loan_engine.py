"""An engine whose prompts take the loan: a cache between two sizes, and what only decoding needs beside it.

Its sizes are given, so that a card is tried with real ones and a fake card with small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.device_resource import DeviceResource
from strata.memory.arena.pieces import MiB
from strata.memory.cache.cache_resize import TwoSizes
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import pattern, patterned
from strata.memory.cache.slots import uniform_slots
from strata.memory.cache.source import total_bytes
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.phases import Prompt, PromptLoan
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.request import RequestState, Sampling
from strata.memory.loan.resources import DEPENDENCIES, ResourceGraph
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.plan.shapes import ModelShape

STATE = RequestState(Sampling(temperature=0.7, repeat_penalty=1.1), seed=5, draws=3, penalty_history=(1, 2, 3))


@dataclass(frozen=True)
class Sizes:
    """geometry: of the experts; slots: of the cache; piece: bytes that memory moves in; head, experts, verifier: bytes
    of the resources; shape: of the workspace; tokens: of a prompt."""

    geometry: ExpertGeometry
    slots: int
    piece: int
    head: int
    experts: int
    verifier: int
    shape: ModelShape
    tokens: int


#: The reference model's blobs, head and draft experts; a cache of 1.2 GiB.
REAL = Sizes(
    ExpertGeometry.uniform(4, 160, ModelShape().max_blob),
    600,
    64 * MiB,
    ModelShape().head_bytes,
    ModelShape().experts * ModelShape().mtp_blob,
    40 * MiB,
    ModelShape(),
    3000,
)
#: The same blobs and workspace, opened within seconds: a cache of 415 MiB.
BRISK = Sizes(
    ExpertGeometry.uniform(4, 64, ModelShape().max_blob),
    200,
    64 * MiB,
    65 * MiB,
    65 * MiB,
    8 * MiB,
    ModelShape(),
    1500,
)
_SMALL_SHAPE = ModelShape(experts=8, hidden=256, width=64, top_k=1, heads=1, kv_heads=1, selected=16, slack=4096)
SMALL = Sizes(
    ExpertGeometry(2, 60, (500_003, 450_001)), 100, 4 * MiB, 3_000_001, 2_000_003, 100_001, _SMALL_SHAPE, 3000
)


class Verifier(DeviceResource):
    """Device memory with request state that is gone with it."""

    _state: RequestState | None = None

    def release(self) -> None:
        super().release()
        self._state = None

    def apply(self, state: RequestState) -> None:
        """Set a request's state."""
        self._state = state

    def state(self) -> RequestState:
        """The state that is set. Raises StrataError when there is none."""
        if self._state is None:
            raise StrataError("no verifier to read request state from")
        return self._state


def locked(driver: Any, nbytes: int, row: int) -> np.ndarray:
    """Page-locked bytes of a resource, uint8 [nbytes]."""
    content: np.ndarray = driver.page_locked(nbytes)
    content[:] = pattern(row, nbytes)
    return content


def profile(sizes: Sizes) -> list[int]:
    """Every row, layers mixed."""
    rows = sizes.geometry.rows
    step = next(step for step in range(rows * 5 // 8, rows) if np.gcd(step, rows) == 1)
    return [row * step % rows for row in range(rows)]


class LoanEngine:
    """In DECODING once it is made. contents: of H and X; resources: H, X, D and V."""

    def __init__(self, driver: Any, sizes: Sizes) -> None:
        """Takes the device's memory. Raises StrataError."""
        source = patterned(sizes.geometry, driver.page_locked(total_bytes(sizes.geometry)))
        cache = open_cache(driver, source, uniform_slots(sizes.geometry, sizes.slots), profile(sizes), sizes.piece)
        decode = cache.arena.starts[-(-2 * cache.arena.pieces // 3)]
        contents = {"H": locked(driver, sizes.head, 1 << 20), "X": locked(driver, sizes.experts, 1 << 21)}
        head, experts = (
            DeviceResource(driver, name, contents[name].nbytes, lambda name=name: contents[name], (), sizes.piece)  # type: ignore[misc]
            for name in ("H", "X")
        )
        part = sizes.head // 3
        draft = DeviceResource(
            driver, "D", part, lambda: driver.copy_out(head.address, part), DEPENDENCIES["D"], sizes.piece
        )
        self.verifier = Verifier(
            driver, "V", sizes.verifier, lambda: pattern(1 << 22, sizes.verifier), DEPENDENCIES["V"], sizes.piece
        )
        self.cache, self.contents = cache, contents
        self.resources = (head, experts, draft, self.verifier)
        self.prompt = Prompt(sizes.tokens + 1, state=STATE)
        self.loan = PromptLoan(
            ResourceGraph(self.resources),
            TwoSizes(cache, decode),
            TailLoan(cache),
            PromptPath(driver, sizes.shape, 32_768),
            self.verifier,
            LoanSwitches(elastic=True, mtp=True, head=True, repeat=True),
            32_768,
            keep=4,
        )
        self.loan.ready()

    def close(self) -> None:
        """Give everything back."""
        for resource in self.resources:
            resource.close()
        self.cache.close()
