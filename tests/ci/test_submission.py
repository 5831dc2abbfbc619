"""The check of a pull request that adds one record: verdicts, exit status, and what runs and what does not."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ci import change, submission
from ci.change import FOLDER
from ci.submission import Verdict, main
from ci.verifier import _START, Answer, ask
from tests.ci.conftest import GATE, PATH, Repository
from tests.validation.record.forging import base
from validation.record.canonical import encode

ROOT = Path(__file__).resolve().parents[2]
#: Leaves a mark beside itself, whoever runs it.
HOSTILE = "import pathlib\npathlib.Path({mark!r}).write_text('ran')\nraise SystemExit(0)\n"


def checked(repository: Repository, *words: str) -> int:
    return main([str(repository.folder), "pull", *words])


def submitted(repository: Repository, data: bytes = b'{"a":1}') -> str:
    """A pull request with one record, and main checked out again."""
    repository.pull()
    path = repository.record(data)
    repository.commit()
    repository.git("checkout", "-q", "main")
    return path.rpartition("/")[2]


def test_an_accepted_record(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    name = submitted(repository)
    assert checked(repository) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["ACCEPTED", f"record {name}", "rows are fine", f"news for {PATH}: locked so far"]
    assert lines[-3:] == [
        f"head {repository.git('rev-parse', 'pull')}",
        f"blob {repository.git('rev-parse', f'pull:{FOLDER}/{name}')} {FOLDER}/{name}",
        f"checked by {repository.git('rev-parse', 'main')}",
    ]


def test_what_was_judged_can_be_merged_by_its_name(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """A branch that goes on after the check, or is another by then, is not what is merged."""
    name = submitted(repository)
    assert checked(repository) == 0
    judged = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines()[-3:])
    repository.git("checkout", "-q", "pull")
    repository.write("stray.py", b"")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--squash", judged["head"])
    repository.git("commit", "-q", "-m", "a record")
    assert repository.git("diff", "--name-only", "HEAD~", "HEAD") == f"{FOLDER}/{name}"
    assert judged["blob"] == f"{repository.git('rev-parse', f'HEAD:{FOLDER}/{name}')} {FOLDER}/{name}"


def test_a_refusal_names_what_it_refused(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.pull()
    repository.write("stray.py", b"")
    head = repository.commit()
    repository.git("checkout", "-q", "main")
    assert checked(repository) == 1
    refusal, *judged = capsys.readouterr().out.splitlines()
    assert refusal.startswith("REFUSED shape: it adds the file stray.py")
    assert judged == [f"head {head}", f"checked by {repository.git('rev-parse', 'main')}"]


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("deep"), ValueError("\x1b[2J"), KeyError("x")])
def test_a_crash_is_no_verdict(
    error: Exception, repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python's own status for an uncaught exception is 1, which means refused here."""

    def crash(*words: object) -> None:
        raise error

    submitted(repository)
    monkeypatch.setattr(change, "added", crash)
    assert checked(repository) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert type(error).__name__ in said.err
    assert "\x1b" not in said.err


CACHES = """
import json, os, sys
from pathlib import Path
told = json.loads((Path(__file__).parent / "answer.json").read_text())["outcome"]
places = {os.environ[name] for name in ("STRATA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
notes = [f"cache {place} {len(os.listdir(place))}" for place in places]
print(json.dumps({**told, "notes": notes, "name": Path(sys.argv[-1]).stem}))
"""


