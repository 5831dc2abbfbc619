"""Who could have put a file where this process takes code or evidence from.

A directory counts as this user's own when it belongs to this user or to root, nobody else may write in it, and nobody
else can put another directory in its place: so every directory and link above it is looked at as well. Windows, whose
files have no owner by number, is not asked.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path

_ROOT = 0
#: Links that are followed, as many as Linux follows.
_MOST_LINKS = 40

Found = tuple[Path, os.stat_result]


def stranger(path: Path, private: bool = False) -> str:
    """Who else could have put what lies in a directory there.

    Parameters
    ----------
    path
        An absolute path. What is not there is no fault.
    private
        Whether the user's private group may write in it, as it may in the directories above.

    Returns
    -------
    str
        A clause that names the directory or link that lets them, as "/tmp/x belongs to user 1000"; empty when nobody
        could.
    """
    if not hasattr(os, "geteuid"):
        return ""
    try:
        above, last = _way(path)
    except OSError:
        return ""  # this user does not get there, so nothing is taken from there
    for at, found in above:
        why = _above(at, found)
        if why:
            return why
    return of_file(*last, private) if last else ""


def of_file(file: Path, found: os.stat_result, private: bool = False) -> str:
    """Who else could have written a file or a directory.

    Parameters
    ----------
    file
        Its path, for the clause.
    found
        What `lstat` says of it.
    private
        Whether the user's private group may write to it.

    Returns
    -------
    str
        A clause as of `stranger`; empty when nobody could.
    """
    if not hasattr(os, "geteuid"):
        return ""
    if found.st_uid not in (os.geteuid(), _ROOT):
        return _owned(file, found)
    return "" if private and _private(found) else _writable(file, found)


def _owned(file: Path, found: os.stat_result) -> str:
    return f"{file} belongs to {_user(found.st_uid)}"


def _writable(file: Path, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):  # whose mode means nothing
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"{file} can be written by everybody"
    return f"{file} can be written by group {_group(found.st_gid)}" if found.st_mode & stat.S_IWGRP else ""


def _way(path: Path) -> tuple[list[Found], Found | None]:
    """The directories and links that lead to `path`, and the directory itself, None when it is not there. Raises
    OSError where the way cannot be followed."""
    at = Path(path.anchor)
    found, ahead, links = [(at, at.lstat())], list(reversed(path.parts[1:])), 0
    while ahead:
        name = ahead.pop()
        if name == "..":  # `at` holds no link any more
            at = at.parent
            continue
        step = at / name
        try:
            status = step.lstat()
        except FileNotFoundError:
            return found, None
        found.append((step, status))
        if not stat.S_ISLNK(status.st_mode):
            at = step
            continue
        links += 1
        if links > _MOST_LINKS:
            return found, None
        target = step.readlink()
        at = Path(target.anchor) if target.is_absolute() else at
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return found, (at, at.lstat())


def _above(at: Path, found: os.stat_result) -> str:
    """Who else could put something in the place of what lies in the directory `at`, or lead the link `at` elsewhere.

    In a sticky directory, such as /tmp, only its owner and the owner of what lies there can.
    """
    if found.st_uid not in _owners(os.geteuid()):
        return _owned(at, found)
    return "" if found.st_mode & stat.S_ISVTX or _private(found) else _writable(at, found)


@cache
def _owners(user: int) -> frozenset[int]:
    """Whose directories may lie on the way: the user's, root's, and in a user namespace those of the system around it,
    which all appear there under one number that nobody inside can have."""
    try:
        outside = int(Path("/proc/sys/kernel/overflowuid").read_text())
        lines = Path("/proc/self/uid_map").read_text().splitlines()
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    except (OSError, ValueError):  # another system than Linux
        return frozenset((user, _ROOT))
    if any(first <= outside < first + count for first, count in ranges):
        return frozenset((user, _ROOT))
    return frozenset((user, _ROOT, outside))


def _private(found: os.stat_result) -> bool:
    """Whether nobody but the owner and the user's private group may write there: where users have one, what they make
    is often writable by it."""
    return not found.st_mode & stat.S_IWOTH and _alone(found.st_gid, os.geteuid())


@cache
def _alone(group: int, number: int) -> bool:
    """Whether a group is private to the user `number`: by custom it has the user's name then, and no other member."""
    import grp
    import pwd

    try:
        user, named = pwd.getpwuid(number), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and named.gr_name == user.pw_name and set(named.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    import pwd

    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
