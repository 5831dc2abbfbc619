"""A workspace in the tail of the cache: the plan that fits there, the slots that are lent for it, and its layout."""

from __future__ import annotations

from collections.abc import Callable

from strata.memory.driver.errors import Refused
from strata.memory.loan.chunks import request_chunk
from strata.memory.loan.prompt_path import PromptPath
from strata.memory.loan.prompt_plan import PromptPlan, prompt_plan
from strata.memory.loan.tail_loan import TailLoan
from strata.memory.loan.workspace_layout import Workspace, bytes_needed


def lay_out(
    tail: TailLoan,
    path: PromptPath,
    fresh: int,
    keep: int,
    most_chunk: int,
    refill: Callable[[], object],
    most_first: int | None = None,
) -> tuple[PromptPlan, Workspace]:
    """Lend what a prompt of `fresh` tokens needs behind `keep` slots, and lay the path's workspace out there.

    most_chunk: of the plan, the path's own limit besides; refill: brings back what was lent when the path refuses;
    most_first: the last slot that the region may begin with. Raises Refused with nothing changed, and Fatal.
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
