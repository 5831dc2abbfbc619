"""The build cache: made once, never half made, never served damaged."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata.executors import cache
from strata.executors.base import ExecutorUnavailable
from tests.strata.owners import give_away

KEY = "kernel-0123456789abcdef"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    return folder


class Maker:
    """Writes one file and counts how often it was asked."""

    def __init__(self, text: str = "image") -> None:
        self.text = text
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        assert list(folder.iterdir()) == []
        (folder / "inner").mkdir()
        (folder / "inner" / "image").write_text(self.text)


def test_made_once_and_found_again(root: Path) -> None:
    make = Maker()
    first, second = cache.entry(KEY, make), cache.entry(KEY, make)
    assert first == second == root / KEY
    assert make.calls == 1
    assert (first / "inner" / "image").read_text() == "image"


@pytest.mark.parametrize("damage", ["changed", "removed", "added", "manifest"])
def test_damaged_entry_is_made_again(damage: str, root: Path) -> None:
    make = Maker()
    folder = cache.entry(KEY, make)
    image = folder / "inner" / "image"
    if damage == "changed":
        image.write_text("imagf")
    elif damage == "removed":
        image.unlink()
    elif damage == "added":
        (folder / "stray").write_text("")
    else:
        (folder / "manifest.json").write_text("{")
    assert cache.entry(KEY, make) == folder
    assert make.calls == 2
    assert image.read_text() == "image"
    assert [path.name for path in root.iterdir()] == [KEY]


def _foreign_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(patch, folder / "inner" / "image")


def _foreign_folder(folder: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(patch, folder / "inner")


def _foreign_entry(folder: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(patch, folder)


def _foreign_manifest(folder: Path, patch: pytest.MonkeyPatch) -> None:
    give_away(patch, folder / "manifest.json")


def _written_by_group(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "inner" / "image").chmod(0o664)


def _written_by_all(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)


def _linked_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    image = folder / "inner" / "image"
    image.rename(folder.parent / "elsewhere")
    image.symlink_to(folder.parent / "elsewhere")


def _linked_entry(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to("elsewhere")


def _dangling_entry(folder: Path, patch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to("nowhere")


def _a_pipe_in_it(folder: Path, patch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize(
    "plant",
    [
        *(_foreign_file, _foreign_folder, _foreign_entry, _foreign_manifest, _written_by_group, _written_by_all),
        *(_linked_file, _linked_entry, _dangling_entry, _a_pipe_in_it),
    ],
    ids=lambda plant: plant.__name__.strip("_"),
)
def test_what_another_could_have_written_is_made_again(
    plant: Callable[[Path, pytest.MonkeyPatch], None], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bytes and the manifest agree: nothing but owner, mode and kind of a file tells."""
    make = Maker("mine")
    folder = cache.entry(KEY, make)
    plant(folder, monkeypatch)
    assert cache.entry(KEY, make) == folder
    assert make.calls == 2
    assert not folder.is_symlink()
    assert cache.entry(KEY, make) == folder
    assert make.calls == 2


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("fault", ["owner", "mode"])
def test_a_cache_that_another_could_have_filled_is_not_used(
    level: int, fault: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache.entry(KEY, Maker())
    place = (root, *root.parents)[level]
    if fault == "owner":
        give_away(monkeypatch, place)
    else:
        place.chmod(0o777)
    make = Maker()
    asks: list[Callable[[], Path]] = [cache.probe, lambda: cache.entry(KEY, make), lambda: cache.entry(KEY + "2", make)]
    for ask in asks:
        with pytest.raises(ExecutorUnavailable) as caught:
            ask()
        assert f"{place} {'belongs to user' if fault == 'owner' else 'can be written by everybody'}" in str(
            caught.value
        )
        assert cache.VARIABLE in str(caught.value)
        assert "\n" not in str(caught.value)
    assert make.calls == 0
    place.chmod(0o700)
    assert [path.name for path in root.iterdir()] == [folder.name]


def test_a_directory_that_another_makes_meanwhile_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sticky directory such as /tmp: it was not there when it was looked at."""
    made = Path.mkdir

    def overtaken(path: Path, *words: Any, **more: Any) -> None:
        made(path, *words, **more)
        if path == root:
            give_away(monkeypatch, root)

    monkeypatch.setattr(Path, "mkdir", overtaken)
    make = Maker()
    with pytest.raises(ExecutorUnavailable, match="belongs to user"):
        cache.entry(KEY, make)
    assert make.calls == 0


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_whatever_the_umask_others_cannot_write(umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "made" / "by us"
    monkeypatch.setenv(cache.VARIABLE, str(root))
    before = os.umask(umask)
    try:
        make = Maker()
        folder = cache.entry(KEY, make)
        assert cache.entry(KEY, make) == folder
    finally:
        os.umask(before)
    assert make.calls == 1
    for path in (root.parent, root, folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o022 == 0, path
    assert root.stat().st_mode & 0o777 == root.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("left", ["nothing", "empty", "folder"])
def test_without_the_files_it_must_hold_it_is_no_entry(left: str, root: Path) -> None:
    """Neither when it is made nor when an older version kept it so."""

    def make(folder: Path) -> None:
        if left == "empty":
            (folder / "kernel.so").write_text("")
        elif left == "folder":
            (folder / "kernel.so").mkdir()

    cache.entry(KEY, make)
    for _ in range(2):
        with pytest.raises(ExecutorUnavailable, match=r"no kernel\.so"):
            cache.entry(KEY, make, ("kernel.so",))
    assert (cache.entry(KEY, Maker(), ("inner/image",)) / "inner" / "image").read_text() == "image"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENOMEM, errno.EIO])
def test_what_the_system_refuses_is_one_line_with_its_reason_and_what_helps(number: int, root: Path) -> None:
    def full(folder: Path) -> None:
        (folder / "half").write_text("")
        raise OSError(number, os.strerror(number))

    make = Maker()
    kept = cache.entry("kept-entry", make)
    with pytest.raises(ExecutorUnavailable) as caught:
        cache.entry(KEY, full)
    said = str(caught.value)
    assert os.strerror(number) in said
    assert str(root) in said
    assert "\n" not in said
    writable = "to a directory that can be written" in said
    assert writable == (number == errno.EROFS)
    # Nothing of it is remembered, and what was finished is there.
    assert cache.entry(KEY, make) == root / KEY
    assert cache.entry("kept-entry", make) == kept
    assert make.calls == 2
    assert {path.name for path in root.iterdir()} == {KEY, "kept-entry"}


def test_a_full_disk_is_found_where_it_is_looked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExecutorUnavailable, match=r"No space left on device.*make room"):
        cache.probe()
    assert list(root.iterdir()) == []


def test_apart_everything_is_made_anew_and_goes(root: Path) -> None:
    make = Maker()
    cache.entry(KEY, make)
    for _ in range(2):
        with cache.apart():
            folder = cache.entry(KEY, make)
            assert folder.is_relative_to(root)
            assert cache.entry(KEY, make) == folder
        assert not folder.exists()
    assert make.calls == 3
    assert cache.entry(KEY, make) == root / KEY
    assert cache.size() == (1, sum(path.stat().st_size for path in root.rglob("*") if path.is_file()))


def test_failed_make_leaves_nothing(root: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("compiler")

    with pytest.raises(RuntimeError, match="compiler"):
        cache.entry(KEY, fail)
    assert list(root.iterdir()) == []


def test_two_makers_at_once_share_one_entry(root: Path) -> None:
    both_inside = threading.Barrier(2, timeout=30)
    results: list[Path] = []

    def make(folder: Path) -> None:
        both_inside.wait()
        (folder / "image").write_text("image")

    threads = [threading.Thread(target=lambda: results.append(cache.entry(KEY, make))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [root / KEY] * 2
    assert (root / KEY / "image").read_text() == "image"
    assert [path.name for path in root.iterdir()] == [KEY]


def test_cache_that_cannot_be_made_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(blocked / "cache"))
    asks: list[Callable[[], Path]] = [cache.probe, lambda: cache.entry(KEY, Maker())]
    for ask in asks:
        with pytest.raises(ExecutorUnavailable) as caught:
            ask()
        message = str(caught.value)
        assert str(blocked) in message
        assert cache.VARIABLE in message
        assert "\n" not in message


@pytest.mark.parametrize("key", ["", "short", "../outside", "a/b/c/d/e/f/g", ".hidden-entry", "k" * 200])
def test_unusable_key(key: str) -> None:
    with pytest.raises(ValueError, match="cache key"):
        cache.entry(key, Maker())


def test_content_key_tells_parts_apart() -> None:
    keys = {
        cache.content_key(parts, prefix)
        for parts, prefix in [(["ab", "c"], ""), (["a", "bc"], ""), (["abc"], ""), (["abc", ""], ""), (["abc"], "p")]
    }
    assert len(keys) == 5
    assert cache.content_key([b"ab"]) == cache.content_key(["ab"])


def test_platform_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "strata"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.directory() == tmp_path / "home" / ".cache" / "strata"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.directory() == tmp_path / "home" / "Library" / "Caches" / "strata"
