"""`python -m strata` is the command `strata`."""

from __future__ import annotations

import sys

from strata.unforeseen import from_the_start


def main() -> int:
    """Run the command line; what is missing to import the command is one line and 2, too."""
    from_the_start()
    from strata.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
