"""A whole engine in miniature over the fake driver: cache, lent resources, a verifier with request state, a decoder.

The decoder reads its weights through captured graphs, so an answer shows lost state, moved memory and wrong bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from strata.executors.base import StrataError
from strata.memory.arena.arena import open_arena
from strata.memory.arena.device_resource import DeviceResource
from strata.memory.arena.pieces import Tail
from strata.memory.cache.cache import ExpertCache
from strata.memory.cache.cache_resize import TwoSizes
from strata.memory.cache.geometry import ExpertGeometry
from strata.memory.cache.invariants import violations
from strata.memory.cache.opening import open_cache
from strata.memory.cache.pattern import pattern, patterned
from strata.memory.cache.slots import uniform_slots
from strata.memory.driver.driver import Code, DriverError
from strata.memory.driver.fake import FakeCard, FakeDriver, FaultPlan
from strata.memory.driver.fault_plan import Report
from strata.memory.driver.graphs import BoundGraph
from strata.memory.loan.head import Head, HeadAlias
from strata.memory.loan.lending import Lending, Lent, Loan
from strata.memory.loan.loan_switches import LoanSwitches
from strata.memory.loan.phases import PromptLoan
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.request import RequestState
from strata.memory.loan.resources import DEPENDENCIES, ResourceGraph
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace

PAGE = 4096
PIECE = 64 << 10
RESERVE = 128 << 10
GEOMETRY = ExpertGeometry(2, 30, (14_002, 15_150))
SOURCE = patterned(GEOMETRY)
#: Hottest first: layers mixed, neither in the order of rows nor against it.
PROFILE = [row * 37 % GEOMETRY.rows for row in range(GEOMETRY.rows)]
#: Bytes of the resources; none a multiple of the page.
SIZES = {"H": 150_001, "X": 120_003, "D": 40_005, "V": 30_007}
DECODE_PIECES, ALL_PIECES = 8, 13
ALL_ON = LoanSwitches(elastic=True, mtp=True, head=True, repeat=True)


@dataclass(frozen=True)
class TinyShape:
    """Few bytes a token, so that 256 of them fit into a few slots."""

    constant: tuple[tuple[str, int], ...] = (("workspace", 3000), ("tables", 500))
    trunk: tuple[tuple[str, int], ...] = (("trunk", 24),)
    gdn: tuple[tuple[str, int], ...] = (("state", 40),)
    qsa: tuple[tuple[str, int], ...] = (("queries", 16), ("ids", 8))
    moe: tuple[tuple[str, int], ...] = (("rows", 50), ("hidden", 12))
    max_blob: int = GEOMETRY.max_blob
    slack: int = 4096


class Verifier(DeviceResource):
    """Holds the request's state, which is gone with its memory."""

    def __init__(self, driver: FakeDriver, needs: tuple[str, ...]) -> None:
        super().__init__(driver, "V", SIZES["V"], lambda: pattern(900, SIZES["V"]), needs, PIECE)
        self._state: RequestState | None = None

    def release(self) -> None:
        super().release()
        self._state = None

    def restore(self) -> None:
        super().restore()
        self._state = RequestState()

    def apply(self, state: RequestState) -> None:
        if not self.present:
            raise StrataError("no verifier to set request state in")
        self._state = state

    def state(self) -> RequestState:
        if self._state is None:
            raise StrataError("no verifier to read request state from")
        return self._state


class Drafts:
    """The draft graphs as a resource: gone with a release, captured again by the first use after a restore.

    capture: makes the graph; everything it needs is present then.
    """

    nbytes = 0

    def __init__(self, name: str, capture: Callable[[], BoundGraph], needs: tuple[str, ...]) -> None:
        self.name, self.needs = name, needs
        self._capture = capture
        self._graph: BoundGraph | None = None
        self._present = False

    @property
    def present(self) -> bool:
        return self._present

    def release(self) -> None:
        self._graph, self._present = None, False

    def restore(self) -> None:
        """Allows capturing; nothing is captured yet."""
        self._present = True

    @property
    def graph(self) -> BoundGraph:
        """The graph, captured now if it has not been."""
        assert self._present, "the draft graphs were released"
        if self._graph is None:
            self._graph = self._capture()
        return self._graph


