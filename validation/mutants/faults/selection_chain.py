"""Mutants of block selection in front of attention: what feeds the one with the other, and what looks at it."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_FOLDER = "validation/operations/attention"
CHAIN, SELECTED, OPERATION = f"{_FOLDER}/chain.py", f"{_FOLDER}/selected.py", f"{_FOLDER}/operation.py"
_GIVEN = "selection.prepare(executor, index.q, index.keys, index.steps, inputs.ids.shape[1])"


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    tests = ("tests/validation/operations/attention/test_selected.py",)
    return Mutant(f"chain-{name}", file, old, new, why, tests=tests)


def _fed() -> Iterator[Mutant]:
    """What attention reads is not what block selection was to write for it."""
    yield _fault(
        "neighbours-query",
        CHAIN,
        _GIVEN,
        _GIVEN.replace("index.q", "np.roll(index.q, 1, axis=0)"),
        "Each query attends to the cells that its neighbour chose.",
    )
    yield _fault(
        "neighbours-lengths",
        CHAIN,
        _GIVEN,
        _GIVEN.replace("index.steps", "np.roll(index.steps, 1, axis=0)"),
        "Cells are chosen of the neighbour's length and width.",
    )
    yield _fault(
        "width-less-one",
        CHAIN,
        _GIVEN,
        _GIVEN.replace("index.steps", "index.steps - (index.steps[:, 3:] > 0) * np.int32([0, 0, 0, 1])"),
        "One cell too few is chosen, so that attention reads an id that nobody wrote.",
    )
    yield _fault(
        "ids-of-the-host",
        CHAIN,
        "fed = ready._replace(ids=made.ids)",
        "fed = ready",
        "Attention reads ids that the host uploaded and not those of the kernel's own buffer.",
    )
    yield _fault(
        "attention-first",
        CHAIN,
        "return [*ran, *prompt_attention.launch(executor, path, fed, out)]",
        "return [*prompt_attention.launch(executor, path, fed, out), *scorer.launch(executor, chosen, given, made, work)]",
        "Attention is launched before block selection has written anything.",
    )
    yield _fault(
        "told-the-answer",
        OPERATION,
        "return unchosen(inputs) if self.under_test[self.name].selects else inputs",
        "return inputs",
        "What chooses ids is handed those of the definition, and could hand them on.",
    )


def _looked_at() -> Iterator[Mutant]:
    """What is looked at, and in which case it says anything."""
    yield _fault(
        "ids-not-compared",
        SELECTED,
        "wrong = np.flatnonzero((ids != due).any(axis=1))",
        "wrong = np.flatnonzero((ids != ids).any(axis=1))",
        "Ids of block selection are compared with themselves.",
    )
    yield _fault(
        "strays-not-counted",
        SELECTED,
        'return holds("selection", stray == 0,',
        'return holds("selection", stray >= 0,',
        "Ids may be written behind the width of a row.",
    )
    yield _fault(
        "near-ties-are-certain",
        SELECTED,
        "limit = bound.limits(one, q, keys, rule).both[0]",
        "limit = np.zeros(len(keys))",
        "A case whose choice rounding decides says something of it.",
    )
    yield _fault(
        "anything-drawn",
        SELECTED,
        "if lawful.certain(ids, step, scores, np.full(len(scores), APART / 2)):",
        "if len(ids):",
        "Queries of the indexer are drawn whatever is near the cut.",
    )
    yield _fault(
        "promise-of-ids",
        f"{_FOLDER}/preconditions.py",
        "    if not np.array_equal(due, selected.canonical(inputs.ids, inputs.widths)):\n",
        "    if False:\n",
        "Ids that a case expects need not be those of its indexer.",
    )


def mutants() -> Iterator[Mutant]:
    yield from _fed()
    yield from _looked_at()
