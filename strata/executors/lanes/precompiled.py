"""The standard headers that every build reads, compiled once: reading them is most of the time of a small build.

GCC takes a precompiled header in place of its header where the two fit, and reads the header where they do not. The
kernel comes out with the same bytes either way, so this enters no key of a kernel, and whatever keeps it from being
made or found costs time alone. It takes 55 MB of the cache for each set of options.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from strata.executors import cache
from strata.executors.base import BuildError, StrataError
from strata.forks import ForkLock

NAME = "standard.hpp"
#: Builds of a process with the same options before it makes one, which takes as long as four builds save.
PATIENCE = 3

_making = ForkLock()
_builds: Counter[Path] = Counter()
_found: dict[Path, bool] = {}


def folder(command: Sequence[str], identity: Sequence[str | bytes], options: Sequence[str], header: bytes) -> str:
    """The directory to search for headers first, which holds `NAME` precompiled.

    The first few builds of a process do without, unless an earlier process has made it.

    Parameters
    ----------
    command
        The words that start the compiler, which must be GCC.
    identity
        What tells the compiler and the processor from others.
    options
        What the compiler is told, all but the kernel's macros.
    header
        The bytes of `NAME`.

    Returns
    -------
    str
        Empty when there is no such directory.

    Raises
    ------
    ExecutorUnavailable
        Without a place for a cache.
    """
    key = cache.content_key([*identity, *options, header], "lanes-standard")
    place = cache.directory() / key
    if not _making.acquire(blocking=False):  # another thread makes one: building without it is faster than waiting
        return ""
    try:
        if _found.get(place) and (place / f"{NAME}.gch").is_file():
            return str(place)
        _builds[place] += 1
        if _found.get(place) is False or (_builds[place] <= PATIENCE and not place.is_dir()):
            return ""
        try:
            cache.entry(key, lambda directory: _make(directory, [*command, *options], header))
        except StrataError:  # of the compiler, or of a full disk
            _found[place] = False
            return ""
        _found[place] = True
        return str(place)
    finally:
        _making.release()


def _make(directory: Path, words: Sequence[str], header: bytes) -> None:
    """Fill a cache entry. Raises BuildError when the compiler makes none."""
    (directory / NAME).write_bytes(header)
    done = subprocess.run(
        [*words, "-x", "c++-header", NAME, "-o", f"{NAME}.gch"],
        cwd=directory,
        capture_output=True,
        env=os.environ | {"LC_ALL": "C"},
        check=False,
    )
    if done.returncode != 0 or not (directory / f"{NAME}.gch").is_file():
        raise BuildError(f"{NAME} is not precompiled", done.stderr.decode(errors="replace"))
    (directory / NAME).unlink()  # the build has its own, of the bytes in its key
