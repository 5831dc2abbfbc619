"""A small repository in which pull requests are made."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.change import FOLDER

#: Stands for the main branch's verifier: what a test says it answers, and which file it was asked about.
VERIFIER = """
import json, sys
from pathlib import Path
told = json.loads((Path(__file__).parent / "answer.json").read_text())
print(json.dumps({**told["outcome"], "name": Path(sys.argv[-1]).stem}))
sys.exit(told["status"])
"""
STANDING = """
import json
from pathlib import Path
print((Path(__file__).parent / "news.json").read_text())
"""
PATH = "prompt_attention/q4_0/sm75"
GATE = {
    "path": PATH,
    "kind": "attested",
    "opens": True,
    "reason": "open: record 0, which says compute capability 7.5 (accepted)",
}
OUTCOME: dict[str, Any] = {
    "outcome": "ACCEPTED", "accepted": True, "refusals": [], "notes": ["rows are fine"], "gate": [GATE],
    "with_bits": True,
}  # fmt: skip


class Repository:
    """A git repository whose branch `main` holds a stand-in for the project. `pull` branches off it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.write(f"{FOLDER}/README.md", b"Accepted records.\n")
        self.write("README.md", b"A project.\n")
        for package in ("strata", "validation", "ci"):
            self.write(f"{package}/__init__.py", b"")
        self.write("validation/__main__.py", VERIFIER.encode())
        self.write("ci/standing.py", STANDING.encode())
        self.answer()

    def answer(
        self,
        status: int = 0,
        news: Mapping[str, str] | None = None,
        known: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Let the main branch's verifier say this from now on."""
        told = {"status": status, "outcome": {**OUTCOME, **more}}
        self.write("validation/answer.json", json.dumps(told).encode())
        said = {"news": {PATH: "locked so far"} if news is None else news, "known": known or {}}
        self.write("ci/news.json", json.dumps(said).encode())
        self.commit("main")

    def git(self, *words: str, data: bytes | None = None) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *words], cwd=self.folder, env=environment, input=data, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def write(self, path: str, data: bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def record(self, data: bytes = b'{"a":1}') -> str:
        """Put a file that is called by its digest where records lie; its path comes back."""
        path = f"{FOLDER}/{hashlib.sha256(data).hexdigest()}.json"
        self.write(path, data)
        return path

    def commit(self, message: str = "a change") -> str:
        """Commit all that lies in the directory; the commit comes back."""
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def pull(self) -> None:
        """Begin a pull request."""
        self.git("checkout", "-q", "-b", "pull", "main")

    def state(self) -> dict[str, bytes]:
        """Every file of the repository, git's own among them."""
        return {str(file): file.read_bytes() for file in sorted(self.folder.rglob("*")) if file.is_file()}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Repository(folder)
