"""The page: well formed, without scripts or links to elsewhere, escaped, the same for the same input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path as FilePath

import pytest

from strata.executors.base import StrataError
from tests.strata.hostile import obeyed
from tests.validation.record.forging import base
from tests.validation.report.evidence import HOSTILE, PATHS, case, run
from validation.__main__ import main
from validation.record.canonical import encode, name_of
from validation.report import figures, heat
from validation.report.from_run import of_run
from validation.report.html import page
from validation.report.read import Evidence, read

VOID = {"meta", "br", "wbr"}
#: Names of elements that the page may have; any other came from somewhere else.
_KNOWN = """
html head meta title style body main p header span h1 h2 h3 ul ol li section em code nav a article table caption
thead tbody tr th td dl dt dd details summary div small strong pre figure figcaption br wbr svg g defs path use text
tspan clippath rect desc
"""
KNOWN = frozenset(_KNOWN.split())


class Tags(HTMLParser):
    """Reads a page, and fails on a tag that closes another than the last one open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.text.append(data)


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def hostile_run() -> dict[str, object]:
    """A run with every text that a file may choose set to the hostile one."""
    bad = case(HOSTILE, HOSTILE)
    for key in ("case", "recipe", "explain", "rerun"):
        bad[key] = f"recipe={HOSTILE}"
    bad["case"] = f"recipe={HOSTILE.replace(' ', '')} queries=<b> context=<i>"
    names = ("arch", "device", "driver", "capability", "compiler", "nvrtc")
    return run(
        [case(), bad, case(verdict="EXCEEDS", slack="NaN")],
        executor={"executor": "cuda", **dict.fromkeys(names, HOSTILE)},
        status=HOSTILE,
        command=HOSTILE,
        started=HOSTILE,
        failed=[HOSTILE],
        sources={HOSTILE: HOSTILE},
        plan={"profile": HOSTILE},
        not_run=[{"path": HOSTILE, "case": HOSTILE}],
        ledger={"ok": False, "drifts": [{"figure": HOSTILE}]},
    )


def of(*values: dict[str, object]) -> str:
    return page(Evidence([of_run(value, f"run{index}.json") for index, value in enumerate(values)]))


