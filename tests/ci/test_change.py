"""Which changes are the addition of one record."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci import change, objects
from ci.change import FOLDER, CannotCheckError, RefusedError, added, commit, from_file
from tests.ci.conftest import Repository

DATA = b'{"a":1}'
NAME = f"{hashlib.sha256(DATA).hexdigest()}.json"


def pulled(repository: Repository) -> change.Candidate:
    """What the pull request adds."""
    repository.commit()
    return added(repository.folder, commit(repository.folder, "main"), commit(repository.folder, "pull"))


def test_one_record_and_nothing_else_passes(repository: Repository) -> None:
    repository.pull()
    repository.record(DATA)
    blob = repository.git("hash-object", "--stdin", data=DATA)
    assert pulled(repository) == change.Candidate(NAME, DATA, blob, 1)


def test_main_may_have_gone_on(repository: Repository) -> None:
    """The change counts from where the branch left."""
    repository.pull()
    repository.record(DATA)
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("strata/new.py", b"1\n")
    repository.commit()
    assert added(repository.folder, commit(repository.folder, "main"), commit(repository.folder, "pull")).data == DATA
    repository.git("checkout", "-q", "pull")
    repository.git("merge", "-q", "main", "-m", "merge")
    assert pulled(repository).data == DATA


def a_second(repository: Repository) -> None:
    repository.record(b"{}")


def verifier_beside(repository: Repository) -> None:
    repository.write("validation/record/verify.py", b"accept = True\n")
    repository.write("validation/__main__.py", b"print('{}')\n")


def link(repository: Repository) -> None:
    (repository.folder / FOLDER / NAME).unlink()
    (repository.folder / FOLDER / NAME).symlink_to("/etc/passwd")


def executable(repository: Repository) -> None:
    # In the index, for a file system that keeps no such bit.
    repository.git("add", "-A")
    repository.git("update-index", "--chmod=+x", f"{FOLDER}/{NAME}")
    (repository.folder / FOLDER / NAME).chmod(0o755)


def mode_of_another(repository: Repository) -> None:
    repository.git("update-index", "--chmod=+x", "README.md")
    (repository.folder / "README.md").chmod(0o755)


def rename(repository: Repository) -> None:
    (repository.folder / FOLDER / "README.md").rename(repository.folder / FOLDER / "READ.md")


def removal(repository: Repository) -> None:
    (repository.folder / "README.md").unlink()


def nested(repository: Repository) -> None:
    (repository.folder / FOLDER / "more").mkdir()
    shutil.move(repository.folder / FOLDER / NAME, repository.folder / FOLDER / "more" / NAME)


def other_case_of_folder(repository: Repository) -> None:
    (repository.folder / "strata/gates/Records").mkdir()
    shutil.move(repository.folder / FOLDER / NAME, repository.folder / "strata/gates/Records" / NAME)


def renamed(to: str) -> Callable[[Repository], None]:
    def edit(repository: Repository) -> None:
        (repository.folder / FOLDER / NAME).rename(repository.folder / FOLDER / to)

    return edit


def submodule(repository: Repository) -> None:
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored")
    (repository.folder / "vendored").mkdir()


def nothing(repository: Repository) -> None:
    (repository.folder / FOLDER / NAME).unlink()


def look_alike(repository: Repository) -> None:
    repository.write(f"strata/gates/record\u0455/{NAME}", DATA)
    (repository.folder / FOLDER / NAME).unlink()


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (a_second, "shape: it adds 2 records, expected one"),
        (verifier_beside, f"shape: it changes the directory validation, expected one new file in {FOLDER}"),
        (link, f"shape: it adds the link {FOLDER}/{NAME}"),
        (executable, f"shape: it adds the executable file {FOLDER}/{NAME}"),
        (mode_of_another, "shape: it changes the mode of README.md"),
        (rename, f"shape: it removes {FOLDER}/README.md"),
        (rename, f"shape: it adds the file {FOLDER}/READ.md"),
        (removal, "shape: it removes README.md"),
        (nested, f"shape: it adds the directory {FOLDER}/more, expected one plain file"),
        (other_case_of_folder, "shape: it adds the directory strata/gates/Records"),
        (renamed(NAME.upper()), f"shape: it adds the file {FOLDER}/{NAME.upper()}"),
        (renamed(NAME.replace(".json", ".JSON")), f"shape: it adds the file {FOLDER}/{NAME[:64]}.JSON"),
        (renamed("record.json"), f"shape: it adds the file {FOLDER}/record.json"),
        (renamed(f"{'0' * 64}.json"), f"name: the file is called {'0' * 64}.json, expected {NAME}, its own SHA-256"),
        (renamed(f"{NAME}\n"), f"shape: it adds the file {FOLDER}/{NAME}\\n"),
        (look_alike, "shape: it adds the directory strata/gates/record\\u0455"),
        (submodule, "shape: it adds the submodule vendored"),
        (nothing, "shape: it adds 0 records, expected one"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="links, modes and such names are not made there")
def test_other_changes_are_refused(edit: Callable[[Repository], None], reason: str, repository: Repository) -> None:
    repository.pull()
    repository.record(DATA)
    edit(repository)
    if edit in (executable, mode_of_another, submodule):  # `git add -A` would undo them where modes are not kept
        repository.git("add", FOLDER)
        repository.git("commit", "-q", "-m", "a change")
    else:
        repository.commit()
    with pytest.raises(RefusedError) as caught:
        added(repository.folder, commit(repository.folder, "main"), commit(repository.folder, "pull"))
    assert any(said.startswith(reason) for said in caught.value.reasons), caught.value.reasons
    assert len(caught.value.reasons) <= 2


def test_an_accepted_record_is_not_edited_renamed_or_removed(repository: Repository) -> None:
    old = repository.record(b"{}")
    repository.commit()
    repository.pull()
    shutil.move(repository.folder / old, repository.folder / FOLDER / NAME)
    (repository.folder / FOLDER / NAME).write_bytes(DATA)
    with pytest.raises(RefusedError, match=f"it removes {old}"):
        pulled(repository)
    repository.write(old, DATA)
    with pytest.raises(RefusedError, match=f"it changes {old}"):
        pulled(repository)


def test_a_record_that_main_got_meanwhile(repository: Repository) -> None:
    repository.pull()
    repository.record(DATA)
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.record(DATA)
    repository.commit("the same file")  # in another commit
    with pytest.raises(RefusedError, match="is there already"):
        added(repository.folder, commit(repository.folder, "main"), commit(repository.folder, "pull"))


class Watched:
    """What git was asked about a pull request, and how many bytes it said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.said = 0
        self._git = objects.git
        for module in (change, objects):
            monkeypatch.setattr(module, "git", self._watch)

    def _watch(self, folder: Path, *words: str, **how: Any) -> bytes:
        self.asked.append(words)
        out = self._git(folder, *words, **how)
        self.said += len(out)
        return out


