"""The command that runs the laws: what it finds, what it writes, and what it does not compare."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from strata.engine.engine import Engine, TokenSequence
from strata.executors.base import StrataError
from tests.strata.engine import law_model
from validation.engine_laws import command, digest_file, laws
from validation.engine_laws.cuts import random_cut, ways


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return law_model.write(tmp_path_factory.mktemp("laws") / "small.gguf", layers=1)


def run(*words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    console = Console(record=True, width=200)
    status = command.run(parser.parse_args(words), console)
    return status, console.export_text()


SMALL = ("--tokens", "9", "--page-size", "2", "--chunk", "4", "--executor", "lanes", "--cuts", "2")


def test_sound_bits_are_0_and_two_runs_have_the_same_digests(path: Path, tmp_path: Path) -> None:
    one, other = (str(tmp_path / name) for name in ("one.json", "other.json"))
    status, text = run("run", str(path), *SMALL, "--out", one)
    assert (status, text.count("0 differing bits")) == (0, len(ways(9, 4)) + 2)
    assert run("run", str(path), *SMALL, "--laws", "--out", other)[0] == 0
    assert run("compare", one, other) == (0, "fp16: decode_attention/fp16/simt: 0 of 9 positions differ\n")


def test_every_law_sees_an_answer_that_depends_on_the_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call gives other bits than the one before it."""
    sound, calls = TokenSequence.prefill, iter(range(1_000_000))

    def prefill(self: TokenSequence, tokens: Sequence[int], chunks: Sequence[int] | None = None) -> np.ndarray:
        return sound(self, tokens, chunks) + np.float32(next(calls))

    every, turns = Engine.logits, iter(range(1_000_000))

    def logits(self: Engine, *args: Any) -> Any:
        turn = np.float32(next(turns))
        return ((first, rows + turn) for first, rows in every(self, *args))

    monkeypatch.setattr(TokenSequence, "prefill", prefill)
    monkeypatch.setattr(Engine, "logits", logits)
    status, text = run("run", str(path), *SMALL)
    assert (status, text.count("0 differing bits")) == (1, 0)


def test_keys_and_values_are_compared_too(path: Path) -> None:
    engine = Engine.open(path, executor="lanes", context=12, page_size=2, pages=14, chunk=4)
    known = laws.truth(engine, [5] * 8, lambda stage, done, of: None)
    broken = [plane.copy() for plane in known.kv]
    broken[1][0, 0, 0] ^= 1
    way = random_cut(random.Random(1), 8, 4)
    assert not [*laws.cut(engine, known, way)]
    assert [line for line in laws.cut(engine, replace(known, kv=tuple(broken)), way) if "plane 1, differ" in line]


def test_a_text_gives_the_tokens(path: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("the theatre")
    words = ("run", str(path), "--laws", "--executor", "lanes", "--text", str(text))
    assert run(*words, "--tokens", "3")[0] == 0
    with pytest.raises(StrataError, match=r"tokens, expected 60: see --tokens"):
        run(*words, "--tokens", "60")
    text.write_bytes(b"\xff")
    with pytest.raises(StrataError, match="it is no UTF-8"):
        run(*words, "--tokens", "3")


def test_digests_that_differ_are_counted_and_those_of_something_else_are_not_compared(tmp_path: Path) -> None:
    a, b = "a" * 64, "b" * 64
    one = digest_file.Digests(a, a, {"fp16": "p"}, {"fp16": [a, a, b]}, {})
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    digest_file.save(files[0], one)
    digest_file.save(files[1], replace(one, logits={"fp16": [a, b, a]}))
    assert run("compare", *map(str, files)) == (1, "fp16: p: 2 of 3 positions differ, the first one 1\n")
    for words in ({"model": b}, {"tokens": b}, {"attention": {"fp16": "q"}}, {"logits": {"fp16": [a]}}):
        with pytest.raises(StrataError, match="the files"):
            digest_file.differing(one, replace(one, **words))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "?"},
        {"logits": []},
        {"logits": {"fp16": "a"}},
        {"logits": {"fp16": ["A" * 64]}},
        {"model": 1},
        {"x": 1},
    ],
)
def test_a_file_that_is_no_file_of_digests_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    file, a = tmp_path / "one.json", "a" * 64
    digest_file.save(file, digest_file.Digests(a, a, {"fp16": "p"}, {"fp16": [a]}, {}))
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(StrataError, match="digest"):
        digest_file.load(file)


def test_a_file_with_a_seed_has_the_same_cuts_everywhere() -> None:
    cuts = [random_cut(random.Random(3), 40, 16) for _ in range(2)]
    assert cuts[0] == cuts[1]
    for seed in range(200):
        cut = random_cut(random.Random(seed), 40, 16)
        assert sum(cut.calls) <= cut.tokens <= 40
        assert all(1 <= size <= 16 for size in cut.chunks)
        assert all(call >= 1 for call in cut.calls)


def test_a_prompt_that_two_ways_cut_alike_is_asked_one_of_them() -> None:
    assert list(ways(1, 64)) == ["as large as may be"]
    assert list(ways(9, 64)) == ["as large as may be", "one token, then the rest", "ever larger"]
    assert len(ways(4096, 1024)) == 5
