"""Runs mutants and prints the check that killed each: `python -m validation.mutants [NAME ...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from validation.mutants.attention import mutants
from validation.mutants.mutant import MutantError
from validation.mutants.trial import trial

COULD_NOT_RUN = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when every mutant was killed, 1 when one survived, 2 when one could not be judged."""
    parser = argparse.ArgumentParser(prog="python -m validation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    options = parser.parse_args(arguments)
    known = {mutant.name: mutant for mutant in mutants()}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"error: no mutant is called {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return COULD_NOT_RUN
    survivors = errors = 0
    for name in options.names or known:
        try:
            kill = trial(known[name])
        except MutantError as error:
            errors += 1
            print(f"error     {error}", flush=True)
            continue
        if kill is None:
            survivors += 1
            print(f"SURVIVED  {name}: {known[name].why}", flush=True)
        else:
            print(f"killed    {name}: {kill.check}, {kill.verdict} on {kill.path}: {kill.reason}", flush=True)
    return COULD_NOT_RUN if errors else int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
