"""The workflow files, the template and the page: nothing they may not do, and nothing that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert text.count("ref: main\n") == text.count("uses: ") == 1
    assert "fetch-depth: 0" in text
    assert f'paths: ["{FOLDER}/*.json"]' in text
    assert "-s submission -- main refs/submitted" in text
    assert "refs/heads/submitted" not in text
    assert not re.search(r"git (checkout|merge|switch|pull|restore)\b", text)


def test_sessions_and_options_exist() -> None:
    """Of `.ci/run`, the workflows and the page."""
    texts = [PAGE, (ROOT / ".ci/run").read_text(), *(file.read_text() for file in WORKFLOWS)]
    found = [line for text in texts for line in re.findall(r"nox -s ([^\n`#]+)", text)]
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
    assert "--sample 8" in (ROOT / ".ci/run").read_text()
