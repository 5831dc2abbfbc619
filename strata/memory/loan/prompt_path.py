"""The prompt path's view of its workspace: laid out for each prompt, never written to by that."""

from __future__ import annotations

from strata.memory.driver.driver import Driver
from strata.memory.driver.errors import Refused, fatal_if_refused
from strata.memory.loan.workspace_layout import PromptShape, Workspace, carve


class PromptPath:
    """A prompt path that borrows its workspace, or owns it.

    most_chunk: the chunk that host buffers are sized for, once; borrows: False when it has buffers of its own, which
    are never laid out elsewhere. workspace: where its blocks lie; None outside prompts, when their addresses are those
    of experts.
    """

    def __init__(self, driver: Driver, shape: PromptShape, most_chunk: int, borrows: bool = True) -> None:
        self._driver = driver
        self.shape = shape
        self.most_chunk = most_chunk
        self.borrows = borrows
        self.workspace: Workspace | None = None

    def relayout(self, address: int, nbytes: int, chunk: int, ring: int) -> Workspace:
        """The workspace in a region of `nbytes` bytes. The card is waited for each time: between two prompts with one
        layout its addresses were those of experts, which a window may still read.

        Raises Refused with nothing changed and no driver call made: when the path owns its buffers, for no region, a
        chunk that is not 1 to `most_chunk`, or a region below `bytes_needed`. Raises Fatal when the card cannot be
        waited for.
        """
        if not self.borrows:
            raise Refused("workspace: the prompt path owns its buffers, expected one that borrows")
        if not 1 <= chunk <= self.most_chunk:
            raise Refused(f"workspace of {chunk} tokens: expected 1 to {self.most_chunk}")
        made = carve(address, nbytes, chunk, ring, self.shape)
        with fatal_if_refused("synchronize before a new layout"):
            self._driver.synchronize()
        self.workspace = made
        return made

    def leave(self) -> None:
        """No workspace is in use any more. Raises Fatal when the card cannot be waited for."""
        self.workspace = None
        with fatal_if_refused("synchronize after a prompt"):
            self._driver.synchronize()
