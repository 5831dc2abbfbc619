"""Engines whose prompts borrow what only decoding needs: one with released resources, one with the head's alias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import open_arena
from strata.memory.arena.device_resource import DeviceResource
from strata.memory.cache.cache_resize import TwoSizes
from strata.memory.cache.pattern import pattern
from strata.memory.driver.driver import Driver
from strata.memory.driver.graphs import BoundGraph
from strata.memory.loan.head import HeadAlias, HeadPhase
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.output_head import Head
from strata.memory.loan.phases import Phase, Prompt, PromptLoan
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.request import RequestState, Sampling
from strata.memory.loan.resources import DEPENDENCIES, ResourceGraph
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace
from validation.core.arrays import frozen
from validation.memory.world import BLOBS, GRANULARITY, World, expect_fatal

#: Bytes of the lent resources; none a multiple of the granularity, two of more than one piece.
SIZES = {"H": 150_001, "X": 140_003, "D": 40_005, "V": 30_007}
#: Bytes of a piece of theirs.
PART = 2 * GRANULARITY
#: Pieces of the cache while decoding.
DECODE_PIECES = 3
#: Slots that a prompt leaves in the cache.
KEEP = 4
STATE = RequestState(Sampling(temperature=0.7, top_k=40), seed=5, draws=3, penalty_history=(1, 2, 3), tokens=(4, 5))
PROMPT = Prompt(tokens=2000, state=STATE)


@dataclass(frozen=True)
class SmallShape:
    """A model whose prompt buffers take a few hundred bytes a token."""

    constant: tuple[tuple[str, int], ...] = (("workspace", 9000), ("tables", 500))
    trunk: tuple[tuple[str, int], ...] = (("trunk", 400),)
    gdn: tuple[tuple[str, int], ...] = (("state", 300),)
    qsa: tuple[tuple[str, int], ...] = (("queries", 200), ("ids", 80))
    moe: tuple[tuple[str, int], ...] = (("rows", 500), ("hidden", 120))
    max_blob: int = max(BLOBS)
    slack: int = 4096


class Verifier(DeviceResource):
    """Holds a request's state, which is gone with its memory."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, "V", SIZES["V"], lambda: content("V"), DEPENDENCIES["V"], PART)
        self._state: RequestState | None = None

    def release(self) -> None:
        super().release()
        self._state = None

    def apply(self, state: RequestState) -> None:
        """Set a request's state. Raises StrataError when there is no verifier."""
        if not self.present:
            raise StrataError("no verifier to set request state in")
        self._state = state

    def state(self) -> RequestState:
        """The state that is set. Raises StrataError when there is none."""
        if self._state is None or not self.present:
            raise StrataError("no verifier to read request state from")
        return self._state


@cache
def content(name: str) -> np.ndarray:
    """What a resource holds, uint8, read-only; D is a part of H."""
    if name == "D":
        return content("H")[1000 : 1000 + SIZES["D"]]
    return frozen(pattern(900 + ord(name), SIZES[name]))


def scribble(driver: Driver, workspace: Workspace) -> None:
    """Write over every block of a workspace, as reading a prompt does."""
    for block in workspace.blocks:
        if block.nbytes:
            driver.fill(block.address, 0x5A, block.nbytes)


