"""A program that takes device memory as an image encoder would, writes it all over, holds it and leaves when told to.

`python -m validation.memory.borrower --mib 1400` prints `HOLDING <bytes>` once every byte is written, and holds until
its input ends. With `--leave MIB` it takes everything but so much; with `--slow S` it goes on for S seconds after it
was told to leave, as an encoder does that finishes its picture.
"""

from __future__ import annotations

if __name__ == "__main__":  # before what may be missing is imported
    from strata.unforeseen import from_the_start

    from_the_start()

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from strata.arguments import seconds, whole
from strata.command import command
from strata.executors.base import StrataError
from strata.memory.driver.bindings import Bindings
from strata.memory.driver.fake import POISON, FakeCard, FakeDriver

MIB = 1 << 20
_ROOT = Path(__file__).resolve().parents[2]


class Borrower(Protocol):
    """Somebody else's process. nbytes: that it holds."""

    nbytes: int

    def leave(self) -> None:
        """End it, and wait until it has ended."""
        ...


class FakeBorrower:
    """A second process on a fake card."""

    def __init__(self, card: FakeCard, nbytes: int, granularity: int) -> None:
        """Takes memory in whole granules and writes it all over. Raises DriverError when there is no room."""
        self.nbytes = nbytes // granularity * granularity
        self._driver = FakeDriver(card, granularity)
        if self.nbytes:
            va, handle = self._driver.reserve(self.nbytes), self._driver.create(self.nbytes)
            self._driver.map(va, self.nbytes, handle)
            self._driver.set_access(va, self.nbytes)
            self._driver.fill(va, POISON, self.nbytes)

    def leave(self) -> None:
        self._driver.kill()


class ProcessBorrower:
    """This program in a process of its own. Raises StrataError when it does not come to hold its memory."""

    def __init__(self, *, mib: int | None = None, leave: int | None = None, slow: float = 0.0) -> None:
        words = ["--mib", str(mib)] if mib is not None else ["--leave", str(leave)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "validation.memory.borrower", *words, "--slow", str(slow)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().split()
        if said[:1] != ["HOLDING"]:
            self._process.kill()
            raise StrataError(f"the borrower said {' '.join(said)!r}, expected HOLDING and a number of bytes")
        self.nbytes = int(said[1])

    def told(self) -> None:
        """Tell it to leave, without waiting for it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def leave(self) -> None:
        self.told()
        self._process.wait()


@command()
def main(arguments: Sequence[str] | None = None) -> int:
    """Take, write, tell, hold, leave."""
    parser = argparse.ArgumentParser(prog="python -m validation.memory.borrower", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--mib", type=whole(), metavar="N", help="take N MiB")
    what.add_argument("--leave", type=whole(), metavar="N", help="take everything but N MiB")
    parser.add_argument("--slow", type=seconds, default=0.0, metavar="S", help="go on for S seconds when told to leave")
    options = parser.parse_args(arguments)
    bindings = Bindings()
    cuda, call = bindings.cuda, bindings.call
    wanted = options.mib
    if wanted is None:
        free, _ = call("mem_info", cuda.cuMemGetInfo)
        wanted = max(0, int(free) // MIB - options.leave)
    if wanted:
        address = call("borrow", cuda.cuMemAlloc, wanted * MIB)
        call("borrow", cuda.cuMemsetD8, address, POISON, wanted * MIB)
        call("borrow", cuda.cuCtxSynchronize)
    print(f"HOLDING {wanted * MIB}", flush=True)
    sys.stdin.read()
    time.sleep(options.slow)
    return 0


if __name__ == "__main__":
    sys.exit(main())
