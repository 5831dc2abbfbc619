"""The examples are short, compile for cards, and get the verdicts that they say; a fault in one is found and placed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from strata.executors.cuda import images
from strata.executors.cuda.nvrtc import load_nvrtc
from validation.__main__ import main
from validation.check.contrast import contrast
from validation.check.load import load
from validation.check.plan import cases
from validation.check.source_mutants import generate

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*/*.py"))
NORM = f"{EXAMPLES}/rmsnorm/rmsnorm.py"
PRODUCT = f"{EXAMPLES}/block_scale_matvec/block_scale_matvec.py:block_scale_matvec"
FAULTY = f"{EXAMPLES}/block_scale_matvec/block_scale_matvec.py:neighbour_scale"
ON_CARD = f"{EXAMPLES}/rawkernel/dot_rows.py"
#: Rows of four whole steps, and a row more than a tile with a block left over.
WHOLE = "recipe=signed_decades seed=1 rows=5 blocks=8 columns=3"
PARTIAL = "recipe=signed_decades seed=1 rows=17 blocks=5 columns=3"


def check(kernel: str, case: str) -> int:
    return main(["check", kernel, "--executor", "lanes", "--no-mutants", "--case", case])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_example_is_ten_lines_of_prose_and_few_of_python(file: Path) -> None:
    text = file.read_text()
    prose = ast.get_docstring(ast.parse(text))
    assert prose is not None
    assert len(text.splitlines()) < 120
    assert 9 <= len(prose.splitlines()) <= 12


@pytest.mark.parametrize("kernel", [NORM, PRODUCT, FAULTY])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_its_source_compiles_for_a_card(kernel: str, arch: str) -> None:
    loaded = load(kernel)
    assert images.build(loaded.image(), arch, load_nvrtc()).image.arch == arch


def test_the_norm_passes_at_a_ragged_width() -> None:
    assert check(NORM, "recipe=not_finite seed=1 rows=5 width=129") == 0


@pytest.mark.parametrize("case", [WHOLE, PARTIAL])
def test_the_sound_product_passes(case: str) -> None:
    assert check(PRODUCT, case) == 0


def test_the_planted_fault_is_found_and_placed(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows where steps are not whole, and nowhere else."""
    assert check(FAULTY, WHOLE) == 0
    assert check(FAULTY, PARTIAL) == 1
    said = capsys.readouterr().out
    assert "EXCEEDS neighbour_scale signed_decades bound" in said
    assert PARTIAL in said


def test_the_quick_profile_has_the_cases_that_find_it_and_the_sizes_that_name_it() -> None:
    kernel = load(FAULTY)
    planned = cases(kernel, "quick", 1)
    partial = [case for case in planned if case.by_name["blocks"] > 4 and case.by_name["blocks"] % 4]
    assert len({case.recipe for case in partial}) > 5
    results = [
        {"case": case.text(), "recipe": case.recipe, "verdict": "EXCEEDS" if case in partial else "WITHIN_BOUND"}
        for case in planned
    ]
    assert "those fail that have blocks > 4 and blocks % 4 != 0, and no other" in contrast(kernel.kernel, results)


def test_a_kernel_of_cupy_is_not_run_without_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ON_CARD, "--executor", "lanes"]) == 2
    assert "dot_rows is a kernel of CuPy, which runs on a card alone" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", [NORM, PRODUCT])
def test_a_source_has_forty_mutants_and_more(kernel: str) -> None:
    loaded = load(kernel)
    found = generate(loaded.text, loaded.source.name, loaded.kernel.defines)
    assert len(found) >= 40
    assert len({mutant.kind for mutant in found}) >= 15