class PromptWorld(World):
    """Resources H, X, D and V beside a cache that grows into their memory. In DECODING once it is open.

    decode_pieces: of the cache while decoding.
    """

    decode_pieces = DECODE_PIECES

    def open(self) -> None:
        super().open()
        experts, driver = self.cache, self.driver
        self.sizes = TwoSizes(experts, self.decode_pieces * self.piece)
        self.tail = TailLoan(experts)
        self.head = DeviceResource(driver, "H", SIZES["H"], lambda: content("H"), DEPENDENCIES["H"], PART)

        def draft() -> np.ndarray:
            return driver.copy_out(self.head.address + 1000, SIZES["D"])

        mtp = DeviceResource(driver, "X", SIZES["X"], lambda: content("X"), DEPENDENCIES["X"], PART)
        self.verifier = Verifier(driver)
        self.parts = [
            self.head,
            mtp,
            DeviceResource(driver, "D", SIZES["D"], draft, DEPENDENCIES["D"], PART),
            self.verifier,
        ]
        self.resources = ResourceGraph(self.parts)
        self.sizes.shrink(self.tail.book)
        self.tail.refill(verify_all=True)
        self.resources.restore()
        self.verifier.apply(STATE)
        everything = LoanSwitches(elastic=True, mtp=True, head=True, repeat=True, verify_all=self.verify_all)
        path = PromptPath(driver, SmallShape(), 4096)
        self.loan = PromptLoan(self.resources, self.sizes, self.tail, path, self.verifier, everything, 4096, keep=KEEP)
        self.graph = BoundGraph(
            "decode", driver.capture([(part.address, part.nbytes) for part in self.parts]), self.parts
        )
        self.home = self.residents()

    def begin(self) -> None:
        """Enter a prompt."""
        self.workspace = self.loan.begin(PROMPT)

    def read(self) -> None:
        """Write all over the workspace."""
        scribble(self.driver, self.workspace)

    def end(self) -> None:
        """Leave the prompt."""
        self.loan.end()

    def known_handles(self) -> set[int]:
        return super().known_handles().union(*(part.held for part in self.parts))

    def problems(self) -> list[str]:
        found = super().problems()
        if not hasattr(self, "loan"):
            return found
        found += self.resources.violations()
        for part in self.parts:
            if part.present and not np.array_equal(self.driver.peek(part.address, part.nbytes), content(part.name)):
                found.append(f"resource {part.name} is there with other bytes")
        if self.loan.phase is Phase.DECODING and self.verifier.present and self.verifier.state() != STATE:
            found.append("the request's state was lost")
        return found

    def at_home(self) -> list[str]:
        """While decoding everything is there, graphs read it, and the cache has its decode size."""
        if self.resources.absent:
            return [f"resources {self.resources.absent} are absent while decoding"]
        read = np.asarray(self.graph.launch())
        whole = np.concatenate([content(part.name) for part in self.parts])
        found = [] if np.array_equal(read, whole) else ["a graph that was captured before reads other bytes"]
        if self.cache.arena.pieces != self.decode_pieces:
            found.append(f"{self.cache.arena.pieces} pieces are mapped while decoding, expected {self.decode_pieces}")
        return found

    def ended(self) -> list[str]:
        found: list[str] = []
        with expect_fatal(found, "a prompt"):
            self.loan.begin(PROMPT)
        return found + super().ended()

    def close(self) -> list[str]:
        for part in self.parts:
            part.close()
        return super().close()


class AliasWorld(World):
    """A head whose memory prompts borrow. In DECODE once it is open; the sum of all handles never changes then."""

    def open(self) -> None:
        super().open()
        arena = open_arena(self.driver, SIZES["H"], PART)
        self.content = content("H")
        self.head = Head(arena, self.content)
        path = PromptPath(self.driver, SmallShape(), 4096)
        self.tail = TailLoan(self.cache)
        self.alias = HeadAlias(self.head, self.tail, path, keep=KEEP, most_chunk=4096, verify_all=self.verify_all)
        self.graph = BoundGraph("window", self.driver.capture([(self.head.address, SIZES["H"])]), [self.head])
        self.address, self.held = self.head.address, self._sum()
        self.home = self.residents()

    def enter(self) -> None:
        """Enter a prompt."""
        self.workspace = self.alias.enter(PROMPT.fresh)

    def read(self) -> None:
        """Write all over the workspace, whichever plan it is of."""
        scribble(self.driver, self.workspace)

    def leave(self) -> None:
        """Leave the prompt."""
        self.alias.leave()

    def known_handles(self) -> set[int]:
        return super().known_handles() | self.head.arena.held | self.alias.held

    def problems(self) -> list[str]:
        found = super().problems()
        if not hasattr(self, "held"):
            return found
        if self._sum() != self.held:
            found.append(f"{self._sum()} bytes are held, {self.held} were")
        if self.head.address != self.address:
            found.append(f"the head is at {self.head.address:#x}, it was at {self.address:#x}")
        if self.head.present and not np.array_equal(self.driver.peek(self.address, SIZES["H"]), self.content):
            found.append("the head is there with other bytes")
        return found

    def at_home(self) -> list[str]:
        """While decoding the head is there and graphs read it."""
        if self.alias.phase is not HeadPhase.DECODE:
            return [f"phase {self.alias.phase}, expected DECODE"]
        same = np.array_equal(np.asarray(self.graph.launch()), self.content)
        return [] if same else ["a graph that was captured before reads other bytes"]

    def ended(self) -> list[str]:
        found: list[str] = []
        with expect_fatal(found, "a prompt"):
            self.alias.enter(PROMPT.fresh)
        return found + super().ended()

    def close(self) -> list[str]:
        self.alias.close()
        self.head.arena.close()
        return super().close()

    def _sum(self) -> int:
        return sum(self.driver.live_handles().values())
