"""The machine of lanes compiled once: stacks, schedules, faults and matrix instructions are the same for every kernel.

They are a translation unit of their own, since compiling them takes longer than compiling most kernels. Linking the
object kept here gives the bytes that compiling it beside the kernel gives, so it enters no key of a kernel, and
whatever keeps it from being made costs time alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from strata.executors import cache
from strata.executors.base import BuildError, StrataError
from strata.executors.lanes import blame
from strata.forks import ForkLock

#: The translation unit, and what is included in that of a kernel where the machine has none of its own.
SOURCE, HEADER = "machine.cpp", "machine.cpp.hpp"
_OBJECT = "machine.o"

_making = ForkLock()
#: Places of objects that could not be made in this process.
_missing: set[Path] = set()


def compiled(
    command: Sequence[str],
    identity: Sequence[str | bytes],
    options: Sequence[str],
    includes: Sequence[str],
    files: Mapping[str, bytes],
    folder: str,
) -> str:
    """The machine's object file; empty when there is none, and it must be compiled beside the kernel.

    Parameters
    ----------
    command
        What starts the compiler.
    identity
        What tells the compiler and the processor from others.
    options
        All of a build's options but the kernel's macros.
    includes
        The options that say where headers are searched.
    files
        What a build compiles, by the name below `folder` that it is included as. SOURCE and the runtime are taken.
    folder
        The name of the directory that holds them in a build.

    Raises
    ------
    ExecutorUnavailable
        There is no cache.
    """
    ours = {name: data for name, data in files.items() if name == SOURCE or name.startswith("runtime/")}
    parts: list[str | bytes] = [*identity, *options]
    for name, data in ours.items():
        parts += [name, data]
    key = cache.content_key(parts, "lanes-machine")
    place = cache.directory() / key

    def make(directory: Path) -> None:
        for name, data in ours.items():
            (directory / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / folder / name).write_bytes(data)
        words = [*options, *includes, "-c", f"{folder}/{SOURCE}", "-o", _OBJECT]
        done = blame.compiled(command, words, directory, directory / folder)
        if done.returncode != 0:
            raise BuildError(f"{SOURCE} does not compile", done.stderr)
        shutil.rmtree(directory / folder)

    with _making:  # waiting for another thread's takes less than making one
        if place in _missing:
            return ""
        try:
            return str(cache.entry(key, make, (_OBJECT,)) / _OBJECT)
        except StrataError:  # the kernel's own build will say why
            _missing.add(place)
            return ""
