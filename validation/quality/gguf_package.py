"""The package `gguf`, imported when it is first asked for: whatever its import raises becomes one line."""

from __future__ import annotations

from typing import Any

from strata.executors.base import StrataError
from strata.imports import NotImportedError, optional


def gguf() -> Any:
    """The package, with `gguf.quants`. Raises StrataError where it does not import."""
    try:
        optional("gguf.quants")
        return optional("gguf")
    except NotImportedError as error:
        said = "is not installed" if error.absent else f"does not import ({error})"
        raise StrataError(f"the package gguf {said}; expected one that `pip install -e .` brings") from None
