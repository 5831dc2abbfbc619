"""What a path is made of now: its kernel, every header it includes, the macros and flags they are compiled with, and
the codebooks that the host uploads for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from strata.executors.base import KERNELS, Kernel, StrataError
from strata.executors.cuda.images import FLAGS
from strata.formats import table_digest
from strata.kernels import registry
from strata.kernels.path import Path

#: An entry point and its macros, sorted by name.
Program = tuple[str, tuple[tuple[str, int], ...]]

_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*include(?:_next)?\b[ \t]*(.*)$", re.MULTILINE)
_NAME = re.compile(r"[<\"]([^<>\"]+)[>\"]")
#: Belongs to the lanes executor and is included under its macro alone: no card ever compiles it.
_LANES_ONLY = frozenset({"vocabulary.hpp"})


@dataclass(frozen=True)
class Sources:
    """What a path is made of.

    Parameters
    ----------
    files
        SHA-256 of each file, by name relative to `strata/kernels`.
    programs
        The kernels that a run of the path may launch, none where they are not compared.
    flags
        The compiler's, without target and macros.
    codebooks
        SHA-256 of the words that the host uploads, by format, see `formats.codebooks.table_digest`.
    """

    files: Mapping[str, str]
    programs: frozenset[Program] = field(default_factory=frozenset)
    flags: tuple[str, ...] = FLAGS
    codebooks: Mapping[str, str] = field(default_factory=dict)

    def changed(self, files: Mapping[str, str], codebooks: Mapping[str, str]) -> list[str]:
        """What a record lacks of these sources, or has otherwise.

        Parameters
        ----------
        files, codebooks
            The record's digests, by name and by format.

        Returns
        -------
        list of str
            Sorted, files first.
        """
        other = sorted(name for name, digest in self.files.items() if files.get(name) != digest)
        return other + sorted(
            f"codebook of {form}" for form, digest in self.codebooks.items() if codebooks.get(form) != digest
        )


def of_path(path: Path, directory: FilePath = KERNELS, known: dict[str, list[str]] | None = None) -> Sources:
    """The sources of a path.

    Parameters
    ----------
    path
        The path.
    directory
        Where the kernels lie.
    known
        What each root includes, for one state of the directory. Paths of one operation share their roots, and what is
        looked up here is added.

    Raises
    ------
    StrataError
        When a file or a codebook cannot be read.
    """
    known, ours = {} if known is None else known, sorted(roots(path))
    for root in ours:
        if root not in known:
            known[root] = included(root, directory)
    names = sorted({name for root in ours for name in known[root]})
    files = {name: hashlib.sha256(_read(directory / name)).hexdigest() for name in names}
    programs = frozenset(program(kernel.entry, kernel.defines) for kernel in _kernels(path))
    return Sources(files, programs, codebooks=codebooks(path))


def file_names(paths: Iterable[Path], directory: FilePath = KERNELS) -> frozenset[str]:
    """The files, relative to `strata/kernels`, that some paths are made of: the only ones that a record of these paths
    is held against.

    Parameters
    ----------
    paths
        The paths.
    directory
        Where the kernels lie.

    Raises
    ------
    StrataError
        When a file cannot be read.
    """
    ours = {root for path in paths for root in roots(path)}
    return frozenset(name for root in ours for name in included(root, directory))


def codebooks(path: Path) -> dict[str, str]:
    """SHA-256 of each codebook that a gated path uploads, by format; none for attention, whose formats have no grid,
    and for a path that needs no record.

    Raises StrataError without the package that holds them, and for an operation that does not exist.
    """
    operation = registry.find(path.operation)
    formats = operation.codebooks(path.mode) if operation.gated else ()
    return {form: digest for form in formats if (digest := table_digest(form))}


def roots(path: Path) -> frozenset[str]:
    """The files of its operation that a path's kernels are compiled from, without what they include."""
    return frozenset({f"{path.operation}.cu"} | {f"{kernel.source}.cu" for kernel in _kernels(path)})


def program(entry: str, defines: tuple[tuple[str, int], ...]) -> Program:
    """An entry and its macros in one order.

    Parameters
    ----------
    entry
        The name of a kernel's function.
    defines
        Names and values of its macros.
    """
    return entry, tuple(sorted(defines))


def included(name: str, directory: FilePath = KERNELS) -> list[str]:
    """A file and every file that it includes, directly or through others.

    Conditions are not followed, so a header under any `#if` counts. An include whose name is a macro makes every header
    count.

    Parameters
    ----------
    name
        The file, relative to `directory`.
    directory
        Where the kernels lie.

    Returns
    -------
    list of str
        Sorted names, relative to `directory`.

    Raises
    ------
    StrataError
        For a file that is not there: then nobody can say what the path is made of.
    """
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        found.add(current)
        text = _read(directory / current).decode("utf-8", errors="replace").replace("\\\r\n", "").replace("\\\n", "")
        for words in _DIRECTIVE.findall(text):
            quoted = _NAME.match(words)
            if quoted is None:
                waiting += sorted(f"include/{file.name}" for file in (directory / "include").glob("*.cuh"))
            elif quoted[1] not in _LANES_ONLY:
                waiting.append(_resolve(quoted[1], current, directory))
    return sorted(found)


def _resolve(name: str, includer: str, directory: FilePath) -> str:
    """The file that the compiler takes: beside the one that includes it, else from the directory of kernels."""
    for base in ((directory / includer).parent, directory):
        file = (base / name).resolve()
        if file.is_file() and file.is_relative_to(directory.resolve()):
            return file.relative_to(directory.resolve()).as_posix()
    raise StrataError(f"{includer} includes {name!r}, expected a header below {directory.name}/")


def _read(file: FilePath) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StrataError(f"{file.name} cannot be read: {error.strerror}") from error


def _kernels(path: Path) -> list[Kernel]:
    """The kernels of a gated path; none for a path that needs no record, whose launches are compared with nothing.

    Raises StrataError for an operation that does not exist: without its kernels a record could show the launches of
    any others.
    """
    operation = registry.find(path.operation)
    return list(operation.kernels(path)) if operation.gated else []
