"""docs/lanes_vocabulary.md names what there is, all of it, and its errors are those that are said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.executors import open_executor
from strata.executors.base import KERNELS, BuildError, Kernel
from strata.executors.lanes import advice
from strata.executors.lanes.build import RUNTIME
from validation.check.source_structure import Structure

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lanes_vocabulary.md").read_text()
VOCABULARY = RUNTIME / "vocabulary.hpp"
#: Headers that a source may include besides vocabulary.cuh, as the page says.
HEADERS = sorted(set(re.findall(r"`include/([a-z0-9_]+\.cuh)`", PAGE)) - {"vocabulary.cuh"})
#: Of a type or a struct's own, for the runtime alone.
INNER = {"range", "computed"}


def declared(file: Path) -> set[str]:
    """Names that a header declares for a kernel's source on lanes: functions, members, types and macros.

    What lies in a namespace or inside of a function is none of them.
    """
    code = Structure(file.read_text(), {"TIER": 80})
    directives = [token.text for token in code.untouchable if token.kind == "directive"]
    names = {match[1] for text in directives if (match := re.match(r"#define\s+(\w+)", text))}
    i = 0
    while i < len(code.text):
        text = code.text[i]
        if text == "namespace":
            while code.text[i] != "{":
                i += 1
            i = code.pair[i]
        elif text == "using":
            end = code.statement_end(i)
            names.add(code.text[i + 1] if "=" in code.text[i:end] else code.text[end - 1])
            i = end
        elif text == "struct":
            at = i + 1 if code.text[i + 1] != "alignas" else code.pair[i + 2] + 1
            names.add(code.text[at])
        elif text == "(" and code.tokens[i - 1].kind == "word":
            after = code.pair[i] + 1
            if code.text[after] == "const":
                after += 1
            if code.text[after] == "{":
                names.add(code.text[i - 1])
                i = code.pair[after]
        i += 1
    return names


def documented() -> set[str]:
    """Names in the first columns of the page's tables, but those of what is refused."""
    rows = re.findall(r"^\| (`.*?) \| ", PAGE.partition("## What is refused")[0], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_every_public_name_of_the_vocabulary_is_on_the_page() -> None:
    found = declared(VOCABULARY)
    assert {"load", "ld", "Shared", "u8", "float4", "__syncthreads", "atomicMax", "DEVICE", "warp_max"} <= found
    assert found - INNER - documented() == set()


def test_every_name_on_the_page_is_declared() -> None:
    assert HEADERS
    everything = declared(VOCABULARY).union(*(declared(KERNELS / "include" / header) for header in HEADERS))
    assert documented() - everything == set()


def test_every_function_of_a_documented_header_is_on_the_page() -> None:
    """But for what a header has for itself."""
    own = {"EIGHTHS", "Eighth", "exp2_polynomial"}
    for header in HEADERS:
        assert declared(KERNELS / "include" / header) - own - documented() == set()


def test_the_refusals_are_those_of_the_executor() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", PAGE.partition("## What is refused")[2], re.MULTILINE)
    table = {word: instead for words, instead in rows for word in re.findall(r"`(\w+)`", words)}
    assert table == advice.INSTEAD


def test_what_is_refused_is_no_word_of_the_vocabulary() -> None:
    assert advice.INSTEAD.keys() & declared(VOCABULARY) == set()


def test_a_name_is_in_the_header_that_the_advice_names() -> None:
    for name, header in advice.HEADERS.items():
        file = VOCABULARY if header == "vocabulary" else KERNELS / "include" / f"{header}.cuh"
        assert name in declared(file) or f" {name}(" in file.read_text(), name


def test_a_source_prints_nothing(tmp_path: Path) -> None:
    source = '#include "include/vocabulary.cuh"\nextern "C" __global__ void k(float* y) {\n  printf("y");\n}\n'
    (tmp_path / "own.cu").write_text(source)
    with pytest.raises(BuildError, match=r"own\.cu:3:.*; instead of printf: an output"):
        open_executor("lanes").build(Kernel("own", "k", 32, directory=str(tmp_path)))


def test_the_faults_on_the_page_are_said_by_the_runtime() -> None:
    said = "".join(file.read_text() for file in (*RUNTIME.glob("*.hpp"), KERNELS / "include" / "ptx.cuh"))
    faults = re.findall(r"^\| `(.*)` \| ", PAGE.rpartition("| what the error says |")[2], re.MULTILINE)
    assert len(faults) > 8
    for fault in faults:
        assert fault in said


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("k.cu:3:3: error: '__shared__' is not declared; did you mean '__x'?", "; instead of __shared__: shared_array"),
        ("k.cu:3:3: error: use of undeclared identifier 'sqrtf'", "; instead of sqrtf: __fsqrt_rn(x)"),
        ("k.cu:3:3: error: ‘exp’ is not a member of ‘std’", "; instead of exp: exp2_fma"),
        ("k.cu:3:3: error: 'INFINITY' was not declared", "; instead of INFINITY: bits_to_float("),
        ("k.cu:3:3: error: use of deleted function 'int printf(const char*, A ...)'", "; instead of printf: an output"),
        ("k.cu:3:3: error: 'exp2_fma' was not declared", '; exp2_fma is declared by #include "include/exp2.cuh"'),
        ("k.cu:1:12: error: '__global__' does not name a type", "; __global__ is declared by #include"),
        ("k.cu:3:3: error: 'my_own' was not declared", ""),
        ("k.cu:3:3: error: expected ';' before '}' token", ""),
    ],
)  # fmt: skip
def test_advice_follows_a_word_that_has_some(message: str, said: str) -> None:
    assert advice.of(message).startswith(said)
    assert bool(advice.of(message)) == bool(said)


def test_a_refused_word_is_an_error_with_its_line_and_with_what_to_take(tmp_path: Path) -> None:
    source = (
        '#include "include/vocabulary.cuh"\nextern "C" __global__ void k(float* y) {\n  __shared__ float s[4];\n}\n'
    )
    (tmp_path / "own.cu").write_text(source)
    with pytest.raises(BuildError, match=r"own\.cu:3:3: error: .*; instead of __shared__: shared_array<T>"):
        open_executor("lanes").build(Kernel("own", "k", 32, directory=str(tmp_path)))


def test_the_example_of_the_page_compiles(tmp_path: Path) -> None:
    (source,) = re.findall(r"```cuda\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "scaled.cu").write_text(source)
    kernel = Kernel("scaled", "scaled", 32, defines=(("THREADS", 32),), directory=str(tmp_path))
    open_executor("lanes").build(kernel)


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
