"""The build cache: a directory for every compiled kernel, named by what it was made from.

An entry is made in a scratch directory and renamed into place, so a reader sees all of it or none. Those that killed
processes left are swept (`scratch`).
Each entry carries a manifest of its files; one whose bytes changed on disk is thrown away and made
again, because a stale or damaged image must never pass for the source it is named after.

What lies here is loaded and run. So nothing is taken from a directory that another user could have
filled, and an entry with a file of another user, with one that others may write, or with a link is
made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from strata import ownership
from strata.executors.base import ExecutorUnavailable, system_reason
from strata.scratch import Scratch, sweep

#: Names the directory that holds the cache; unset means the platform's own place for caches.
VARIABLE = "STRATA_CACHE_DIR"

_MANIFEST = "manifest.json"
_MAKING = ".making-"
_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{7,159}")
#: What `probe` writes: as much as a kernel's build needs.
_PROBE_BYTES = 4 << 20
#: Times that an entry in the way is moved out of it, while other processes make the same one.
_TRIES = 4

#: What helps against what the system says, by its number. Anything else is a directory that cannot be written.
_ROOM = f"make room there, or set {VARIABLE} to a directory with room"
_SHORT = "the machine is short of it: end other programs, or run fewer jobs"
_HELP = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _ROOM),
    errno.EFBIG: "raise the limit on a file's size (`ulimit -f`)",
    **dict.fromkeys((errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE), _SHORT),
    errno.EIO: f"the disk fails; set {VARIABLE} to a directory on another",
}

#: Where `apart` keeps entries meanwhile.
_elsewhere: list[Path] = []


def content_key(parts: Iterable[str | bytes], prefix: str = "") -> str:
    """A key for `entry`.

    Parameters
    ----------
    parts
        Everything that can change the result: sources, headers, options, compiler version.
    prefix
        Letters that the key begins with.

    Returns
    -------
    str
        The prefix and the SHA-256 of the parts, in order, each one's length included.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return f"{prefix}-{digest.hexdigest()}" if prefix else digest.hexdigest()


def directory() -> Path:
    """Where entries live: `$STRATA_CACHE_DIR`, else the platform's cache directory; not created here.

    Raises
    ------
    ExecutorUnavailable
        When no home directory is known to put a cache in.
    """
    if _elsewhere:
        return _elsewhere[-1]
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
    """The cache directory, after creating it and writing in it.

    Raises
    ------
    ExecutorUnavailable
        When that fails, and when another user could put code there.
    """
    root = directory()
    try:
        with _scratch(root) as scratch, (scratch / "probe").open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())  # some file systems find out only now that there is no room
    except OSError as error:
        raise unwritable(error) from error
    return root


@contextmanager
def apart() -> Iterator[None]:
    """Inside a `with` block, entries that are asked for are made anew, in a directory of their own below the cache,
    which goes at its end.

    This holds for the whole process.

    Raises
    ------
    ExecutorUnavailable
        When the cache cannot be written.
    """
    with _scratch(directory()) as scratch:
        _elsewhere.append(scratch)
        try:
            yield
        finally:
            _elsewhere.pop()


def size() -> tuple[int, int]:
    """How many entries the cache has and how many bytes its files; (0, 0) when there is none. Nothing but its user
    ever deletes an entry."""
    root, entries, total = directory(), 0, 0
    for place, folders, files in os.walk(root):
        if Path(place) == root:
            entries = sum(bool(_KEY.fullmatch(name)) for name in folders)
        for name in files:
            with suppress(OSError):  # deleted meanwhile
                total += os.lstat(os.path.join(place, name)).st_size
    return entries, total


