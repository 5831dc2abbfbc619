"""What is kept for everybody is read-only: arrays of modules, of caches and of the memo."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import strata
import validation
from strata.formats import codebooks, codes
from strata.kernels.paths import PATHS
from validation.captured import archive
from validation.captured.archive import Capture, LayerCapture, Metadata
from validation.controls import even_bounds, kernels, local_bounds
from validation.core.arrays import frozen, rebuilt
from validation.core.memo import Memo
from validation.memory import prompt_world
from validation.numerics import blocks
from validation.operations.attention import captured as captured_case
from validation.operations.attention import fuzz as fuzz_attention
from validation.operations.experts import fuzz as fuzz_experts
from validation.operations.experts import fuzz_inputs as fuzz_expert_draws
from validation.operations.experts import golden
from validation.operations.experts import kernels as expert_kernels
from validation.operations.experts import record as experts
from validation.operations.experts.case import ExpertCase

ROOT = FilePath(strata.__file__).parents[1]
_FUZZED = fuzz_expert_draws.configuration(1, 0)
#: Of every cached function whose value has arrays, by module and name: a value.
CACHED: dict[str, Callable[[], Any]] = {
    "strata.formats.codebooks.codebook": lambda: codebooks.codebook("iq2_s"),
    "strata.formats.codes._four_twos": lambda: codes._four_twos(),
    "strata.formats.codes._negative": lambda: codes._negative(),
    "validation.operations.attention.captured.load": lambda: captured_case.load(FilePath("a capture of a test")),
    "validation.controls.even_bounds._attention_inputs": lambda: even_bounds._attention_inputs("int8"),
    "validation.controls.even_bounds._experts": lambda: even_bounds._experts(),
    "validation.controls.even_bounds._routed": lambda: even_bounds._routed(),
    "validation.controls.even_bounds._turned": lambda: even_bounds._turned(),
    "validation.controls.kernels._inputs": lambda: kernels._inputs(),
    "validation.controls.kernels._answer": lambda: kernels._answer(),
    "validation.controls.local_bounds._inputs": lambda: local_bounds._inputs(),
    "validation.operations.experts.golden.blocks": lambda: golden.blocks("q2_0"),
    "validation.operations.attention.fuzz.draw": lambda: fuzz_attention.draw(
        1, fuzz_attention.configuration(1, 0, checked=True)
    ),
    "validation.operations.experts.fuzz_inputs.draw": lambda: fuzz_expert_draws.draw(1, _FUZZED),
    "validation.operations.experts.fuzz.due": lambda: fuzz_experts.due(1, _FUZZED, "expert_fused"),
    "validation.memory.prompt_world.content": lambda: prompt_world.content("D"),
    "validation.operations.experts.record._ids": lambda: experts._ids(ExpertCase("experts_plain", 1, 5, 4, 2, 256, 64)),
    "validation.numerics.blocks.layout": lambda: blocks.layout("iq3_s"),
}
#: Words of annotations of values that hold no array.
PLAIN = {
    "Mapping", "Operation", "Recipe",
    "Any", "Executor", "FilePath", "Image", "Kernel", "LanesExecutor", "None", "Nvrtc", "Path", "bool", "bytes",
    "ctypes.Array", "ctypes.CDLL", "ctypes.c_void_p",
    "dict", "float", "frozenset", "int", "list", "set", "str", "tempfile.TemporaryDirectory", "tuple",
}  # fmt: skip


def modules() -> Iterator[ModuleType]:
    for package in (strata, validation):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__") and ".faults" not in found.name:
                yield importlib.import_module(found.name)


def writeable(value: Any) -> list[str]:
    found: list[str] = []

    def look(name: str, array: np.ndarray) -> np.ndarray:
        if array.flags.writeable:
            found.append(name)
        return array

    rebuilt(value, look)
    return found


def test_no_array_of_a_module_can_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expert_kernels, "_held", [])  # what earlier tests have placed is theirs
    found = [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, np.ndarray | tuple | list | dict) and writeable(value)
    ]
    assert found == []


def cached() -> Iterator[tuple[str, str]]:
    """Module and name, and the annotated value, of every function behind a cache."""
    for package in ("strata", "validation"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.FunctionDef) and any(
                    ast.unparse(one).partition("(")[0] in ("cache", "lru_cache") for one in node.decorator_list
                ):
                    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                    yield f"{module}.{node.name}", ast.unparse(node.returns) if node.returns else ""


def test_every_cache_of_arrays_is_looked_at() -> None:
    assert {name for name, value in cached() if not set(re.findall(r"[A-Za-z_.]*[A-Za-z]", value)) <= PLAIN} == set(
        CACHED
    )


@pytest.mark.parametrize("name", CACHED)
def test_what_a_cache_holds_cannot_be_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    captured_case.load.cache_clear()
    facts = Metadata("", "", "", "", 2, (0,), 4, 1, 256, True, 0.0, 1.0, "", "")
    monkeypatch.setattr(archive, "load", lambda file: Capture({0: LayerCapture(*np.zeros((3, 2)))}, facts))
    value = CACHED[name]()
    assert value is CACHED[name]()
    assert writeable(value) == []
    captured_case.load.cache_clear()


def test_the_memo_holds_what_cannot_be_changed() -> None:
    held = Memo().get("inputs", 1, lambda: {"q": np.zeros(3)})
    with pytest.raises(ValueError, match="read-only"):
        held["q"][0] = 1


def test_frozen_gives_the_value_itself() -> None:
    value = (np.zeros(2), {"x": [np.zeros(1)]}, PATHS)
    assert frozen(value) is value
    assert writeable(value) == []
