"""`auto` takes lanes whenever a card cannot be opened, and says why; `cuda` says it in one line and status 2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from strata import cli, imports
from strata.executors import cuda, open_executor
from strata.executors.base import ExecutorUnavailable
from strata.executors.cuda import device, environment
from strata.executors.cuda.driver import Driver
from strata.executors.lanes import LanesExecutor
from validation.__main__ import main

DRIVER = Driver("", (13, 0), "580.95.05", 1)


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*arguments: object, **options: object) -> Any:
        raise error

    return call


def part(**names: Any) -> SimpleNamespace:
    """A module that has these names alone."""
    return SimpleNamespace(**names)


def without_libcudart(name: str) -> SimpleNamespace:
    """A CuPy that imports, and looks for its libraries when it is used."""
    runtime = part(CUDARuntimeError=type("CUDARuntimeError", (RuntimeError,), {}))
    driver = part(CUDADriverError=type("CUDADriverError", (RuntimeError,), {}))
    return part(cuda=part(runtime=runtime, driver=driver, Device=raising(OSError("no libcudart"))))


#: What stands for CuPy, by what must be said of it.
BROKEN: dict[str, Any] = {
    "RuntimeError: built for another NumPy": raising(RuntimeError("built for another NumPy")),
    "OSError: libcublas.so.13: cannot open": raising(OSError("libcublas.so.13: cannot open shared object file")),
    "AttributeError: partially initialized": raising(AttributeError("partially initialized module")),
    "ValueError: numpy.dtype size changed": raising(ValueError("numpy.dtype size changed")),
    "SystemError: initialization of _core": raising(SystemError("initialization of _core raised")),
    "SystemExit: 1": raising(SystemExit(1)),
    "KeyError: 'HOME'": raising(KeyError("HOME")),
    "numpy.core.multiarray failed to import": raising(ImportError("numpy.core.multiarray failed to import")),
    "has no attribute 'cuda'": lambda name: ModuleType("cupy"),
    "has no attribute 'runtime'": lambda name: part(cuda=part()),
    "has no attribute 'CUDARuntimeError'": lambda name: part(cuda=part(runtime=part())),
    "OSError: no libcudart": without_libcudart,
}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A usable driver, and a CuPy broken in one of the ways."""
    for module in (device, sys.modules["strata.executors.cuda.driver"]):
        monkeypatch.setattr(module, "find_driver", lambda: DRIVER)
    monkeypatch.setattr(environment, "_installed", lambda wheel: wheel == "cupy-cuda13x")
    monkeypatch.setattr(device, "load_nvrtc", lambda majors: part(archs=(90,), version="13.0.88"))
    real = importlib.import_module
    make = BROKEN[request.param]
    monkeypatch.setattr(imports, "import_module", lambda name: make(name) if name == "cupy" else real(name))
    return str(request.param)


def test_auto_takes_lanes_and_says_why(broken: str) -> None:
    executor = open_executor("auto")
    assert isinstance(executor, LanesExecutor)
    assert broken in executor.instead_of_cuda
    assert "\n" not in executor.instead_of_cuda
    with pytest.raises(ExecutorUnavailable) as caught:
        open_executor("cuda")
    assert str(caught.value) == executor.instead_of_cuda


@pytest.mark.parametrize("broken", list(BROKEN)[::5], indirect=True)
def test_commands_say_one_line_and_status_2(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "--executor", "cuda", "--paths", "router/*"]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert len(said) == 1
    assert broken in said[0]
    assert cli.main(["gate", "--json"]) == 0  # falls back to what is known without a card
    assert not capsys.readouterr().err


def test_a_fault_of_opening_itself_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "CudaExecutor", raising(ZeroDivisionError("integer division")))
    executor = open_executor("auto")
    assert isinstance(executor, LanesExecutor)
    assert executor.instead_of_cuda == "the card cannot be opened (ZeroDivisionError: integer division)"
    with pytest.raises(ExecutorUnavailable, match="ZeroDivisionError"):
        open_executor("cuda")


def test_ctrl_c_while_a_card_is_opened_is_no_broken_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "CudaExecutor", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        open_executor("auto")
