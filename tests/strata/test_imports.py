"""Whatever an optional package raises on import is one line, and only Ctrl-C goes through."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata import imports
from strata.imports import NotImportedError, folders, optional, said

_ROOT = Path(__file__).resolve().parents[2]
#: Packages that may be absent or broken, none of which strata/ or validation/ needs to be imported.
OPTIONAL = {"cupy", "cuda", "gguf", "matplotlib", "hypothesis", "torch", "transformers", "psutil", "ziglang", "nvidia"}
#: What only a program with the package loaded runs: behind a call of `optional` for it.
BEHIND = {"validation/memory/machine.py", "validation/report/svg.py", "validation/report/heat.py"}
BEHIND |= {"validation/captured/gguf_model.py"}


def every_error() -> list[type[BaseException]]:
    """All exception classes of the language that one text makes, but those that end the program on purpose."""
    found, todo = [], [BaseException]
    while todo:
        kind = todo.pop()
        todo += [below for below in kind.__subclasses__() if below.__module__ == "builtins"]
        if not issubclass(kind, UnicodeError | BaseExceptionGroup | KeyboardInterrupt | GeneratorExit):
            found.append(kind)
    return found


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_whatever_an_import_raises_is_one_line(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise kind("\n=====\nno libcudart.so\x1b[2J\nlong banner")

    monkeypatch.setattr(imports, "import_module", broken)
    with pytest.raises(NotImportedError, match="no libcudart") as caught:
        optional("cupy")
    assert str(caught.value).isprintable()
    assert not caught.value.absent


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_ctrl_c_is_no_broken_package(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(name: str) -> None:
        raise kind

    monkeypatch.setattr(imports, "import_module", pressed)
    with pytest.raises(kind):
        optional("cupy")


@pytest.mark.parametrize(
    ("body", "absent", "words"),
    [
        (None, True, "No module named 'broken_package'"),
        ("import not_there_at_all", False, "No module named 'not_there_at_all'"),
        ("import broken_package.inner", False, "No module named 'broken_package.inner'"),
        ("raise OSError('libnvrtc.so.13: cannot open shared object file')", False, "OSError: libnvrtc.so.13: cannot"),
        ("raise SystemExit('this Python is too new')", False, "SystemExit: this Python is too new"),
        ("(", False, "SyntaxError: '(' was never closed"),
        ("raise RuntimeError", False, "RuntimeError: no reason given"),
    ],
)
def test_a_package_on_disk(
    body: str | None, absent: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if body is not None:
        (tmp_path / "broken_package").mkdir()
        (tmp_path / "broken_package" / "__init__.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_package", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(NotImportedError) as caught:
        optional("broken_package")
    assert words in str(caught.value)
    assert caught.value.absent == absent


@given(st.text())
def test_what_is_said_is_one_printable_line(text: str) -> None:
    assert said(ValueError(text)).isprintable()
    assert said(ImportError(text)).isprintable()


def test_an_error_without_a_text_is_said_too() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError("no text")

    assert said(Mute()) == "Mute: no reason given"


def test_folders_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders("no_such_package") == folders("no_such_package.inner") == []
    assert [folder.name for folder in folders("strata")] == ["strata"]
    monkeypatch.setitem(sys.modules, "nvidia", type(sys)("nvidia"))  # has no __spec__ that says where it is
    assert folders("nvidia") == []


def test_nothing_else_imports_what_may_be_broken() -> None:
    """An import statement of an optional package meets whatever it raises with a traceback."""
    found = []
    for file in sorted([*(_ROOT / "strata").rglob("*.py"), *(_ROOT / "validation").rglob("*.py")]):
        name = file.relative_to(_ROOT).as_posix()
        text = file.read_text()
        if not re.search(rf"^ *(import|from) +({'|'.join(OPTIONAL)})\b", text, re.MULTILINE):
            continue
        tree = ast.parse(text)
        typing = {id(node) for block in ast.walk(tree) if _type_checking(block) for node in ast.walk(block)}
        for node in ast.walk(tree):
            if id(node) in typing or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if any(one.partition(".")[0] in OPTIONAL for one in names) and name not in BEHIND:
                found.append(f"{name}:{node.lineno}")
    assert found == []


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
