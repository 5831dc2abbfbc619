"""Any difference between planned and held cases is found and named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from validation.record.rules.plan import _difference, digest

PAIRS = st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("abcdef")), min_size=1, max_size=8, unique=True)
HELD = st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("abcdef")), max_size=9)


@given(PAIRS, HELD)
def test_only_the_plan_itself_passes(wanted: list[tuple[str, str]], held: list[tuple[str, str]]) -> None:
    assert (_difference(wanted, held) == "") == (wanted == held)
    assert _difference(wanted, wanted) == ""
    assert (digest(wanted) == digest(held)) == (wanted == held)


@given(PAIRS, st.data())
def test_says_what_was_done_to_it(wanted: list[tuple[str, str]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(wanted) - 1))
    assert "was planned and is not there" in _difference(wanted, wanted[:at] + wanted[at + 1 :])
    assert "is there twice" in _difference(wanted, [*wanted[: at + 1], *wanted[at:]])
    assert "was not planned" in _difference(wanted, [*wanted[:at], ("x", "y"), *wanted[at:]])
    other = data.draw(st.permutations(wanted))
    assert other == wanted or "the order is another" in _difference(wanted, other)
