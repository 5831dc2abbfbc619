"""Asks the controls of the sources it is imported from.

A program of its own, like `quick`: `python -m validation.mutants.controls` answers with one line of JSON.
"""

from __future__ import annotations

import json
from pathlib import Path as FilePath

import strata
from validation import profiles
from validation.controls import proof


def main() -> None:
    answers = proof.flat(proof.prove())
    wrong = [{"name": one.name, "reason": one.line()} for one in proof.failed(answers)]
    packages = [str(FilePath(str(module.__file__)).parent) for module in (strata, profiles)]
    print(json.dumps({"asked": len(answers), "wrong": wrong, "packages": packages}))


if __name__ == "__main__":
    main()
