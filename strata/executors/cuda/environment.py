"""Whether the CuPy installed fits the driver found, and what to install when it does not."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from strata.executors.base import ExecutorUnavailable
from strata.executors.cuda.driver import Driver
from strata.imports import NotImportedError, optional

#: The two wheels that own the module `cupy`, by the extra that installs them.
WHEELS = {"cuda12x": "cupy-cuda12x", "cuda13x": "cupy-cuda13x"}


def import_cupy(driver: Driver) -> Any:
    """The module `cupy` for a driver.

    Parameters
    ----------
    driver
        What was found of the driver.

    Raises
    ------
    ExecutorUnavailable
        Without a driver that can be used, without a CuPy that fits it, with two of them, and for one that does not
        import; the message says what to do.
    """
    if driver.extra is None:
        raise ExecutorUnavailable(f"{driver.problem}; the lanes executor runs the same kernels on the CPU")
    fit, other = driver.extra, next(extra for extra in WHEELS if extra != driver.extra)
    install = f"in the checkout, python -m pip install -e '.[{fit}]'"
    installed = [extra for extra, wheel in WHEELS.items() if _installed(wheel)]
    if len(installed) > 1:
        both = " ".join(WHEELS.values())
        raise ExecutorUnavailable(
            f"two CuPy wheels are installed and overwrite each other: python -m pip uninstall {both}; then {install}"
        )
    if installed == ["cuda13x"] and fit == "cuda12x":
        raise ExecutorUnavailable(
            f"{WHEELS[other]} needs CUDA 13 (driver 580 or newer), this is {driver.title}: "
            f"python -m pip uninstall {WHEELS[other]}; then {install}"
        )
    try:
        return optional("cupy")
    except NotImportedError as error:
        if error.absent:
            raise ExecutorUnavailable(f"CuPy is not installed ({driver.title} is there): {install}") from None
        raise ExecutorUnavailable(f"CuPy does not import ({error}): {install}") from error


def _installed(wheel: str) -> bool:
    try:
        version(wheel)
    except PackageNotFoundError:
        return False
    return True
