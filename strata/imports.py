"""Packages that may be absent or broken: imported here, so that whatever they raise becomes one line."""

from __future__ import annotations

import importlib.util
from importlib import import_module
from pathlib import Path
from types import ModuleType


class NotImportedError(Exception):
    """A package did not import.

    The message says why in one line.

    Parameters
    ----------
    reason
        The message.
    absent
        Whether the package is not installed, rather than broken.
    """

    def __init__(self, reason: str, absent: bool) -> None:
        super().__init__(reason)
        self.absent = absent


def optional(name: str) -> ModuleType:
    """The module `name`. Raises NotImportedError, whatever its import raises: a package that another version of
    something else broke may raise anything, and one may even end the process by SystemExit."""
    try:
        return import_module(name)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except ModuleNotFoundError as error:
        absent = bool(error.name) and f"{name}.".startswith(f"{error.name}.")
        raise NotImportedError(said(error), absent) from error
    except BaseException as error:
        raise NotImportedError(said(error), absent=False) from error


def said(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its text that has a word in it."""
    try:
        lines = str(error).splitlines()
    except Exception:  # an exception class whose text fails
        lines = []
    first = next((line.strip() for line in lines if any(map(str.isalnum, line))), "no reason given")
    first = "".join(char if char.isprintable() else "?" for char in first)
    # The system's and the importer's own texts say what they are.
    return first if isinstance(error, ImportError) else f"{type(error).__name__}: {first}"


def folders(package: str) -> list[Path]:
    """Where a package lies, found without importing it; empty when it is not there or cannot be asked."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, AttributeError, ValueError):  # something else of that name, half imported
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
