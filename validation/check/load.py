"""Finds the author's kernel: the objects of `OwnKernel` that a Python file defines."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType

from strata.executors.base import Kernel, StrataError, system_reason
from validation.check.author import called, fault
from validation.check.own_kernel import Launch, OwnKernel
from validation.check.path import OwnPath
from validation.check.refusal import refuse
from validation.check.resources import MOST_THREADS, launch_bounds
from validation.check.sizes import Sizes
from validation.check.source_vocabulary import refuse_foreign

#: What a source says that runs on tensor cores: the instructions of `include/ptx.cuh`.
_TENSOR = re.compile(r"\bmma_m16n8k(8|16)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Loaded:
    """A kernel and where it was found.

    Parameters
    ----------
    kernel : OwnKernel
        The author's description.
    file : Path
        The Python file that defines it.
    directory : Path
        Where its source is taken from instead of the file's own directory: a mutant's copy.
    """

    kernel: OwnKernel
    file: Path
    directory: Path | None = field(default=None)

    @property
    def reference(self) -> str:
        """`FILE:NAME`, which finds it again."""
        return f"{self.file}:{self.kernel.name}"

    @property
    def path(self) -> OwnPath:
        """What stands for its path where cases are run."""
        return OwnPath(self.kernel.name)

    @property
    def source(self) -> Path:
        """The `.cu` file. Raises StrataError for a kernel that has none."""
        if self.kernel.source is None:
            raise StrataError(f"{self.kernel.name} is a kernel of CuPy and has no .cu file")
        own = self.file.parent / self.kernel.source
        return own if self.directory is None else self.directory / own.name

    def launches(self, sizes: Sizes) -> list[tuple[Kernel, Launch]]:
        """What is launched for some sizes, in order. Raises AuthorError for what the author's function raises, and
        when it gives no launch."""
        return called(self.file, f"launch of {self.kernel.name}", self._launches, sizes)

    def _launches(self, sizes: Sizes) -> list[tuple[Kernel, Launch]]:
        given = self.kernel.launch(dict(sizes))
        launches = [given] if isinstance(given, Launch) else given
        if not isinstance(launches, list | tuple) or not launches:
            raise refuse("launch", given, "a Launch, or several in a list")
        arrays = {*self.kernel.inputs, *self.kernel.outputs, *self.kernel.workspaces}
        for launch in launches:
            if not isinstance(launch, Launch):
                raise refuse("launch", launch, "a Launch")
            for index, value in enumerate(launch.arguments):
                if isinstance(value, str) and value not in arrays:
                    raise refuse(f"Launch.arguments[{index}]", value, f"one of {', '.join(sorted(arrays))}")
        made = [(self.image(launch), launch) for launch in launches]
        for image, _ in made:
            most = self.bounds.get(image.entry, MOST_THREADS)
            if image.block > most:
                raise refuse(
                    "the block of a launch", image.block, f"at most the {most} of {image.entry}'s __launch_bounds__"
                )
        return made

    @cached_property
    def bounds(self) -> dict[str, int]:
        """The threads for which `__launch_bounds__` has the source's functions compiled, by their names."""
        if self.kernel.source is None:
            return {}
        beside = [file.read_text() for file in self.image().headers]
        return launch_bounds([self.text, *beside], self.kernel.defines)

    def image(self, launch: Launch | None = None) -> Kernel:
        """The kernel as executors know it, for one launch or as the description has it."""
        own = self.kernel
        entry = own.entry if launch is None or launch.entry is None else launch.entry
        block = own.block if launch is None or launch.block is None else launch.block
        shared = own.shared_bytes if launch is None or launch.shared_bytes is None else launch.shared_bytes
        assert entry is not None
        defines = tuple(sorted(own.defines.items()))
        if own.source is None:
            return Kernel(own.name, entry, block, shared, defines, str(self.file.parent))
        return Kernel(self.source.stem, entry, block, shared, defines, str(self.source.parent))

    @cached_property
    def text(self) -> str:
        """The source's text. Raises StrataError when it cannot be read."""
        try:
            return self.source.read_bytes().decode()
        except OSError as error:
            raise StrataError(f"{self.source}: cannot be read: {system_reason(error)}") from error
        except UnicodeDecodeError:
            raise StrataError(f"{self.source}: is no text of UTF-8, expected a .cu file") from None

    @property
    def tensor_cores(self) -> bool:
        """Whether the source has instructions of tensor cores, whose bits depend on the card's rule."""
        return self.kernel.source is not None and _TENSOR.search(_COMMENT.sub(" ", self.text)) is not None

    @property
    def self_checks(self) -> dict[str, str]:
        """Of every float output: the name of the check of its own questions."""
        outputs = self.kernel.outputs
        return {name: "self" if len(outputs) == 1 else f"{name} self" for name, one in outputs.items() if one.floating}

    def digests(self) -> dict[str, str]:
        """SHA-256 of the author's file, of the source and of headers beside it, by name."""
        files = [self.file] + ([self.source, *self.image().headers] if self.kernel.source is not None else [])
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def split(text: str) -> tuple[Path, str | None]:
    """The file and the name in `FILE[:NAME]`; a file of that whole name comes first."""
    if not Path(text).exists() and ":" in text:
        file, _, name = text.rpartition(":")
        if file and name.isidentifier():
            return Path(file), name
    return Path(text), None


def load(text: str) -> Loaded:
    """The kernel that `FILE[:NAME]` names.

    Raises
    ------
    StrataError
        In one line: for a file that is not there, that cannot be imported (with file and line of the fault), that
        defines no kernel or several without a name, and for a source that is not there or that leaves the vocabulary.
    """
    file, name = split(text)
    if not file.is_file():
        raise StrataError(f"{str(file)!r} is no file, expected a Python file that defines an OwnKernel")
    file = file.resolve()
    found = _kernels(_module(file))
    names = ", ".join(f"{file.name}:{one}" for one in found)
    if not found:
        raise StrataError(f"{file.name} defines no OwnKernel, expected one at the top of the module")
    if name is None and len(found) > 1:
        raise StrataError(f"{file.name} defines {len(found)} kernels, expected one of {names}")
    if name is not None and name not in found:
        raise StrataError(f"{file.name} defines no kernel {name!r}, expected one of {names}")
    loaded = Loaded(found[name or next(iter(found))], file)
    if loaded.kernel.source is not None and not loaded.source.is_file():
        raise StrataError(f"{file.name}: the source of {loaded.kernel.name}, {loaded.source}, is not there")
    if loaded.kernel.source is not None:
        refuse_foreign(loaded.source, loaded.kernel.defines)
    return loaded


def _kernels(module: ModuleType) -> dict[str, OwnKernel]:
    """By the names that they have in the report. Raises StrataError when two share one."""
    found: dict[str, OwnKernel] = {}
    for value in vars(module).values():
        if not isinstance(value, OwnKernel) or any(value is one for one in found.values()):
            continue
        if value.name in found:
            raise StrataError(f"{Path(str(module.__file__)).name} defines two kernels named {value.name!r}")
        found[value.name] = value
    return found


def _module(file: Path) -> ModuleType:
    name = f"strata_check_{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise StrataError(f"{file.name} is no Python file, expected one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses of the file look for themselves
    try:
        with _beside(file):
            spec.loader.exec_module(module)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit too
        del sys.modules[name]
        raise fault(error, file) from error
    return module


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Inside, the file finds modules beside it, and nothing is written there. They stay found, as functions may import
    when they are called."""
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    try:
        yield
    finally:
        sys.dont_write_bytecode = wrote
