"""What every test relies on."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

from strata.cpus import usable
from strata.executors.base import Executor, ExecutorUnavailable

# No test asserts a time: how long an example takes is the machine's business.
settings.register_profile("strata", deadline=None)
settings.load_profile("strata")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """`-n auto`: as many processes as this one may keep busy, unless xdist's own variable says how many."""
    return None if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") else usable()


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell's background job starts with SIGINT ignored; tests press Ctrl-C, here and in child processes."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", params=["fast", "checked", "card"])
def every_executor(request: pytest.FixtureRequest) -> Executor:
    """Lanes in both builds and a card, each in turn; without a card the last one is skipped, with the reason."""
    from strata.executors.cuda import CudaExecutor
    from strata.executors.lanes import LanesExecutor

    if request.param != "card":
        return LanesExecutor(flavor=request.param)
    try:
        return CudaExecutor()
    except ExecutorUnavailable as error:
        pytest.skip(str(error))
