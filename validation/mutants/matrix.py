"""The kill matrix: which check killed which mutant, the fewest checks that kill all, what usual checks let through."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from validation.mutants.mutant import Mutant
from validation.mutants.trial import Outcome

#: A case's recipe, of its whole text.
_RECIPE = re.compile(r"recipe=(\S+).*")
#: Sets of at most this many checks are tried exhaustively; beyond it the greedy choice stands.
_EXACT_CHECKS = 16
#: The head of the second table, which says what each mutant is.
FAULTS = "| mutant | file | fault | what refused it |"


def column(check: str) -> str:
    """The matrix column of a check: tests share one, so do controls."""
    for kind in ("test", "control"):
        if check.startswith(f"{kind} "):
            return kind
    return check


def columns(outcomes: Sequence[Outcome]) -> list[str]:
    """Checks that failed for some mutant, those that failed for most first."""
    count: dict[str, int] = {}
    for outcome in outcomes:
        for name in {column(check) for check in outcome.kill.checks} if outcome.kill else ():
            count[name] = count.get(name, 0) + 1
    return sorted(count, key=lambda name: (-count[name], name))


def minimal_checks(outcomes: Sequence[Outcome]) -> list[str]:
    """The fewest checks of which every killed mutant fails at least one, in the case that killed it.

    Exhaustive over the checks that are not forced by a mutant with a single one; greedy where those are many.
    """
    kills = {frozenset(column(check) for check in outcome.kill.checks) for outcome in outcomes if outcome.kill}
    chosen = {next(iter(kill)) for kill in kills if len(kill) == 1}
    open_kills = [kill for kill in kills if not kill & chosen]
    rest = sorted(set().union(*open_kills)) if open_kills else []
    if len(rest) <= _EXACT_CHECKS:
        for size in range(len(rest) + 1):
            for some in combinations(rest, size):
                if all(kill & set(some) for kill in open_kills):
                    return sorted(chosen | set(some))
    while open_kills:
        best = max(rest, key=lambda name: sum(name in kill for kill in open_kills))
        chosen.add(best)
        open_kills = [kill for kill in open_kills if best not in kill]
    return sorted(chosen)


def usual_counts(outcomes: Sequence[Outcome], second: str) -> dict[str, int]:
    """How many mutants NMSE and a second usual check judged, and how many each let through. second: "allclose", or
    "rows", the published test's of experts."""
    judged = [outcome.usual for outcome in outcomes if f"{second}_passes" in outcome.usual]
    return {
        "judged": len(judged),
        "nmse": sum(bool(usual["nmse_passes"]) for usual in judged),
        second: sum(bool(usual[f"{second}_passes"]) for usual in judged),
        "both": sum(bool(usual["nmse_passes"] and usual[f"{second}_passes"]) for usual in judged),
    }


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The lines below the matrix."""
    by_status = {
        status: [outcome for outcome in outcomes if outcome.status == status]
        for status in ("killed", "survived", "error", "device")
    }
    lines = [
        f"{len(outcomes)} mutants: {len(by_status['killed'])} killed, {len(by_status['survived'])} survived, "
        f"{len(by_status['error'])} could not be judged, {len(by_status['device'])} need a device"
    ]
    checks = minimal_checks(outcomes)
    if checks:
        lines.append(f"the fewest checks that kill all of these: {', '.join(checks)} ({len(checks)})")
    usual = usual_counts(outcomes, "allclose")
    if usual["judged"]:
        lines.append(
            f"of {usual['judged']} mutants that the usual checks could see on data uniform in [-1, 1], "
            f"NMSE <= 5e-4 lets {usual['nmse']} through, allclose(1e-2) {usual['allclose']}, "
            f"both together {usual['both']}"
        )
    experts = usual_counts(outcomes, "rows")
    if experts["judged"]:
        lines.append(
            f"of {experts['judged']} mutants of expert kernels, on friendly data, NMSE <= 5e-4 lets {experts['nmse']} "
            f"through, RMS <= 2e-3 with 3e-2 in the worst row {experts['rows']}, both together {experts['both']}"
        )
    return lines


def usual_words(outcome: Outcome) -> tuple[str, str, str]:
    """What NMSE, allclose and the limits on rows say: passes, refuses, or a dash where one does not apply."""
    words = {None: "-", True: "passes", False: "refuses"}
    said = [words[outcome.usual.get(f"{name}_passes")] for name in ("nmse", "allclose", "rows")]
    return said[0], said[1], said[2]


def _letter(index: int) -> str:
    """a to z, aa to az, ba and so on."""
    before, last = divmod(index, 26)
    return (chr(ord("a") + before - 1) if before else "") + chr(ord("a") + last)


def markdown(outcomes: Sequence[Outcome], table: Mapping[str, Mutant]) -> str:
    """The report as Markdown: summary, matrix, and what each mutant is."""
    names = columns(outcomes)
    letters = {name: _letter(index) for index, name in enumerate(names)}
    lines = [*(f"- {line}" for line in summary(outcomes)), ""]
    lines.append("Letters stand for checks: those that refused the case that killed the mutant.")
    lines.append("")
    lines += [f"- {letters[name]}: `{name}`" for name in names]
    lines += ["", "| mutant | refused by | NMSE | allclose | rows |", "| --- | --- | --- | --- | --- |"]
    for outcome in outcomes:
        failed = {column(check) for check in outcome.kill.checks} if outcome.kill else set()
        marks = " ".join(letters[name] for name in names if name in failed)
        lines.append(f"| {outcome.name} | {marks} | " + " | ".join(usual_words(outcome)) + " |")
    lines += ["", FAULTS, "| --- | --- | --- | --- |"]
    for outcome in outcomes:
        mutant = table[outcome.name]
        if outcome.kill:
            where = _RECIPE.sub(r"\1", outcome.kill.where)
            said = f"{outcome.kill.checks[0]}: {where}"
        else:
            shown = "" if outcome.note.endswith(mutant.shown) else mutant.shown
            said = f"{outcome.status.upper()} {outcome.note} {shown}".strip()
        lines.append(f"| {outcome.name} | `{mutant.file}` | {mutant.why} | {said.replace('|', '/')} |")
    return "\n".join(lines) + "\n"
