"""What checks in common use say of the sources it is imported from: NMSE <= 5e-4, and allclose(1e-2), or of experts the
limits of their published test (`conventional` of each operation).

A program of its own, like `quick`. One friendly case a path.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import json
import sys
from typing import Any

from strata.arguments import whole
from strata.command import command
from strata.executors import NAMES, open_executor
from strata.executors.base import Executor
from strata.kernels.paths import Path, select
from validation.operations import registry


def run(path: Path, executor: Executor, seed: int) -> dict[str, Any]:
    """What they say of one path."""
    return registry.conventional(path).run(path, executor, seed)


@command()
def main() -> int:
    """Answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", required=True)
    parser.add_argument("--seed", type=whole(), default=1)
    parser.add_argument("--executor", choices=NAMES, default="lanes")
    options = parser.parse_args()
    paths = select(options.paths)
    # The build of the operation's cases where it has one of its own, for the sake of compiling once. What the checked
    # one stops counts as refused, though on a card it might not be.
    executor = open_executor(options.executor, rule="sm_90", flavor=registry.conventional(paths[0]).flavor)
    found = [run(path, executor, options.seed) for path in paths]
    answer = {name: all(one[name] for one in found) for name in found[0] if name.endswith("_passes")}
    numbers = [one["nmse"] for one in found]
    print(json.dumps(answer | {"nmse": None if None in numbers else max(numbers)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