def test_a_huge_file_is_not_read(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "LARGEST", len(DATA) - 1)
    watched = Watched(monkeypatch)
    repository.pull()
    repository.record(DATA)
    with pytest.raises(RefusedError, match=f"size: {FOLDER}/{NAME} has 7 bytes, expected at most 6"):
        pulled(repository)
    assert ("cat-file", "--batch-check") in [words[:2] for words in watched.asked]
    assert ("cat-file", "blob") not in [words[:2] for words in watched.asked]


def edited(
    repository: Repository, place: str, edit: Callable[[list[str]], list[str]], tree: str = "HEAD^{tree}"
) -> str:
    """A tree like `tree`, the lines of whose directory `place` (as `git ls-tree` prints them) went through `edit`."""
    lines = repository.git("ls-tree", tree).splitlines()
    step, _, rest = place.partition("/")
    if step:
        (old,) = (line for line in lines if line.endswith(f"\t{step}"))
        below = edited(repository, rest, edit, old.split()[2])
        lines[lines.index(old)] = f"040000 tree {below}\t{step}"
    else:
        lines = edit(lines)
    return repository.git("mktree", data="".join(f"{line}\n" for line in lines).encode())


def proposed(repository: Repository, tree: str) -> str:
    """A commit of that tree on top of the one that is checked out."""
    return repository.git("commit-tree", tree, "-p", "HEAD", "-m", "a change")


