"""Rates: arms in turn, the table's medians and ranges, and what is refused."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from strata.executors.base import StrataError
from validation.rates import command
from validation.rates.measure import Host

OLD = "STRATA_PROMPT_ATTN_OLD=1"


def asked(tmp_path: Path, *words: str) -> argparse.Namespace:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args([str(tmp_path / "model.gguf"), *words])


def result(tokens: int, seconds: float) -> dict[str, Any]:
    return {
        "prompts": [{"tokens": tokens, "seconds": seconds, "host": 0.25}],
        "decodes": [{"tokens": 10, "seconds": seconds / 2, "host": 0.5}],
        "facts": {"paths": ["prompt_attention/fp16/sm80: proved"]},
    }


def test_arms_take_turns_and_the_table_has_medians_and_ranges(tmp_path: Path) -> None:
    order: list[tuple[str, Mapping[str, str]]] = []

    def process(plan: Mapping[str, Any], switches: Mapping[str, str]) -> Mapping[str, Any]:
        order.append((plan["options"]["kv"], switches))
        assert plan["prompts"] == [100]
        return result(100, {1: 1.0, 3: 2.0, 5: 4.0}.get(len(order), 10.0))

    words = ("--kv", "fp16", "--arm", OLD, "--processes", "3", "--prompts", "100", "--out", str(tmp_path / "out"))
    console = Console(width=200, record=True)
    assert command.run(asked(tmp_path, *words), console, process) == 0
    assert order == [("fp16", {}), ("fp16", dict([OLD.split("=")]))] * 3
    text = console.export_text()
    row = next(line for line in text.splitlines() if line.startswith("fp16  none "))
    assert row.split() == ["fp16", "none", "100", "50", "25", "to", "100", "25%", "10", "5", "to", "20", "50%"]
    kept = json.loads((tmp_path / "out" / command.NAME).read_text())
    assert [(row["kv"], row["arm"], len(row["processes"])) for row in kept["rows"]] == [
        ("fp16", "", 3),
        ("fp16", OLD, 3),
    ]


def test_what_was_measured_is_kept_when_a_later_process_fails(tmp_path: Path) -> None:
    calls: list[int] = []

    def process(plan: Mapping[str, Any], switches: Mapping[str, str]) -> Mapping[str, Any]:
        calls.append(1)
        if len(calls) == 3:
            raise StrataError("a measurement ended with 2: error: no card")
        return result(100, 1.0)

    words = ("--kv", "fp16", "--processes", "5", "--prompts", "100", "--out", str(tmp_path / "out"))
    with pytest.raises(StrataError, match="no card"):
        command.run(asked(tmp_path, *words), Console(width=200), process)
    assert len(json.loads((tmp_path / "out" / command.NAME).read_text())["rows"][0]["processes"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kv", "fp16,fp16"), "--kv 'fp16': expected some of fp16, int8, k8v4, q4_0, each once"),
        (("--kv", "fp32"), "--kv 'fp32'"),
        (("--arm", "STRATA_PROMPT_ATTN_OLD=2"), "expected NAME=VALUE, 0 or 1"),
        (("--arm", "STRATA_NO=1"), "a switch of `strata switches`, once"),
        (("--arm", f"{OLD},{OLD}"), "--arm 'STRATA_PROMPT_ATTN_OLD=1'"),
        (("--arm", OLD, "--arm", OLD), "named twice"),
        (("--prompts", "1"), "1"),
        (("--prompts", "8,,9"), "''"),
    ],
)
def test_bad_values_are_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(StrataError) as raised:
        command.run(asked(tmp_path, *words), Console(width=200), lambda plan, switches: result(1, 1.0))
    assert said in str(raised.value)


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    arguments = asked(tmp_path)
    arguments.model.unlink()
    with pytest.raises(StrataError, match="is no file"):
        command.run(arguments, Console(width=200), lambda plan, switches: result(1, 1.0))


def test_a_process_that_does_not_measure_says_why(tmp_path: Path) -> None:
    plan = {"model": str(tmp_path / "none.gguf"), "executor": "lanes", "prompts": [2], "decode": 1, "options": {}}
    with pytest.raises(StrataError, match=r"a measurement ended with 2: .*none\.gguf"):
        command.in_a_process(plan, {})


def test_the_host_s_share_is_what_passes_before_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    class Executor:
        @contextmanager
        def queue(self) -> Any:
            yield
            now[0] += 3.0

    executor, host = Executor(), Host()
    with host.watching(executor), executor.queue():
        now[0] += 1.0
    assert (host.filling, host.waiting) == (1.0, 3.0)
    with executor.queue():
        pass
    assert host.waiting == 3.0
