"""What dispatch and the gate know of a device: its capability, its driver, and what its compiler can make for it."""

from __future__ import annotations

from dataclasses import dataclass

from strata.executors.base import ExecutorUnavailable, StrataError

#: Compute capabilities, times ten, that the two pinned compilers know, by CUDA major: for devices that are not here.
PINNED_ARCHS = {
    12: (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121),
    13: (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121),
}


@dataclass(frozen=True)
class Device:
    """What dispatch and the gate know of a device.

    Parameters
    ----------
    name
        As the driver gives it, in printable ASCII.
    capability
        Its compute capability, times ten; None where kernels run on the CPU (lanes).
    driver
        The newest CUDA version that its driver runs, (major, minor); None where it is not known.
    compiler
        The CUDA major of the NVRTC at hand, None without one.
    archs
        The compute capabilities, times ten, that the compiler knows.
    """

    name: str
    capability: int | None
    driver: tuple[int, int] | None = None
    compiler: int | None = None
    archs: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        """E.g. `NVIDIA H200, compute capability 9.0`."""
        return self.name if self.capability is None else f"{self.name}, compute capability {self.dotted}"

    @property
    def dotted(self) -> str:
        """The capability as people write it, `7.5`; `none` without one."""
        return "none" if self.capability is None else dotted(self.capability)

    @property
    def machine_code(self) -> int | None:
        """The capability to compile machine code for; None when the compiler has none that runs here.

        The device's own, else the nearest lower one of the same major: CUDA promises that machine code runs on
        later minors of its major, and on no other major.
        """
        if self.capability is None:
            return None
        own = self.capability
        return max((arch for arch in self.archs if arch // 10 == own // 10 and arch <= own), default=None)

    @property
    def ptx(self) -> int | None:
        """The newest capability whose PTX the driver can compile for this device; None when there is none."""
        own = self.capability
        return None if own is None else max((arch for arch in self.archs if arch <= own), default=None)


LANES = Device("the CPU (lanes)", None)


def dotted(capability: int) -> str:
    """75 as `7.5`, 121 as `12.1`."""
    return f"{capability // 10}.{capability % 10}"


def named(capability: int) -> Device:
    """A device that is not here, with the newer driver and pinned compiler that still know it."""
    newest = max(PINNED_ARCHS)
    major = newest if capability >= min(PINNED_ARCHS[newest]) else min(PINNED_ARCHS)
    return Device("a card that is not here", capability, (major, 0), major, PINNED_ARCHS[major])


def this_machine(index: int = 0) -> Device:
    """A card of this machine, with the compiler that the cuda executor would take, if there is one.

    Parameters
    ----------
    index
        The number of the card, counted from 0.

    Raises
    ------
    ExecutorUnavailable
        Where no card can be used; the message says why.
    StrataError
        For an index that no card of this machine has.
    """
    from strata.executors.cuda.card import Card
    from strata.executors.cuda.driver import find_driver
    from strata.executors.cuda.environment import import_cupy
    from strata.executors.cuda.nvrtc import load_nvrtc

    driver = find_driver()
    cupy = import_cupy(driver)
    if not 0 <= index < driver.devices:
        raise StrataError(f"device {index}: this machine has {driver.devices}, counted from 0")
    card = Card(cupy, index)
    # A record holds printable ASCII alone, and its device is compared with this name.
    name = "".join(char if char.isascii() and char.isprintable() else "?" for char in card.title)[:120]
    try:
        nvrtc = load_nvrtc((12,) if driver.extra == "cuda12x" else (13, 12))
    except ExecutorUnavailable:
        return Device(name, card.capability, driver.cuda)
    return Device(name, card.capability, driver.cuda, int(nvrtc.release.partition(".")[0]), nvrtc.archs)
