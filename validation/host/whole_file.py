"""Files that are there whole or not at all, as `strata.whole_file` writes them."""

from __future__ import annotations

from strata.whole_file import replacing, write

__all__ = ["replacing", "write"]
