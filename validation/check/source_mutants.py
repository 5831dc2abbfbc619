"""Mutants of any CUDA source in the lanes vocabulary: copies of it with one small fault each.

The checks of a kernel are asked what they would notice. Each mutant is one edit of the kind that a person makes by
mistake; one that every check passes is a question to their author, and `SourceMutant.question` puts it in words.

Edits keep to what functions compute. Comments, directives, declarations, template arguments and static assertions stay
as they are, and so do edits known to change nothing, such as `>` for `>=` in a maximum. Some of the rest may change
nothing either: a question can have the answer that it makes no difference. A mutant may run forever: give it a time.

References
----------
R. A. DeMillo, R. J. Lipton, F. G. Sayward, "Hints on Test Data Selection: Help for the Practicing Programmer",
Computer 11 (4), 1978.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from strata.executors.base import StrataError
from validation.check import source_control, source_memory, source_values
from validation.check.source_declarations import Code
from validation.check.source_edits import Edit

#: Kinds of faults, with what each does to a source.
KINDS: dict[str, str] = {
    "barrier": "a barrier, or a wait for copies, is left out",
    "boundary": "a comparison takes its boundary in, or leaves it out",
    "comparison": "equal becomes unequal, or the other way",
    "guard": "a condition is taken to hold",
    "condition": "one of several conditions is left out",
    "loop": "the first or the last turn of a loop is left out",
    "stride": "a loop takes steps of twice the size",
    "reduction": "a step of a reduction is left out, or all of it",
    "constant": "a number is off by one, or a float by an eighth or more",
    "accumulator": "a sum begins with one",
    "limit": "a maximum or a minimum begins at zero",
    "sign": "plus and minus are exchanged, or a sign is lost",
    "operands": "the operands of a difference or of a quotient are exchanged",
    "index": "the parts of an index are exchanged, or the components of a vector",
    "mask": "bits, or a remainder, are not cut off",
    "fma": "a fused multiply-add rounds its product",
    "rounding": "a conversion or a quotient is rounded another way",
    "precision": "a result loses the lower half of its bits",
    "extreme": "maximum and minimum are exchanged",
    "stale": "a store to shared memory is left out",
    "store": "a store to global memory is left out",
    "buffer": "a buffer of several does not take its turn",
}
#: Kinds that change roundings alone: a correct bound may allow them, and only bits can tell.
ROUNDING_KINDS = frozenset({"fma", "rounding"})

_OPERATORS: tuple[Callable[[Code], Iterator[Edit]], ...] = (
    source_control.barriers,
    source_memory.stores,
    source_memory.buffers,
    source_memory.reductions,
    source_control.halvings,
    source_control.loops,
    source_control.strides,
    source_control.boundaries,
    source_control.comparisons,
    source_control.guards,
    source_control.conditions,
    source_values.accumulators,
    source_values.extremes,
    source_values.limits,
    source_values.indices,
    source_values.signs,
    source_values.operands,
    source_values.masks,
    source_values.fused,
    source_values.roundings,
    source_values.precisions,
    source_values.constants,
)
#: Characters of code that a question shows: fewer say too little, more are hard to read.
_LEAST_SHOWN, _MOST_SHOWN = 16, 72


@dataclass(frozen=True)
class SourceMutant:
    """One fault of one source.

    Parameters
    ----------
    name
        Of the file, the kind and the line, with a number where a line has several of a kind: `rmsnorm-boundary-31-2`.
        The same source gives the same names.
    kind
        One of `KINDS`.
    file
        The name of the source, as the question says it.
    line
        Where the edit begins, from 1.
    old, new
        The text that is replaced, and what takes its place; empty where it is left out.
    span
        First character of `old` in the source, and the one behind its last.
    question
        What a surviving mutant asks, in a sentence.
    """

    name: str
    kind: str
    file: str
    line: int
    old: str
    new: str
    span: tuple[int, int]
    question: str

    def mutated(self, source: str) -> str:
        """`source` with the fault.

        Raises
        ------
        StrataError
            If it is not the source that the mutant was made from, as far as its own text tells.
        """
        first, last = self.span
        if source[first:last] != self.old:
            raise StrataError(f"{self.name}: expected {self.old!r} at character {first} of {self.file}")
        return source[:first] + self.new + source[last:]


def generate(source: str, name: str, macros: Mapping[str, int] | None = None) -> list[SourceMutant]:
    """Every mutant of a source, by line.

    Parameters
    ----------
    source
        The text of a `.cu` or of a header.
    name
        The name of its file, for messages: `rmsnorm.cu`.
    macros
        Macros that it is compiled with: what its `#if` leave out under them is left alone.

    Returns
    -------
    list of SourceMutant
        The same, in the same order, for the same arguments.

    Raises
    ------
    SourceError
        For a source whose comments, strings, brackets or `#if` do not end.
    """
    code = Code(source, macros or {})
    kept = [token.start for token in code.untouchable]
    edits: dict[tuple[int, int, str], Edit] = {}
    for operator in _OPERATORS:
        for edit in operator(code):
            span = code.tokens[edit.first].start, code.tokens[edit.last].end
            next_kept = bisect_left(kept, span[0])
            across = next_kept < len(kept) and kept[next_kept] < span[1]
            if not across and source[slice(*span)] != edit.new:
                edits.setdefault((*span, edit.new), edit)
    stem = re.sub(r"[^a-z0-9_]+", "_", name.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower())
    met: dict[str, int] = {}
    found = []
    for (start, end, new), edit in sorted(edits.items()):
        line = code.tokens[edit.first].line
        place = f"{stem}-{edit.kind}-{line}"
        met[place] = met.get(place, 0) + 1
        unique = place if met[place] == 1 else f"{place}-{met[place]}"
        question = _question(code, edit, f"{name}:{line}")
        found.append(SourceMutant(unique, edit.kind, name, line, source[start:end], new, (start, end), question))
    return found


def spread(mutants: Sequence[SourceMutant], count: int) -> list[SourceMutant]:
    """At most `count` of `mutants`, in their order: as many of each kind as there is room for, and of a kind evenly
    over the lines."""
    groups = [[mutant for mutant in mutants if mutant.kind == kind] for kind in KINDS]
    taken = [0] * len(groups)
    while sum(taken) < min(count, len(mutants)):
        for i, group in enumerate(groups):
            if taken[i] < len(group) and sum(taken) < count:
                taken[i] += 1
    chosen = {
        group[(2 * j + 1) * len(group) // (2 * number)].name
        for group, number in zip(groups, taken, strict=True)
        for j in range(number)
    }
    return [mutant for mutant in mutants if mutant.name in chosen]


def _question(code: Code, edit: Edit, place: str) -> str:
    if not edit.new and edit.kind not in ("condition", "mask", "sign", "buffer"):
        return f"nothing here notices that `{_shown(code.said(edit.first, edit.last))}` was left out at {place}"
    first, last = _around(code, edit)
    old = code.said(edit.first, edit.last)
    before = code.source[code.tokens[first].start : code.tokens[edit.first].start]
    after = code.source[code.tokens[edit.last].end : code.tokens[last].end]
    if len(before) + len(old) + len(after) > _MOST_SHOWN:
        before, after = _ending(before), _beginning(after)
    was, became = _shown(before + old + after), _shown(before + edit.new + after)
    return f"nothing here notices that `{was}` became `{became}` at {place}"


def _ending(text: str) -> str:
    return text if len(text) <= _LEAST_SHOWN else f"...{text[-_LEAST_SHOWN:]}"


def _beginning(text: str) -> str:
    return text if len(text) <= _LEAST_SHOWN else f"{text[:_LEAST_SHOWN]}..."


def _around(code: Code, edit: Edit) -> tuple[int, int]:
    """Tokens that make an edit readable: what stands between two commas, semicolons or brackets, and of very short ones
    what the brackets stand in."""
    first, last = _between_separators(code, edit.first, edit.last)
    while len(code.said(first, last)) < _LEAST_SHOWN and code.pair.get(first - 1) == last + 1:
        if code.text[first - 2] in ("if", "for", "while", "switch") or code.text[first - 1] == "{":
            break
        first, last = _between_separators(code, first - 1, last + 1)
    return first, last


def _between_separators(code: Code, first: int, last: int) -> tuple[int, int]:
    while code.text[first - 1] not in (",", ";", "(", "[", "{", "}", "return", "else"):
        before = code.pair[first - 1] if code.text[first - 1] in (")", "]") else first - 1
        if code.text[before] == "(" and code.text[before - 1] in ("if", "for", "while", "switch"):
            break
        first = before
    while code.text[last + 1] not in (",", ";", ")", "]", "}", "{"):
        last = code.pair[last + 1] if code.text[last + 1] in ("(", "[") else last + 1
    return first, last


def _shown(text: str) -> str:
    text = " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).split())
    return text if len(text) <= _MOST_SHOWN + 40 else f"{text[: _MOST_SHOWN + 37]}..."
