"""`python -m strata` is the command `strata`."""

from __future__ import annotations

import sys

from strata.cli import main

if __name__ == "__main__":
    sys.exit(main())
