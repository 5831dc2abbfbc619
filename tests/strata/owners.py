"""Files that seem to belong to another user, also where nobody may give one away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: A number that is neither this user's nor root's.
STRANGER = 54321


def give_away(patch: pytest.MonkeyPatch, *files: Path) -> None:
    """From now on `files` belong to STRANGER, as far as `lstat` and `fstat` of this process say."""
    numbers = {(found.st_dev, found.st_ino) for found in map(os.lstat, files)}
    lstat, fstat = Path.lstat, os.fstat

    def seen(found: os.stat_result) -> os.stat_result:
        if (found.st_dev, found.st_ino) not in numbers:
            return found
        return os.stat_result((*found[:4], STRANGER, *found[5:]))

    patch.setattr(Path, "lstat", lambda path: seen(lstat(path)))
    patch.setattr(os, "fstat", lambda number: seen(fstat(number)))
