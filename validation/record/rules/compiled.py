"""Whether the images are those of the planned kernels, compiled as pinned, and whether each case launched its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

from strata.executors.base import Kernel
from strata.executors.cuda import images as pinned
from strata.executors.cuda.nvrtc import PINNED
from strata.executors.lanes.build import FLAGS, FLAVOR_FLAGS
from strata.gates.sources import included
from strata.kernels.paths import Path
from validation.record.rules.subject import Subject, short

_NUMBER = re.compile(r"(sm|compute)_([0-9]{2,3})")


def images(subject: Subject) -> Iterator[str]:
    """Every image is of a planned kernel, made of the right files by a pinned compiler under the pinned options."""
    needed = _kernels(subject)
    held = subject.record["images"]
    targets = {image["arch"] for image in held}
    if len(targets) > 1:
        yield f"images of {len(targets)} targets ({short(', '.join(sorted(targets)))}), a run has one"
    seen: set[Any] = set()
    for index, image in enumerate(held):
        program = (image["entry"], tuple(tuple(define) for define in image["defines"]))
        label = f"image {index}"
        if program not in needed:
            said = " ".join(f"{name}={value}" for name, value in program[1])
            yield f"{label} is {image['entry']}[{short(said)}], which is no kernel of the planned paths"
            continue
        kernel, lowest = needed[program]
        if (program, tuple(image["options"])) in seen:
            yield f"{label} is there twice"
        seen.add((program, tuple(image["options"])))
        if sorted(image["sources"]) != included(f"{kernel.source}.cu"):
            yield f"{label} is made of {short(', '.join(image['sources']))}, expected {kernel.source}.cu and its own"
        yield from (
            f"{label} {reason}" for reason in (_on_card if subject.card else _on_lanes)(subject, image, kernel, lowest)
        )


def _on_card(subject: Subject, image: dict[str, Any], kernel: Kernel, lowest: Path) -> Iterator[str]:
    match = _NUMBER.fullmatch(image["arch"])
    if match is None:
        yield f"is for {image['arch']}, expected sm_NN or compute_NN on a card"
        return
    if tuple(image["options"]) != pinned.options(kernel, image["arch"]):
        yield f"was compiled with {_odd(image['options'], pinned.options(kernel, image['arch']))}"
    kind, number, capability = match[1], int(match[2]), subject.capability or 0
    if number < lowest.min_capability:
        yield f"is for {image['arch']}, which cannot hold {lowest.tier} paths"
    loaded = image["loaded"]
    if kind == "sm":
        if loaded != image["arch"]:
            yield f"was compiled for {image['arch']}, loaded was {loaded}"
        if number // 10 != capability // 10 or number > capability:
            yield f"is machine code for {image['arch']}, which capability {capability} cannot run"
    else:
        ran = re.fullmatch(rf"compute_{number} on sm_([0-9]{{2,3}})", loaded)
        on = int(ran[1]) if ran else 0
        if not (ran and on // 10 == capability // 10 and number <= on <= capability):
            yield f"is PTX for {image['arch']}, loaded was {loaded} on capability {capability}"
    nvrtc = subject.record["provenance"]["nvrtc"]
    if image["compiler"] != f"NVRTC {nvrtc}" or ".".join(str(nvrtc).split(".")[:2]) not in PINNED:
        yield f"was compiled by {short(image['compiler'])}, expected the run's own NVRTC, of {' or '.join(PINNED)}"


def _on_lanes(subject: Subject, image: dict[str, Any], kernel: Kernel, lowest: Path) -> Iterator[str]:
    if not image["arch"].startswith("lanes-") or image["loaded"] != image["arch"]:
        yield f"is for {image['arch']} and loaded as {image['loaded']}, expected lanes-* on lanes"
    defines = tuple(f"-D{name}={value}" for name, value in kernel.defines)
    allowed = [(*FLAGS, *flags, *defines) for flags in FLAVOR_FLAGS.values()]
    if tuple(image["options"]) not in allowed:
        yield f"was compiled with {_odd(image['options'], allowed[0])}"
    if image["compiler"] != subject.record["provenance"]["compiler"]:
        yield f"was compiled by {short(image['compiler'])}, the run says another compiler"


def _odd(found: list[str], wanted: tuple[str, ...]) -> str:
    """The first option that is not pinned, or that is missing, for a message."""
    extra = [word for word in found if word not in wanted]
    missing = [word for word in wanted if word not in found]
    if extra:
        return f"{short(extra[0])}" + (
            f" in place of {missing[0]}" if missing else ", which is not among the pinned options"
        )
    return f"no {missing[0]}" if missing else "the pinned options in another order or twice"


def witness(subject: Subject) -> Iterator[str]:
    """Each case launched its own kernels, in their order and with all their blocks; no image lies idle."""
    held = subject.record["images"]
    idle = set(range(len(held)))
    for index, ((path, case), item) in enumerate(zip(subject.pairs, subject.cases, strict=True)):
        numbers = [launch["image"] for launch in item["launches"]]
        idle -= set(numbers)
        beyond = [number for number in numbers if number >= len(held)]
        if beyond:
            yield f"case {index} ran image {beyond[0]}, there are {len(held)}"
            continue
        wanted = subject.operation.launches(path, case, subject.record["provenance"]["multiprocessors"])
        if len(numbers) != len(wanted):
            yield f"case {index} has {len(numbers)} launches, expected {len(wanted)}"
            continue
        for launch, due in zip(item["launches"], wanted, strict=True):
            ran = held[launch["image"]]
            if (ran["entry"], tuple(tuple(define) for define in ran["defines"])) != _program(due.kernel):
                yield f"case {index} of {path.name} ran image {launch['image']}, which is another kernel"
            if launch["grid"] != list(due.grid) or launch["blocks"] != prod(due.grid):
                grid = list(due.grid)
                yield f"case {index} ran {launch['blocks']} blocks of grid {launch['grid']}, expected all of {grid}"
    for number in sorted(idle):
        yield f"image {number} was launched by no case"


def _program(kernel: Kernel) -> tuple[str, tuple[tuple[str, int], ...]]:
    return kernel.entry, tuple(kernel.defines)


def _kernels(subject: Subject) -> dict[Any, tuple[Kernel, Path]]:
    """By program, the kernels of the planned cases, and of the paths that launch one that of the lowest tier."""
    found: dict[Any, tuple[Kernel, Path]] = {}
    for path, case in subject.pairs:
        for kernel in subject.operation.kernels(path, case):
            known = found.setdefault(_program(kernel), (kernel, path))
            if path.min_capability < known[1].min_capability:
                found[_program(kernel)] = (kernel, path)
    return found
