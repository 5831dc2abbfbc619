"""Kernels whose numbers are right on a processor, and which are wrong: each is refused, and the line is named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.executors import open_executor
from strata.executors.base import Executor, LaunchError
from strata.executors.lanes.executor import HostBuffer
from tests.validation.check import twice as author
from validation.__main__ import main
from validation.check import plan
from validation.check.case import OwnCase, case_of
from validation.check.load import Loaded
from validation.check.operation import operations
from validation.core.settings import Settings
from validation.run import runner

FILE = Path(author.__file__)


@cache
def lanes(flavor: str, seed: int | None = None) -> Executor:
    return open_executor("lanes", flavor=flavor, seed=seed)


def judged(fault: int, seed: int | None = None, case: OwnCase | None = None) -> dict[str, Any]:
    """What becomes of a case, on lanes in the order of a seed."""
    loaded = Loaded(author.with_fault(fault), FILE)
    case = case_of(loaded.kernel, "plain", 1, {"width": 2 * author.THREADS + 1}) if case is None else case
    settings = Settings(repeat_executor=lanes("checked", (seed or 0) + 1), invocation="check", names_path=False)
    other: Callable[[], Executor] = lambda: lanes("fast")  # noqa: E731
    return runner.run_case(case, loaded.path, lanes("checked", seed), settings, None, operations(loaded, other))


def refusals(result: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["reason"] for check in result["checks"] if check["verdict"] == "EXCEEDS"}


def test_the_kernel_without_a_fault_passes_the_quick_profile() -> None:
    loaded = Loaded(author.with_fault(0), FILE)
    for index, case in enumerate(plan.cases(loaded, "quick", plan.SEED)):
        assert judged(0, index if index % 2 else None, case)["explain"] == ""


@pytest.mark.parametrize("seed", [None, 3, 4])
@pytest.mark.parametrize("fault", author.FAULTS, ids=[name for name, _ in author.FAULTS.values()])
def test_a_fault_that_leaves_the_numbers_right_is_refused_in_every_order(fault: int, seed: int | None) -> None:
    found = refusals(judged(fault, seed))
    assert set(found) == {"rules"}
    said = re.search(rf"twice\.cu:(\d+): {author.FAULTS[fault][1]}", found["rules"])
    assert said is not None, found
    line = FILE.with_name("twice.cu").read_text().splitlines()[int(said[1]) - 1]
    # Of a race either of the two lines is named.
    assert f"fault == {fault}" in line or ("race" in said[0] and re.search(r"store\(y \+ i,|atomicAdd", line))


def test_a_write_behind_another_thread_s_read_is_a_race() -> None:
    """In the order of lanes, where nobody reads what was written."""
    executor = open_executor("lanes", flavor="checked", threads=1)
    x = executor.array(np.array([-1, 1], np.float32), "x")
    y, w = (executor.empty((3,), np.float32, name=name) for name in "yw")
    above = executor.array(np.zeros(1, np.int32), "above", written=True)
    assert isinstance(above, HostBuffer)
    above.watch(filled=True)
    kernel = Loaded(author.with_fault(14), FILE).image()
    with pytest.raises(
        LaunchError, match=r"thread \(1,0,0\) .*: race: element 0 of above was read by thread 0 with no"
    ):
        executor.launch(kernel, (1, 1, 1), [x, y, w, above, np.int32(2), np.int32(14)])


def test_a_local_variable_that_nobody_wrote_shows_between_two_builds() -> None:
    assert "y builds" in refusals(judged(author.UNSET))


def test_a_kernel_that_never_ends_is_stopped_and_its_line_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["check", str(FILE.with_name("endless.py")), "--executor", "lanes", "--limit", "1", "--no-mutants"]) == 1
    )
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"EXCEEDS endless .* endless\.cu:\d+: is still running .*: the launch takes longer than 1 s", said)
    assert "a launch of an earlier case took too long" in said
    assert re.search(r" 0 of \d+ planned cases passed; 1 were run\.", said)


ENDS = {
    "os._exit": "import os\nos._exit(0)\n",
    "_exit": "from os import _exit\n_exit(0)\n",
    "posix": "import posix\nposix._exit(0)\n",
    "exec": "import os\nos.execl('/bin/true', 'true')\n",
    "sys.exit": "import sys\nsys.exit(0)\n",
    "SystemExit": "raise SystemExit\n",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_a_file_that_ends_the_process_gives_no_status_of_its_own(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.py").write_text(text)
    assert main(["check", str(tmp_path / "own.py")]) == 2
    assert "error: own.py:" in capsys.readouterr().err


def test_a_function_that_ends_the_process_gives_no_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FILE.read_text().replace('    y = 2 * inputs["x"]\n', "    import os\n\n    os._exit(0)\n")
    (tmp_path / "twice.py").write_text(text)
    (tmp_path / "twice.cu").write_text(FILE.with_name("twice.cu").read_text())
    assert main(["check", str(tmp_path / "twice.py"), "--executor", "lanes", "--no-mutants"]) == 2
    assert re.search(r"error: twice\.py:\d+: reference of twice: .*os\._exit would end", capsys.readouterr().err)
    assert os._exit.__name__ == "_exit"


def test_a_fault_in_a_fast_build_says_what_names_the_line() -> None:
    loaded = Loaded(author.with_fault(9), FILE)
    case = case_of(loaded.kernel, "plain", 1, {"width": 5})
    settings = Settings(invocation="check", names_path=False)
    result = runner.run_case(case, loaded.path, lanes("fast"), settings, None, operations(loaded))
    assert refusals(result)["rules"].endswith("; the build that --flavor checked asks for names the line")
