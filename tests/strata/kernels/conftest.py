"""Executors that the tests of the kernels share."""

from __future__ import annotations

import pytest

from strata.executors.lanes import LanesExecutor


@pytest.fixture(scope="session")
def checked() -> LanesExecutor:
    """Lanes that watch every access, under the rule that was measured on a card."""
    return LanesExecutor(flavor="checked")


@pytest.fixture(scope="session")
def fast() -> LanesExecutor:
    """Lanes without the watch, for many cases."""
    return LanesExecutor()
