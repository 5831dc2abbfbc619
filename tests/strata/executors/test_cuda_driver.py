"""Driver detection against libraries that answer as a driver, a stub or a broken driver would."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from strata import imports
from strata.executors.base import ExecutorUnavailable
from strata.executors.cuda import driver, environment
from strata.executors.cuda.driver import Driver, find_driver


class FakeCuda:
    """Answers the calls of libcuda that detection makes."""

    def __init__(self, version: int = 13000, init: int = 0, devices: int = 1) -> None:
        self.version, self.init, self.devices = version, init, devices

    def cuDriverGetVersion(self, out: Any) -> int:  # noqa: N802
        out._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.init

    def cuDeviceGetCount(self, out: Any) -> int:  # noqa: N802
        out._obj.value = self.devices
        return 0

    def cuGetErrorString(self, status: int, out: Any) -> int:  # noqa: N802
        out._obj.value = b"the text for it"
        return 0


class FakeManagement:
    """Answers the calls of NVML that detection makes."""

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:  # noqa: N802
        text.value = b"580.95.05"
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0


def loading(cuda: FakeCuda | None, management: FakeManagement | None = None) -> Callable[[str], ctypes.CDLL]:
    def load(name: str) -> Any:
        library = management if "ml" in name else cuda
        if library is None:
            raise OSError(f"{name}: cannot open shared object file")
        return library

    return load


@pytest.mark.parametrize(
    ("version", "extra"), [(12000, "cuda12x"), (12090, "cuda12x"), (13000, "cuda13x"), (13020, "cuda13x")]
)
def test_extra_follows_the_cuda_version(version: int, extra: str) -> None:
    found = find_driver(loading(FakeCuda(version), FakeManagement()))
    assert found.extra == extra
    assert found.problem == ""
    assert found.release == "580.95.05"


@pytest.mark.parametrize(
    ("cuda", "words"),
    [
        (None, "no NVIDIA driver"),
        (FakeCuda(init=34), "stub"),
        (FakeCuda(init=999), "the text for it (CUDA error 999)"),
        (FakeCuda(init=100), "sees no device"),
        (FakeCuda(devices=0), "sees no device"),
        (FakeCuda(version=11040), "(CUDA 11.4) is too old: CUDA 12.0 (driver 525)"),
    ],
)
def test_a_library_is_not_a_driver(cuda: FakeCuda | None, words: str) -> None:
    found = find_driver(loading(cuda))
    assert words in found.problem
    assert found.extra is None
    assert "\n" not in found.problem


def test_hidden_devices_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is ''" in find_driver(loading(FakeCuda(init=100))).problem


def test_library_without_the_functions_is_no_driver() -> None:
    class Empty:
        pass

    found = find_driver(lambda name: Empty())  # type: ignore[arg-type,return-value]
    assert "not a usable NVIDIA driver" in found.problem


def test_as_a_script_it_prints_what_noxfile_reads() -> None:
    done = subprocess.run([sys.executable, "-I", driver.__file__], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert set(answer) == {"problem", "cuda", "release", "devices", "extra", "title"}
    assert bool(answer["problem"]) != bool(answer["extra"])


NEW = Driver("", (13, 0), "580.95.05", 1)
OLD = Driver("", (12, 4), "550.54.14", 1)


def installed(monkeypatch: pytest.MonkeyPatch, *wheels: str) -> None:
    monkeypatch.setattr(environment, "_installed", lambda wheel: wheel in wheels)


@pytest.mark.parametrize(
    ("found", "wheels", "words"),
    [
        (Driver("no NVIDIA driver here"), (), ["no NVIDIA driver here", "lanes"]),
        (NEW, (), ["CuPy is not installed", "580.95.05", ".[cuda13x]"]),
        (OLD, (), ["CuPy is not installed", ".[cuda12x]"]),
        (NEW, ("cupy-cuda12x", "cupy-cuda13x"), ["two CuPy wheels", "uninstall", ".[cuda13x]"]),
        (OLD, ("cupy-cuda13x",), ["needs CUDA 13", "550.54.14", "uninstall cupy-cuda13x", ".[cuda12x]"]),
    ],
)
def test_what_to_install(
    found: Driver, wheels: tuple[str, ...], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, *wheels)

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(imports, "import_module", missing)
    with pytest.raises(ExecutorUnavailable) as caught:
        environment.import_cupy(found)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


class Ready:
    """A driver's library that answers; one call's status and NVML's functions are chosen."""

    def __init__(self, init: int = 0) -> None:
        self.init = init

    def cuDriverGetVersion(self, out: object) -> int:  # noqa: N802 - the driver's name
        return 1

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.init

    def cuDeviceGetCount(self, out: object) -> int:  # noqa: N802
        return 1


def test_a_forked_child_of_a_process_that_uses_the_card_is_told_so() -> None:
    found = find_driver(lambda name: Ready(init=3))  # type: ignore[arg-type,return-value]
    assert found.extra is None
    assert "forked" in found.problem
    assert "spawn" in found.problem


def test_a_broken_nvml_does_not_make_the_driver_unusable() -> None:
    """The stand-in has none of NVML's functions; it is refused for its version, which it does not tell."""
    found = find_driver(lambda name: Ready())  # type: ignore[arg-type,return-value]
    assert "not a usable NVIDIA driver" not in found.problem


def test_cupy_that_does_not_import_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "cupy-cuda13x")

    def broken(name: str) -> None:
        raise ImportError("\n====\nlong banner\n====")

    monkeypatch.setattr(imports, "import_module", broken)
    with pytest.raises(ExecutorUnavailable, match="does not import") as caught:
        environment.import_cupy(NEW)
    assert "\n" not in str(caught.value)
