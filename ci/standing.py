"""What a record would open that no accepted record opens yet: `python -m ci.standing FILE`, for `ci/submission.py`.

It is run from the base's checkout, on a file that the verifier has accepted, and prints one JSON object: `news`, a
reason for each path that the record is news for, and `known`, a reason for each other path that it opens.

A record is news for a path when no record in force comes from the same compute capability: the path is locked, or it
is open by a record of another kind of card, or of kernels or rules that have changed since. Its date is no news: dates
are attested, and a second record of one kind of card proves no more than the first.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath

from ci.accepted import Standing, accepted, standing
from strata.command import command
from strata.device import dotted, named
from strata.gates.gate import decide
from strata.gates.policy import POLICY, Policy
from strata.gates.record import Record, parse
from strata.gates.sources import of_path
from strata.kernels.paths import PATHS, Path


def news(
    record: Record, present: Iterable[tuple[Record, Standing]], policy: Policy = POLICY
) -> tuple[dict[str, str], dict[str, str]]:
    """Reasons by path: what the record is news for, and what it opens without being news. present: accepted ones."""
    held = list(present)
    fresh: dict[str, str] = {}
    known: dict[str, str] = {}
    for path in (PATHS[name] for name in record.plan_paths if name in PATHS):
        if not _opens(record, path, policy):
            continue
        opening = [(other, how) for other, how in held if _opens(other, path, policy)]
        in_force = [other for other, how in opening if how.in_force]
        same = [other for other in in_force if other.capability == record.capability]
        if same:
            known[path.name] = (
                f"record {same[0].short} of compute capability {dotted(same[0].capability or 0)} opens it"
            )
        elif in_force:
            others = sorted({other.capability or 0 for other in in_force})
            fresh[path.name] = f"open so far by compute capability {', '.join(map(dotted, others))} alone"
        elif opening:
            fresh[path.name] = f"open so far by record {opening[0][0].short}, which {opening[0][1].reason}"
        else:
            fresh[path.name] = "locked so far"
    return fresh, known


def _opens(record: Record, path: Path, policy: Policy) -> bool:
    """Whether the gate opens the path by this record alone, on the kind of card that made it."""
    if policy.rules.get(path.tier) is None or record.capability is None:
        return False
    return decide(path, named(record.capability), of_path(path), [record], policy).open


@command()
def main(words: list[str]) -> int:
    """Print the news of one file as JSON."""
    file = FilePath(words[0])
    record = parse(file.read_bytes(), file.stem, local=False)
    fresh, known = news(record, ((one.record, standing(one)) for one in accepted()))
    answer: Mapping[str, Mapping[str, str]] = {"news": fresh, "known": known}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
