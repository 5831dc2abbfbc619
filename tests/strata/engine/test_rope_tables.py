"""Tables of rope: every entry is the FP32 nearest to the true cosine or sine, whatever part of a table is asked for."""

from __future__ import annotations

import hashlib
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.engine import rope_tables
from strata.engine.rope_tables import tables
from strata.executors.base import StrataError
from validation.core.random_streams import Stream

#: Bases of the first models, of the model of the extra `model` (global layers), and others.
BASES = (10000.0, 1000000.0, 500000.0, 1.0, 1.5, float(np.float32(10000.1)), 2.0**128)
#: Entries whose FP64 value lies so near the middle of two FP32 that the bound leaves them open: base, half, position,
#: pair, whether of the sines. Those of all tables up to 65,536 positions of three bases.
OPEN = (
    (10000.0, 64, 28381, 39, True),
    (10000.0, 128, 396, 77, False),
    (500000.0, 128, 17315, 1, False),
    (500000.0, 128, 61238, 47, False),
    (10000000.0, 40, 52774, 3, True),
    (8000000.0, 128, 55508, 13, False),
)


def truth(base: float, half: int, position: int, pair: int, sine: bool) -> Any:
    with mpmath.workprec(400):
        angle = position * mpmath.mpf(base) ** (mpmath.mpf(-pair) / half)
        return mpmath.sin(angle) if sine else mpmath.cos(angle)


def assert_nearest(got: np.float32, due: Any) -> None:
    """No other FP32 is nearer to the truth, and the sign is the truth's."""
    with mpmath.workprec(400):
        off = abs(mpmath.mpf(float(got)) - due)
        for to in (-np.inf, np.inf):
            beside = np.nextafter(got, np.float32(to))
            assert off < abs(mpmath.mpf(float(beside)) - due), (got, due)
    assert np.signbit(got) == (due < 0)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_entry_of_any_range_is_the_nearest(data: st.DataObject) -> None:
    base = data.draw(st.one_of(st.sampled_from(BASES), st.floats(1, 1e9)), "base")
    half = data.draw(st.sampled_from([1, 3, 4, 20, 40]), "half")
    start = data.draw(
        st.one_of(st.integers(0, 300), st.integers(0, 1 << 20), st.sampled_from([(1 << 24) - 2])), "start"
    )
    count = data.draw(st.integers(1, 40), "count")
    made = tables(base, half, range(start, start + count))
    for _ in range(6):
        row, pair = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, half - 1))
        for table, sine in ((made.cos, False), (made.sin, True)):
            if start + row:
                assert_nearest(table[row, pair], truth(base, half, start + row, pair, sine))


@pytest.mark.parametrize(("base", "half", "position", "pair", "sine"), OPEN)
def test_the_hardest_entries_are_the_nearest(base: float, half: int, position: int, pair: int, sine: bool) -> None:
    due = truth(base, half, position, pair, sine)
    assert_nearest(rope_tables.decide(base, half, position, pair, sine), due)
    made = tables(base, half, range(position - 5, position + 2))
    assert_nearest((made.sin if sine else made.cos)[5, pair], due)


def test_the_smallest_sines_are_the_nearest_subnormals() -> None:
    made = tables(2.0**128, 64, range(1, 8))
    for row in range(7):
        for pair in (60, 63):
            assert_nearest(made.sin[row, pair], truth(2.0**128, 64, row + 1, pair, True))
    tiny = rope_tables.decide(2.0**140, 64, 3, 63, True)
    assert 0 < tiny < 2.0**-126
    assert_nearest(tiny, truth(2.0**140, 64, 3, 63, True))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 1000, (1 << 22) - 1])
def test_subnormals_are_rounded_once(k: int) -> None:
    """Beside the middle of two: a rounding to 24 bits before would take it for the middle, and then for the even."""
    context = rope_tables._context(200)
    middle = context.mpf(2 * k + 1)
    for by, due in ((1, k + 1), (-1, k)):
        value = context.ldexp(middle + by * context.ldexp(1, -40), -150)
        assert rope_tables._nearest(context, value) == np.float32(np.ldexp(float(due), -149))


def test_position_0_is_exact() -> None:
    made = tables(10000.0, 8, 1)
    assert made.cos.tobytes() == np.ones((1, 8), np.float32).tobytes()
    assert made.sin.tobytes() == np.zeros((1, 8), np.float32).tobytes()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 500), st.integers(1, 300), st.sampled_from([2, 5]))
def test_a_range_has_the_rows_of_the_whole_table(start: int, count: int, half: int) -> None:
    whole, part = tables(10000.0, half, 800), tables(10000.0, half, range(start, start + count))
    for name in ("cos", "sin"):
        assert getattr(part, name).tobytes() == getattr(whole, name)[start : start + count].tobytes()


def test_the_tables_of_a_model_have_the_bytes_that_were_written_down() -> None:
    """Of local and global layers of heads of 256: made once, and every entry of them by mpmath alone as well."""
    digests = {
        base: hashlib.sha256(b"".join(part.tobytes() for part in tables(base, 128, 1024))).hexdigest()[:16]
        for base in (10000.0, 1000000.0)
    }
    assert digests == WRITTEN


