"""FP64 states of prompts, made once for a model, a KV format and prompts, and kept beside the results."""

from __future__ import annotations

import hashlib
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from strata.executors.base import StrataError
from validation.host import whole_file
from validation.quality.fp64_model import Fp64Model
from validation.quality.texts import digest

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

#: What is part of every key: another number for other mathematics.
EDITION = 1


class References:
    """States by format and prompt.

    Parameters
    ----------
    model
        The FP64 model.
    sha256
        The digest of its file.
    directory
        Where states are kept between runs; None keeps them nowhere.
    """

    def __init__(self, model: Fp64Model, sha256: str, directory: FilePath | None = None) -> None:
        self.model = model
        self._sha256, self._directory = sha256, directory

    def states(self, tokens: Int64, kv: str) -> Float64:
        """Normed output of the last layer, float64 [n, width]."""
        file = self._file(tokens, kv)
        if file is not None and file.is_file():
            return self._read(file, len(tokens))
        found = self.model.states(tokens, kv)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file.replacing(file) as opened:
                np.save(opened, found)
        return found

    def _read(self, file: FilePath, n: int) -> Float64:
        try:
            found: Float64 = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise StrataError(f"kept FP64 states {str(file)!r} cannot be read: {error}; remove the file") from error
        if found.dtype != np.float64 or found.shape != (n, self.model.sizes.width):
            raise StrataError(f"kept FP64 states {str(file)!r} are {found.dtype} {found.shape}; remove the file")
        return found

    def _file(self, tokens: Int64, kv: str) -> FilePath | None:
        if self._directory is None:
            return None
        key = f"{EDITION} {self._sha256} {kv} {digest([tokens])}"
        return self._directory / "fp64" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npy"
