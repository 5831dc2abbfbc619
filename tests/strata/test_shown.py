"""Text of somebody else's: whatever it holds, what is printed of it does nothing."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from strata.shown import printable, shown, shown_throughout
from tests.strata.hostile import SENT, obeyed, texts

JSON = st.recursive(st.text(max_size=5), lambda of: st.lists(of, max_size=3) | st.dictionaries(st.text(max_size=3), of))


@given(st.text(max_size=30))
@example("".join(SENT))
def test_nothing_in_it_is_obeyed(text: str) -> None:
    assert obeyed(shown(text)) == []
    assert obeyed(printable(text), "\n\t") == []
    assert shown(shown(text)) == shown(text)
    assert printable(shown(text)) == shown(text)


@given(st.text(st.characters(exclude_categories=("C", "Z"))))
@example("REFUSED bits: row 3, 1.5 x 2^-3 \u00e9 \u05d0 \u6f22")
def test_what_prints_stays(text: str) -> None:
    assert shown(text) == printable(text) == text


@given(JSON)
def test_no_text_of_a_value_is_left_out(value: object) -> None:
    assert [text for text in texts(shown_throughout(value)) if obeyed(text)] == []


def test_it_is_one_line_that_names_what_it_held() -> None:
    assert shown("a\x1b[2J\u202e\nb\U000e0001") == "a\\u001b[2J\\u202e\\u000ab\\U000e0001"
    assert printable("a\x1b[2J\n\tb") == "a\\u001b[2J\n\tb"
    assert shown(ValueError("x" * 50), 8) == "xxxxxxxx..."
    assert shown_throughout({"\x1b": [None, 1, True, 1.5, {"k": "\r"}]}) == {
        "\\u001b": [None, 1, True, 1.5, {"k": "\\u000d"}]
    }
