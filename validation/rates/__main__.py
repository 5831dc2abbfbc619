"""One measurement, in a process of its own: takes its plan as JSON on standard input, prints the result as JSON."""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import json
import sys
from dataclasses import asdict
from pathlib import Path

from strata.command import command
from strata.executors import open_executor
from validation.captured.capture import source_text
from validation.rates.measure import measure


@command()
def main() -> int:
    """Measure what standard input asks for; 0."""
    asked = json.load(sys.stdin)
    executor = open_executor(asked["executor"])
    measured = measure(
        Path(asked["model"]), executor, asked["prompts"], asked["decode"], source_text()[0], asked["options"]
    )
    print(json.dumps({**asdict(measured), "executor": executor.describe()}, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