def entry(key: str, make: Callable[[Path], None], holds: Sequence[str] = ()) -> Path:
    """The directory of an entry; when it is missing or damaged, a new one is filled.

    Two processes may make one entry at once: the first to finish wins and both get its directory. Nobody may write to
    an entry after that.

    Parameters
    ----------
    key
        The name of the entry, see `content_key`.
    make
        Called with an empty directory. The files that it leaves there become the entry, and what it raises comes out of
        here with nothing kept.
    holds
        Names of files without which, or with which empty, it is no entry.

    Raises
    ------
    ExecutorUnavailable
        When the cache cannot be written, when another user could have put something there, and when `make` left no file
        of a name in `holds`.
    ValueError
        For a key that cannot be used.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"cache key {key!r}: expected 8 to 160 letters, digits, '.', '_' or '-'")
    root = directory()
    _refuse_strangers(root)
    final = root / key
    if _intact(final, holds):
        _sweep_once(root)
        return final
    with _scratch(root) as scratch:
        try:
            work = scratch / "entry"
            work.mkdir(mode=0o700)
            make(work)
            for name in holds:
                if not (work / name).is_file() or not (work / name).stat().st_size:
                    raise ExecutorUnavailable(f"{key}: the compiler reports no error and has made no {name}")
            _seal(work)
            (work / _MANIFEST).write_text(json.dumps(_sums(work), indent=1))
            (work / _MANIFEST).chmod(0o600)
            _place(work, final, scratch, holds)
        except OSError as error:
            why = _foreign(final)
            raise (ExecutorUnavailable(f"{why}; remove {final}") if why else unwritable(error)) from error
    return final


@lru_cache
def _sweep_once(root: Path) -> None:
    """A run that makes nothing, because all is there, still removes what killed ones left."""
    sweep(root, _MAKING)


def unwritable(error: OSError) -> ExecutorUnavailable:
    """The one line for a file that cannot be written below the cache: what the system says, and what helps."""
    return no_room(system_reason(error), error.errno)


def no_room(reason: str, number: int | None) -> ExecutorUnavailable:
    """The error for a compiler that could not write below the cache.

    Parameters
    ----------
    reason
        What the system said, as the compiler passed it on.
    number
        The number of the system's reason, None when it has none.
    """
    help_ = _HELP.get(number or 0, f"set {VARIABLE} to a directory that can be written")
    return ExecutorUnavailable(f"cannot write compiled kernels to {directory()} ({reason}); {help_}")


def _platform_directory() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) if local else Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path is invalid and to be ignored.
    return Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"


def _refuse_strangers(root: Path) -> None:
    """Raises ExecutorUnavailable when another user could have put an entry there, or could exchange one."""
    why = ownership.stranger(root)
    if why:
        raise ExecutorUnavailable(
            f"compiled kernels are not kept in {root}: {why}, who could put code there that this user runs; "
            f"set {VARIABLE} to a directory that only this user can write"
        )


def _scratch(root: Path) -> Scratch:
    """A new directory beside the entries: a rename is atomic only within one file system."""
    _refuse_strangers(root)
    try:
        # 0700: an entry is code that this process loads, so nobody else may plant one.
        for folder in (*reversed(root.parents), root):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_strangers(root)  # once more: another user may have made what was not there
        return Scratch(root, _MAKING)
    except OSError as error:
        raise unwritable(error) from error


def _seal(work: Path) -> None:
    """Take from others what the process's umask may have left them: the right to write into an entry."""
    for path in (work, *work.rglob("*")):
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def _place(work: Path, final: Path, scratch: Path, holds: Sequence[str]) -> None:
    """Rename `work` to `final`; an intact entry that is already there wins, anything else is moved away."""
    for number in range(_TRIES):
        try:
            work.rename(final)
            return
        except OSError:
            if _intact(final, holds):
                return
            if number == _TRIES - 1:
                raise
        with suppress(FileNotFoundError):  # another process has moved it away
            final.rename(scratch / f"damaged-{number}")


def _sums(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` but the manifest, by relative path. Raises OSError when one cannot be read,
    ValueError when anything there is no plain file or directory, or could have been written by another user."""
    found = {}
    for path in (folder, *sorted(_below(folder))):
        status = path.lstat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise ValueError(f"{path} is no plain file")
        why = ownership.of_file(path, status)
        if why:
            raise ValueError(why)
        if stat.S_ISREG(status.st_mode) and path != folder / _MANIFEST:
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Everything below a directory. Raises OSError when one cannot be listed."""
    for path in folder.iterdir():
        yield path
        if stat.S_ISDIR(path.lstat().st_mode):
            yield from _below(path)


def _intact(folder: Path, holds: Sequence[str]) -> bool:
    try:
        sums = _sums(folder)
        manifest = json.loads((folder / _MANIFEST).read_text())
        return bool(manifest == sums) and all(name in sums and (folder / name).stat().st_size for name in holds)
    except (OSError, ValueError, RecursionError):
        return False


def _foreign(final: Path) -> str:
    """Who else could have written what lies in an entry's place; empty when nobody could, or nothing lies there."""
    try:
        return ownership.of_file(final, final.lstat())
    except OSError:
        return ""
