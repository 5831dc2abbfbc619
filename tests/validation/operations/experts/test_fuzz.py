"""Fuzzed experts: sound kernels differ in nothing, and whatever is wrong is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.kernels import expert_fused
from validation.__main__ import main
from validation.operations.experts import fuzz
from validation.operations.experts import fuzz_inputs as draws

WORDS = ["fuzz", "--executor", "lanes", "--seed", "5", "--count", "3", "--paths"]
PATH = "expert_fused/iq4_xs/q2_0/sm80"


def test_some_outputs_are_finite_and_some_not() -> None:
    """Else the comparison would be one of NaN with NaN, or leave them out."""
    shares = []
    for index in range(48):
        what = draws.configuration(5, index, checked=True)
        made, due = fuzz.due(5, what, "expert_fused")
        if made.named.any():
            shares.append(np.isfinite(due.out[made.named]).mean())
    assert sum(share == 1 for share in shares) >= len(shares) / 4
    assert sum(0 < share < 1 for share in shares) >= len(shares) / 4


def test_what_is_due_is_of_the_operation() -> None:
    """One that refuses ids of nobody gets experts' ids; its arithmetic is its own."""
    index = next(i for i in range(400) if draws.configuration(5, i, checked=True).routing == "any")
    what = draws.configuration(5, index, checked=True)
    given_, due = fuzz.due(5, what, "expert_fused")
    assert due.ignored == int((~given_.named).sum())
    for operation in ("expert_mmq", "expert_decode"):
        own, rows = fuzz.due(5, what, operation)
        assert own.named.all()
        assert rows.ignored == 0
        assert np.array_equal(own.ids[given_.named], given_.ids[given_.named])


def test_sound_kernels_differ_in_nothing() -> None:
    assert main([*WORDS, "expert_*/iq3_xxs/iq4_nl/*"]) == 0  # whose kernels other tests build as well


def _out(made: Any) -> Any:
    made.rows.view(np.uint32)[-1, -1, -1] ^= 1
    return made


def _gate(made: Any) -> Any:
    made.gate.view(np.uint32)[-1, -1, -1] ^= 1
    return made


def _code(made: Any) -> Any:
    codes = made.h_codes.copy()
    codes[-1, -1, -1] ^= 1
    return replace(made, h_codes=codes)


WRONG = [
    (_out, " outputs differ"),
    (_gate, "1 gates differ"),
    (_code, "1 codes of h differ"),
    (lambda made: replace(made, h_scales=made.h_scales * 2 + 1), "scales of h differ"),
    (lambda made: replace(made, ignored=made.ignored + 1), "pairs ignored"),
    (lambda made: replace(made, status=(1 << 20, 0, 0)), "lost of x, h and outputs"),
    (lambda made: replace(made, offsets=made.offsets + 1), "first rows of the experts"),
    (lambda made: replace(made, guards_ok=False), "guards False"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_seen(
    wrong: Any, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = expert_fused.Prepared.result
    monkeypatch.setattr(expert_fused.Prepared, "result", lambda *arguments: wrong(sound(*arguments)))
    index = next(i for i in range(99) if draws.configuration(5, i, checked=True).values == "ties")
    assert main([*WORDS[:-3], "--count", "1", "--first", str(index), "--paths", PATH]) == 1
    shown = capsys.readouterr().out
    assert f"{PATH} #{index}" in shown
    assert said in shown


def test_the_runs_differ_in_shape_cuts_places_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    real = expert_fused.prepare

    def prepare(executor: Any, path: Any, placed: Any, x: Any, ids: Any, shape: Any, cuts: Any, trace: bool) -> Any:
        asked.append((shape, tuple(cuts), tuple(placed.experts.offsets), x.tobytes()))
        return real(executor, path, placed, x, ids, shape, cuts, trace)

    monkeypatch.setattr(expert_fused, "prepare", prepare)
    assert main([*WORDS, PATH]) == 0
    assert len(asked) == 2 * 3
    assert all(
        any(one[part] != two[part] for one, two in zip(asked[::2], asked[1::2], strict=True)) for part in range(4)
    )
    assert any(offset % 4 for _, _, offsets, _ in asked for offset in offsets)
