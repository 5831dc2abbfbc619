"""A capture that no kernel takes is refused once, on loading: not by every one of its cases, and with no traceback."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.validation.captured.facts import METADATA
from tests.validation.parity.test_command import Bench, run
from validation.captured.archive import Capture, LayerCapture, save

OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"head_dim": 128}, "has head_dim 128; expected 256, the only one of these kernels"),
    ({"n_head": 6}, "has 6 query heads on 1 KV heads; expected 4, 8 or 12 query heads a KV head"),
    ({"n_head": 13, "n_head_kv": 3}, "has 13 query heads on 3 KV heads; expected 4, 8 or 12"),
    ({"n_head": 260, "n_head_kv": 65}, "has 65 KV heads and 3 tokens; expected at most 64 and"),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize(
    "words",
    [["--recipe", "captured"], [], ["--case", "recipe=captured seed=1 context=3 queries=1 layer=0"]],
    ids=["its recipe", "among others", "its case"],
)
@pytest.mark.parametrize(("change", "said"), OTHERS, ids=lambda value: str(value)[:20])
def test_a_capture_of_another_geometry_is_refused_once(
    bench: Bench, change: dict[str, Any], said: str, words: list[str], tmp_path: Path, capsys: Any
) -> None:
    facts = replace(METADATA, **({"head_dim": 256} | change))
    heads = (facts.n_head, facts.n_head_kv, facts.n_head_kv)
    arrays = (np.ones((facts.tokens, count, facts.head_dim), np.float32) for count in heads)
    layer = LayerCapture(*arrays)
    save(Capture(dict.fromkeys(facts.layers, layer), facts), tmp_path / "other.npz")
    assert run(*words, "--capture", str(tmp_path / "other.npz"), "--out", str(tmp_path / "run")) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
