"""LEND and RECLAIM as lines: one command in, one line out."""

from __future__ import annotations

import re

from strata.arguments import shown
from strata.executors.base import StrataError
from strata.memory.loan.lending import Lending

#: Beyond every card; a larger number is as good as this one, and is shown as it was sent.
MOST_MIB = 10**15


class LendingLines:
    """Answers the two commands of a line protocol.

    Parameters
    ----------
    lending
        The loan that they are about.
    """

    def __init__(self, lending: Lending) -> None:
        self.lending = lending

    @property
    def status(self) -> int | None:
        """What the process should end with, None while it goes on."""
        fatal = self.lending.cache.fatal
        return None if fatal is None else fatal.status

    def info(self) -> str:
        """A field for the INFO line of an engine, of which there is none yet."""
        return f"lendable={0 if self.status is not None or self.lending.obstacle() else 1}"

    def handle(self, line: str) -> str:
        """The reply to `LEND <MiB>` or `RECLAIM`: LENT, RECLAIMED or ERR. Look at `status` after an ERR.

        A size that is no number in decimal digits counts as 0; a refusal shows it as it was sent.
        """
        command, _, rest = line.strip().partition(" ")
        try:
            if command == "LEND":
                lent = self.lending.lend(*_mib(rest.strip()))
                return f"LENT {lent.mib} {lent.experts} {lent.chunk}"
            if command == "RECLAIM" and not rest:
                back = self.lending.reclaim()
                return f"RECLAIMED {back.mib} {back.experts} {back.ms}"
            return f"ERR {command[:20]!a}: expected LEND <MiB> or RECLAIM"
        except StrataError as error:
            return f"ERR {' '.join(str(error).split())}"


def _mib(text: str) -> tuple[int, str]:
    """MiB of decimal digits without sign, at most `MOST_MIB`; 0 for anything else. And what was sent, in words."""
    if re.fullmatch(r"[0-9]+", text) is None:
        return 0, shown(text)
    digits = text.lstrip("0") or "0"
    mib = int(digits) if len(digits) <= len(str(MOST_MIB)) else MOST_MIB
    return min(mib, MOST_MIB), f"{shown(digits)[1:-1]} MiB"
