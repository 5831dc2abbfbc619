"""Mutants of how commands end: crashes that look like verdicts, output that is lost, work that is not kept."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

COMMAND, OUTPUT, OWNER = "strata/command.py", "strata/output.py", "validation/run/owner.py"
SOAK, FUZZ, CAPTURED = (
    f"validation/{name}.py" for name in ("soak/command", "fuzz/command", "operations/attention/captured")
)


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    return Mutant(f"command-{name}", file, old, new, why, tests=tuple(f"tests/{test}.py" for test in tests))


def mutants() -> Iterator[Mutant]:
    """Every mutant of how commands end."""
    said = '            print(f"{prefix}: {said}", file=sys.stderr)\n            return COULD_NOT_RUN\n'
    yield _fault(
        "crash-is-a-verdict",
        COMMAND,
        said,
        said.replace("COULD_NOT_RUN", "1"),
        "A command that could not run ends as one that refused.",
        "strata/test_command",
    )
    yield _fault(
        "thread-crash-is-a-verdict",
        COMMAND,
        "return COULD_NOT_RUN if crashed else status",
        "return status",
        "A command one of whose threads fell over ends as if it had done its work.",
        "strata/test_command",
    )
    yield _fault(
        "second-signal-counts",
        COMMAND,
        "            signal.signal(one, lambda *_: None)\n",
        "            pass\n",
        "A supervisor that sends its signal twice breaks the saving of what is finished.",
        "strata/test_command",
    )
    yield _fault(
        "hangup-although-ignored",
        COMMAND,
        "signal.getsignal(number) is signal.SIG_DFL",
        "True",
        "A command under nohup ends with the terminal.",
        "strata/test_command",
    )
    yield _fault(
        "full-output-is-read",
        OUTPUT,
        "                    return UNWRITTEN\n",
        "                    return status\n",
        "A command whose output is lost ends as if it had been read.",
        "strata/test_output",
    )
    yield _fault(
        "dead-runs-run",
        OWNER,
        "found[0] in _DEAD or found[1] != began",
        "False",
        "A killed run is shown as running when its number was given again.",
        "validation/run/test_owner",
    )
    yield _fault(
        "other-machines-are-dead",
        OWNER,
        '    if noted.get("space") != here["space"]:\n        return False\n',
        "",
        "A run in another container is called interrupted.",
        "validation/run/test_owner",
    )
    yield _fault(
        "soak-forgets",
        SOAK,
        "            self.write(unfinished.status(error))\n",
        "            pass\n",
        "An error ends a soak whose finished runs are not kept.",
        "validation/soak/test_command",
    )
    yield _fault(
        "fuzz-forgets-where-it-was",
        FUZZ,
        "    first, left = options.first + done, options.count - done\n",
        "    first, left = options.first, options.count - done\n",
        "The command for the rest begins anew.",
        "validation/fuzz/test_command",
    )
    yield _fault(
        "capture-of-any-heads",
        CAPTURED,
        "if rest or group not in GROUPS:",
        "if False:",
        "A capture that no kernel takes is refused by every one of its cases.",
        "validation/operations/attention/test_captured_geometry",
    )
    yield _fault(
        "later-trials-are-ended",
        "validation/mutants/trial.py",
        "        _ended = False  # no thread of theirs is left, and later trials are others\n",
        "        pass\n",
        "Trials after a run of mutants that was broken off are ended as its own are.",
        "validation/mutants/test_mutants_main",
    )
    yield _fault(
        "static-takes-one-day",
        "validation/static/command.py",
        "return [oldest, *sample(others, 1, turn)]",
        "return [oldest, *sample(others, 1, 0)]",
        "The later architecture whose machine code CI reads is the same every day.",
        "validation/static/test_command",
    )
    yield _fault(
        "installed-is-a-checkout",
        "validation/host/checkout.py",
        'if not (root / "pyproject.toml").is_file():',
        "if not root.is_dir():",
        "An installed package takes figures over into itself, where the next installation loses them.",
        "validation/host/test_checkout",
    )