def test_where_the_bound_decides_nothing_mpmath_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tables(10000.0, 6, range(90, 130))
    asked, decide = list[Any](), rope_tables.decide

    def deciding(*entry: Any) -> np.float32:
        asked.append(entry)
        return decide(*entry)

    monkeypatch.setattr(rope_tables, "_ERROR", 1.0)
    monkeypatch.setattr(rope_tables, "decide", deciding)
    slow = tables(10000.0, 6, range(90, 130))
    assert len(asked) == 2 * usual.cos.size
    assert (slow.cos.tobytes(), slow.sin.tobytes()) == (usual.cos.tobytes(), usual.sin.tobytes())


@given(st.integers(0x00800000, 0x3F7FFFFF), st.booleans(), st.integers(-6, 6))
def test_what_lies_within_the_error_of_the_middle_is_left_open(bits: int, negative: bool, steps: int) -> None:
    """Up to six FP64 steps of a sum beside the middle between two FP32, all below the error."""
    low, high = (np.array(one, np.uint32).view(np.float32).astype(np.float64) for one in (bits, bits + 1))
    middle = (low + high) / 2 * (-1 if negative else 1)
    value = middle + steps * np.spacing(middle) / 2
    places = list(rope_tables._round(np.array([[value]]), np.zeros((1, 1)), np.empty((1, 1), np.float32)))
    assert places == [(0, 0)]


@given(st.integers(0x00800000, 0x3F7FFFFF), st.booleans())
def test_what_lies_further_away_is_rounded(bits: int, above: bool) -> None:
    low, high = (np.array(one, np.uint32).view(np.float32) for one in (bits, bits + 1))
    middle = (low.astype(np.float64) + high) / 2
    out = np.empty((1, 1), np.float32)
    value = middle * (1 + (40 if above else -40) * 2.0**-53)
    if middle > 2.0**-140:  # below, the error of fixed point is no small part
        assert list(rope_tables._round(np.array([[value]]), np.zeros((1, 1)), out)) == []
        assert out[0, 0] == (high if above else low)


def test_factors_are_off_by_their_own_rounding_alone() -> None:
    """What the bound takes for granted of them."""
    half, length, turns = 5, 16, range(1000, 1060)
    coarse, fine = rope_tables._factors(1000000.0, half, length, turns)
    for parts, positions in ((coarse, [length * turn for turn in turns]), (fine, range(length))):
        for row, position in enumerate(positions):
            for part, sine in zip(parts, (False, True), strict=True):
                for pair in range(half):
                    due = truth(1000000.0, half, position, pair, sine)
                    with mpmath.workprec(400):
                        assert abs(mpmath.mpf(part[row, pair]) - due) <= abs(due) * mpmath.ldexp(1, -53)


def test_mpmath_s_own_precision_is_left_alone() -> None:
    before = mpmath.mp.prec
    tables(10000.0, 2, 3)
    assert mpmath.mp.prec == before


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: tables(0.5, 4, 3), "a base of 0.5, expected 1 to 2"),
        (lambda: tables(float("nan"), 4, 3), "a base of nan, expected 1 to 2"),
        (lambda: tables(-3.0, 4, 3), "a base of -3.0, expected"),
        (lambda: tables(2.0**129, 4, 3), "expected 1 to 2"),
        (lambda: tables(10**400, 4, 3), "expected 1 to 2"),
        (lambda: tables(True, 4, 3), "a base of True, expected 1 to 2"),
        (lambda: tables(10.0, 0, 3), "0 pairs of a head, expected a whole number from 1 on"),
        (lambda: tables(10.0, 2.5, 3), "2.5 pairs of a head"),  # type: ignore[arg-type]
        (lambda: tables(10.0, 4, -1), "-1 positions, expected a range or a whole number from 0 on"),
        (lambda: tables(10.0, 4, 2.0), "2.0 positions, expected"),  # type: ignore[arg-type]
        (lambda: tables(10.0, 4, range(0, 9, 2)), r"positions range\(0, 9, 2\), expected a range in steps of 1"),
        (lambda: tables(10.0, 4, range(-1, 9)), r"positions range\(-1, 9\), expected a range in steps of 1 between 0"),
        (lambda: tables(10.0, 4, range((1 << 31) - 1, (1 << 31) + 1)), "expected a range in steps of 1 between 0 and"),
    ],
)
def test_what_cannot_be_is_refused(ask: Any, said: str) -> None:
    with pytest.raises(StrataError, match=said):
        ask()


def test_no_position_is_an_empty_table() -> None:
    assert [part.shape for part in tables(10000.0, 8, 0)] == [(0, 8), (0, 8)]


def test_a_base_may_be_a_whole_number_or_one_of_numpy() -> None:
    due = tables(10000.0, 4, 9).sin.tobytes()
    others: tuple[Any, ...] = (np.float32(10000), 4, np.int64(9))
    assert tables(10000, 4, 9).sin.tobytes() == tables(*others).sin.tobytes() == due


def test_entries_are_spread_over_the_last_positions_too() -> None:
    """The last positions that an int32 counts."""
    stream = Stream.of(1, "last")
    made = tables(10000.0, 4, range((1 << 31) - 3, 1 << 31))
    for row, pair in zip(stream.child("row").below(3, 8), stream.child("pair").below(4, 8), strict=True):
        assert_nearest(made.cos[row, pair], truth(10000.0, 4, (1 << 31) - 3 + int(row), int(pair), False))


#: Beginnings of SHA-256.
WRITTEN = {10000.0: "f155baf826c7835b", 1000000.0: "48346f1b3c140c86"}
