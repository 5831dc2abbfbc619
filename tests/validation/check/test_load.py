"""An author's file is found by FILE[:NAME], and a fault in it is one line with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.executors.base import StrataError
from tests.validation.check.fake import FILE
from validation.check.load import Loaded, load, split

HEAD = "import validation.check as c\n"
KERNEL = (
    "c.OwnKernel(name={name!r}, source='k.cu', sizes={{'n': c.Size(1, 9)}}, inputs={{}}, "
    "outputs={{'y': c.Output('float32', 'n')}}, bound=c.Roundings(1), "
    "launch=lambda s: c.Launch((1, 1, 1), ('y',)), reference=lambda i, s: None)\n"
)


def written(directory: Path, text: str, source: bool = True) -> str:
    (directory / "own.py").write_text(text)
    if source:
        (directory / "k.cu").write_text("// nothing\n")
    return str(directory / "own.py")


def test_the_only_kernel_needs_no_name_and_one_of_several_does(tmp_path: Path) -> None:
    assert load(str(FILE)).kernel.name == "rows"
    assert load(f"{FILE}:rows").source == FILE.with_name("rows.cu")
    two = HEAD + "".join(f"{name} = {KERNEL.format(name=name)}" for name in ("one", "two")) + "again = two\n"
    file = written(tmp_path, two)
    assert load(f"{file}:two").kernel.name == "two"
    with pytest.raises(StrataError, match=r"^own\.py defines 2 kernels, expected one of own\.py:one, own\.py:two$"):
        load(file)
    with pytest.raises(StrataError, match=r"defines no kernel 'three', expected one of own\.py:one"):
        load(f"{file}:three")
    assert load(load(f"{file}:two").reference).kernel.name == "two"


def test_a_file_whose_name_has_a_colon_is_found(tmp_path: Path) -> None:
    odd = tmp_path / "a:b"
    odd.write_text("")
    assert split(str(odd)) == (odd, None)
    assert split("k.py:name") == (Path("k.py"), "name")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "own.py defines no OwnKernel"),
        ("x = 1\ny = x / 0\n", "own.py:2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "own.py:1: SyntaxError: invalid syntax"),
        ("import nothing_of_that_name\n", "own.py:1: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("import sys\n\nsys.exit(0)\n", "own.py:3: SystemExit: 0"),
        (
            HEAD + "\nc.Size(3, 2)\n",
            "own.py:3: Size is (3, 2), expected a range that holds a multiple of 1 from 3 to 2",
        ),
        (HEAD + "c.Siez(3, 2)\n", "own.py:2: AttributeError: module 'validation.check' has no attribute 'Siez'"),
        (HEAD + "import helper\n", "helper.py:2: RuntimeError: two lines"),
        (HEAD + f"a = {KERNEL.format(name='k')}b = {KERNEL.format(name='k')}", "own.py defines two kernels named 'k'"),
    ],
)
def test_a_fault_in_the_file_is_one_line_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "helper.py").write_text("\nraise RuntimeError('two\\nlines')\n")
    with pytest.raises(StrataError, match=re.escape(said)) as caught:
        load(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_or_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match=r"none\.py' is no file, expected a Python file"):
        load(str(tmp_path / "none.py"))
    with pytest.raises(StrataError, match=r"own\.py: the source of k, .*k\.cu, is not there"):
        load(written(tmp_path, HEAD + "k = " + KERNEL.format(name="k"), source=False))
    (tmp_path / "own.txt").write_text("")
    with pytest.raises(StrataError, match=r"own\.txt is no Python file"):
        load(str(tmp_path / "own.txt"))


def test_nothing_is_written_beside_the_authors_file(tmp_path: Path) -> None:
    file = written(tmp_path, HEAD + "import beside\nk = " + KERNEL.format(name="k"))
    (tmp_path / "beside.py").write_text("")
    load(file)
    assert {path.name for path in tmp_path.iterdir()} == {"own.py", "k.cu", "beside.py"}


def test_headers_beside_the_source_belong_to_it(tmp_path: Path) -> None:
    own = load(written(tmp_path, HEAD + "k = " + KERNEL.format(name="k")))
    assert set(own.digests()) == {"own.py", "k.cu"}
    (tmp_path / "beside.cuh").write_text("// one")
    before = own.digests()
    assert set(before) == {"own.py", "k.cu", "beside.cuh"}
    (tmp_path / "beside.cuh").write_text("// two")
    assert {name for name, digest in own.digests().items() if digest != before[name]} == {"beside.cuh"}


def test_tensor_cores_are_seen_in_the_code_and_not_in_comments(tmp_path: Path) -> None:
    own = load(written(tmp_path, HEAD + "k = " + KERNEL.format(name="k")))
    for text, due in (("// mma_m16n8k16\n/* mma_m16n8k8 */", False), ("mma_m16n8k8(d, a, b);", True)):
        own.source.write_text(text)
        assert Loaded(own.kernel, own.file).tensor_cores is due
    own.source.write_bytes(b"\xff\xfe")
    with pytest.raises(StrataError, match="is no text of UTF-8"):
        assert Loaded(own.kernel, own.file).text
