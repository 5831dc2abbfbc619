"""An author's own kernel, and the faults that were planted in its source, as a run of check tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Parameters
    ----------
    name, kind
        The fault's name, and the kind of edit that it is.
    line
        Where in the source it is.
    old, new
        What stood there, and what was put there.
    fate
        What became of it.
    check, reason
        Where it was found, the first check that refused it, and why.
    question
        To the author, where nothing found it.
    """

    name: str
    kind: str
    line: int
    old: str
    new: str
    fate: str
    check: str = ""
    reason: str = ""
    question: str = ""


@dataclass(frozen=True)
class Own:
    """What a run of check tells besides its cases.

    Parameters
    ----------
    kernel
        Its name.
    attested
        Whether this toolkit compiled and launched it.
    inputs
        Domains of inputs, by name.
    left_out
        Reasons of recipes that were left out, by name.
    made, planned
        Mutants that the source has, and that were to be tried.
    faults
        Those that were tried.
    """

    kernel: str
    attested: bool
    inputs: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    made: int = 0
    planned: int = 0
    faults: Sequence[Fault] = ()

    def of(self, fate: str) -> list[Fault]:
        """The faults that ended in one way, by line."""
        return sorted((fault for fault in self.faults if fault.fate == fate), key=lambda one: (one.line, one.name))

    @property
    def killers(self) -> list[tuple[str, int]]:
        """The checks that refused faults, and how many each; the one of most first."""
        return Counter(fault.check for fault in self.of("killed")).most_common()

    @property
    def counted(self) -> str:
        """How many faults were noticed, in a sentence; empty where none was planted."""
        if not self.planned:
            return ""
        killed, survived = len(self.of("killed")), len(self.of("survived"))
        said = f"{killed:,} of {killed + survived:,} faults planted in the source of {self.kernel} were noticed"
        left = self.planned - len(self.faults)
        return f"{said}; {left:,} were not tried" if left > 0 else said
