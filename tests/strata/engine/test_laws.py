"""E1, E2 and E4 of the engine on lanes: 200 random ways to cut the work, and requests in every order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from strata.engine.engine import Engine
from strata.executors.lanes import LanesExecutor
from strata.kernels.pool import MODES
from tests.strata.engine import law_model
from validation.engine_laws import laws
from validation.engine_laws.cuts import random_cut, ways

#: Tokens of the prompt that is cut, the largest chunk, and pages for a sequence and its neighbour: pages that are kept
#: besides have to be evicted.
TOKENS, CHUNK = 19, 17
PAGE_SIZES = {1: 28, 2: 15, 3: 10, 4: 8, 7: 5, 16: 3}
#: Layers and period of models that have local or global layers alone, by page size; others have both.
ALONE = {2: (1, 2), 4: (1, 1), 16: (1, 2)}
#: Random ways a page size; with those of the other modes and of halves there are 200.
CUTS, CUTS_OF_MODE = 30, 5

Open = Callable[..., Engine]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Opens the model on one executor, whose kernels are looked up once."""
    folder, lanes = tmp_path_factory.mktemp("laws"), LanesExecutor(threads=1)

    def open_(layers: int = law_model.LAYERS, period: int = 2, halves: bool = False, **words: Any) -> Engine:
        path = folder / f"{layers} of {period}, {halves}.gguf"
        if not path.exists():
            law_model.write(path, layers, period, halves=halves)
        return Engine.open(path, executor=lanes, context=32, **words)

    return open_


def quiet(stage: str, done: int, of: int) -> None:
    """Progress that nobody looks at."""


def prompt(seed: int, count: int = TOKENS) -> list[int]:
    """Random tokens of few kinds, so that pages of equal tokens occur."""
    draw = random.Random(seed)
    return [draw.choice((7, 200, 8, 9, 150)) for _ in range(count)]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_bits_do_not_depend_on_how_the_work_is_cut(opened: Open, page_size: int) -> None:
    layers, period = ALONE.get(page_size, (law_model.LAYERS, 2))
    engine = opened(layers, period, page_size=page_size, pages=PAGE_SIZES[page_size], chunk=CHUNK)
    known = laws.truth(engine, prompt(page_size), quiet)
    draw = random.Random(page_size)
    for _ in range(CUTS):
        assert not [*laws.cut(engine, known, random_cut(draw, TOKENS, CHUNK))]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "fp16"])
def test_bits_of_every_kv_mode_do_not_depend_on_how_the_work_is_cut(opened: Open, mode: str) -> None:
    engine = opened(kv=mode, page_size=3, pages=PAGE_SIZES[3], chunk=CHUNK)
    known = laws.truth(engine, prompt(9), quiet)
    draw = random.Random(f"of {mode}")
    for _ in range(CUTS_OF_MODE):
        assert not [*laws.cut(engine, known, random_cut(draw, TOKENS, CHUNK))]


def test_bits_of_weights_of_halves_do_not_depend_on_how_the_work_is_cut(opened: Open) -> None:
    engine = opened(1, 2, True, page_size=3, pages=PAGE_SIZES[3], chunk=CHUNK)
    known = laws.truth(engine, prompt(5), quiet)
    draw = random.Random(5)
    for _ in range(CUTS_OF_MODE):
        assert not [*laws.cut(engine, known, random_cut(draw, TOKENS, CHUNK))]


def test_every_position_has_the_same_logits_in_five_ways(opened: Open) -> None:
    engine = opened(page_size=4, chunk=CHUNK)
    known = laws.truth(engine, prompt(3), quiet)
    assert not [*laws.chunked(engine, known, ways(TOKENS, CHUNK), quiet)]


def test_requests_give_the_same_answers_in_any_order(opened: Open) -> None:
    engine = opened(page_size=2, pages=45, chunk=CHUNK)
    prompts = [prompt(1, 6), prompt(1, 9), prompt(2, 3)]
    assert not [*laws.repeated(engine, prompts, random.Random(4), 2)]
