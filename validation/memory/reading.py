"""How the engines of random traces read a prompt: in the tail without phases, with `PromptLoan`, or with `HeadAlias`.

Each reader knows what the model must expect of a beginning: which way, and the first slot that is lent. It shares the
sizes of plans with strata.memory (`prompt_plan`, `bytes_needed`: pure functions with tests of their own), no decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strata.memory.loan.chunks import request_chunk
from strata.memory.loan.prompt_plan import prompt_plan
from strata.memory.loan.request import Prompt
from strata.memory.loan.workspace_layout import LEAST_RING, Workspace, bytes_needed
from validation.memory.model import REFUSED, Model
from validation.memory.prompt_world import KEEP, PART, SIZES, STATE, AliasWorld, PromptWorld, SmallShape
from validation.memory.world import GRANULARITY, World

PLAIN, LOAN, ALIAS = "tail", "loan", "alias"
#: Fresh tokens from which on a prompt is worth what is lent for it, and most tokens of a chunk.
LEAST_FRESH, MOST_CHUNK = 1024, 4096
#: The names of ways, as they are counted.
SMALL = "read in the tail"

#: The way, what the beginning must answer (the first slot that is lent, or that it is refused), and the act.
Beginning = tuple[str, int | str, Callable[[], int]]


def mapped_size(name: str) -> int:
    """Bytes that a resource takes on the card: pieces of PART, the last one padded."""
    return -(-SIZES[name] // GRANULARITY) * GRANULARITY


def resource_bytes(reader: str) -> int:
    """Bytes beside the cache while decoding."""
    assert PART % GRANULARITY == 0
    return {PLAIN: 0, LOAN: sum(map(mapped_size, SIZES)), ALIAS: mapped_size("H")}[reader]


def need(lendable: int, fresh: int) -> int | None:
    """Bytes of the workspace for so many tokens where so much can be lent; None when 256 do not fit."""
    plan = prompt_plan(lendable, SmallShape(), most_chunk=MOST_CHUNK)
    assert plan is None or plan.ring >= LEAST_RING
    return None if plan is None else bytes_needed(request_chunk(plan.chunk, fresh), plan.ring, SmallShape())


class Reader:
    """Without phases: nothing begins."""

    phases = False
    world: type[World] = World

    def prepare(self, world: Any) -> None:
        """Before the engine opens."""

    def owed(self, state: Any) -> int:
        """Bytes that nobody else may take, or what comes back after a prompt has no memory."""
        return 0


class LoanReader(Reader):
    phases = True
    world = PromptWorld

    def prepare(self, world: PromptWorld) -> None:
        """While decoding two thirds of the pieces are mapped."""
        pieces = -(-world.slots.nbytes // world.piece)
        world.decode_pieces = max(1, 2 * pieces // 3)

    def owed(self, state: Any) -> int:
        """A borrower that took memory while resources are lent would be the end, as it is in the engine."""
        return state.model.free if state.model.reading else 0

    def begin(self, state: Any, fresh: int) -> Beginning:
        model, world = state.model, state.world
        decode = world.sizes.decode_slots
        way = LOAN if fresh >= LEAST_FRESH and not model.others_lend() else SMALL
        if way == LOAN:
            model.begin_loan(resource_bytes(LOAN))
            wanted = _small(model, fresh, 0, decode)
            assert wanted != REFUSED
        else:
            wanted = _small(model, fresh, KEEP, decode)
        return way, wanted, _act(state, lambda: world.loan.begin(Prompt(fresh + 1, state=STATE)))

    def reads(self, world: PromptWorld) -> bool:
        """Whether something is lent for the prompt."""
        return bool(world.resources.absent)

    def workspace(self, world: PromptWorld) -> Workspace:
        assert world.loan.path.workspace is not None
        return world.loan.path.workspace

    def end(self, state: Any) -> None:
        if state.model.reading == LOAN:
            state.model.end_loan(resource_bytes(LOAN))
        state.world.loan.end()
        assert state.world.verifier.state() == STATE
        state.model.refill_prompt()
        state.model.reading = ""


class AliasReader(Reader):
    phases = True
    world = AliasWorld

    def begin(self, state: Any, fresh: int) -> Beginning:
        model, world = state.model, state.world
        pieces = [sum(model.sizes[:k]) for k in range(model.pieces)]
        behind = sum(model.sizes[k] for k in range(model.pieces) if pieces[k] >= model.off[KEEP])
        wants = need(behind + mapped_size("H"), fresh)
        if fresh >= LEAST_FRESH and not model.others_lend() and wants is not None:
            way, wanted = ALIAS, model.begin_alias(wants, KEEP, mapped_size("H"))
        else:
            way, wanted = SMALL, _small(model, fresh, KEEP, None)
        return way, wanted, _act(state, lambda: world.alias.enter(fresh))

    def reads(self, world: AliasWorld) -> bool:
        """Whether the head is lent for the prompt."""
        return not world.head.present

    def workspace(self, world: AliasWorld) -> Workspace:
        assert world.alias.path.workspace is not None
        return world.alias.path.workspace

    def end(self, state: Any) -> None:
        if state.model.reading == ALIAS:
            state.model.end_alias()
        state.world.alias.leave()
        state.model.refill_prompt()
        state.model.reading = ""


def _small(model: Model, fresh: int, keep: int, most: int | None) -> int | str:
    """The first slot of a workspace in the tail, which is lent in the model then."""
    lendable = max(0, model.mapped - model.off[keep]) if keep <= model.slots else 0
    wants = need(lendable, fresh)
    return REFUSED if wants is None else model.lend_prompt(wants, keep, most)


def _act(state: Any, begin: Callable[[], Workspace]) -> Callable[[], int]:
    """Begins, and answers the first slot that is lent."""

    def act() -> int:
        begin()
        ledgers = state.world.cache.loan_books
        return int(next(one.first for one in ledgers if one.first is not None and one.name != "LEND"))

    return act


READERS: dict[str, Any] = {PLAIN: Reader(), LOAN: LoanReader(), ALIAS: AliasReader()}
