"""What a run keeps of each judged case for its record: digest of the inputs, output, launches, images.

Outputs lie on disk until the record is made, because which of their rows it shows is known only when all of them are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from types import TracebackType
from typing import Any

import numpy as np

from strata.executors.base import Image, StrataError, Witness, system_reason
from strata.kernels.paths import Path
from strata.scratch import Scratch
from validation.core.case import AnyCase
from validation.core.challenge import row_bytes
from validation.core.row_words import words
from validation.operations import registry
from validation.record import merkle


@dataclass(frozen=True)
class Evidence:
    """One case on one path, as a record needs it.

    Parameters
    ----------
    path, case
        The path's name and the case's text.
    inputs
        `input_digest`.
    output
        The root over the rows of the output.
    rows, width
        The sizes of the output.
    dtype
        Of its words: float32 or int32.
    file
        The output on disk, [rows, width] of `dtype`, little endian.
    witnesses, images
        What was launched and what it was compiled to.
    """

    path: str
    case: str
    inputs: str
    output: str
    rows: int
    width: int
    dtype: np.dtype
    file: FilePath
    witnesses: tuple[Witness, ...]
    images: tuple[Image, ...]

    def values(self) -> np.ndarray:
        """The output, [rows, width] of `dtype`.

        Raises
        ------
        StrataError
            When the file is not what was kept.
        """
        try:
            found = np.fromfile(self.file, dtype=self.dtype.newbyteorder("<"))
        except OSError as error:
            raise StrataError(f"an output kept for the record cannot be read: {error.strerror}") from error
        whole = found.size == self.rows * self.width
        if not whole or merkle.root(leaves(self.path, self.case, found.reshape(-1, self.width))) != self.output:
            raise StrataError(f"an output kept for the record has changed on disk: {self.path} {self.case}")
        return found.reshape(-1, self.width)


def input_digest(arrays: Mapping[str, np.ndarray | None]) -> str:
    """SHA-256 over all that a kernel is given, as `Recordable.arrays` names it.

    Each array is preceded by a line of text with its name, dtype and shape (`q float32 3x24x256`), its bytes little
    endian; an absent one is `k_scale none`.
    """
    digest = hashlib.sha256()
    for name, array in arrays.items():
        if array is None:
            digest.update(f"{name} none\n".encode())
            continue
        shape = "x".join(map(str, array.shape))
        digest.update(f"{name} {array.dtype.name} {shape}\n".encode())
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def leaves(path: str, case: str, rows: np.ndarray) -> list[bytes]:
    """The leaf hash of every row.

    Parameters
    ----------
    path, case
        The path's name and the case's text.
    rows
        float32 or int32 [rows, width].
    """
    return [merkle.leaf(row_bytes(path, case, index, values)) for index, values in enumerate(rows)]


class Keeper:
    """The recorder of a run (see `validation.core.settings.Recorder`), whose files go at the end of its `with` block.

    Its attribute `cases` has the evidence of every ended case, in order, None where a case gave no output.

    Parameters
    ----------
    directory
        Where files may lie; it is made where it is not there.

    Raises
    ------
    StrataError
        When nothing can be written there.
    """

    def __init__(self, directory: FilePath) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._folder = Scratch(directory, ".outputs-")
        except OSError as error:
            raise StrataError(f"cannot write to the directory {str(directory)!r}: {system_reason(error)}") from error
        self.cases: list[Evidence | None] = []
        self._current: Evidence | None = None

    def keep(
        self,
        path: Path,
        case: AnyCase,
        inputs: Any,
        out: np.ndarray,
        witnesses: Sequence[Witness],
        images: Sequence[Image],
    ) -> None:
        """Keep the case that is running.

        Parameters
        ----------
        path
            What runs it.
        case
            The case.
        inputs
            What the operation computes on.
        out
            Its output.
        witnesses, images
            What was launched and what it was compiled to.

        Raises
        ------
        StrataError
            When the output cannot be written, and for rows of another type than the operation's.
        """
        operation = registry.recordable(path.operation)
        rows = words(operation.matrix(out))
        if rows.dtype != operation.dtype:
            raise StrataError(f"{path.name} gave rows of {rows.dtype.name}, expected {operation.dtype.name}")
        file = self._folder.path / f"{len(self.cases)}.rows"
        try:
            rows.tofile(file)
        except OSError as error:
            raise StrataError(f"an output cannot be kept for the record: {system_reason(error)}") from error
        root = merkle.root(leaves(path.name, case.text(), rows))
        digest = input_digest(operation.arrays(inputs))
        launched, made = tuple(witnesses), tuple(images)
        count, width = rows.shape
        self._current = Evidence(path.name, case.text(), digest, root, count, width, rows.dtype, file, launched, made)

    def ended(self) -> None:
        """The case that was running has ended."""
        self.cases.append(self._current)
        self._current = None

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.close()