@dataclass
class Engine:
    """driver, cache and the parts of a prompt loan; windows, drafts: graphs of the verifier and of the draft layer."""

    driver: FakeDriver
    cache: ExpertCache
    loan: PromptLoan
    verifier: Verifier
    drafts: Drafts
    lending: Lending
    profile: list[int]
    seen: list[tuple[int, int]] = field(default_factory=list)

    def run(self, workspace: Workspace, start: int, length: int) -> None:
        """Reads a chunk as badly as it may: it writes over the whole workspace."""
        self.seen.append((start, length))
        for block in workspace.blocks:
            self.driver.fill(block.address, 0x5A, block.nbytes)

    def lend_last_piece(self) -> None:
        """As LEND does, but one piece of 64 KiB: a MiB would be more than this whole cache."""
        arena = self.cache.arena
        boundary = arena.starts[arena.pieces - 1]
        first, mapped = self.cache.slots.within(boundary), arena.mapped_bytes
        self.cache.take(self.lending.book, first)
        arena.shrink(boundary)
        self.lending.loan = Loan(first, Tail(arena.pieces, boundary, mapped - boundary), mapped, Lent(0, 0, 0))
        assert self.driver.card.take("a borrower", mapped - boundary)

    def reclaim(self) -> None:
        """The borrower leaves and the piece comes back; the free-memory margin of RECLAIM is larger than this card."""
        self.driver.card.leave("a borrower")
        self.driver.plan.next("mem_info", Report(1 << 40))
        self.lending.reclaim()

    def generate(self, count: int) -> list[int]:
        """Tokens that depend on all weights, on the sampling parameters, and on seed, draws, penalties and history."""
        weights = int(np.asarray(self.drafts.graph.launch()).astype(np.uint64).sum())
        state = self.verifier.state()
        history, draws, out = list(state.penalty_history), state.draws, []
        for _ in range(count):
            key = weights * 2654435761 + 97 * sum(state.tokens) + 7919 * len(history)
            logits = [key * (token + 3) % 1009 for token in range(16)]
            for token in history[-state.sampling.last :]:
                logits[token % 16] -= int(1000 * (state.sampling.repeat_penalty - 1.0))
            if state.sampling.temperature > 0:
                draws += 1
                noise = (state.seed * 6364136223846793005 + draws * 1442695040888963407) % (1 << 31)
                logits = [logit + (noise >> (token % 16)) % 499 for token, logit in enumerate(logits)]
            out.append(max(range(16), key=lambda token: (logits[token], -token)))
            history.append(out[-1])
        return out


def content(name: str) -> np.ndarray:
    """What H and X hold."""
    return pattern(800 + ord(name), SIZES[name])


