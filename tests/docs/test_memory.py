"""The example of docs/memory.md prints what it says, and the page names the replies there are."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "memory.md").read_text()


def test_the_example_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the milliseconds of a reclaim, which no two runs share."""
    monkeypatch.delenv("STRATA_VERIFY_RECLAIM", raising=False)
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    (said,) = re.findall(r"```text\n(.*?)```", DOCUMENT, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/memory.md", "exec"), {})
    milliseconds = re.compile(r"(RECLAIMED [1-9][0-9]* [0-9]+) [0-9]+")
    assert milliseconds.sub(r"\1 ms", printed.getvalue()) == milliseconds.sub(r"\1 ms", said)


def test_its_links_lead_somewhere_and_the_readme_leads_here() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", DOCUMENT):
        assert (ROOT / "docs" / target).is_file(), target
    readme = (ROOT / "README.md").read_text()
    for page in ("memory", "loans", "memory_proof"):
        assert f"(docs/{page}.md)" in readme
