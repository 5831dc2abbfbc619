"""What compiled kernels use, read from their machine code without a card: `python -m validation static`.

Every kernel of every path is compiled for each architecture by both pinned NVRTC releases; registers and spills
are what the assembler reports, instructions what `nvdisasm` prints, and the limits are those that an operation says of
itself beside its kernel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from rich.console import Console
from rich.table import Table

from strata.arguments import whole
from strata.cpus import usable
from strata.executors.base import BuildError, ExecutorUnavailable, Kernel, StrataError
from strata.executors.cuda.images import build
from strata.executors.cuda.nvrtc import Nvrtc, load_nvrtc
from strata.imports import folders
from strata.kernels import registry
from strata.kernels.paths import Path, select
from strata.kernels.pool import GROUPS
from validation.host.turns import sample, today
from validation.run import unfinished
from validation.run.progress import Reporter

#: Compute capabilities, times ten, that images are made for, and the major versions of the pinned compilers.
ARCHS = (75, 80, 86, 89, 90, 120)
COMPILERS = (12, 13)
PASSED, FAILED = 0, 1
_MATRIX = ("HMMA", "IMMA")
#: An instruction of a listing: the address in a comment, a predicate, the opcode with its modifiers.
_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)")


@dataclass(frozen=True)
class Figures:
    """One image. registers: of a thread; shared_bytes: of a block, static and dynamic; spill_bytes: stored, of a
    thread; instructions: every opcode with its modifiers, sorted."""

    path: str
    kernel: str
    arch: int
    compiler: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    instructions: tuple[str, ...]


def kernels(path: Path, groups: Iterable[int] = GROUPS) -> Iterator[Kernel]:
    """Every kernel of a path, for the given numbers of query heads that share a KV head.

    Raises StrataError for an operation that does not exist.
    """
    for kernel in registry.find(path.operation).compiled(path):
        if dict(kernel.defines).get("GROUP") in (None, *groups):
            yield kernel


def opcodes(listing: str) -> tuple[str, ...]:
    """Opcodes with their modifiers of a listing of nvdisasm, each once, sorted."""
    return tuple(sorted(set(_OPCODE.findall(listing))))


def find_disassembler() -> FilePath:
    """nvdisasm: of this environment, else of a CUDA toolkit. Raises ExecutorUnavailable telling what to install."""
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    for root in folders("nvidia"):
        for folder in sorted(root.glob("*/bin"), reverse=True):
            if (folder / name).is_file():
                return folder / name
    found = shutil.which(name)
    if found:
        return FilePath(found)
    raise ExecutorUnavailable("no nvdisasm to read machine code with: python -m pip install nvidia-cuda-nvdisasm")


def disassemble(program: FilePath, image: FilePath) -> str:
    """The listing of a cubin. Raises BuildError when nvdisasm refuses it."""
    # -ndf: no analysis of where branches lead, which the listing does not show and which takes a quarter of the time.
    done = subprocess.run([program, "-c", "-ndf", image], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"nvdisasm refuses {image.name}: {(done.stderr.strip().splitlines() or ['no message'])[0]}")
    return done.stdout


def measure(path: Path, kernel: Kernel, arch: int, nvrtc: Nvrtc, disassembler: FilePath) -> Figures:
    """Compile one kernel for sm_<arch> and read its figures."""
    built = build(kernel, f"sm_{arch}", nvrtc)
    found = built.image.figures
    if not found:
        raise BuildError(f"{kernel.label} for sm_{arch}: the compiler reports no figures")
    return Figures(
        path.name,
        kernel.label,
        arch,
        nvrtc.version,
        found["registers"],
        found["shared_bytes"] + kernel.shared_bytes,
        found["spill_store_bytes"],
        opcodes(disassemble(disassembler, built.file)),
    )


def problems(path: Path, figures: Figures) -> list[str]:
    """One line for each limit that an image breaks; empty when it keeps them all."""
    limit = registry.find(path.operation).limits(path, figures.kernel.partition("[")[0], figures.arch)
    head = f"{figures.path} {figures.kernel} sm_{figures.arch} NVRTC {figures.compiler}:"
    said = []
    if figures.shared_bytes > limit.shared_bytes:
        said.append(f"{head} {figures.shared_bytes} bytes of shared memory, expected at most {limit.shared_bytes}")
    if figures.arch // 10 in limit.spill_majors and figures.spill_bytes > limit.spill_bytes:
        said.append(f"{head} {figures.spill_bytes} bytes spilled, expected at most {limit.spill_bytes}")
    for opcode in figures.instructions:
        said += [f"{head} uses {opcode}, which is forbidden" for word in limit.forbids if opcode.startswith(word)]
    for word in limit.needs:
        if not any(opcode.startswith(word) for opcode in figures.instructions):
            said.append(f"{head} has no {word}")
    return said


def targets(path: Path, archs: Sequence[int] = ARCHS) -> list[int]:
    """The architectures whose machine code can hold a path."""
    return [arch for arch in archs if arch >= path.min_capability]


def compilers(majors: Sequence[int] = COMPILERS) -> list[Nvrtc]:
    """The pinned compilers. Raises ExecutorUnavailable for one that is not there, StrataError for another release."""
    found = [load_nvrtc((major,)) for major in majors]
    for nvrtc in found:
        if not nvrtc.pinned:
            raise StrataError(f"NVRTC {nvrtc.version} is not a pinned release, and figures of another mean nothing")
    return found


def measure_all(
    paths: Sequence[Path], groups: Sequence[int], nvrtcs: Sequence[Nvrtc], archs: Sequence[int] = ARCHS
) -> Iterator[tuple[Path, Figures]]:
    """Figures of all images, in order; compiled on all cores. A kernel that several paths launch is measured once."""
    program = find_disassembler()
    todo = [
        (path, kernel, arch, nvrtc)
        for nvrtc in nvrtcs
        for path in paths
        for kernel in kernels(path, groups)
        for arch in targets(path, archs)
    ]
    with ThreadPoolExecutor(usable()) as workers:
        measured: dict[tuple[Kernel, int, str], Future[Figures]] = {}
        for path, kernel, arch, nvrtc in todo:
            if (kernel, arch, nvrtc.version) not in measured:
                future = workers.submit(measure, path, kernel, arch, nvrtc, program)
                measured[kernel, arch, nvrtc.version] = future
        try:
            for path, kernel, arch, nvrtc in todo:
                yield path, replace(measured[kernel, arch, nvrtc.version].result(), path=path.name)
        finally:
            workers.shutdown(wait=False, cancel_futures=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--paths", default="*", metavar="GLOB", help="which paths (default: all)")
    parser.add_argument(
        "--groups", type=whole(), nargs="+", choices=GROUPS, default=list(GROUPS), help="query heads of a KV head"
    )
    parser.add_argument("--archs", type=whole(), nargs="+", choices=ARCHS, default=list(ARCHS), help="e.g. 75 90")
    parser.add_argument(
        "--compilers",
        type=whole(),
        nargs="+",
        choices=COMPILERS,
        default=list(COMPILERS),
        help="major versions of NVRTC",
    )
    parser.add_argument(
        "--sample", action="store_true", help="of these architectures the oldest and one more, another every day"
    )
    parser.add_argument("--turn", type=whole(), metavar="K", help="which sample (default: the day)")
    parser.add_argument("--each", action="store_true", help="a row for each kernel of a path, work shapes among them")


def sampled(archs: Sequence[int], turn: int) -> list[int]:
    """The oldest of some architectures and one of the others, another each turn."""
    oldest, *others = sorted(archs)
    return [oldest, *sample(others, 1, turn)]


def run(options: argparse.Namespace, console: Console) -> int:
    """Measure, print a row for each path, architecture and compiler, and the broken limits; 0 when none is broken, 1
    when one is or Ctrl-C came. Raises StrataError when it cannot go on, after what is finished is printed."""
    try:
        paths = select(options.paths)
    except ValueError as error:
        raise StrataError(str(error)) from error
    nvrtcs = compilers(sorted(options.compilers))
    if options.sample:
        options.archs = sampled(options.archs, today() if options.turn is None else options.turn)
    total = sum(len(list(kernels(path, options.groups))) * len(targets(path, options.archs)) for path in paths) * len(
        nvrtcs
    )
    if total == 0:
        raise StrataError(f"no image of {options.paths} exists for {options.archs}, expected one it runs on")
    found: dict[tuple[str, int, str], list[Figures]] = {}
    broken: list[str] = []
    try:
        with Reporter(console, total) as reporter:
            for path, figures in measure_all(paths, options.groups, nvrtcs, options.archs):
                wrong = problems(path, figures)
                broken += wrong
                found.setdefault((path.name, figures.arch, figures.compiler), []).append(figures)
                reporter.finished(f"{path.name} {figures.kernel.partition('[')[0]} sm_{figures.arch}", "; ".join(wrong))
    except BaseException as error:
        console.print(_table(_by_kernel(found) if options.each else found))
        done = sum(map(len, found.values()))
        finished = f"{done} of {total} images are measured, {len(broken)} limits broken"
        unfinished.say(console, error, finished, "compiled images are kept, so the same command is there again soon")
        if not isinstance(error, KeyboardInterrupt):
            raise
        return FAILED
    console.print(_table(_by_kernel(found) if options.each else found))
    said = f"{total} images: " + (f"{len(broken)} limits broken" if broken else "every limit is kept")
    console.print(said, markup=False)
    return FAILED if broken else PASSED


def _by_kernel(found: dict[tuple[str, int, str], list[Figures]]) -> dict[tuple[str, int, str], list[Figures]]:
    """A key for each kernel: its path, its entry, and the macros in which the path's kernels of that entry differ."""
    parted: dict[tuple[str, int, str], list[Figures]] = {}
    for (path, arch, compiler), figures in found.items():
        for one in figures:
            entry, _, rest = one.kernel.partition("[")
            same = [set(other.kernel.partition("[")[2].rstrip("]").split()) for other in figures
                    if other.kernel.partition("[")[0] == entry]  # fmt: skip
            own = [word for word in rest.rstrip("]").split() if not all(word in words for words in same)]
            said = " ".join(word for word in own if not word.startswith("SHARED_BYTES"))
            parted.setdefault((f"{path} {entry} {said}".rstrip(), arch, compiler), []).append(one)
    return parted


def _table(found: dict[tuple[str, int, str], list[Figures]]) -> Table:
    """One row a path, architecture and compiler, with the largest figures of its kernels."""
    table = Table(box=None, pad_edge=False)
    for heading in ("path", "arch", "NVRTC"):
        table.add_column(heading, no_wrap=True)
    for heading in ("registers", "shared", "spilled"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("matrix instructions", no_wrap=True)
    for (path, arch, compiler), figures in sorted(found.items()):
        matrix = sorted({opcode for one in figures for opcode in one.instructions if opcode.startswith(_MATRIX)})
        largest = [max(getattr(one, name) for one in figures) for name in ("registers", "shared_bytes", "spill_bytes")]
        table.add_row(path, f"sm_{arch}", compiler, *(f"{number:,}" for number in largest), " ".join(matrix))
    return table
