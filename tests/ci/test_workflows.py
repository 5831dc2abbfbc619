"""The workflow files, the template and the page: nothing they may not do, and nothing that does not exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ci import accepted, submission
from ci.change import FOLDER
from validation import __main__ as validation
from validation import mutants
from validation.mutants import __main__ as mutants_main

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / "ci" / "workflows").glob("*.yml"))
PAGE = (ROOT / "ci" / "README.md").read_text(encoding="utf-8")
#: What takes the words after `nox -s SESSION --`.
PARSERS: dict[str, Callable[[list[str]], object]] = {
    "check": lambda words: validation.parser().parse_args(["check", *words]),
    "parity": lambda words: validation.parser().parse_args(["parity", *words]),
    "static": lambda words: validation.parser().parse_args(["static", *words]),
    "memory": lambda words: validation.parser().parse_args(["memory", *words]),
    "mutants": mutants_main.parser().parse_args,
    "records": accepted.parser().parse_args,
    "submission": submission.parser().parse_args,
}


def test_there_are_two() -> None:
    assert [file.name for file in WORKFLOWS] == ["checks.yml", "submission.yml"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_job_may_read_and_nothing_else(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert re.findall(r"^permissions:\n((?:  .*\n)+)", text, re.MULTILINE) == ["  contents: read\n"]
    assert text.count("permissions:") == 1
    assert "write" not in text
    for word in ("pull_request_target", "workflow_run", "secrets", "GITHUB_TOKEN", "id-token"):
        assert word not in text
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    assert "timeout-minutes:" in text


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_are_pinned_to_a_commit(file: Path) -> None:
    uses = re.findall(r"uses: (\S+)", file.read_text(encoding="utf-8"))
    assert uses
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in uses)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_nothing_of_an_event_stands_in_a_command(file: Path) -> None:
    """A branch name or a title in a command line would be a command line of its author's."""
    text = file.read_text(encoding="utf-8")
    for told in re.findall(r"^.*\$\{\{.*\}\}.*$", text, re.MULTILINE):
        assert re.fullmatch(r"\s+(NUMBER: \$\{\{ github\.event\.pull_request\.number|group: checks-.*).*", told), told


def test_submissions_take_everything_from_main() -> None:
    text = (ROOT / "ci/workflows/submission.yml").read_text(encoding="utf-8")
    assert re.findall(r"^ +ref: (\S+)", text, re.MULTILINE) == ["refs/heads/main"]
    assert text.count("uses: ") == 1
    assert "fetch-depth: 0" in text
    assert f'paths: ["{FOLDER}/*.json"]' in text
    assert "ci/check_submission refs/heads/main refs/submitted\n" in text
    assert "refs/heads/submitted" not in text
    assert not re.search(r"git (checkout|merge|switch|pull|restore)\b", text)


def test_the_workflow_ends_after_the_check() -> None:
    """Which says why it could not; a job that is cut off says nothing. Ten minutes are for what is done before."""
    text = (ROOT / "ci/workflows/submission.yml").read_text(encoding="utf-8")
    (minutes,) = re.findall(r"timeout-minutes: (\d+)", text)
    assert 60 * int(minutes) > submission.SECONDS + 600


@pytest.mark.parametrize("name", ["submission", "compiler"])
def test_what_is_installed_for_a_submission_is_pinned_by_its_digest(name: str) -> None:
    text = (ROOT / f"ci/requirements/{name}.txt").read_text(encoding="utf-8")
    lines = [line.strip(" \\") for line in text.splitlines() if not line.startswith("#")]
    pins = [Requirement(line) for line in lines if not line.startswith("--hash=")]
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in lines if line.startswith("--"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] if name == "submission" else project["optional-dependencies"][name]
    for wanted in map(Requirement, asked):
        own = [pin for pin in pins if pin.name == wanted.name]
        assert own
        for pin in own:
            ((how, version),) = ((one.operator, one.version) for one in pin.specifier)
            assert how == "=="
            assert wanted.specifier.contains(version)


def test_a_submission_is_checked_with_what_is_pinned() -> None:
    for file in ("noxfile.py", "ci/workflows/submission.yml"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "--require-hashes" in text
        assert "requirements" in text
    assert re.search(r"def submission\(.*\n.*\n    _install_pinned\(", (ROOT / "noxfile.py").read_text())
    installs = re.findall(r"pip install (.*)", (ROOT / "ci/workflows/submission.yml").read_text())
    assert installs == ["--quiet --require-hashes --only-binary :all: -r ci/requirements/submission.txt"]


def test_main_is_named_in_whole() -> None:
    """`main` alone may be a tag of a fork. Of the page and the README."""
    for text in (PAGE, (ROOT / "README.md").read_text(encoding="utf-8")):
        told = re.findall(r"(?:-s submission --|check_submission) (\S+)", text)
        assert {word for word in told if not word.startswith(("-", "]", "("))} <= {"refs/heads/main"}
        assert "refs/heads/main" in told


def test_sessions_and_options_exist() -> None:
    """Of `.ci/run`, the workflows and the page."""
    texts = [PAGE, (ROOT / ".ci/run").read_text(), *(file.read_text() for file in WORKFLOWS)]
    found = [line for text in texts for line in re.findall(r"(?:nox|check) -s ([^\n`#&]+)", text)]
    assert len(found) > len(texts)
    noxfile = (ROOT / "noxfile.py").read_text()
    for line in found:
        words = shlex.split(line)
        cut = words.index("--") if "--" in words else len(words)
        for session in words[:cut]:
            assert f"\n@nox.session\ndef {session}(" in noxfile, line
        if cut < len(words):
            PARSERS[words[0]](words[cut + 1 :])


def test_the_page_names_files_that_exist() -> None:
    named = set(re.findall(r"\]\(([^)#:]+)\)", PAGE)) | {f"../{name}" for name in re.findall(r"`(ci/[^` ]+)`", PAGE)}
    assert len(named) > 5
    for name in named:
        assert (ROOT / "ci" / name).exists(), name


def test_the_page_tells_every_rule_of_a_submission() -> None:
    """Of the check itself; those of the verifier stand in docs/record.md."""
    code = "".join((ROOT / "ci" / name).read_text() for name in ("change.py", "submission.py"))
    rules = set(re.findall(r'f?"(shape|size|name|bits|evidence|news)\b', code))
    assert rules == {"shape", "size", "name", "bits", "evidence", "news"}
    assert all(f"| `{rule}` |" in PAGE for rule in (*rules, "verify ..."))


def test_mutants_are_sampled_by_the_day() -> None:
    assert mutants.__doc__
    assert re.search(r"-s mutants -- --sample [1-9]", (ROOT / ".ci/run").read_text())
