"""For which paths a record is news."""

from __future__ import annotations

from ci.accepted import Standing
from ci.standing import news
from strata.gates.record import Record
from tests.strata.gates.builder import HOPPER, TURING, parsed, value

SM75, SM80 = "prompt_attention/q4_0/sm75", "prompt_attention/q4_0/sm80"
ADA = ("NVIDIA L4", 89, "sm_89")
IN_FORCE = Standing(True)


def told(record: Record, *present: tuple[Record, Standing]) -> tuple[dict[str, str], dict[str, str]]:
    return news(record, present)


def test_a_locked_path_is_news() -> None:
    assert told(parsed(value([SM75]))) == ({SM75: "locked so far"}, {})


def test_a_second_one_of_the_same_card_is_none() -> None:
    first = parsed(value([SM80], HOPPER))
    later = value([SM80], HOPPER)
    later["provenance"]["made"] = "2031-01-31"
    fresh, known = told(parsed(later), (first, IN_FORCE))
    assert fresh == {}
    assert known == {SM80: f"record {first.short} of compute capability 9.0 opens it"}


def test_another_capability_is_news() -> None:
    first = parsed(value([SM80], HOPPER))
    assert told(parsed(value([SM80], ADA)), (first, IN_FORCE)) == (
        {SM80: "open so far by compute capability 9.0 alone"},
        {},
    )


def test_one_for_a_path_that_the_first_lacks_is_news_for_that_path() -> None:
    both = parsed(value([SM80, "prompt_attention/int8/sm80"], HOPPER))
    fresh, known = told(both, (parsed(value([SM80], HOPPER)), IN_FORCE))
    assert fresh == {"prompt_attention/int8/sm80": "locked so far"}
    assert list(known) == [SM80]


def test_a_record_that_todays_rules_refuse_does_not_stand_in_the_way() -> None:
    first = parsed(value([SM75]))
    fresh, _ = told(parsed(value([SM75])), (first, Standing(False, "is refused today by plan: other cases")))
    assert fresh == {SM75: f"open so far by record {first.short}, which is refused today by plan: other cases"}


def test_what_opens_nothing_is_no_news() -> None:
    assert told(parsed(value([SM75], ("NVIDIA H200", 90, "compute_75 on sm_90")))) == ({}, {})
    assert told(parsed(value([SM75], ("CPU x86_64", None, "lanes-x86_64"), executor="lanes"))) == ({}, {})
    assert told(parsed(value([SM75], TURING, sizes=[(211, 3)]))) == ({}, {})
