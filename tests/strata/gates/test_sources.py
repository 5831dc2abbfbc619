"""What a path is made of: its kernel and every header that reaches it, and no other file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata.executors.base import KERNELS, StrataError, iter_include, source_digests
from strata.executors.cuda.images import options
from strata.gates.sources import included, of_path
from strata.kernels.paths import PATHS
from strata.kernels.paths import Path as KernelPath
from strata.kernels.pool import GROUPS
from strata.kernels.prompt_attention import kernel


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A directory of kernels to write in."""
    (tmp_path / "include").mkdir()
    return tmp_path


#: Kernels of no path: one shows that a header is right, the other compares the bytes of elastic memory.
ALONE = ("block_decode.cu", "compare_bytes.cu")


def test_every_file_reaches_some_path() -> None:
    used = {name for path in PATHS.values() for name in of_path(path).files} | {
        name for alone in ALONE for name in included(alone)
    }
    assert used == set(source_digests())
    assert {f"include/{file.name}" for file in iter_include()} <= used


def test_digests_are_those_of_the_files() -> None:
    for path in PATHS.values():
        files = of_path(path).files
        assert files.items() <= source_digests().items()
        assert f"{path.operation}.cu" in files
    assert "include/exp2.cuh" not in of_path(PATHS["kv_pack/fp16/simt"]).files


@pytest.mark.parametrize(
    "line",
    [
        '#include "include/a.cuh"',
        "  #  include <include/a.cuh>  // why",
        '%:include "include/a.cuh"',
        '#inc\\\nlude "include/a.cuh"',
        '#if 0\n#include "include/a.cuh"\n#endif',
        '#define A "include/a.cuh"\n#include A',
    ],
)
def test_every_way_to_include_counts(line: str, kernels: Path) -> None:
    """a.cuh includes b.cuh beside it, which includes a.cuh again."""
    (kernels / "k.cu").write_text(f"int x;\n{line}\nint y;\n")
    (kernels / "include" / "a.cuh").write_text('#include "b.cuh"\n')
    (kernels / "include" / "b.cuh").write_text('#include "a.cuh"\n')
    assert included("k.cu", kernels) == ["include/a.cuh", "include/b.cuh", "k.cu"]


def test_a_mention_is_no_include(kernels: Path) -> None:
    (kernels / "include" / "a.cuh").write_text("")
    (kernels / "k.cu").write_text('// see include/a.cuh\n#define INCLUDE "include/a.cuh"\n#includes "include/a.cuh"\n')
    assert included("k.cu", kernels) == ["k.cu"]


@pytest.mark.parametrize("name", ["include/none.cuh", "../outside.cuh", "/etc/hostname"])
def test_a_file_that_is_not_there_is_an_error(name: str, kernels: Path) -> None:
    """Or that lies outside: nobody could record its digest."""
    (kernels.parent / "outside.cuh").write_text("")
    (kernels / "k.cu").write_text(f'#include "{name}"\n')
    with pytest.raises(StrataError, match=r"k\.cu includes '.*', expected a header below"):
        included("k.cu", kernels)
    with pytest.raises(StrataError, match=r"prompt_attention\.cu cannot be read"):
        of_path(PATHS["prompt_attention/fp16/sm75"], kernels)


def test_the_lanes_vocabulary_is_no_part_of_a_card_s_code(tmp_path: Path) -> None:
    """The one include that resolves elsewhere stands under the macro of lanes, first in its file."""
    text = (KERNELS / "include" / "vocabulary.cuh").read_text()
    assert '#ifdef STRATA_LANES\n#include "vocabulary.hpp"\n#else' in text
    copy = tmp_path / "kernels"
    shutil.copytree(KERNELS, copy)
    assert included("kv_pack.cu", copy) == included("kv_pack.cu")


@pytest.mark.parametrize("name", [name for name in PATHS if name.startswith("prompt_attention/")])
def test_programs_are_the_kernels_that_a_run_launches(name: str) -> None:
    path = PATHS[name]
    made = of_path(path)
    assert len(made.programs) == len(GROUPS)
    for group in GROUPS:
        program = kernel(path.mode, path.min_capability, group)
        assert (program.entry, tuple(sorted(program.defines))) in made.programs
        words = options(program, "sm_75")
        assert words[: len(made.flags)] == made.flags
        assert all(word.startswith(("-arch=", "-D", "--ptxas-options=")) for word in words[len(made.flags) :])


def test_an_operation_that_nobody_sorted_is_not_one_without_kernels() -> None:
    """It would be gated by a record of which no launch is compared."""
    with pytest.raises(StrataError, match="sparse_attention"):
        of_path(KernelPath("sparse_attention", "q4_0", "sm80", 80))
