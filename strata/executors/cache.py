"""The build cache: a directory for every compiled kernel, named by what it was made from.

An entry is made in a scratch directory and renamed into place, so a reader sees all of it or none. Those that killed
processes left are swept (`scratch`).
Each entry carries a manifest of its files; one whose bytes changed on disk is thrown away and made
again, because a stale or damaged image must never pass for the source it is named after.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from strata.executors.base import ExecutorUnavailable
from strata.scratch import Scratch, sweep

#: Names the directory that holds the cache; unset means the platform's own place for caches.
VARIABLE = "STRATA_CACHE_DIR"

_MANIFEST = "manifest.json"
_MAKING = ".making-"
_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{7,159}")


def content_key(parts: Iterable[str | bytes], prefix: str = "") -> str:
    """A key for `entry`: `prefix` and the SHA-256 of `parts`, in order, each one's length included.

    Everything that can change the result belongs in `parts`: sources, headers, options, compiler version.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return f"{prefix}-{digest.hexdigest()}" if prefix else digest.hexdigest()


def directory() -> Path:
    """Where entries live: `$STRATA_CACHE_DIR`, else the platform's cache directory; not created here.

    Raises ExecutorUnavailable when no home directory is known to put a cache in.
    """
    named = os.environ.get(VARIABLE)
    try:
        if named:
            return Path(named).expanduser().absolute()
        return _platform_directory() / "strata"
    except RuntimeError:
        raise ExecutorUnavailable(
            f"no home directory to keep compiled kernels in; set {VARIABLE} to a directory that can be written"
        ) from None


def probe() -> Path:
    """The cache directory, after creating it and writing in it. Raises ExecutorUnavailable when that fails."""
    root = directory()
    _scratch(root).close()
    return root


def entry(key: str, make: Callable[[Path], None]) -> Path:
    """The directory of the entry `key`; when it is missing or damaged, `make` fills a new one.

    make: called with an empty directory; the files it leaves there become the entry, and what it
    raises comes out of here with nothing kept. Two processes may make one entry at once: the first
    to finish wins and both get its directory. Nobody may write to an entry after that.

    Raises ExecutorUnavailable when the cache cannot be written, ValueError for an unusable key.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"cache key {key!r}: expected 8 to 160 letters, digits, '.', '_' or '-'")
    root = directory()
    final = root / key
    if _intact(final):
        _sweep_once(root)
        return final
    with _scratch(root) as scratch:
        work = scratch / "entry"
        work.mkdir()
        make(work)
        try:
            (work / _MANIFEST).write_text(json.dumps(_sums(work), indent=1))
            _place(work, final, scratch)
        except OSError as error:
            raise _unwritable(root, error) from error
    return final


@lru_cache
def _sweep_once(root: Path) -> None:
    """A run that makes nothing, because all is there, still removes what killed ones left."""
    sweep(root, _MAKING)


def _platform_directory() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and to be ignored.
    return Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"


def _scratch(root: Path) -> Scratch:
    """A new directory beside the entries: a rename is atomic only within one file system."""
    try:
        # 0700: an entry is code that this process loads, so nobody else may plant one.
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Scratch(root, _MAKING)
    except OSError as error:
        raise _unwritable(root, error) from error


def _place(work: Path, final: Path, scratch: Path) -> None:
    """Rename `work` to `final`; an intact entry that is already there wins, a damaged one is moved away."""
    try:
        work.rename(final)
        return
    except OSError:
        if _intact(final):
            return
        if not final.exists():
            raise
    final.rename(scratch / "damaged")
    work.rename(final)


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but the manifest, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _MANIFEST)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _intact(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        return bool(manifest == _sums(folder))
    except (OSError, ValueError):
        return False


def _unwritable(root: Path, error: OSError) -> ExecutorUnavailable:
    reason = error.strerror or type(error).__name__
    return ExecutorUnavailable(
        f"cannot write compiled kernels to {root} ({reason}); set {VARIABLE} to a directory that can be written"
    )
