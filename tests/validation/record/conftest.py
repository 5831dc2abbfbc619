"""What the tests of records share."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.gates import sources
from strata.gates.records import VARIABLE


@pytest.fixture(autouse=True)
def stub_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-in kernels have no source; they are said to be made of two files."""

    def included(name: str) -> list[str]:
        return ["include/exp2.cuh", "stub.cu"] if name == "stub.cu" else sources.included(name)

    monkeypatch.setattr("validation.record.make.included", included)


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that stands for this machine's own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder
