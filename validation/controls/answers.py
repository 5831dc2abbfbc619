"""Asks the controls of the sources it is imported from.

A program of its own, which mutants run in a copy of the sources: `python -m validation.controls.answers` answers with
one line of JSON.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import json
import sys
from pathlib import Path as FilePath

import strata
import validation
from strata.command import command
from validation.controls import self_test
from validation.core.control import failed


@command()
def main() -> int:
    """Answer."""
    answers = self_test.flat(self_test.prove())
    wrong = [{"name": one.name, "reason": one.line()} for one in failed(answers)]
    packages = [str(FilePath(str(module.__file__)).parent) for module in (strata, validation)]
    print(json.dumps({"asked": len(answers), "wrong": wrong, "packages": packages}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
