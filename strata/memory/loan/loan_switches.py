"""What the environment's switches ask of prompt loans."""

from __future__ import annotations

from dataclasses import dataclass, field

from strata import switches
from strata.memory.cache.verification import verifies_all
from strata.switches import Switches

#: Fewest tokens for which a repeated loan can be asked; a smaller number acts as this one.
LEAST_REPEAT_TOKENS = 256


@dataclass(frozen=True)
class LoanSwitches:
    """What the environment asks of prompt loans.

    Parameters
    ----------
    elastic
        The master: without it the rest has no effect.
    mtp, head
        Whether the draft layer's experts (X) and the output head (H) are lent.
    retain
        Whether the start's chunk is the largest later.
    repeat
        Whether later prompts borrow as well.
    repeat_tokens
        Tokens really read from which on they do.
    verify_all
        Whether every slot that comes back is compared, not a sample; when absent as the environment says.
    """

    elastic: bool = False
    mtp: bool = False
    head: bool = False
    retain: bool = False
    repeat: bool = False
    repeat_tokens: int = 1024
    verify_all: bool = field(default_factory=verifies_all)

    @property
    def lent(self) -> tuple[str, ...]:
        """The resources that are asked for by name; what depends on them goes with them. The verifier always goes."""
        if not self.elastic:
            return ()
        return ("V", *(("X", "D") if self.mtp else ()), *(("H",) if self.head else ()))


def loan_switches(asked: Switches) -> tuple[LoanSwitches, tuple[str, ...]]:
    """The settings, and a line for every switch that has no effect because another one is off, or acts as another."""

    def on(name: str) -> bool:
        return asked.value(name) == "1"

    tokens = max(LEAST_REPEAT_TOKENS, int(asked.value(switches.LOAN_REPEAT_TOKENS)))
    settings = LoanSwitches(
        on(switches.LOAN_ELASTIC),
        on(switches.LOAN_MTP),
        on(switches.LOAN_HEAD),
        on(switches.LOAN_RETAIN),
        on(switches.LOAN_REPEAT),
        tokens,
        on(switches.VERIFY_RECLAIM),
    )
    needs = {
        switches.LOAN_MTP: (settings.mtp, settings.elastic, switches.LOAN_ELASTIC),
        switches.LOAN_HEAD: (settings.head, settings.elastic, switches.LOAN_ELASTIC),
        switches.LOAN_RETAIN: (settings.retain, settings.elastic, switches.LOAN_ELASTIC),
        switches.LOAN_REPEAT: (settings.repeat, settings.elastic, switches.LOAN_ELASTIC),
        switches.LOAN_REPEAT_TOKENS: (
            switches.LOAN_REPEAT_TOKENS in asked.values,
            settings.elastic and settings.repeat,
            switches.LOAN_REPEAT,
        ),
    }
    problems = tuple(
        f"{name}={asked.values[name]} has no effect without {other}=1"
        for name, (wanted, possible, other) in needs.items()
        if wanted and not possible
    )
    if switches.LOAN_REPEAT_TOKENS in asked.values and int(asked.values[switches.LOAN_REPEAT_TOKENS]) < tokens:
        given = f"{switches.LOAN_REPEAT_TOKENS}={asked.values[switches.LOAN_REPEAT_TOKENS]}"
        problems += (f"{given} acts as {LEAST_REPEAT_TOKENS}, the least",)
    return settings, problems
