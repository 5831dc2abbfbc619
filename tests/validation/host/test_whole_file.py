"""Files that are there whole or not at all, whatever call the disk fails, and no writer that does otherwise."""

from __future__ import annotations

import ast
import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata import whole_file
from strata.executors.base import StrataError

ROOT = Path(__file__).resolve().parents[3]
FULL = "No space left on device"


class Disk:
    """Fails the call `at`, counted from 0, of those that write; `calls`: how many there were."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int) -> None:
        self.calls = 0
        self._at = at
        real_open = Path.open

        def opened(path: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if mode == "r":
                return real_open(path, mode, *rest, **more)
            self.asked()
            return _Watched(real_open(path, mode, *rest, **more), self)

        patch.setattr(Path, "open", opened)
        for name in ("fsync", "replace"):
            patch.setattr(os, name, self._watching(getattr(os, name)))

    def asked(self) -> None:
        self.calls += 1
        if self.calls - 1 == self._at:
            raise OSError(errno.ENOSPC, FULL)

    def _watching(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            self.asked()
            return call(*arguments)

        return watched


class _Watched:
    """An open file whose writes and flushes may fail."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: bytes) -> int:
        self._disk.asked()
        return int(self._file.write(data))

    def flush(self) -> None:
        self._disk.asked()
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()


@pytest.mark.parametrize("at", range(5), ids=["open", "write", "flush", "fsync", "replace"])
def test_whichever_call_fails_the_old_file_stays_and_nothing_else(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.json"
    file.write_text("old")
    disk = Disk(monkeypatch, at)
    with pytest.raises(StrataError) as caught:
        whole_file.write(file, "new")
    assert str(caught.value) == f"cannot write {str(file)!r}: {FULL}"
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == [file.name]
    assert disk.calls == at + 1
    whole_file.write(file, "new")
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == [file.name]
    assert disk.calls == at + 1 + 5


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StrataError) as caught:
        whole_file.write(tmp_path / "file" / "a" / "b", b"new")
    assert str(caught.value).startswith("cannot write ")
    assert "\n" not in str(caught.value)


def test_what_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    def half() -> None:
        with whole_file.replacing(tmp_path / "file") as opened:
            opened.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert os.listdir(tmp_path) == []


def test_a_link_stays_one_and_a_device_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    whole_file.write(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "text"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    whole_file.write(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


#: What else writes a file: copies of the sources in a directory that goes with the process.
OF_THEIR_OWN = {"mutants/mutant.py", "captured/gguf_model.py", "check/mutant_worker.py"}
_WRITERS = {"write_text", "write_bytes", "np.save", "json.dump("}


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "open":
        modes = [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]
        return any(isinstance(mode, ast.Constant) and str(mode.value) in ("w", "wb", "x", "xb") for mode in modes)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name in ("save", "savez", "savez_compressed", "dump"):
        return isinstance(owner, ast.Name) and owner.id in ("np", "json")
    return name in ("write_text", "write_bytes")


def test_every_file_that_is_kept_is_written_so() -> None:
    found = set()
    for file in (ROOT / "validation").rglob("*.py"):
        text = file.read_text()
        if not any(name in text for name in ("open", *_WRITERS)):
            continue
        tree = ast.parse(text)
        streams = {  # `np.savez` into the file that `replacing` opened
            id(call)
            for block in ast.walk(tree)
            if isinstance(block, ast.With) and "replacing" in ast.unparse(block.items[0])
            for call in ast.walk(block)
        }
        if any(isinstance(one, ast.Call) and _writes(one) and id(one) not in streams for one in ast.walk(tree)):
            found.add(file.relative_to(ROOT / "validation").as_posix())
    assert found == OF_THEIR_OWN
