"""Which changes are the addition of one record."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ci import change
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
    assert pulled(repository) == change.Candidate(NAME, DATA, 1)


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
        (verifier_beside, "shape: it changes validation/__main__.py"),
        (verifier_beside, "shape: it adds the file validation/record/verify.py, expected one plain file"),
        (link, f"shape: it adds the link {FOLDER}/{NAME}"),
        (executable, f"shape: it adds the executable file {FOLDER}/{NAME}"),
        (mode_of_another, "shape: it changes the mode of README.md"),
        (rename, f"shape: it removes {FOLDER}/README.md"),
        (rename, f"shape: it adds the file {FOLDER}/READ.md"),
        (removal, "shape: it removes README.md"),
        (nested, f"shape: it adds the file {FOLDER}/more/{NAME}"),
        (other_case_of_folder, f"shape: it adds the file strata/gates/Records/{NAME}"),
        (renamed(NAME.upper()), f"shape: it adds the file {FOLDER}/{NAME.upper()}"),
        (renamed(NAME.replace(".json", ".JSON")), f"shape: it adds the file {FOLDER}/{NAME[:64]}.JSON"),
        (renamed("record.json"), f"shape: it adds the file {FOLDER}/record.json"),
        (renamed(f"{'0' * 64}.json"), f"name: the file is called {'0' * 64}.json, expected {NAME}, its own SHA-256"),
        (renamed(f"{NAME}\n"), f"shape: it adds the file {FOLDER}/{NAME}\\n"),
        (look_alike, f"shape: it adds the file strata/gates/record\\u0455/{NAME}"),
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


def test_a_huge_file_is_not_read(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "LARGEST", len(DATA) - 1)
    asked: list[tuple[str, ...]] = []
    real = change.git

    def watched(folder: Path, *words: str) -> bytes:
        asked.append(words)
        return real(folder, *words)

    monkeypatch.setattr(change, "git", watched)
    repository.pull()
    repository.record(DATA)
    with pytest.raises(RefusedError, match=f"size: {FOLDER}/{NAME} has 7 bytes, expected at most 6"):
        pulled(repository)
    assert ("cat-file", "-s") in [words[:2] for words in asked]
    assert ("cat-file", "blob") not in [words[:2] for words in asked]


def test_an_empty_directory_that_no_file_shows(repository: Repository) -> None:
    """A tree that git itself would not write."""
    repository.pull()
    repository.record(DATA)
    repository.commit()
    empty = repository.git("mktree", data=b"")
    listing = repository.git("ls-tree", "HEAD") + f"\n040000 tree {empty}\thollow\n"
    tree = repository.git("mktree", data=listing.encode())
    head = repository.git("commit-tree", tree, "-p", "HEAD", "-m", "a change")
    repository.git("update-ref", "refs/heads/pull", head)
    with pytest.raises(RefusedError, match="it changes the directory hollow"):
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
    repository.git(
        "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{repository.folder}", str(tmp_path / "s")
    )
    base, head = (commit(tmp_path / "s", f"origin/{name}") for name in ("main", "pull"))
    with pytest.raises(CannotCheckError, match="shallow"):
        added(tmp_path / "s", base, head)


@pytest.mark.parametrize("reference", ["nothing", "--help", "main:README.md", ""])
def test_what_is_no_commit(reference: str, repository: Repository) -> None:
    with pytest.raises(CannotCheckError, match="is no commit of"):
        commit(repository.folder, reference)


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
