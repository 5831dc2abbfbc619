"""A small Gemma 3 for the tests of the engine (`tiny_gemma`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.strata.engine import tiny_gemma


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the small model; read it, and write another with `tiny_gemma.write`."""
    return tiny_gemma.write(tmp_path_factory.mktemp("model") / "tiny.gguf")
