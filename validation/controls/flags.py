"""The words that compilers are really given, looked at without one: a path's bits are defined under its flags alone.

NVRTC and the C++ compiler are stand-ins that keep what they are handed and compile nothing. What must be among the
words is said here once more, from the law and not from the code: a flag that is dropped, doubled with another value, or
kept in a table that nobody hands on, is told.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from strata.executors.base import BuildError, Kernel
from strata.executors.cuda import images
from strata.executors.cuda.nvrtc import Compiled
from strata.executors.lanes import build as lanes
from strata.kernels import combine, router
from validation.core.control import Control

#: What a control answers when every flag is there.
ALL = "all there"
#: Of NVRTC, whatever the target: each flag, and the values that its name must have.
DEVICE: Mapping[str, str] = {
    "std": "c++17",
    "fmad": "false",  # a*b+c keeps its two roundings
    "ftz": "false",  # subnormals are numbers
    "prec-div": "true",  # division and square root round to nearest
    "prec-sqrt": "true",
}
#: Of the C++ compiler, the same promises in its words.
HOST: Mapping[str, str] = {"std": "c++20", "fp-contract": "off", "fast-math": "no"}
#: Words that must be there as they are, by flavor.
FLAVORS: Mapping[str, tuple[str, ...]] = {
    "fast": ("-DSTRATA_LANES", "-fno-strict-aliasing"),
    "checked": ("-DSTRATA_LANES", "-fno-strict-aliasing", "-DSTRATA_CHECKED"),
    "sanitize": ("-DSTRATA_LANES", "-fno-strict-aliasing", "-DSTRATA_PROGRAM", "-fsanitize=address,undefined"),
}
#: Words of either compiler that undo what the others say.
FORBIDDEN = ("use_fast_math", "extra-device-vectorization", "Ofast", "funsafe-math-optimizations", "fassociative-math")
TARGETS = ("sm_75", "sm_80", "sm_90", "compute_75")
_KERNELS = (router.kernel(), combine.kernel())
_MARK = "error: "
#: Tells what it is started with, as the message of an error in the kernel: no other is the kernel's.
_ECHO = f"import sys; sys.stderr.write('source/a.cu:1: {_MARK}' + ' '.join(sys.argv[1:])); sys.exit(1)"


class HandedToNvrtc:
    """Compiles nothing. words: of the last call."""

    version = "a stand-in"

    def __init__(self) -> None:
        self.words: list[str] = []

    def compile(self, source: bytes, name: str, options: Sequence[str]) -> Compiled:
        self.words = list(options)
        raise BuildError("a stand-in compiles nothing")


def device_words(kernel: Kernel, arch: str) -> list[str]:
    """What NVRTC is given for a kernel."""
    stand_in = HandedToNvrtc()
    try:
        images.build(kernel, arch, stand_in)  # type: ignore[arg-type]
    except BuildError:
        return stand_in.words
    return []  # something else has compiled it


def host_words(kernel: Kernel, flavor: str) -> list[str]:
    """What the C++ compiler is given for a kernel."""
    try:
        lanes.build(kernel, flavor, lanes.Compiler((sys.executable, "-I", "-S", "-c", _ECHO), "a stand-in"))
    except BuildError as error:
        return error.log.partition(_MARK)[2].split()
    return []


def values(words: Sequence[str]) -> dict[str, list[str]]:
    """Values by name, in their order: of `--name=value`, `-fname=value`, and of `-fname` and `-fno-name` yes and no."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-f") and name not in DEVICE:  # NVRTC takes `-fmad` and `-ftz`, too
            name = name.removeprefix("f")
        if not equals:
            value, name = ("no", name.removeprefix("no-")) if name.startswith("no-") else ("yes", name)
        found.setdefault(name, []).append(value)
    return found


def wanting(words: Sequence[str], due: Mapping[str, str], also: Sequence[str] = ()) -> str:
    """What the words lack, or have besides with another value; `ALL` when nothing."""
    has = values(words)
    wrong = [
        f"{name} is {has.get(name, 'not there')}" for name, value in due.items() if set(has.get(name, ())) != {value}
    ]
    wrong += [f"{word} is not there" for word in also if word not in words]
    wrong += [f"{word} is there" for word in words if any(part in word for part in FORBIDDEN)]
    return "; ".join(wrong) or ALL


def _device(kernel: Kernel, arch: str) -> str:
    return wanting(device_words(kernel, arch), DEVICE, (f"-arch={arch}",))


def _host(kernel: Kernel, flavor: str) -> str:
    return wanting(host_words(kernel, flavor), HOST, FLAVORS[flavor])


def compilation() -> Iterator[Control]:
    """One control for each kernel and target or build; and words that lack a flag or contradict one."""
    for kernel in _KERNELS:
        for arch in TARGETS:
            yield Control(f"flags/NVRTC, {kernel.entry} for {arch}", partial(_device, kernel, arch), ALL)
    for flavor in FLAVORS:
        yield Control(f"flags/C++, {flavor}", partial(_host, _KERNELS[0], flavor), ALL)
    whole = [f"--{name}={value}" for name, value in DEVICE.items()]
    for name, value in DEVICE.items():
        word = f"--{name}={value}"
        left = [other for other in whole if other != word]
        yield Control(f"flags/without {word}", partial(wanting, left, DEVICE), f"{name} is not there")
        both = partial(wanting, [*whole, f"-{name}=other"], DEVICE)
        yield Control(f"flags/{word} and another", both, f"{name} is {[value, 'other']}")
    fast = "--use_fast_math"
    yield Control(f"flags/{fast}", partial(wanting, [*whole, fast], DEVICE), f"{fast} is there")
