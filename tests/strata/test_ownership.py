"""Who could have put a file where code is taken from: owners, modes, links and what lies above."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata import ownership
from tests.strata.owners import STRANGER, give_away

ME = os.geteuid()
HOUSE = Path("/house")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of this user in one of this user."""
    inner = tmp_path / "home" / "cache"
    inner.mkdir(mode=0o700, parents=True)
    inner.parent.chmod(0o700)
    return inner


def status(mode: int, owner: int = ME, group: int = STRANGER) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, owner, group, 0, 0, 0, 0))


@given(st.integers(0, 0o7777), st.sampled_from([ME, 0, STRANGER, 2**32 - 2]))
@example(0o755, ME)
@example(0o1777, 0)
def test_a_file_is_ones_own_by_owner_and_mode(mode: int, owner: int) -> None:
    for kind in (stat.S_IFREG, stat.S_IFDIR):
        said = ownership.of_file(HOUSE, status(kind | mode, owner))
        assert bool(said) == (owner not in (ME, 0) or bool(mode & 0o022))
        assert str(HOUSE) in said or not said
        assert "\n" not in said


def test_the_clause_names_who_it_is() -> None:
    assert ownership.of_file(HOUSE, status(stat.S_IFDIR | 0o700, STRANGER)) == f"/house belongs to user {STRANGER}"
    assert ownership.of_file(HOUSE, status(stat.S_IFDIR | 0o702)) == "/house can be written by everybody"
    assert ownership.of_file(HOUSE, status(stat.S_IFDIR | 0o720)) == f"/house can be written by group {STRANGER}"


def test_a_directory_of_ones_own_has_no_stranger(home: Path) -> None:
    assert ownership.stranger(home) == ""
    assert ownership.stranger(home / "not" / "there") == ""


@pytest.mark.parametrize("mode", [0o777, 0o702, 0o1777, 0o770])
def test_a_directory_that_others_may_write_has(mode: int, home: Path) -> None:
    home.chmod(mode)
    assert str(home) in ownership.stranger(home)


@pytest.mark.parametrize("level", [0, 1])
def test_a_directory_of_another_has_and_so_has_all_below(
    level: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_away(monkeypatch, (home, *home.parents)[level])
    for path in (home, home / "not" / "there")[level:]:
        assert ownership.stranger(path) == f"{(home, *home.parents)[level]} belongs to user {STRANGER}"


def test_others_may_write_above_only_where_the_sticky_bit_protects(home: Path) -> None:
    home.parent.chmod(0o777)
    assert ownership.stranger(home) == f"{home.parent} can be written by everybody"
    home.parent.chmod(0o1777)
    assert ownership.stranger(home) == ""


def test_a_group_may_write_above_only_when_it_is_private(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.parent.chmod(0o770)
    group, me = home.parent.stat().st_gid, pwd.getpwuid(ME)

    def group_is(name: str, *members: str) -> None:
        monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((name, "x", group, list(members))))
        monkeypatch.setattr(pwd, "getpwuid", lambda number: pwd.struct_passwd((*me[:3], group, *me[4:])))
        ownership._alone.cache_clear()

    for name, *members in (("friends", "friend"), (me.pw_name, "friend"), (me.pw_name + "s",)):
        group_is(name, *members)
        assert ownership.stranger(home) == f"{home.parent} can be written by group {name}"
    group_is(me.pw_name)
    assert ownership.stranger(home) == ""
    home.chmod(0o770)
    assert ownership.stranger(home) != ""
    assert ownership.stranger(home, private=True) == ""
    ownership._alone.cache_clear()


def test_a_link_counts_as_what_it_leads_to_and_by_whose_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = home.parent / "others"
    others.mkdir()
    others.chmod(0o777)
    link = home.parent / "link"
    link.symlink_to(Path("others") / ".." / "cache")
    assert ownership.stranger(link) == f"{others} can be written by everybody"
    link.unlink()
    link.symlink_to(home)
    assert ownership.stranger(link / "..") == ownership.stranger(home.parent) == ""
    assert ownership.stranger(link) == ""
    give_away(monkeypatch, link)
    assert ownership.stranger(link) == f"{link} belongs to user {STRANGER}"


def test_a_way_without_an_end_leads_nowhere(home: Path) -> None:
    (home / "loop").symlink_to("loop")
    assert ownership.stranger(home / "loop" / "cache") == ""


def test_in_a_user_namespace_the_system_outside_is_not_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"/proc/sys/kernel/overflowuid": "65534\n"}
    monkeypatch.setattr(Path, "read_text", lambda path: said[str(path)])
    for ranges, trusted in (
        ("         0          0 4294967295\n", False),
        ("0 1000 1\n1 100000 65535\n", False),
        ("0 1000 1\n", True),
    ):
        said["/proc/self/uid_map"] = ranges
        ownership._owners.cache_clear()
        assert (65534 in ownership._owners(ME)) == trusted
    ownership._owners.cache_clear()
