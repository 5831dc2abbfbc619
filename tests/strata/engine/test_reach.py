"""Grids that grow with the cells that a row sees, beyond one chunk of the baseline, and the path that a card has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from strata.engine.engine import Engine
from strata.executors.lanes import LanesExecutor
from strata.gates.gate import Decision
from tests.strata.engine import law_model

#: More than the 64 cells of one chunk of the baseline, so that the second is reached within a call and within decoding.
TOKENS = [(place * 37) % 280 for place in range(68)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return law_model.write(tmp_path_factory.mktemp("reach") / "small.gguf")


@pytest.mark.parametrize("capability", [None, 90])
def test_decoding_beyond_the_first_chunk_gives_the_bits_of_a_prompt(path: Path, capability: int | None) -> None:
    engine = Engine.open(
        path,
        executor=LanesExecutor("sm_90"),
        context=80,
        chunk=80,
        capability=capability,
        gate=lambda *asked: Decision(True, "open: for a test"),
    )
    expected = {first + i: row for first, rows in engine.logits(TOKENS) for i, row in enumerate(rows)}
    with engine.sequence() as sequence:
        sequence.prefill(TOKENS[:62], [31])
        for place, token in enumerate(TOKENS[62:66], 62):
            assert np.array_equal(sequence.decode(token), expected[place])
        assert np.array_equal(sequence.prefill(TOKENS[66:]), expected[len(TOKENS) - 1])
    served = "decode_attention/fp16/simt" if capability is None else "prompt_attention/fp16/sm80"
    assert engine.facts()["attention"] == served
