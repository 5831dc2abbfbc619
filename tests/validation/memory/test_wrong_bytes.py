"""A copy that arrives with a wrong byte is seen wherever every byte is compared, and the trials would see one that is
not."""

from __future__ import annotations

import pytest

from strata.memory.cache.cache import ExpertCache
from validation.memory import wrong_bytes
from validation.memory.operations import OPERATIONS
from validation.memory.wrong_bytes import COMPARED, compared, examine


@pytest.mark.parametrize("name", COMPARED)
def test_no_wrong_byte_is_silent(name: str) -> None:
    """The experts' are fatal; those of a resource or the head are refused or tried again."""
    operation = next(one for one in OPERATIONS if one.name == name)
    found = list(examine(operation, "sized"))
    assert len(found) >= 2
    assert [one for one in found if one.problems] == []
    outcomes = {one.outcome for one in found}
    wanted = {
        "RECLAIM": {"fatal"},
        "restore": {"refused"},
        "leave prompt": {"fatal"},
        "leave alias": {"fatal", "right"},
    }
    assert outcomes == wanted[name]


@pytest.mark.parametrize("name", ["RECLAIM", "leave prompt", "leave alias"])
def test_a_comparison_that_is_left_out_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: only a sample is compared."""
    give_back = ExpertCache.give_back

    def sampled(self: ExpertCache, book: object, check: object = None) -> object:
        return give_back(self, book, self.sample(list(book)))  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(ExpertCache, "give_back", sampled)
    operation = next(one for one in OPERATIONS if one.name == name)
    silent = [one for one in examine(operation, "sized") if one.problems]
    assert silent
    assert all(one.outcome == "right" and one.problems[0].startswith("I1") for one in silent)


def test_all_operations_that_compare_every_byte_are_asked() -> None:
    assert [operation.name for operation in compared()] == list(COMPARED)
    assert {one.operation for one in wrong_bytes.everything()} == set(COMPARED)
