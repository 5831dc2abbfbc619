"""A known name is suggested where fingers slipped, and none where none is near."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strata.kernels.paths import PATHS, select
from strata.nearest import MOST, hint, nearest, slips
from strata.switches import SWITCHES
from validation.core.case import CaseError
from validation.operations import registry
from validation.operations.kv_pack.case import Case
from validation.operations.registry import parse

WORDS = st.text("abcd_", min_size=0, max_size=12)


@given(WORDS, WORDS, WORDS)
def test_slips_are_a_distance(one: str, two: str, three: str) -> None:
    assert slips(one, two) == slips(two, one)
    assert (slips(one, two) == 0) == (one == two)
    assert abs(len(one) - len(two)) <= slips(one, two) <= max(len(one), len(two))
    assert slips(one + three, two + three) <= slips(one, two)


@given(st.sampled_from([*PATHS, *SWITCHES, *registry.recipes_of_all()]), st.data())
def test_one_slip_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 2))
    kind = data.draw(st.sampled_from(["drop", "double", "swap", "other"]))
    changed = {
        "drop": name[:at] + name[at + 1 :],
        "double": name[: at + 1] + name[at:],
        "swap": name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        "other": name[:at] + "?" + name[at + 1 :],
    }[kind]
    assume(changed != name)
    assert slips(changed, name) == 1
    assert nearest(changed, [name, "something else altogether"]) == name
    assert nearest(changed.swapcase(), [name]) == name


@given(st.text(max_size=300), st.lists(st.text(max_size=30), max_size=4))
def test_what_is_suggested_is_near(name: str, known: list[str]) -> None:
    found = nearest(name, known)
    if found is not None:
        assert slips(name.lower(), found.lower()) <= max(1, min(MOST, len(name) // 4))
    assert hint(name, known, "all stand there") in ("all stand there", f"the nearest is {found!r} (all stand there)")


@pytest.mark.parametrize("name", ["banana", "STRATA_BANANA", "x", "", "prompt", "head", "experts_hot", "9" * 5000])
def test_what_is_not_near_is_not_said(name: str) -> None:
    """Of a name like no other, a list or the command that prints one is said instead."""
    assert nearest(name, [*PATHS, *SWITCHES, *registry.recipes_of_all()]) is None


def test_the_tables_say_where_all_names_stand() -> None:
    with pytest.raises(ValueError, match=r"^no path matches 'banana'; see `python -m validation paths`$"):
        select("banana")
    with pytest.raises(Exception, match=r"^no recipe is called 'banana'; see `python -m validation recipes`$"):
        registry.find("banana")
    for words in ("recipe=uniform banana=1", "recipe=experts_plain tokens=1 banana=1"):
        with pytest.raises(CaseError, match="unknown key 'banana'; expected one of recipe, seed"):
            parse(words)


@pytest.mark.parametrize("value", ["1_0", "\u0661", "9" * 5000, "+1", "1e3"])
def test_numbers_of_a_case_are_read_in_the_same_way(value: str) -> None:
    for text in ("recipe=uniform seed=1 queries=1 context=", "recipe=experts_plain seed=1 experts=4 top=1 tokens="):
        with pytest.raises(CaseError, match=r"is .*: expected a whole number of 0 "):
            parse(text + value)
    with pytest.raises(CaseError, match="said twice"):
        Case.parse("recipe=uniform seed=1 seed=2 context=64 queries=8")
