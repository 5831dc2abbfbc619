"""From a kernel to its image: snapshot of the sources, pinned options, NVRTC, build cache.

An image is a cubin for one architecture (`sm_90`) or PTX for one (`compute_75`), which the driver of a
newer card compiles when it is loaded. No card is needed here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from strata.executors import cache
from strata.executors.base import BuildError, ExecutorUnavailable, Image, Kernel, iter_include, system_reason
from strata.executors.cuda.nvrtc import Nvrtc

#: The flags under which a path's bits are defined. Never `--use_fast_math`; ftz is the one that changed bits.
FLAGS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")

#: Part of every key: raise it when the contents of an entry change their meaning.
_LAYOUT = "1"

_FIGURES = {
    "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers",
    "shared_bytes": r"(\d+) bytes smem",
    "stack_bytes": r"(\d+) bytes stack frame",
    "spill_store_bytes": r"(\d+) bytes spill stores",
    "spill_load_bytes": r"(\d+) bytes spill loads",
}


@dataclass(frozen=True)
class Built:
    """An image on disk.

    Parameters
    ----------
    image
        What was compiled, and for what.
    file
        The file that holds it.
    log
        What the compiler said.
    """

    image: Image
    file: Path
    log: str


def options(kernel: Kernel, arch: str) -> tuple[str, ...]:
    """What NVRTC is given for a kernel: pinned flags, the target, the kernel's macros and nothing else.

    Parameters
    ----------
    kernel
        What is compiled.
    arch
        The target, `sm_75` or `compute_75`.
    """
    defines = tuple(f"-D{name}={value}" for name, value in kernel.defines)
    # Only machine code has registers to report. The word enters the cubin's notes, not its code.
    verbose = ("--ptxas-options=-v",) if arch.startswith("sm_") else ()
    return (*FLAGS, f"-arch={arch}", *defines, *verbose)


def build(kernel: Kernel, arch: str, nvrtc: Nvrtc, source: Path | None = None) -> Built:
    """Compile a kernel, or take it from the cache.

    Headers are `include/*.cuh`, and those beside a source that lies elsewhere; no others.

    Parameters
    ----------
    kernel
        What to compile.
    arch
        The target: "sm_75" for a cubin, "compute_75" for PTX.
    nvrtc
        What compiles it.
    source
        The file to compile when it is not the kernel's own.

    Raises
    ------
    BuildError
        When the source is wrong; it names kernel, target and the compiler's first complaint.
    ExecutorUnavailable
        Without a cache or room in it, when the compiler cannot compile, and when the entry is deleted meanwhile.
    """
    main, headers = _read(source or kernel.path, kernel)
    words = options(kernel, arch)
    parts: list[str | bytes] = [_LAYOUT, nvrtc.version, kernel.entry, "\n".join(words), main]
    for name, text in headers.items():
        parts += [name, text]
    suffix = "cubin" if arch.startswith("sm_") else "ptx"

    def make(folder: Path) -> None:
        # Compiled from a copy of the very bytes that are in the key, with nothing else within reach of
        # an #include: a stray header in the working directory would otherwise win.
        copy = folder / "source"
        (copy / "include").mkdir(parents=True)
        file = copy / f"{kernel.source}.cu"
        file.write_bytes(main)
        for name, text in headers.items():
            (copy / name).write_bytes(text)
        try:
            compiled = nvrtc.compile(main, str(file), [*words, f"-I{copy}"])
        except BuildError as error:
            message, log = (text.replace(f"{copy}/", "") for text in (str(error), error.log))
            raise BuildError(f"{kernel.label} does not compile for {arch}: {message}", log) from None
        if not _holds(compiled.code, kernel.entry):
            raise BuildError(f'{kernel.source}.cu has no extern "C" __global__ function {kernel.entry!r}', compiled.log)
        (folder / f"image.{suffix}").write_bytes(compiled.code)
        (folder / "compile.log").write_text(compiled.log.replace(f"{copy}/", ""))
        shutil.rmtree(copy)

    name = f"image.{suffix}"
    folder = cache.entry(cache.content_key(parts, prefix=f"{kernel.source}-{arch}"), make, (name,))
    try:
        code, log = (folder / name).read_bytes(), (folder / "compile.log").read_text()
    except OSError as error:
        raise ExecutorUnavailable(f"{folder} was deleted meanwhile: {system_reason(error)}; run again") from error
    image = Image(
        kernel=kernel,
        arch=arch,
        digest=hashlib.sha256(code).hexdigest(),  # of what is loaded, whatever else lies beside it
        options=words,
        compiler=f"NVRTC {nvrtc.version}",
        figures=figures(log, kernel.entry),
    )
    return Built(image, folder / name, log)


def figures(log: str, entry: str) -> dict[str, int]:
    """Registers, barriers and bytes of shared memory, stack and spills that ptxas reports for a kernel.

    Parameters
    ----------
    log
        What ptxas said.
    entry
        The name of the kernel's function.

    Returns
    -------
    dict of str to int
        Empty for PTX, whose log reports nothing. A figure that ptxas leaves out because it is nil is 0.
    """
    sections = re.split(r"Compiling entry function '([^']+)'.*", log)
    text = dict(zip(sections[1::2], sections[2::2], strict=True)).get(entry)
    if text is None:
        return {}
    found = {name: re.search(pattern, text) for name, pattern in _FIGURES.items()}
    return {name: int(match.group(1)) if match else 0 for name, match in found.items()}


def _read(source: Path, kernel: Kernel) -> tuple[bytes, dict[str, bytes]]:
    try:
        headers = {f"include/{header.name}": header.read_bytes() for header in iter_include()}
        return source.read_bytes(), headers | {header.name: header.read_bytes() for header in kernel.headers}
    except OSError as error:
        raise BuildError(f"{kernel.label}: cannot read {error.filename}: {system_reason(error)}") from error


def _holds(code: bytes, entry: str) -> bool:
    """Whether the image has the entry: a section `.text.<entry>` of a cubin, an `.entry` of PTX."""
    name = entry.encode()
    return b".text." + name + b"\0" in code or re.search(rb"\.entry\s+" + re.escape(name) + rb"\b", code) is not None
