"""The engine's door: what it refuses, what it keeps when something stops it, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strata.engine.engine import Engine
from strata.executors.base import StrataError
from strata.executors.lanes import LanesExecutor
from tests.strata.engine import law_model

PROMPT = [7, 200, 8, 9, 150, 7, 7, 30]

Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return law_model.write(tmp_path_factory.mktemp("engine") / "small.gguf")


@pytest.fixture(scope="module")
def lanes() -> LanesExecutor:
    return LanesExecutor(threads=1)


@pytest.fixture(scope="module")
def opened(model_path: Path, lanes: LanesExecutor) -> Open:
    words: dict[str, Any] = {"executor": lanes, "context": 16, "page_size": 3, "chunk": 4}
    return lambda **others: Engine.open(model_path, **(words | others))


@pytest.fixture(scope="module")
def shared(opened: Open) -> Engine:
    """One engine for tests that leave it as it was."""
    return opened()


@pytest.fixture
def engine(shared: Engine) -> Iterator[Engine]:
    yield shared
    shared.close()
    shared.forget()


def bits(logits: np.ndarray) -> bytes:
    return logits.tobytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kv": "fp8"}, "kv 'fp8': expected one of fp16, int8, k8v4, q4_0"),
        ({"context": 0}, "context of 0, expected 1 to 96"),
        ({"context": 97}, "context of 97, expected 1 to 96"),
        ({"page_size": 0}, "page_size of 0, expected 1 to 4096"),
        ({"page_size": 2.5}, "page_size is 2.5, expected a whole number"),
        ({"pages": 0}, "pages of 0, expected 1 to 1048576"),
        ({"pages": 2**20, "page_size": 4096}, "a KV cache of 4294967296 rows a layer, expected fewer than 2\\^31"),
        ({"chunk": 0}, "chunk of 0, expected 1 to 16384"),
        ({"executor": "tpu"}, "executor 'tpu': expected one of auto, lanes, cuda"),
        ({"executor": LanesExecutor("sm_80"), "capability": 90}, "on lanes of rule block 8, F 24, expected sm_90"),
        ({"executor": "lanes", "capability": 33}, "capability 33: expected one of 75, 80, 86, 89, 90"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(opened: Open, words: dict[str, Any], said: str) -> None:
    with pytest.raises(StrataError, match=said) as raised:
        opened(**words)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ([], "no tokens, expected at least one"),
        ([1, -1], "token 1 is -1, expected 0 to 285"),
        ([286], "token 0 is 286, expected 0 to 285"),
        ([1.5], "token 0 is 1.5, expected a whole number"),
        (["a"], "token 0 is 'a', expected a whole number"),
        ([1] * 15, "15 tokens behind 2, expected up to 16 in all, the context"),
    ],
)
def test_tokens_that_cannot_be_read_leave_the_sequence_as_it_was(engine: Engine, tokens: Any, said: str) -> None:
    with engine.sequence() as sequence:
        sequence.prefill(PROMPT[:2])
        with pytest.raises(StrataError, match=said):
            sequence.prefill(tokens)
        assert sequence.tokens == PROMPT[:2]


def test_chunks_that_cannot_be_are_refused(engine: Engine) -> None:
    for chunks, said in (([], "no sizes of chunks"), ([0], "a chunk of 0, expected 1 to 4"), ([5], "a chunk of 5")):
        with pytest.raises(StrataError, match=said):
            engine.prefill(PROMPT, chunks)
    with pytest.raises(StrataError, match="rows of 0"):
        next(engine.logits(PROMPT, rows=0))


def test_a_context_can_be_filled_to_its_last_cell(engine: Engine) -> None:
    with engine.sequence() as sequence:
        sequence.prefill([5] * 15)
        sequence.decode(6)
        with pytest.raises(StrataError, match="1 tokens behind 16"):
            sequence.decode(6)
        assert len(sequence) == 16


def test_pages_that_run_out_lose_nothing(opened: Open) -> None:
    engine = opened(pages=3)
    expected = bits(opened().prefill(PROMPT))
    one, two = engine.sequence(), engine.sequence()
    one.prefill(PROMPT[:5])
    two.prefill([4])
    with pytest.raises(StrataError, match="room for 0 more pages of 3 cells, and 3 more tokens need 1"):
        one.prefill(PROMPT[5:])
    assert (one.tokens, two.tokens) == (PROMPT[:5], [4])
    two.close()
    assert bits(one.prefill(PROMPT[5:])) == expected


class Stop:
    """Stops the launch of a number, once."""

    def __init__(self, lanes: LanesExecutor, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.launch = at, lanes.launch
        monkeypatch.setattr(lanes, "launch", self)

    def __call__(self, *args: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self.launch(*args)


@pytest.mark.parametrize("at", [1, 30, 60, 100])
def test_a_prompt_that_is_interrupted_leaves_the_sequence_as_it_was(
    engine: Engine, lanes: LanesExecutor, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine.sequence() as sequence:
        expected = bits(sequence.prefill(PROMPT))
    engine.forget()
    with engine.sequence() as sequence:
        sequence.prefill(PROMPT[:2])
        held = engine.pages.available
        with monkeypatch.context() as patch:
            Stop(lanes, at, patch)
            with pytest.raises(KeyboardInterrupt):
                sequence.prefill(PROMPT[2:])
        assert (sequence.tokens, engine.pages.available) == (PROMPT[:2], held)
        assert bits(sequence.prefill(PROMPT[2:])) == expected


def test_values_that_are_not_finite_are_an_error_that_names_them(engine: Engine) -> None:
    norm = engine._weights.layers[1].attn_k_norm
    sound = norm.host()
    with engine.sequence() as sequence:
        expected = bits(sequence.prefill(PROMPT[:5]))
        broken = sound.copy()
        broken[3] = np.inf
        norm.write(broken)
        try:
            with pytest.raises(StrataError, match=r"not finite.*in packing keys and values"):
                sequence.prefill(PROMPT[5:])
        finally:
            norm.write(sound)
        assert sequence.tokens == PROMPT[:5]
    engine.forget()
    assert bits(engine.prefill(PROMPT[:5])) == expected


def test_values_lost_in_work_that_was_interrupted_are_nobodys(
    engine: Engine, lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm = engine._weights.layers[0].attn_norm
    sound = norm.host()
    norm.write(np.full_like(sound, np.nan))
    with monkeypatch.context() as patch:
        Stop(lanes, 40, patch)
        with pytest.raises(KeyboardInterrupt):
            engine.prefill(PROMPT[:4])
    norm.write(sound)
    assert np.isfinite(engine.prefill(PROMPT[:4])).all()


def test_the_current_sequence_goes_on_and_starts_anew(engine: Engine) -> None:
    whole = bits(engine.prefill(PROMPT))
    engine.start()
    engine.prefill(PROMPT[:4])
    assert bits(engine.prefill(np.array(PROMPT[4:]))) == whole
    engine.start()
    assert bits(engine.prefill(PROMPT[4:])) != whole


def test_a_prompt_that_is_known_is_computed_from_its_last_page_on(
    engine: Engine, lanes: LanesExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launches() -> int:
        count = Stop(lanes, -1, monkeypatch)
        engine.start()
        engine.prefill(PROMPT[:7])
        monkeypatch.undo()
        return -1 - count.left

    first, again = launches(), launches()
    assert again * 2 == first + 2 + 1  # two chunks become one; the head is launched once each time


def test_logits_of_every_position_bear_other_work_between_their_slices(engine: Engine) -> None:
    whole = np.concatenate([rows for _, rows in engine.logits(PROMPT)])
    pieces: list[np.ndarray] = []
    for first, rows in engine.logits(PROMPT, rows=3):
        assert first == sum(len(piece) for piece in pieces)
        pieces.append(rows)
        with engine.sequence() as other:
            other.prefill([9] * 4)  # as many rows as a chunk has
    assert bits(np.concatenate(pieces)) == bits(whole)
    engine.start()
    assert bits(engine.prefill(PROMPT)) == bits(whole[-1])


def test_logits_that_nobody_reads_on_give_their_pages_back(engine: Engine) -> None:
    rows = engine.logits(PROMPT, rows=1)
    next(rows)
    assert engine.pages.available < engine.pages.count
    rows.close()  # type: ignore[attr-defined]
    assert engine.pages.available == engine.pages.count


def test_a_sequence_that_is_closed_is_refused(engine: Engine) -> None:
    sequence = engine.sequence()
    sequence.prefill([1])
    sequence.close()
    for call in (lambda: sequence.prefill([1]), lambda: sequence.decode(1), sequence.kv_bytes):
        with pytest.raises(StrataError, match="the sequence is closed"):
            call()
    assert engine.pages.available == engine.pages.count


def test_pages_are_not_forgotten_while_they_are_held(engine: Engine) -> None:
    with engine.sequence() as sequence:
        sequence.prefill([1, 2, 3, 4])
        with pytest.raises(StrataError, match="2 pages are held"):
            engine.forget()


def test_it_says_what_serves_and_how_large_it_is(engine: Engine) -> None:
    facts = engine.facts()
    assert facts["attention"] == "decode_attention/fp16/simt"
    assert any("linear_dp4a/q8_0/simt" in line for line in facts["paths"])
    sizes = {"context": 16, "page_size": 3, "pages": 6, "pages_available": 6, "chunk": 4, "layers": law_model.LAYERS}
    assert facts.items() >= sizes.items()
    cells = 6 * 3
    assert facts["bytes"]["kv"] == law_model.LAYERS * cells * 2 * 256 * 2
    assert facts["bytes"]["weights"] > 0
    assert facts["bytes"]["buffers"] > 0


def test_the_tokenizer_is_the_files(engine: Engine) -> None:
    assert len(engine.tokenizer) == engine.model.vocab
    assert engine.tokenizer.decode(engine.tokenizer.encode("the theatre")) == "the theatre"


def test_the_logits_of_a_model_with_a_cap_are_capped(opened: Open, tmp_path: Path, engine: Engine) -> None:
    capped = Engine.open(
        law_model.write(tmp_path / "capped.gguf", softcap=0.5),
        executor=engine.executor,
        context=16,
        page_size=8,
        pages=2,
        chunk=4,
    )
    logits, plain = capped.prefill(PROMPT), engine.prefill(PROMPT)
    assert np.abs(logits).max() <= 0.5 < np.abs(plain).max()
    assert np.array_equal(np.argsort(plain)[:3], np.argsort(logits)[:3])
    capped.close()
    slices = np.concatenate([rows for _, rows in capped.logits(PROMPT, rows=3)])
    assert bits(slices[-1]) == bits(logits)
