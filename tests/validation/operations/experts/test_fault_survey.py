"""The table of known faults: all are caught, but for ties that are proven."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from validation.operations.experts import fault_survey
from validation.operations.experts import reference as experts
from validation.operations.experts.fault_models import MUTATIONS
from validation.operations.experts.fault_survey import CAUGHT, HEALTHY, LEGAL, PASSES, Row, Setting
from validation.operations.experts.recipes import Values

#: Small, but two blocks of 64 in K of down and as many of 256 in K of gate.
N, FF, TOKENS = 512, 128, 12


@pytest.fixture(scope="module")
def settings() -> dict[str, Setting]:
    return {pair: fault_survey.setting(pair, 1, N, FF, TOKENS) for pair in fault_survey.PAIRS}


def test_the_model_itself_passes(settings: dict[str, Setting]) -> None:
    for of in settings.values():
        row = fault_survey.judged(HEALTHY, of)
        assert (row.verdict, row.bits, row.step) == (PASSES, 0, "")


@pytest.fixture(scope="module")
def table(settings: dict[str, Setting]) -> list[Row]:
    return list(fault_survey.rows(settings))


@pytest.mark.parametrize("name", [name for name, one in MUTATIONS.items() if not one.legal])
def test_every_fault_is_caught(table: list[Row], name: str) -> None:
    met = [row for row in table if row.name == name]
    assert met
    for row in met:
        assert row.bits > 0
        assert row.verdict == CAUGHT, (row.pair, row.step)


def test_usual_limits_let_some_of_them_through(table: list[Row]) -> None:
    """Without rows that only this project catches the table would show nothing."""
    through = {row.name for row in table if row.verdict == CAUGHT and PASSES in row.usual}
    assert {"scales of activations in FP16", "truncating integer scales, FP16 scales"} <= through
    assert all(fault_survey.right(row) for row in table)


def test_ties_of_x_the_other_way_are_legal_where_they_are_proven() -> None:
    """Tokens that are all ties: every code differs that is half way, no other may."""
    of = fault_survey.setting("iq3_s/iq4_nl", 1, N, FF, TOKENS, Values.TIES)
    row = fault_survey.judged(MUTATIONS["ties of x away from zero"], of)
    assert row.bits > 0
    assert (row.step, row.verdict) == ("ties", LEGAL)
    # Two steps off, or one where no tie is, is refused.
    got = MUTATIONS["ties of x away from zero"].machine.quantise_x(of.x)
    right = experts.quantise(of.x)
    assert (got.q != right.q).any()
    assert (np.abs(got.q.astype(int) - right.q) <= 1).all()


def test_ties_of_h_the_other_way_are_legal() -> None:
    """Of the real geometry, whose 61,440 codes of h hold a few ties."""
    of = fault_survey.setting("iq3_xxs/iq4_nl")
    row = fault_survey.judged(MUTATIONS["ties of h away from zero"], of)
    assert row.bits > 0
    assert (row.step, row.verdict) == ("ties", LEGAL)
    assert row.usual == (PASSES, PASSES)


def test_rows_are_right_only_as_they_should_be(settings: dict[str, Setting]) -> None:
    of = settings["iq3_s/iq4_nl"]
    row = fault_survey.judged(MUTATIONS["h with a scale for 64"], of)
    assert fault_survey.right(row)
    for verdict in (LEGAL, PASSES):
        assert not fault_survey.right(replace(row, verdict=verdict))
    tie = Row("ties of h away from zero", row.pair, 0.0, 0.0, 3, (PASSES, PASSES), "h", CAUGHT)
    assert not fault_survey.right(tie)
