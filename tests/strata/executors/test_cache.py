"""The build cache: made once, never half made, never served damaged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from strata.executors import cache
from strata.executors.base import ExecutorUnavailable

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
