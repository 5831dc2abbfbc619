"""A plan whose record nobody could read is refused before it is run; all that people are told to run is not."""

from __future__ import annotations

import pytest

from fixtures.records.bases import BASES, EXPERTS, Base
from strata.executors.base import StrataError
from strata.kernels.paths import PATHS, select
from tests.validation.record.forging import base
from validation.operations import registry
from validation.record.canonical import LARGEST, encode
from validation.record.make import SCHEMA_FILE
from validation.record.size import MOST_ROWS, estimated, refuse_too_large
from validation.run import plan as profiles
from validation.run.runner import Job


@pytest.mark.parametrize("profile", ["quick", "standard"])
@pytest.mark.parametrize("operation", registry.recorded())
def test_all_paths_of_an_operation_fit(operation: str, profile: str) -> None:
    size, rows = estimated(profiles.record_plan(select(f"{operation}/*"), profile, 1))
    assert rows < MOST_ROWS
    assert size < LARGEST * 3 / 4  # an estimate may be off


def test_the_full_profile_fits_a_mode_at_a_time() -> None:
    refuse_too_large(profiles.record_plan(select("prompt_attention/*"), "full", 1))
    refuse_too_large(profiles.record_plan(select("expert_fused/iq3_xxs/iq4_nl/*"), "full", 1))
    with pytest.raises(StrataError, match=r"MiB, expected at most 20,000 in 16: select fewer by --paths"):
        refuse_too_large(profiles.record_plan(select("expert_fused/*"), "full", 1))


@pytest.mark.parametrize("of", [*BASES, *EXPERTS], ids=lambda of: of.name)
def test_an_estimate_is_about_right(of: Base) -> None:
    """Of the smallest records there are, in which vectors and images weigh more than in any other."""
    record = base(of.name)["record"]
    path = PATHS[of.path]
    cases = [registry.recordable(path.operation).parse(case["case"]) for case in record["cases"]]
    size, rows = estimated([Job(case, path) for case in cases])
    rest = {name: record[name] for name in ("sources", "images", "identification", "provenance")}
    due = len(encode(record)) - len(encode(rest))
    assert due / 2 < size < 2 * due
    assert abs(rows - len(record["challenge"])) <= 2


def test_the_limit_is_the_schema_s() -> None:
    assert f'"maxItems": {MOST_ROWS}' in SCHEMA_FILE.read_text()