def test_compiled_kernels_of_others_have_no_say(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verifier loads what lies in its cache, so it gets one of its own, and an empty one."""
    repository.write("validation/__main__.py", CACHES.encode())
    repository.commit()
    submitted(repository)
    (tmp_path / "planted").write_text("a library")
    for name in ("STRATA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert checked(repository) == 0
    (told,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("cache "))
    _, place, files = told.split(" ")
    assert place != str(tmp_path)
    assert files == "0"
    assert not Path(place).exists()


def test_verifier_and_gate_have_one_limit_together(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def watched(base: Path, cache: Path, seconds: float, *words: str) -> Answer:
        given.append(seconds)
        return ask(base, cache, seconds, *words)

    submitted(repository)
    monkeypatch.setattr(submission, "ask", watched)
    assert checked(repository, "--seconds", "50") == 0
    assert given[0] == 50
    assert 0 < given[1] < 50


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
def test_a_limit_is_a_number_of_seconds(seconds: str, repository: Repository) -> None:
    with pytest.raises(SystemExit) as caught:
        checked(repository, "--seconds", seconds)
    assert caught.value.code == 2


def test_a_directory_is_not_taken_for_a_branch(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever lies in the working directory; and a tag called `main` is not taken for the branch."""
    monkeypatch.setattr(submission, "ROOT", repository.folder)
    monkeypatch.chdir(tmp_path)
    submitted(repository)
    main_branch = repository.git("rev-parse", "refs/heads/main")
    for name in ("main", "refs/heads/main"):
        repository.git("clone", "-q", str(repository.folder), str(tmp_path / name))
    repository.git("tag", "main", "pull")
    assert main(["main", "pull"]) == 2
    assert "'main' means refs/heads/main and refs/tags/main" in capsys.readouterr().err
    assert main(["refs/heads/main", "refs/heads/pull"]) == 0
    assert f"checked by {main_branch}" in capsys.readouterr().out


def test_it_writes_nothing_in_the_repository(repository: Repository) -> None:
    submitted(repository)
    before = repository.state()
    assert checked(repository) == 0
    assert repository.state() == before


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (
            {"status": 1, "accepted": False, "refusals": [{"rule": "bits", "reason": "row 3 of case 1"}]},
            "REFUSED verify bits: row 3 of case 1",
        ),
        ({"status": 1, "accepted": False}, "REFUSED verify: no"),
        ({"with_bits": False, "outcome": "ACCEPTED without bits"}, "REFUSED bits: they were not predicted"),
        ({"with_bits": 1}, "REFUSED bits: they were not predicted"),
        ({"gate": []}, "REFUSED evidence: it opens no path: it does not say that a card of the tier ran it"),
        (
            {"gate": [{**GATE, "kind": "surrogate"}]},
            "REFUSED evidence: it opens no path: it does not say that a card of the tier ran it",
        ),
        (
            {"gate": [{**GATE, "kind": "simulated"}]},
            "REFUSED evidence: it opens no path: it does not say that a card of the tier ran it",
        ),
        (
            {"gate": [{**GATE, "opens": False}]},
            "REFUSED evidence: it opens no path: it does not say that a card of the tier ran it",
        ),
        (
            {"news": {}, "known": {PATH: "record 0 of compute capability 7.5 opens it"}},
            f"REFUSED news: {PATH}: record 0 of compute capability 7.5 opens it",
        ),
        ({"news": {"another/path": "locked so far"}}, f"REFUSED news: {PATH}: not opened"),
    ],
)
def test_what_the_main_branch_does_not_take(
    outcome: dict[str, Any], reason: str, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.answer(**outcome)
    submitted(repository)
    assert checked(repository) == 1
    assert capsys.readouterr().out.startswith(reason)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"status": 2}, "validation: status 2"),
        ({"status": 1}, "the verifier ends with 1 and says ACCEPTED"),
        ({"accepted": False}, "the verifier ends with 0 and says ACCEPTED"),
        ({"gate": None}, "the verifier's answer has another shape"),
    ],
)
def test_a_verifier_that_cannot_be_understood(
    edit: dict[str, Any], said: str, repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.answer(**edit)
    submitted(repository)
    assert checked(repository) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_a_verifier_without_end(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write("validation/__main__.py", b"import time\ntime.sleep(600)\n")
    repository.commit()
    submitted(repository)
    assert checked(repository, "--seconds", "1") == 2
    assert "validation took longer than 1 s" in capsys.readouterr().err


def test_a_verifier_that_speaks_of_another_record(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    text = (repository.folder / "validation/__main__.py").read_text().replace("Path(sys.argv[-1]).stem", "'0' * 64")
    repository.write("validation/__main__.py", text.encode())
    repository.commit()
    submitted(repository)
    assert checked(repository) == 2
    assert f"speaks of {'0' * 64}" in capsys.readouterr().err


#: Files that Python, pytest, git or the verifier would run or obey, were the pull request checked out.
PLANTED = (
    *("conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "numpy.py", "noxfile.py"),
    *("validation/__init__.py", "validation/__main__.py", "strata/__init__.py", "ci/__init__.py", "ci/standing.py"),
    *("ci/submission.py", "strata/gates/records/__init__.py", "strata/gates/records/conftest.py"),
)


@pytest.mark.parametrize("where", ["main", "pull"])
def test_nothing_of_a_pull_request_runs(
    where: str,
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refused for its shape; and even where it lies in the working tree, none of it is run or imported."""
    mark = tmp_path / "mark"
    repository.pull()
    repository.record()
    for file in PLANTED:
        repository.write(file, HOSTILE.format(mark=str(mark)).encode())
    repository.write(".gitattributes", b"* filter=evil export-ignore\n")
    repository.commit()
    repository.git("config", "filter.evil.smudge", f"touch {mark}")
    if where == "main":
        repository.git("checkout", "-q", "main")
    monkeypatch.chdir(repository.folder)
    monkeypatch.setenv("PYTHONPATH", str(repository.folder))
    mark.unlink(missing_ok=True)  # git itself may have run the filter just now, as it was told
    assert main([commit_of(repository, "main"), "pull"]) == 2  # no commit of this checkout
    assert checked_against_main(repository, tmp_path) == 1
    assert "REFUSED shape: " in capsys.readouterr().out
    assert not mark.exists()
    # The trap works: the same files run where somebody imports them.
    subprocess.run([sys.executable, "-c", "import validation"], cwd=repository.folder, check=False)
    assert mark.exists() is (where == "pull")


def commit_of(repository: Repository, name: str) -> str:
    return repository.git("rev-parse", name)


def checked_against_main(repository: Repository, folder: Path) -> int:
    """As CI does: a checkout of main beside it, into which the pull request's objects are fetched."""
    clone = folder / "clone"
    repository.git("clone", "-q", "-b", "main", str(repository.folder), str(clone))
    return main([str(clone), "origin/pull"])


def test_a_record_is_judged_by_main_while_the_pull_request_is_checked_out(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that lie about, committed by nobody, have no say either."""
    mark = tmp_path / "mark"
    submitted(repository)
    for file in PLANTED:
        repository.write(file, HOSTILE.format(mark=str(mark)).encode())
    monkeypatch.chdir(repository.folder)
    monkeypatch.setenv("PYTHONPATH", str(repository.folder))
    assert checked(repository) == 0
    assert not mark.exists()


def test_what_is_installed_does_not_stand_in_for_main(tmp_path: Path) -> None:
    """A base without the package must not be helped out by another one on the path."""
    for package in ("strata", "ci"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    elsewhere = f"import sys; sys.path.append({str(ROOT)!r})\n"
    words = [sys.executable, "-I", "-c", elsewhere + _START, str(tmp_path), "validation"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"expected it below {tmp_path}" in done.stderr


def test_a_file_alone(repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = submitted(repository)
    (tmp_path / name).write_bytes(b'{"a":1}')
    assert main([str(repository.folder), "--file", str(tmp_path / name)]) == 0
    repository.git("merge", "-q", "pull", "-m", "merge")
    assert main([str(repository.folder), "--file", str(tmp_path / name)]) == 1
    assert "is there already" in capsys.readouterr().out


def test_several_commits_are_told(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.pull()
    stray = repository.write("stray.py", b"")
    repository.commit()
    stray.unlink()
    repository.record()
    repository.commit()
    repository.git("checkout", "-q", "main")
    assert checked(repository) == 0
    assert "2 commits, of which only the sum was looked at: merge them as one" in capsys.readouterr().out


def test_a_comment_cannot_be_left() -> None:
    verdict = Verdict(("shape: ````\n<script>\x1b[2J ##[error] \u202e ::error::",))
    assert verdict.lines() == ["REFUSED shape: ````\\n<script>\\x1b[2J ## [error] \\u202e ::error::"]
    body = verdict.markdown()
    assert body.startswith("**Record: REFUSED**\n\n````text\nREFUSED shape: ''''")
    assert body.count("````") == 2


@pytest.mark.parametrize("words", [["main"], [".", "HEAD", "--file", "x"]])
def test_what_must_be_named(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose main branch is this project as it lies here."""
    folder = tmp_path_factory.mktemp("project")
    for part in ("ci", "fixtures", "strata", "validation"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "main")):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    return folder


def test_the_real_verifier_is_asked(project: Path, tmp_path: Path) -> None:
    """As a program, on a fixture whose plan is too small; the whole way, but for the computing of rows."""
    data = encode(base("turing")["record"])
    folder = tmp_path / "pull"
    subprocess.run(["git", "clone", "-q", str(project), str(folder)], check=True)
    repository = Repository.__new__(Repository)
    repository.folder = folder
    repository.pull()
    repository.record(data)
    head = repository.commit()
    command = [sys.executable, str(folder / "ci" / "check_submission"), "main", head]
    environment = {**os.environ, "STRATA_CACHE_DIR": str(tmp_path / "cache")}
    before = repository.state()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("REFUSED verify plan: ")
    assert repository.state() == before


def test_an_archive_of_main_holds_all_that_is_asked(project: Path) -> None:
    done = subprocess.run(["git", "archive", "main"], cwd=project, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        names = archive.getnames()
    assert {"validation/__main__.py", "ci/standing.py", "strata/gates/record.schema.json"} <= set(names)
