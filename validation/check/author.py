"""The author's own functions: called so that what they raise is one line with the file and line of the fault."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from strata.executors.base import StrataError

T = TypeVar("T")
#: Where the toolkit itself lies: what is raised here because of the author is said of the line that called it.
_OURS = tuple(Path(__file__).resolve().parents[2] / part for part in ("strata", "validation"))


class AuthorError(StrataError):
    """A fault in the author's file; the message begins with file and line."""


def place(error: BaseException, file: Path) -> str:
    """`file:line` of the innermost frame of `error` in the author's directory, or of `file` when there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno or 1}"
    home = file.resolve().parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        where = Path(frame.filename)
        if where.is_absolute() and where.resolve().is_relative_to(home) and not _ours(where):
            return f"{where.name}:{frame.lineno}"
    return file.name


def _ours(where: Path) -> bool:
    """Whether a file is no part of what the author wrote, though an environment may lie in his directory."""
    return "site-packages" in where.parts or any(where.resolve().is_relative_to(root) for root in _OURS)


def said(error: BaseException) -> str:
    """What an exception says, in one line: its type, but for one of this project."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    words = " ".join(str(error).split())
    if isinstance(error, StrataError):
        return words
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def fault(error: BaseException, file: Path, what: str = "") -> AuthorError:
    """The error of the author's file behind `error`. what: which function was called."""
    return AuthorError(f"{place(error, file)}: {f'{what}: ' if what else ''}{said(error)}")


def called(file: Path, what: str, function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`.

    Parameters
    ----------
    file : Path
        The author's file.
    what : str
        The function's part in the description, such as ``reference``.

    Raises
    ------
    AuthorError
        For whatever it raises, but for Ctrl-C and a lack of memory.
    """
    try:
        return function(*args)
    except (KeyboardInterrupt, GeneratorExit, MemoryError, AuthorError):
        raise
    except BaseException as error:  # SystemExit too: a function that ends the process gives no answer
        raise fault(error, file, what) from error