def bomb(repository: Repository, levels: int = 10, width: int = 10) -> list[str]:
    """The lines of a tree of `width ** levels` paths, which is made of `levels` objects."""
    entry = f"100644 blob {repository.git('hash-object', '-w', '--stdin', data=b'x')}"
    lines: list[str] = []
    for level in range(levels):
        if level:
            entry = f"040000 tree {repository.git('mktree', data=''.join(lines).encode())}"
        lines = [f"{entry}\t{name:02}\n" for name in range(width)]
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("place", "name", "reason"),
    [
        ("", "bomb", "shape: it adds the directory bomb, expected one plain file"),
        ("strata", "bomb", "shape: it adds the directory strata/bomb"),
        ("strata/gates", "bomb", "shape: it adds the directory strata/gates/bomb"),
        (FOLDER, "bomb", f"shape: it adds the directory {FOLDER}/bomb"),
        (FOLDER, NAME, f"shape: it adds the directory {FOLDER}/{NAME}"),
        ("validation", "", "shape: it changes the directory validation, expected one new file"),
        (FOLDER, "", f"shape: it adds the directory {FOLDER}/00"),
        ("strata", "", "shape: it adds the directory strata/00"),
    ],
)
def test_a_tree_of_ten_thousand_million_paths_is_one_entry_too_many(
    place: str, name: str, reason: str, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some kilobytes are sent. What is read is bounded by that, and not by the paths that it comes to."""
    repository.pull()
    planted = bomb(repository)
    if name:
        whole = repository.git("mktree", data="".join(f"{line}\n" for line in planted).encode())
        tree = edited(repository, place, lambda lines: [*lines, f"040000 tree {whole}\t{name}"])
    else:
        tree = edited(repository, place, lambda lines: planted)
    head = proposed(repository, tree)
    watched = Watched(monkeypatch)
    with pytest.raises(RefusedError) as caught:
        added(repository.folder, commit(repository.folder, "main"), head)
    assert any(said.startswith(reason) for said in caught.value.reasons), caught.value.reasons
    assert len(watched.asked) < 40
    assert watched.said < 10_000


def many_files(repository: Repository) -> str:
    """A commit whose folder of records has more entries than are read."""
    blob = repository.git("hash-object", "-w", "--stdin", data=DATA)
    many = [f"100644 blob {blob}\t{number:064x}.json" for number in range(3000)]
    return proposed(repository, edited(repository, FOLDER, lambda lines: many))


def long_message(repository: Repository) -> str:
    repository.record(DATA)
    repository.git("add", "-A")
    tree = repository.git("write-tree")
    return repository.git("commit-tree", tree, "-p", "HEAD", data=b"m" * (objects.LARGEST_COMMIT + 1))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (many_files, rf"size: the directory {FOLDER}/ has 2\d\d,000 bytes, expected at most 262,144"),
        (long_message, r"size: its commit [0-9a-f]{40} has \d\d,\d\d\d bytes, expected at most 65,536"),
    ],
)
def test_large_objects_are_refused_before_they_are_opened(
    make: Callable[[Repository], str], reason: str, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.pull()
    head = make(repository)
    watched = Watched(monkeypatch)
    with pytest.raises(RefusedError, match=reason):
        added(repository.folder, commit(repository.folder, "main"), head)
    assert watched.said < 10_000


def test_many_commits_are_not_walked(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "MOST_COMMITS", 2)
    repository.pull()
    repository.record(DATA)
    repository.commit()
    assert pulled(repository).commits == 2
    with pytest.raises(RefusedError, match="more than 2 commits that the base lacks"):
        pulled(repository)


def test_what_git_says_is_bounded(repository: Repository) -> None:
    assert objects.git(repository.folder, "rev-parse", "HEAD", most=41)
    with pytest.raises(CannotCheckError, match="prints more than 40 bytes"):
        objects.git(repository.folder, "rev-parse", "HEAD", most=40)


def test_a_name_that_stands_twice_in_a_directory(repository: Repository) -> None:
    """As no honest git writes it: which of both would be merged?"""
    repository.pull()
    path = repository.record(DATA)
    repository.commit()
    blob = repository.git("rev-parse", f"HEAD:{path}")
    head = proposed(repository, edited(repository, FOLDER, lambda lines: [*lines, f"100644 blob {blob}\t{NAME}"]))
    with pytest.raises(RefusedError, match=f"it names {FOLDER}/{NAME} 2 times"):
        added(repository.folder, commit(repository.folder, "main"), head)


def test_an_empty_directory_that_no_file_shows(repository: Repository) -> None:
    """A tree that git itself would not write."""
    repository.pull()
    repository.record(DATA)
    repository.commit()
    empty = repository.git("mktree", data=b"")
    head = proposed(repository, edited(repository, "", lambda lines: [*lines, f"040000 tree {empty}\thollow"]))
    repository.git("update-ref", "refs/heads/pull", head)
    with pytest.raises(RefusedError, match="it adds the directory hollow"):
        added(repository.folder, commit(repository.folder, "main"), head)


def test_no_common_history(repository: Repository) -> None:
    tree = repository.git("rev-parse", "main^{tree}")
    head = repository.git("commit-tree", tree, "-m", "alone")
    with pytest.raises(RefusedError, match="shares no commit with the base"):
        added(repository.folder, commit(repository.folder, "main"), head)


def test_a_history_that_is_cut_off(repository: Repository, tmp_path: Path) -> None:
    repository.pull()
    repository.record(DATA)
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.commit("main goes on")
    repository.git(
        "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{repository.folder}", str(tmp_path / "s")
    )
    base, head = (commit(tmp_path / "s", f"origin/{name}") for name in ("main", "pull"))
    with pytest.raises(CannotCheckError, match="shallow"):
        added(tmp_path / "s", base, head)


@pytest.mark.parametrize(
    "reference", ["nothing", "--help", "main:README.md", "", "main~0", "refs/heads/m*", "@", "HEAD^{tree}", "0" * 40]
)
def test_what_is_no_commit(reference: str, repository: Repository) -> None:
    with pytest.raises(CannotCheckError, match=r"is no commit of|is not in"):
        commit(repository.folder, reference)


def test_a_commit_is_named_by_all_of_its_digits(repository: Repository) -> None:
    """A branch may be called like the first ones, or like all of them."""
    repository.pull()
    main, pull = commit(repository.folder, "main"), repository.commit()
    with pytest.raises(CannotCheckError, match="expected all of its digits"):
        commit(repository.folder, main[:12])
    repository.git("update-ref", f"refs/heads/{main}", pull)
    assert commit(repository.folder, main) == main


@pytest.mark.parametrize("name", ["-x", "--upload-pack=touch", "-"])
def test_a_branch_that_begins_like_an_option(name: str, repository: Repository) -> None:
    main = commit(repository.folder, "main")
    repository.git("update-ref", f"refs/heads/{name}", main)
    assert commit(repository.folder, name) == commit(repository.folder, f"refs/heads/{name}") == main


@pytest.mark.parametrize("name", ["HEAD", "FETCH_HEAD"])
def test_a_branch_does_not_stand_in_for_what_git_resolves_first(name: str, repository: Repository) -> None:
    repository.git("fetch", "-q", ".", "main")
    assert commit(repository.folder, name) == commit(repository.folder, "main")
    repository.git("update-ref", f"refs/heads/{name}", repository.commit())
    with pytest.raises(CannotCheckError, match=f"'{name}' means {name} and refs/heads/{name}"):
        commit(repository.folder, name)


def test_a_tag_does_not_stand_in_for_main(repository: Repository) -> None:
    """Tags come along when a fork is fetched, and git takes them before a branch."""
    main = commit(repository.folder, "main")
    repository.pull()
    repository.git("tag", "main", repository.commit())
    with pytest.raises(CannotCheckError, match="'main' means refs/heads/main and refs/tags/main"):
        commit(repository.folder, "main")
    assert commit(repository.folder, "refs/heads/main") == main


def test_a_replacement_of_objects_has_no_say(repository: Repository) -> None:
    """`refs/replace` could show other bytes than those that would be merged."""
    repository.pull()
    path = repository.record(DATA)
    repository.commit()
    other = repository.git("hash-object", "-w", "--stdin", data=b"other")
    repository.git("replace", repository.git("rev-parse", f"HEAD:{path}"), other)
    assert added(repository.folder, commit(repository.folder, "main"), commit(repository.folder, "pull")).data == DATA


def test_a_file_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(DATA)
    assert from_file(tmp_path / NAME).data == DATA
    (tmp_path / "record.json").write_bytes(DATA)
    with pytest.raises(RefusedError, match=r"name: the file is called record\.json"):
        from_file(tmp_path / "record.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no links and pipes here")
def test_a_file_must_be_a_plain_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    (tmp_path / NAME).symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in (NAME, "pipe", "absent"):
        with pytest.raises(CannotCheckError):
            from_file(tmp_path / name)