MAKERS: dict[str, Callable[[], str]] = {
    "passed": lambda: of(run([case(path, seed=seed) for path in PATHS for seed in (1, 2)])),
    "empty": lambda: of(run([])),
    "none": lambda: page(Evidence([])),
    "several": lambda: of(run([case()]), run([case(verdict="VOID", slack="Infinity")], status="interrupted")),
    "hostile": lambda: of(hostile_run()),
}
made = cache(lambda name: MAKERS[name]())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without pictures, which take most of the time."""
    for module, name in ((figures, "shares"), (figures, "ulps"), (figures, "speeds"), (heat, "heat")):
        monkeypatch.setattr(module, name, lambda cases, name: None)


@pytest.mark.parametrize("name", MAKERS)
def test_the_page_is_well_formed_and_holds_nothing_foreign(name: str) -> None:
    text = made(name)
    tags = parsed(text)
    assert {tag for tag, _ in tags.seen} <= KNOWN
    for _, attributes in tags.seen:
        assert not any(key.startswith("on") for key in attributes)
        for key in ("href", "src", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#")
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []
    text.encode()  # a lone surrogate could not be written
    ids = [attributes["id"] for _, attributes in tags.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in tags.seen:
        if (attributes.get("href") or attributes.get("xlink:href") or "").startswith("#"):
            assert (attributes.get("href") or attributes.get("xlink:href") or "")[1:] in ids


def test_hostile_text_is_shown_and_not_run() -> None:
    text = made("hostile")
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\\u202e" in text
    assert obeyed(text, "\n") == []


@pytest.mark.usefixtures("undrawn")
@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_files_of_others_send_nothing_to_a_terminal(tmp_path: FilePath, capsys: pytest.CaptureFixture[str]) -> None:
    """Of `report` and `verify`: what stands in the files, and how they are called."""
    sent = "[red]:bomb:\x1b[2J\x9b2J\rACCEPTED\nACCEPTED \u202e"
    told = tmp_path / f"run{sent}.json"
    hostile = run(
        [case(verdict=sent), case()], executor={"executor": "cuda", "device": sent}, status=sent, failed=[sent]
    )
    told.write_text(json.dumps(hostile))
    wrong, outcome = tmp_path / f"wrong{sent}.json", tmp_path / f"verified{sent}.json"
    wrong.write_text(json.dumps({"schema": sent, sent: sent}))
    file = written(tmp_path, "hopper")
    refusals = [{"rule": sent, "reason": sent}]
    outcome.write_text(json.dumps({"name": file.stem, "accepted": False, "outcome": sent, "refusals": refusals}))
    out = tmp_path / "page.html"
    words = ["report", str(told), str(file), "--verified", str(outcome), "--out", str(out)]
    for status, command in (
        (1, words),
        (1, ["report", str(wrong), *words[1:]]),
        (2, ["report", str(wrong), "--out", str(out)]),
        (2, ["report", str(file), "--verified", str(wrong)]),
        (1, ["verify", str(told)]),
        (2, ["verify", str(tmp_path / sent)]),
    ):
        assert main(command) == status
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert obeyed(said, "\n") == []
        assert not re.search("^ACCEPTED", said, re.MULTILINE)
        assert "\U0001f4a3" not in said  # what `:bomb:` would become
    assert obeyed(out.read_text(), "\n") == []


@pytest.mark.usefixtures("undrawn")
def test_a_hostile_name_of_a_file_is_text() -> None:
    source = of_run(run([case()]), "<script>x</script>.json")
    assert "<script" not in page(Evidence([source], [("<script>", "<script>")]))


def test_the_same_input_gives_the_same_bytes() -> None:
    assert MAKERS["passed"]() == made("passed")


def test_every_picture_has_a_text_alternative() -> None:
    tags = parsed(made("passed"))
    pictures = [attributes for tag, attributes in tags.seen if tag == "svg"]
    assert len(pictures) == 4
    ids = {attributes.get("id") for _, attributes in tags.seen}
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert set((attributes["aria-labelledby"] or "").split()) <= ids
    counted = [tag for tag, _ in tags.seen]
    assert counted.count("desc") == len(pictures)


def test_every_table_has_headers_and_a_caption() -> None:
    text = made("passed")
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert tables
    for table in tables:
        assert "<caption" in table
        assert 'scope="row"' in table


@pytest.mark.usefixtures("undrawn")
def test_every_failed_case_is_listed_with_its_reason_and_command() -> None:
    cases = [case(verdict="EXCEEDS", slack=2.0, seed=seed) for seed in range(50)]
    text = of(run([*cases, case(seed=99)]))
    for seed in range(50):
        assert f"bound: reason {seed}<" in text
        command = f"seed={seed} context=64"
        assert command in text
    assert "Cases that did not pass (50)" in text


@pytest.mark.usefixtures("undrawn")
def test_what_is_missing_is_said() -> None:
    bare = case()
    bare["figures"] = {}
    bare["checks"] = [check for check in bare["checks"] if check["name"] != "prediction"]
    text = of(run([bare]))
    assert "has no distances" in text
    assert "Nothing was timed" in text
    assert "No bits were compared" in text


def written(directory: FilePath, name: str) -> FilePath:
    """A base record as a file of its own name."""
    data = encode(base(name)["record"])
    file = directory / f"{name_of(data)}.json"
    file.write_bytes(data)
    return file


@pytest.mark.usefixtures("undrawn")
def test_records_of_every_kind_make_a_page(tmp_path: FilePath) -> None:
    files = [written(tmp_path, name) for name in ("hopper", "turing", "surrogate", "lanes")]
    text = page(read(files))
    parsed(text)
    assert "claimed" in text
    assert "k8_00" in text
    assert "state surrogate" in text
    assert "0 of 4 runs and records passed" in text


@pytest.mark.usefixtures("undrawn")
def test_a_refused_record_opens_nothing(tmp_path: FilePath) -> None:
    file = written(tmp_path, "hopper")
    outcome = tmp_path / "verified.json"
    told = {"name": file.stem, "accepted": False, "outcome": "REFUSED", "refusals": [{"rule": "<b>", "reason": "x"}]}
    outcome.write_text(json.dumps(told))
    text = page(read([file], [outcome]))
    assert "The verifier refused this record" in text
    assert "are left out" in text
    assert "&lt;b&gt;: x" in text


@pytest.mark.usefixtures("undrawn")
def test_a_verified_record_is_said_to_be_checked_in_the_rows_shown_and_no_further(tmp_path: FilePath) -> None:
    file, outcome = written(tmp_path, "hopper"), tmp_path / "verified.json"
    told = {"name": file.stem, "accepted": True, "outcome": "ACCEPTED without bits", "notes": ["4 rows"]}
    outcome.write_text(json.dumps(told))
    text = page(read([file], [outcome]))
    assert re.search(r"planned cases[^<]*<span class=\"badge spot-checked\"", text)
    assert re.search(r"differ <span class=\"badge claimed\"", text)
    assert re.search(r"4 rows <span class=\"badge recomputed\"", text)


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_the_page_and_its_status_is_the_verdict(tmp_path: FilePath) -> None:
    good, bad, out = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "deep" / "page.html"
    good.write_text(json.dumps(run([case()])))
    bad.write_text(json.dumps(run([case(verdict="EXCEEDS")])))
    assert main(["report", str(good), "--out", str(out)]) == 0
    assert parsed(out.read_text()).seen
    assert main(["report", str(bad), "--out", str(out)]) == 1
    assert main(["report", str(tmp_path / "none.json"), "--out", str(out)]) == 2


def test_without_matplotlib_the_command_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(StrataError, match="nox -s report"):
        MAKERS["passed"]()
