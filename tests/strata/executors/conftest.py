"""What the tests of the executors share."""

from __future__ import annotations

from importlib.metadata import distributions

import pytest

from strata.executors.base import ExecutorUnavailable
from strata.executors.cuda.nvrtc import Nvrtc, load_nvrtc


@pytest.fixture(scope="session")
def nvrtc() -> Nvrtc:
    """The compiler; a test is skipped only where none is installed, not where it is and does not load."""
    try:
        return load_nvrtc()
    except ExecutorUnavailable as error:
        if any((found.metadata["Name"] or "").startswith("nvidia-cuda-nvrtc") for found in distributions()):
            raise
        pytest.skip(str(error))
