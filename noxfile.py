"""Sessions `parity`, `check`, `tests`, `mutants`, `static`, `records`, `memory`, `submission`, `report`, `bench`,
`rates`, `lint`.

`nox -s SESSION`; what follows `--` goes to the command inside.

The exit status is the command's own: 0 passed, 1 failed, 2 could not run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nox
import nox.command

ROOT = Path(__file__).resolve().parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
COULD_NOT_RUN = 2
#: Processes that run tests, at most.
TEST_PROCESSES = 4

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"
nox.options.sessions = ["lint", "tests"]


@nox.session
def parity(session: nox.Session) -> None:
    """Prove every kernel mode against FP64 and its baseline, on the card if there is one, else on the CPU."""
    _install(session, _card_extras(session) + _compiler_extras(session))
    _run(session, "-m", "validation", "parity", *session.posargs)


@nox.session
def check(session: nox.Session) -> None:
    """Check a kernel of your own, on the card if there is one, else on the CPU: `-- FILE`, as in examples/."""
    _install(session, _card_extras(session) + _compiler_extras(session))
    _run(session, "-m", "validation", "check", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite, on several cores where there is no card; `-- -n 0` for one process."""
    card = _card_extras(session)
    _install(session, card + _compiler_extras(session), groups=["test"])
    # A card is one: tests that count its memory may not run beside others that take it. Lanes use threads of their
    # own, so that more processes than a few only wait for each other.
    processes = [] if card else ["-n", "auto", "--maxprocesses", str(TEST_PROCESSES), "--dist", "worksteal"]
    _run(session, "-m", "pytest", *processes, *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant every known fault in copies of the sources and print which check refuses each."""
    _install(session, _card_extras(session) + _compiler_extras(session), groups=["test"])
    _run(session, "-m", "validation.mutants", *session.posargs)


@nox.session
def static(session: nox.Session) -> None:
    """Compile every kernel for every architecture by both pinned compilers and check what the machine code uses."""
    _install(session, [], groups=["static"])
    _run(session, "-m", "validation", "static", *session.posargs)


@nox.session
def records(session: nox.Session) -> None:
    """Verify the accepted records again, with the verifier of this checkout."""
    _install(session, _compiler_extras(session))
    _run(session, "-m", "ci.accepted", *session.posargs)


@nox.session
def memory(session: nox.Session) -> None:
    """Prove elastic memory: `-- faults`, `-- traces`, and on a card `-- card`, `-- ledger`."""
    _install(session, _card_extras(session), groups=["test"])
    _run(session, "-m", "validation", "memory", *session.posargs)


@nox.session
def quality(session: nox.Session) -> None:
    """Judge a whole model's answers: `-- gate`, `-- loss`, `-- needles`, `-- planted`."""
    _install(session, ["model", *_card_extras(session), *_compiler_extras(session)])
    _run(session, "-m", "validation", "quality", *session.posargs)


@nox.session
def submission(session: nox.Session) -> None:
    """Check a pull request that adds one record: `-- refs/heads/main HEAD`, with a checkout of the main branch."""
    _install_pinned(session, ["submission", *_compiler_extras(session)])
    _run(session, str(ROOT / "ci" / "check_submission"), *session.posargs)


@nox.session
def report(session: nox.Session) -> None:
    """Write a page about runs and records: `nox -s report -- parity/run.json --out report.html`."""
    _install(session, [], groups=["report"])
    _run(session, "-m", "validation", "report", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Time kernels: the files tests/**/bench_*.py."""
    _install(session, _card_extras(session) + _compiler_extras(session), groups=["test"])
    words = ("-o", "python_files=bench_*.py", "--benchmark-only")
    _run(session, "-m", "pytest", *words, *session.posargs)


@nox.session
def rates(session: nox.Session) -> None:
    """Time the engine on a card, switches off and on in turn: `-- FILE --kv fp16,q4_0`; docs/engine.md."""
    _install(session, _card_extras(session) + _compiler_extras(session))
    _run(session, "-m", "validation", "rates", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and which module may import which."""
    _install(session, [], groups=["lint"])
    _run(session, "-m", "ruff", "check")
    _run(session, "-m", "ruff", "format", "--check")
    _run(session, "-m", "mypy")
    _run(session, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")


def _install(session: nox.Session, extras: Sequence[str], groups: Sequence[str] = ()) -> None:
    """Install the package as it stands in this checkout; ends nox with 2 when that is not possible."""
    if {"cuda12x", "cuda13x"} <= set(extras):
        session.warn("the extras cuda12x and cuda13x exclude each other: both install the module cupy")
        raise SystemExit(COULD_NOT_RUN)
    package = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    try:
        session.install("-e", package, *nox.project.dependency_groups(PROJECT, *groups))
    except nox.command.CommandFailed:
        session.warn(f"{package} cannot be installed: see above")
        raise SystemExit(COULD_NOT_RUN) from None


def _install_pinned(session: nox.Session, names: Sequence[str]) -> None:
    """Install what `ci/requirements` names, each file by its digest, and not the package; ends nox with 2 when that is
    not possible."""
    files = [word for name in names for word in ("-r", str(ROOT / "ci" / "requirements" / f"{name}.txt"))]
    try:
        session.install("--require-hashes", "--only-binary", ":all:", *files)
    except nox.command.CommandFailed:
        session.warn("what is pinned in ci/requirements cannot be installed: see above")
        raise SystemExit(COULD_NOT_RUN) from None


def _card_extras(session: nox.Session) -> list[str]:
    """The CuPy extra that fits the driver; none without a usable card, or when lanes are asked for by name."""
    words = " ".join(session.posargs).replace("=", " ")
    if "--executor lanes" in words:
        return []
    driver = _driver()
    extra = driver.get("extra")
    if not extra:
        session.log(f"no CuPy: {driver['problem']}")
        return []
    session.log(f"{driver['title']}: extra {extra}")
    return [extra]


def _driver() -> dict[str, Any]:
    """What the driver says, asked in a process of its own: a broken driver can hang or crash the one that asks."""
    script = ROOT / "strata" / "executors" / "cuda" / "driver.py"
    try:
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"problem": f"the NVIDIA driver cannot be asked: {error}"}
    return answer


def _compiler_extras(session: nox.Session) -> list[str]:
    """The extra `compiler` when this machine has no C++ compiler for the lanes executor."""
    if os.environ.get("CXX") or any(map(shutil.which, ("g++", "clang++", "c++"))):
        return []
    session.log("no C++ compiler here: extra compiler")
    return ["compiler"]


def _run(session: nox.Session, *words: str) -> None:
    """Run this environment's Python in the repository's root and keep its exit status.

    `session.run` would turn every status but 0 into nox's 1, and kill the command soon after Ctrl-C, when
    it may be writing its results.
    """
    python = shutil.which("python", path=os.pathsep.join(session.bin_paths or [])) or sys.executable
    session.log(f"python {' '.join(words)}")
    environment = {key: value for key, value in session.env.items() if value is not None}
    with subprocess.Popen([python, *words], cwd=ROOT, env={**os.environ, **environment}) as process:
        numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # They may reach nox alone, whose number is the one that is known; the command would go on without it.
        before = {number: signal.signal(number, _hand_on(process)) for number in numbers if _ends_nox(number)}
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                continue  # the command got the same signal and ends by itself
        for number, handler in before.items():
            signal.signal(number, handler)
    if status == 1:
        session.error("failed")  # lets sessions asked for beside this one run
    if status != 0:
        raise SystemExit(status if status > 0 else 128 - status)


def _ends_nox(number: int) -> bool:
    """Whether nobody has said what else a signal does; under nohup, say, the end of the terminal does nothing."""
    return signal.getsignal(number) is signal.SIG_DFL


def _hand_on(process: subprocess.Popen[bytes]) -> Callable[[int, Any], None]:
    return lambda number, frame: process.send_signal(number)
