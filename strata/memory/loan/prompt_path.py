"""The prompt path's workspace: laid out anew for each prompt, which writes nothing to it."""

from __future__ import annotations

from collections.abc import Callable

from strata.memory.driver.driver import Driver
from strata.memory.driver.errors import Refused, fatal_if_refused
from strata.memory.loan.chunks import request_chunk
from strata.memory.loan.prompt_plan import PromptPlan, prompt_plan
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import PromptShape, Workspace, bytes_needed, workspace_at


class PromptPath:
    """A prompt path that borrows its workspace, or owns it.

    Its attribute `workspace` says where its blocks lie, None outside prompts, when their addresses are those of
    experts.

    Parameters
    ----------
    driver
        The driver of the card.
    shape
        What the workspace consists of.
    most_chunk
        The chunk that host buffers are sized for, once, tokens.
    borrows
        False when it has buffers of its own, which are never laid out elsewhere.
    """

    def __init__(self, driver: Driver, shape: PromptShape, most_chunk: int, borrows: bool = True) -> None:
        self._driver = driver
        self.shape = shape
        self.most_chunk = most_chunk
        self.borrows = borrows
        self.workspace: Workspace | None = None

    def relayout(self, address: int, nbytes: int, chunk: int, ring: int) -> Workspace:
        """The workspace in a region.

        The card is waited for each time: between two prompts with one layout its addresses were those of experts, which
        a window may still read.

        Parameters
        ----------
        address, nbytes
            The region.
        chunk
            Tokens.
        ring
            Staged experts.

        Raises
        ------
        Refused
            With nothing changed and no driver call made: when the path owns its buffers, for no region, a chunk that is
            not 1 to `most_chunk`, or a region below `bytes_needed`.
        Fatal
            When the card cannot be waited for.
        """
        if not self.borrows:
            raise Refused("workspace: the prompt path owns its buffers, expected one that borrows")
        if not 1 <= chunk <= self.most_chunk:
            raise Refused(f"workspace of {chunk} tokens: expected 1 to {self.most_chunk}")
        made = workspace_at(address, nbytes, chunk, ring, self.shape)
        with fatal_if_refused("synchronize before a new layout"):
            self._driver.synchronize()
        self.workspace = made
        return made

    def leave(self) -> None:
        """No workspace is in use any more. Raises Fatal when the card cannot be waited for."""
        self.workspace = None
        with fatal_if_refused("synchronize after a prompt"):
            self._driver.synchronize()


def lay_out(
    tail: TailLoan,
    path: PromptPath,
    fresh: int,
    keep: int,
    most_chunk: int,
    refill: Callable[[], object],
    most_first: int | None = None,
) -> tuple[PromptPlan, Workspace]:
    """Lend what a prompt needs, and lay the path's workspace out there.

    Parameters
    ----------
    tail
        What lends.
    path
        The prompt path.
    fresh
        Tokens of the prompt.
    keep
        Slots that it does not borrow.
    most_chunk
        Tokens of the plan's chunk at most, beside the path's own limit.
    refill
        What brings back what was lent when the path refuses.
    most_first
        The last slot that the region may begin with; None for any.

    Raises
    ------
    Refused
        With nothing changed.
    Fatal
        When a step failed and it is unknown what holds.
    """
    lendable = tail.lendable(keep)
    plan = prompt_plan(lendable, path.shape, most_chunk=min(most_chunk, path.most_chunk))
    if plan is None:
        raise Refused(f"prompt of {fresh} tokens: {lendable} bytes can be lent, too few for 256 tokens")
    chunk = request_chunk(plan.chunk, fresh)
    region = tail.lend(bytes_needed(chunk, plan.ring, path.shape), keep, most_first)
    try:
        return plan, path.relayout(region.address, region.nbytes, chunk, plan.ring)
    except Refused:
        refill()
        raise
