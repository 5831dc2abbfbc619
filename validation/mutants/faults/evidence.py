"""Mutants of what holds evidence against the sources, takes it in, and shows what its author wrote."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

ORIGIN = "validation/record/rules/origin.py"
OBJECTS, VERIFIER = "ci/objects.py", "ci/verifier.py"
SHOWN, OUTPUT, TERMINAL = "strata/shown.py", "strata/output.py", "strata/terminal.py"
COMMANDS, FROM_RUN = "validation/report/commands.py", "validation/report/from_run.py"


def _fault(name: str, file: str, old: str, new: str, why: str, test: str) -> Mutant:
    return Mutant(f"evidence-{name}", file, old, new, why, tests=(f"tests/{test}.py",))


def _sources() -> Iterator[Mutant]:
    """Which sources a record is held against."""
    yield _fault(
        "sources-of-others",
        ORIGIN,
        "sorted(file_names(subject.paths))",
        "sorted(subject.sources)",
        "A record is refused when a kernel changes that it is not of.",
        "validation/record/rules/test_origin",
    )
    yield _fault(
        "sources-of-its-own",
        ORIGIN,
        "        elif held[name] != ours:\n",
        "        elif False:\n",
        "A record of other kernels than this checkout's is accepted.",
        "validation/record/rules/test_origin",
    )


def _submissions() -> Iterator[Mutant]:
    """How much of a pull request is read, and what has a say beside it."""
    change = "ci/test_change"
    yield _fault(
        "trees-to-their-leaves",
        OBJECTS,
        '"ls-tree", "-z"',
        '"ls-tree", "-r", "-z"',
        "A tree is read with all paths below it.",
        change,
    )
    yield _fault(
        "objects-of-any-size",
        OBJECTS,
        "    if size > most:\n",
        "    if False:\n",
        "An object is opened whatever its size is.",
        change,
    )
    yield _fault(
        "git-says-anything",
        OBJECTS,
        "process.stdout.read(-1 if most is None else most + 1)",
        "process.stdout.read()[: most and most]",
        "What git prints is read to its end.",
        change,
    )
    yield _fault(
        "main-may-be-a-tag",
        OBJECTS,
        "    if len(same) > 1:\n",
        "    same = dict(sorted(same.items(), reverse=True)[:1])\n    if len(same) > 1:\n",
        "Of a branch and a tag of one name the tag is taken.",
        change,
    )
    yield _fault(
        "cache-of-others",
        VERIFIER,
        "environment |= dict.fromkeys(CACHES, str(cache))",
        "environment |= {name: os.environ[name] for name in CACHES if name in os.environ}",
        "The verifier of a submission loads kernels that somebody else has compiled.",
        "ci/test_submission",
    )


def _texts() -> Iterator[Mutant]:
    """What of somebody else's text reaches a terminal or a reader's shell."""
    yield _fault(
        "escapes-sent",
        SHOWN,
        '"[^ -~]"',
        '"[^ -~\\x1b]"',
        "Escape sequences in a file reach the terminal.",
        "strata/test_shown",
    )
    yield _fault(
        "controls-of-eight-bits-sent",
        SHOWN,
        "if char.isprintable() or char in kept:",
        "if char.isprintable() or char in kept or char >= chr(0x80):",
        "Controls of eight bits and marks of direction reach the terminal.",
        "strata/test_shown",
    )
    yield _fault(
        "lines-of-their-own",
        SHOWN,
        "return _escaped(text[:longest]) +",
        "return _escaped(text[:longest], _LAYOUT) +",
        "A text of a file begins a line of its own, such as a verdict.",
        "strata/test_shown",
    )
    yield _fault(
        "console-sends-texts",
        TERMINAL,
        "yield segment if control else Segment(printable(text), style)",
        "yield segment",
        "The console sends what its texts hold.",
        "strata/test_terminal",
    )
    yield _fault(
        "texts-are-markup",
        TERMINAL,
        "markup=False, emoji=False",
        "markup=True, emoji=True",
        "Brackets and colons in a text of a file are markup.",
        "strata/test_terminal",
    )
    yield _fault(
        "streams-send-texts",
        OUTPUT,
        "return self.send(printable(text))",
        "return self.send(text)",
        "What is printed past the console is sent as it is.",
        "strata/test_terminal",
    )
    yield _fault(
        "texts-of-a-run-as-they-are",
        FROM_RUN,
        "value = shown_throughout(dict(value))",
        "value = dict(value)",
        "Texts of a run are taken on as they are.",
        "validation/report/test_read",
    )
    yield _fault(
        "commands-copied",
        COMMANDS,
        '    if options is None:\n        return ""\n',
        "    if options is None:\n        return text\n",
        "The page offers a command that the author of a file wrote.",
        "validation/report/test_commands",
    )


def mutants() -> Iterator[Mutant]:
    yield from _sources()
    yield from _submissions()
    yield from _texts()
