"""A GGUF file, mapped into memory. Its head is read and checked when it is opened (`gguf_scan`); a byte of a weight is
read when somebody uses it."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from strata.engine.gguf_scan import ModelError, Value, scan
from strata.executors.base import system_reason
from strata.shown import shown

__all__ = ["GgufFile", "ModelError", "Tensor", "open_gguf"]

_REQUIRED: Any = object()
_KEY_SHOWN = 70


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a file.

    Parameters
    ----------
    name
        Its name in the file.
    format
        The format of its blocks in lower case, such as `q4_k` or `f32`.
    shape
        Lengths, the outermost first: a matrix has (outputs, inputs).
    blocks
        uint8 [rows, row_bytes], read-only, a view of the file; a vector has one row.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    blocks: NDArray[np.uint8] = field(repr=False)

    def floats(self) -> NDArray[Any]:
        """The numbers of an `f32` or `f16` tensor.

        Returns
        -------
        float32 or float16 array, `shape`
            A copy.

        Raises
        ------
        ModelError
            For a tensor of another format.
        """
        dtypes = {"f32": "<f4", "f16": "<f2"}
        if self.format not in dtypes:
            raise ModelError(f"tensor {self.name} is {self.format}; expected f32 or f16")
        return np.array(self.blocks).view(dtypes[self.format]).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class GgufFile:
    """An open file.

    Parameters
    ----------
    path
        Where it lies.
    nbytes
        Its size.
    values
        Its metadata by key: bool, int, float, str, a list of str, or a read-only array of numbers.
    tensors
        Its tensors by name, in the order of the file.
    """

    path: Path
    nbytes: int
    values: Mapping[str, Value] = field(repr=False)
    tensors: Mapping[str, Tensor] = field(repr=False)

    def metadata(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value of a key.

        Parameters
        ----------
        key
            Its whole name.
        default
            What an absent key gives.

        Raises
        ------
        ModelError
            For an absent key without `default`.
        """
        found = self.values.get(key, default)
        if found is _REQUIRED:
            self.refuse(f"it has no key {key}; expected one")
        return found

    def tensor(self, name: str) -> Tensor:
        """A tensor by its name. Raises ModelError where there is none."""
        if name not in self.tensors:
            self.refuse(f"it has no tensor {shown(name, _KEY_SHOWN)}; expected one")
        return self.tensors[name]

    def refuse(self, why: str) -> NoReturn:
        """Raise ModelError: one line with the file's name and what is wrong with it."""
        raise ModelError(f"{shown(self.path)}: {why}")


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Open a model's file and check its head.

    Parameters
    ----------
    path
        A GGUF file of version 2 or 3, low byte first.

    Raises
    ------
    ModelError
        Where it is missing, cannot be read, is no plain file, or is not what its head claims: truncated, with sizes,
        counts or places that cannot be, with tensors that overlap, with names that occur twice or are no text.
    """
    where = Path(path)
    try:
        data, nbytes = _mapped(where)
        head = scan(data)
    except OSError as error:
        raise ModelError(f"{shown(where)}: {system_reason(error)}; expected a GGUF file") from None
    except ModelError as error:
        raise ModelError(f"{shown(where)}: {error}") from None
    every = np.frombuffer(data, np.uint8)
    tensors = {
        entry.name: Tensor(
            entry.name,
            entry.format,
            entry.shape,
            every[entry.offset : entry.offset + entry.nbytes].reshape(entry.rows, entry.row_bytes),
        )
        for entry in head.entries
    }
    return GgufFile(where, nbytes, MappingProxyType(head.metadata), MappingProxyType(tensors))


def _mapped(path: Path) -> tuple[mmap.mmap | bytes, int]:
    """All bytes of a plain file and their number. Raises OSError and ModelError."""
    # Asked before it is opened: the opening of a pipe waits for somebody who writes.
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise ModelError("no plain file; expected a GGUF file")
    with path.open("rb") as file:
        nbytes = os.fstat(file.fileno()).st_size
        if not nbytes:
            return b"", 0  # an empty file cannot be mapped
        try:
            return mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_READ), nbytes
        except ValueError as error:  # of a size that changed meanwhile
            raise ModelError(f"it cannot be mapped ({error}); expected a file that stays as it is") from None
