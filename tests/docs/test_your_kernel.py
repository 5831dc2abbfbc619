"""Someone who types in what docs/your_kernel.md says sees what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from validation.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "your_kernel.md").read_text()


def blocks(language: str) -> list[str]:
    """The page's blocks of code in a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


INSTALL, *COMMANDS = blocks("sh")
SAID = blocks("text")


class Reader:
    """Someone who types what the page says, in a directory of his own, and runs its commands in order."""

    def __init__(self, directory: Path, screen: pytest.CaptureFixture[str]) -> None:
        self.directory, self._screen = directory, screen
        self._next = 0

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def replace(self, name: str, old: str, new: str) -> None:
        file = self.directory / name
        text = file.read_text()
        assert text.count(old) == 1
        file.write_text(text.replace(old, new))

    def check(self) -> int:
        """The exit status of the next command; what it says must hold what the page says of it."""
        words = shlex.split(COMMANDS[self._next])
        assert words[:5] == ["python", "-m", "validation", "check", "centre.py"]
        status = main(["check", str(self.directory / words[4]), "--executor", "lanes", *words[5:]])
        said = " ".join(self._screen.readouterr().out.split())
        for line in SAID[self._next].splitlines():
            assert " ".join(line.split()) in said
        self._next += 1
        return status


def test_a_reader_gets_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader(tmp_path, capsys)
    source, barrier = blocks("cuda")
    description, magnitude = blocks("python")
    (bound,) = re.findall("becomes `(bound=.*?)`", PAGE)
    reader.write("centre.cu", source)
    reader.write("centre.py", description)
    assert reader.check() == 1
    assert source.splitlines()[14].strip().startswith("for (int w = 0")
    reader.replace("centre.cu", barrier.splitlines()[-1] + "\n", barrier)
    assert reader.check() == 1
    reader.replace("centre.py", "centre = ", f"{magnitude}\n\ncentre = ")
    reader.replace("centre.py", "bound=Roundings(roundings),", bound)
    assert reader.check() == 0
    assert len(COMMANDS) == len(SAID) == reader._next


def test_it_is_installed_as_the_readme_says() -> None:
    readme = (ROOT / "README.md").read_text()
    for words in INSTALL.strip().split(" && "):
        assert words in readme


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target


@pytest.mark.parametrize("name", ["your_kernel", "lanes_vocabulary"])
def test_the_readme_leads_here(name: str) -> None:
    assert f"(docs/{name}.md)" in (ROOT / "README.md").read_text()