def engine(
    settings: LoanSwitches = ALL_ON,
    *,
    cold: bool = True,
    plan: FaultPlan | None = None,
    spare: int = 0,
    most_chunk: int = 32_768,
) -> Engine:
    """An engine on a card with exactly the memory that decoding needs, the reserve and `spare` bytes."""
    decode = DECODE_PIECES * PIECE
    resources = sum(-(-size // PAGE) * PAGE for size in SIZES.values())
    driver = FakeDriver(FakeCard(decode + resources + PAGE + RESERVE + spare), PAGE, plan=plan)
    slots = uniform_slots(GEOMETRY, ALL_PIECES * PIECE // GEOMETRY.max_blob)
    cache = open_cache(driver, SOURCE, slots, PROFILE, PIECE)
    sizes = TwoSizes(cache, decode, RESERVE)

    def draft_head() -> np.ndarray:
        return driver.copy_out(head.address + 1000, SIZES["D"])

    head = DeviceResource(driver, "H", SIZES["H"], lambda: content("H"), DEPENDENCIES["H"], PIECE)
    experts = DeviceResource(driver, "X", SIZES["X"], lambda: content("X"), DEPENDENCIES["X"], PIECE)
    draft = DeviceResource(driver, "D", SIZES["D"], draft_head, DEPENDENCIES["D"], PIECE)
    verifier = Verifier(driver, DEPENDENCIES["V"])
    places = (head, experts, draft, verifier)

    def capture() -> BoundGraph:
        return BoundGraph("draft", driver.capture([(place.address, place.nbytes) for place in places]), places)

    drafts = Drafts("G", capture, DEPENDENCIES["G"])
    graph = ResourceGraph([head, experts, draft, verifier, drafts])
    tail = TailLoan(cache)
    if not cold:
        sizes.shrink(tail.book)
        graph.restore()
    lent = {resource.name for resource in graph.with_dependents(settings.lent)}
    if cold and lent != set(SIZES) | {"G"}:
        raise ValueError("a cold engine has everything lent here")
    path = PromptPath(driver, TinyShape(), 4096)
    loan = PromptLoan(graph, sizes, tail, path, verifier, settings, most_chunk, keep=4)
    return Engine(driver, cache, loan, verifier, drafts, Lending(cache), PROFILE)


@dataclass
class AliasEngine:
    """A cache and a head whose memory a prompt borrows; window: a graph that reads the head."""

    driver: FakeDriver
    cache: ExpertCache
    head: Head
    alias: HeadAlias
    window: BoundGraph

    def read(self, workspace: Workspace) -> None:
        """Writes over the whole workspace."""
        for block in workspace.blocks:
            self.driver.fill(block.address, 0x5A, block.nbytes)

    def held(self) -> int:
        """Bytes of all live handles of the process."""
        return sum(self.driver.live_handles().values())


def alias_engine(
    plan: FaultPlan | None = None,
    *,
    keep: int = 4,
    least_fresh: int = 1024,
    most_chunk: int = 32_768,
    verify_all: bool = False,
) -> AliasEngine:
    """On a card whose free memory is the reserve, with the head in."""
    slots = uniform_slots(GEOMETRY, DECODE_PIECES * PIECE // GEOMETRY.max_blob)
    used = sum(-(-size // PAGE) * PAGE for size in (slots.nbytes, SIZES["H"], 4 * GEOMETRY.rows))
    driver = FakeDriver(FakeCard(used + RESERVE), PAGE, plan=plan)
    head = Head(open_arena(driver, SIZES["H"], PIECE), content("H"))
    cache = open_cache(driver, SOURCE, slots, PROFILE, PIECE)
    path = PromptPath(driver, TinyShape(), 32_768)
    alias = HeadAlias(
        head,
        TailLoan(cache),
        path,
        least_fresh=least_fresh,
        keep=keep,
        most_chunk=most_chunk,
        verify_all=verify_all,
    )
    window = BoundGraph("window", driver.capture([(head.address, SIZES["H"])]), [head])
    return AliasEngine(driver, cache, head, alias, window)


def peek(driver: FakeDriver, va: int, n: int) -> np.ndarray:
    """The device's memory without a call: DriverError when it is not mapped, and the context stays."""
    below = driver._memory.mappings.covering(va, n)
    if below is None or not all(mapping.access for mapping in below):
        raise DriverError("peek", Code.ILLEGAL_ADDRESS, f"{va:#x}, {n} bytes")
    return driver._memory.read("peek", va, n)


def unsound(cache: ExpertCache, driver: FakeDriver) -> list[str]:
    """Broken invariants, and a lost context."""
    if driver.lost:
        return [f"lost: {driver.lost}"]
    return violations(cache, read=lambda va, n: peek(driver, va, n))
