"""The engine against Gemma 3 in plain NumPy (`validation.captured.forward`): it computes that, and nothing near it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.engine.engine import Engine
from strata.executors.lanes import LanesExecutor
from strata.kernels.pool import MODES
from tests.strata.engine import law_model
from validation.captured import forward
from validation.captured.gguf_model import Model, open_model

TOKENS = [7, 200, 8, 9, 150, 7, 7, 30, 60, 12, 250, 8, 9, 31]

#: Models that differ from Gemma 3 in one thing each.
OTHERS: dict[str, dict[str, Any]] = {
    "a window beside the query's own cell": {"window": law_model.WINDOW + 1},
    "a window too small": {"window": law_model.WINDOW - 1},
    "every layer global": {"global_period": 1},
}
#: Those that change less than rounding keys or values to four bits does.
SMALLER: dict[str, dict[str, Any]] = {
    "no layer global": {"global_period": 99},
    "bases of rope that are swapped": {"rope_base_global": 1e4, "rope_base_local": 1e6},
    "another epsilon": {"rms_epsilon": 1e-1},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return law_model.write(tmp_path_factory.mktemp("definition") / "small.gguf")


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with open_model([path], hashlib.sha256(path.read_bytes()).hexdigest()) as opened:
        yield opened


class With:
    """A model with other sizes or constants."""

    def __init__(self, model: Model, words: dict[str, Any]) -> None:
        self.hyper = replace(model.hyper, **words)
        self.tensor, self.rows, self.n_rows = model.tensor, model.rows, model.n_rows


def defined(weights: forward.Weights) -> np.ndarray:
    hidden, _ = forward.hidden_states(weights, np.array(TOKENS), (), lambda stage, done, of: None)
    return hidden @ weights.tensor(forward.EMBEDDING).T


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.square(one - other).mean()))


@pytest.mark.parametrize("mode", MODES)
def test_it_is_nearer_to_the_definition_than_to_mistakes(path: Path, model: Model, mode: str) -> None:
    engine = Engine.open(path, executor=LanesExecutor(threads=1), kv=mode, context=16, chunk=16)
    logits = np.concatenate([rows for _, rows in engine.logits(TOKENS)])
    truth = defined(model)
    for what, words in (OTHERS | (SMALLER if mode in ("fp16", "int8") else {})).items():
        mistaken = defined(With(model, words))
        # Half way between the two would be as near to either.
        assert distance(logits, truth) < distance(truth, mistaken) / 2, what


def test_weights_of_halves_are_nearer_still(path: Path, model: Model, tmp_path: Path) -> None:
    """Products of FP16 weights round no activation to eight bits."""
    halves = law_model.write(tmp_path / "halves.gguf", halves=True)
    with open_model([halves], hashlib.sha256(halves.read_bytes()).hexdigest()) as exact:
        distances = [
            distance(np.concatenate([rows for _, rows in engine.logits(TOKENS)]), defined(weights))
            for engine, weights in (
                (Engine.open(file, executor=LanesExecutor(threads=1), context=16, chunk=16), weights)
                for file, weights in ((halves, exact), (path, model))
            )
        ]
    assert distances[0] < distances[1] / 2


def test_an_output_of_its_own_is_what_the_head_multiplies(tmp_path: Path) -> None:
    tied, untied = (law_model.write(tmp_path / f"{one}.gguf", untied=one) for one in (False, True))
    one, other = (Engine.open(file, executor=LanesExecutor(threads=1), context=16, chunk=16) for file in (tied, untied))
    assert (one.model.tied, other.model.tied) == (True, False)
    assert other.facts()["bytes"]["weights"] > one.facts()["bytes"]["weights"]
    with open_model([untied], hashlib.sha256(untied.read_bytes()).hexdigest()) as opened:
        hidden, _ = forward.hidden_states(opened, np.array(TOKENS), (), lambda stage, done, of: None)
        truth, mistaken = (hidden @ opened.tensor(f"{name}.weight").T for name in ("output", "token_embd"))
    logits = np.concatenate([rows for _, rows in other.logits(TOKENS)])
    assert distance(logits, truth) < distance(truth, mistaken) / 2
