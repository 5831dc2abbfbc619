"""The kernels of these tests: sources under `kernels/`, and the lines their messages must name."""

from __future__ import annotations

from pathlib import Path

from strata.executors.base import Kernel

FOLDER = Path(__file__).resolve().parent / "kernels"


def kernel(source: str, block: int = 32, shared_bytes: int = 0, tier: int = 80) -> Kernel:
    """The kernel of the same name in `kernels/<source>.cu`."""
    return Kernel(source, source, block, shared_bytes, (("TIER", tier),), str(FOLDER))


def line_of(source: str, mark: str) -> int:
    """The line of `kernels/<source>.cu` that ends in the comment `// at: <mark>`."""
    lines = (FOLDER / f"{source}.cu").read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1) if line.endswith(f"// at: {mark}")]
    if len(found) != 1:
        raise ValueError(f"{source}.cu has {len(found)} lines marked {mark!r}, expected one")
    return found[0]
