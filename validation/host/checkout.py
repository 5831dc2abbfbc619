"""The checkout that this package is imported from: an installed package is none, and cannot be changed or copied."""

from __future__ import annotations

from pathlib import Path

from strata.executors.base import StrataError

#: The folder that holds the package.
ROOT = Path(__file__).resolve().parents[2]


def need_checkout(what: str, root: Path = ROOT) -> None:
    """Refuse a command that works on the repository.

    Parameters
    ----------
    what
        The command, as it is typed.
    root
        The folder that holds the package.

    Raises
    ------
    StrataError
        When the package is installed, so that its sources, tests and pages are not beside it.
    """
    if not (root / "pyproject.toml").is_file():
        raise StrataError(f"{what} works on a checkout of the repository, and this package is installed in {root}")
