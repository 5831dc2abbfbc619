"""What is shipped, what importing it needs, and what README and noxfile promise."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import strata

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

#: Runs `{imports}` in an interpreter that finds NumPy and the standard library and nothing else.
BARE = """
import sys
allowed = set(sys.stdlib_module_names) | {{"numpy", "strata"}}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
{imports}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_wheel_holds_the_two_packages_alone(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops == {"strata", "validation", f"strata-{strata.__version__}.dist-info"}


def test_wheel_holds_every_source(wheel: zipfile.ZipFile) -> None:
    """Kernels, their headers, the lanes runtime, records and the page's style are data to Python, and easily left
    out."""
    packages = [path for name in ("strata", "validation") for path in (ROOT / name).rglob("*")]
    files = {path.relative_to(ROOT).as_posix() for path in packages if path.is_file() and path.suffix != ".pyc"}
    assert files <= set(wheel.namelist())
    assert {"strata/py.typed", "validation/py.typed", "validation/report/page.css"} < files
    assert {Path(name).suffix for name in files} >= {".py", ".cu", ".cuh", ".hpp", ".json"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name]


def test_wheel_carries_licence_and_version(wheel: zipfile.ZipFile) -> None:
    info = f"strata-{strata.__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert f"\nVersion: {strata.__version__}\n" in metadata
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


#: Commands of a stranger, who has the wheel, a C++ compiler and no checkout; each line a command.
INSTALLED = """
import sys
from pathlib import Path
checkout = Path(sys.argv[1])
sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != checkout]
from validation.__main__ import main
from validation.mutants.__main__ import main as mutants
case = "recipe=experts_golden seed=1 tokens=2 experts=3 top=2 n=256 ff=64"
words = ["--executor", "lanes", "--paths", "expert_fused/iq3_xxs/iq4_nl/sm75", "--case", case]
done = [main([word]) for word in ("recipes", "paths")] + [main(["parity", *words, "--out", "parity"])]
needing = (main, ["ledger", "--accept", "parity/run.json"]), (main, ["floor", "--update"]), (mutants, ["--list"])
refused = [command(words) for command, words in needing]
folders = [checkout / name for name in ("strata", "validation", "fixtures", "tests", "ci")]
files = [Path(module.__file__) for module in sys.modules.values() if getattr(module, "__file__", None)]
own = [str(file) for file in files if any(file.is_relative_to(folder) for folder in folders)]
print("ends", done, refused, own)
"""


def test_a_wheel_proves_a_kernel_without_the_checkout(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Its controls are asked as well. What works on the repository says so in a line."""
    site, work = tmp_path / "site", tmp_path / "work"
    wheel.extractall(site)
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-B", "-c", INSTALLED, str(ROOT)],
        cwd=work,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "signed_decades" in done.stdout
    assert done.stdout.splitlines()[-1] == "ends [0, 0, 0] [2, 2, 2] []", done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert [line.partition(" works on a checkout of the repository")[0] for line in lines] == [
        "error: ledger --accept",
        "error: floor --update",
        "error: python -m validation.mutants",
    ]
    assert all(str(site) in line for line in lines)


@pytest.mark.parametrize(
    "module",
    ["strata", "strata.executors", "strata.executors.cuda", "strata.executors.lanes", "strata.formats", "strata.cli"],
)
def test_import_needs_numpy_alone(module: str) -> None:
    subprocess.run([sys.executable, "-c", BARE.format(imports=f"import {module}")], cwd=ROOT, check=True)


def test_strata_does_not_know_validation() -> None:
    pattern = re.compile(r"^\s*(from|import) validation\b", re.MULTILINE)
    guilty = [path for path in (ROOT / "strata").rglob("*.py") if pattern.search(path.read_text())]
    assert guilty == []


def test_doctor_ends_with_its_verdict(tmp_path: Path) -> None:
    """As a user runs it; without a compiler and a card it says so and exits with 2."""
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "strata.cli", "doctor"]
    for folder, status in ((tmp_path / "cache", 0), (tmp_path / "file" / "cache", 2)):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "STRATA_CACHE_DIR": str(folder), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert str(folder) in done.stdout
        assert "Traceback" not in done.stderr


def test_extras_exclude_each_other() -> None:
    (conflict,) = PROJECT["tool"]["uv"]["conflicts"]
    assert {"extra": "cuda12x"} in conflict
    assert {"extra": "cuda13x"} in conflict


# What noxfile.py does, with nox's session replaced by one that records.


class SessionError(Exception):
    """What `session.error` raises here."""


class Session:
    """Records what a session installs and runs."""

    def __init__(self, *posargs: str) -> None:
        self.posargs = list(posargs)
        self.installed: tuple[str, ...] = ()
        self.logged: list[str] = []
        self.env: dict[str, str] = {}
        self.bin_paths: list[str] = [str(Path(sys.executable).parent)]

    def install(self, *words: str) -> None:
        self.installed = words

    def log(self, text: str) -> None:
        self.logged.append(text)

    warn = log

    def error(self, text: str) -> None:
        raise SessionError(text)

    @property
    def extras(self) -> set[str]:
        found = re.search(r"\[([\w,]+)\]", self.installed[1])
        return set(found.group(1).split(",")) if found else set()


def load_noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile_under_test", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def loaded_noxfile() -> ModuleType:
    pytest.importorskip("nox")
    return load_noxfile()


@pytest.fixture
def noxfile(loaded_noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(loaded_noxfile.shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    return loaded_noxfile


def run_parity(noxfile: ModuleType, session: Session, monkeypatch: pytest.MonkeyPatch, **driver: Any) -> list[str]:
    ran: list[str] = []
    monkeypatch.setattr(noxfile, "_driver", lambda: {"problem": "no driver", "title": "driver 1", **driver})
    monkeypatch.setattr(noxfile, "_run", lambda session, *words: ran.extend(words))
    noxfile.parity.func(session)
    return ran


@pytest.mark.parametrize(("extra", "installed"), [(None, set()), ("cuda12x", {"cuda12x"}), ("cuda13x", {"cuda13x"})])
def test_parity_installs_what_fits_the_driver(
    extra: str | None, installed: set[str], noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session("--profile", "quick")
    assert run_parity(noxfile, session, monkeypatch, extra=extra) == [
        "-m",
        "validation",
        "parity",
        "--profile",
        "quick",
    ]
    assert session.extras == installed


@pytest.mark.parametrize("extra", [None, "cuda13x"])
def test_tests_run_on_several_cores_unless_they_share_a_card(
    extra: str | None, noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user says comes last, so that it holds."""
    ran: list[str] = []
    monkeypatch.setattr(noxfile, "_driver", lambda: {"problem": "no driver", "title": "driver 1", "extra": extra})
    monkeypatch.setattr(noxfile, "_run", lambda session, *words: ran.extend(words))
    noxfile.tests.func(Session("-n", "0", "-x"))
    assert ran[:2] == ["-m", "pytest"]
    assert ran[-3:] == ["-n", "0", "-x"]
    assert ran[2:-3] == ([] if extra else ["-n", "auto", "--maxprocesses", "4", "--dist", "worksteal"])


@pytest.mark.parametrize("words", [("--executor", "lanes"), ("--executor=lanes",)])
def test_lanes_by_name_need_no_cupy(
    words: tuple[str, ...], noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(*words)
    run_parity(noxfile, session, monkeypatch, extra="cuda13x")
    assert session.extras == set()


def test_without_a_compiler_the_wheel_is_installed(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noxfile.shutil, "which", lambda name, path=None: None)
    monkeypatch.delenv("CXX", raising=False)
    session = Session()
    run_parity(noxfile, session, monkeypatch)
    assert session.extras == {"compiler"}


def test_both_cupy_extras_are_refused(noxfile: ModuleType) -> None:
    session = Session()
    with pytest.raises(SystemExit) as caught:
        noxfile._install(session, ["cuda12x", "cuda13x"])
    assert caught.value.code == 2
    assert "exclude each other" in session.logged[-1]


def test_a_failed_install_is_could_not_run(noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(session: Session, *words: str) -> None:
        raise noxfile.nox.command.CommandFailed(reason="no network")

    monkeypatch.setattr(Session, "install", fail)
    with pytest.raises(SystemExit) as caught:
        noxfile._install(Session(), [])
    assert caught.value.code == 2


@pytest.mark.parametrize("status", [0, 1, 2, 5])
def test_exit_status_is_the_commands(status: int, noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noxfile.shutil, "which", lambda name, path=None: sys.executable)
    command = ("-c", f"raise SystemExit({status})")
    if status == 0:
        noxfile._run(Session(), *command)
        return
    with pytest.raises((SessionError, SystemExit)) as caught:
        noxfile._run(Session(), *command)
    code = caught.value.code if isinstance(caught.value, SystemExit) else 1
    assert code == status


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group")
def test_ctrl_c_waits_for_the_command_to_save(noxfile: ModuleType) -> None:
    """Interrupted twice, nox must still wait for the command, and end with the command's status."""
    inner = (
        "import signal, time\n"
        "caught = []\n"
        "signal.signal(signal.SIGINT, lambda *_: caught.append(1))\n"
        "print('started', flush=True)\n"
        "while len(caught) < 2: time.sleep(0.05)\n"
        "time.sleep(1)\n"
        "print('saved', flush=True)\n"
        "raise SystemExit(130)\n"
    )
    outer = (
        "from tests.test_packaging import Session, load_noxfile\n"
        f"load_noxfile()._run(Session(), '-u', '-c', {inner!r})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", outer], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.4)
        assert process.stdout.read() == "saved\n"
    assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")
def test_a_signal_for_nox_reaches_the_command(noxfile: ModuleType) -> None:
    """A supervisor knows nox's number alone. The command saves, and its status is nox's."""
    inner = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(3)))\n"
        "print('started', flush=True)\n"
        "time.sleep(600)\n"
    )
    outer = (
        "from tests.test_packaging import Session, load_noxfile\n"
        f"load_noxfile()._run(Session(), '-u', '-c', {inner!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", outer], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.stdout.read() == "saved\n"
    assert process.returncode == 3


def test_readme_names_sessions_that_exist(noxfile: ModuleType) -> None:
    named = set(re.findall(r"nox -s ((?:[a-z]+ ?)+)", (ROOT / "README.md").read_text()))
    sessions = {name for group in named for name in group.split()}
    assert {"parity", "tests"} <= sessions
    assert all(hasattr(noxfile, name) for name in sessions)
