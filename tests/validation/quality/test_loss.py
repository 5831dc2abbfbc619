"""The table of losses, and the published runtime, for which a module of its name stands in."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from strata.executors.base import StrataError
from tests.validation.quality.conftest import Fake, close
from validation.core.verdict import Verdict
from validation.quality.fp64_model import Fp64Model
from validation.quality.loss import ENGINE, FP64, PUBLISHED, Row, Table, of_subject
from validation.quality.published import Published, kept, losses

TOKENS = np.array([4, 8, 15, 16, 23, 42, 3, 1])


def test_a_subject_loses_what_its_logits_say(model: Fp64Model) -> None:
    got = of_subject(Fake("A", model), TOKENS)
    want = model.losses(model.states(TOKENS), TOKENS)
    assert got.shape == want.shape
    # The subject's logits are rounded to float32, once each: both terms of a loss move by 2^-24 of the largest.
    largest = np.abs(model.logits(model.states(TOKENS))).max()
    assert (np.abs(got - want) <= 2 * 2.0**-24 * largest + 2.0**-40).all()


def test_differences_are_taken_token_by_token() -> None:
    random = np.random.default_rng(1)
    common = 3 + random.standard_normal(100)
    step = 0.01 * random.standard_normal(100)
    table = Table(101, [Row(FP64, "exact", "exact", common), Row(ENGINE, "q4_0/tensor", "q4_0", common + step)])
    found = table.against(table.rows[1], "exact")
    assert found is not None
    close(np.array([found.mean]), np.array([math.fsum(step) / 100]), steps=400)
    assert found.error < np.std(common) / 10 / 10  # not that of two separate means
    assert table.against(table.rows[1], "q4_0") is None
    assert table.verdict is Verdict.WITHIN_BOUND


def test_absent_rows_have_no_difference_and_no_verdict() -> None:
    table = Table(3, [Row(FP64, "exact", "exact", np.ones(2)), Row(PUBLISHED, "none", "fp16", note="not installed")])
    assert table.against(table.rows[1], "exact") is None
    assert math.isnan(table.rows[1].mean)
    assert table.verdict is Verdict.WITHIN_BOUND
    assert Table(3, table.rows[1:]).verdict is Verdict.NOT_RUN


def test_a_loss_that_is_no_number_fails() -> None:
    assert Table(3, [Row(ENGINE, "x", "fp16", np.array([1.0, math.nan]))]).verdict is Verdict.EXCEEDS


RUNTIME = """
class _Any:
    def __getattr__(self, name):
        value = _Any()
        setattr(self, name, value)
        return value

CommonParams = _Any

class Server:
    def __init__(self, parameters):
        assert parameters.model.path.endswith("model.gguf")
    def handle_completions(self, request):
        (following, bias), = request["logit_bias"]
        assert bias > 1000 and request["n_predict"] == 1
        {body}
        token = {{"id": following + {off}, "logprob": -len(request["prompt"]) / 8}}
        return {{"choices": [{{"logprobs": {{"content": [token]}}}}]}}
"""


def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str = "pass", off: int = 0) -> None:
    (tmp_path / "xllamacpp.py").write_text(RUNTIME.format(body=body, off=off))
    information = tmp_path / "xllamacpp-9.9.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: xllamacpp\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_a_published_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime(tmp_path, monkeypatch)
    done: list[int] = []
    found = losses(tmp_path / "model.gguf", TOKENS, sys.executable, done.append)
    assert found.runtime == "xllamacpp 9.9"
    assert found.losses.tolist() == [count / 8 for count in range(1, 8)]
    assert done == list(range(1, 8))


def test_what_it_said_is_kept(tmp_path: Path) -> None:
    told = Published("runtime 1", np.array([0.1, 2.0 / 3]))
    asked: list[int] = []

    def ask() -> Published:
        asked.append(1)
        return told

    for directory, times in ((tmp_path, 1), (tmp_path, 1), (None, 2)):
        again = kept(directory, "key", ask)
        assert (again.runtime, again.losses.tolist()) == (told.runtime, told.losses.tolist())
        assert len(asked) == times
    kept(tmp_path, "other key", ask)
    assert len(asked) == 3
    assert kept(tmp_path, "absent", lambda: Published(absent="why")).absent == "why"
    assert len(list(tmp_path.iterdir())) == 2
    for file in tmp_path.iterdir():
        file.write_text('{"losses": [1]}')
    with pytest.raises(StrataError, match="is not what a published runtime said: 'runtime'; remove it"):
        kept(tmp_path, "key", ask)


def test_a_runtime_that_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('no such library')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = losses(tmp_path / "model.gguf", TOKENS)
    assert isinstance(found, Published)
    assert (found.runtime, len(found.losses)) == ("", 0)
    assert found.absent.startswith("no such library; pip install xllamacpp")


@pytest.mark.parametrize(("body", "off"), [("raise SystemExit(3)", 0), ("pass", 1)])
def test_a_runtime_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, off: int) -> None:
    runtime(tmp_path, monkeypatch, body, off)
    with pytest.raises(StrataError, match=r"ended with status [13] after 0 tokens, expected 7"):
        losses(tmp_path / "model.gguf", TOKENS)


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match=r"--published .* cannot be started: No such file"):
        losses(tmp_path / "model.gguf", TOKENS, str(tmp_path / "python"))
