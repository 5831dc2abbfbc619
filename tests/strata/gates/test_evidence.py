"""Every run is one kind of evidence, and only machine code of the tier's own generation is attested."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.gates.evidence import Kind, concerns, kind, launched
from strata.kernels.paths import PATHS
from tests.strata.gates import builder

SM75, SM80 = "prompt_attention/int8/sm75", "prompt_attention/int8/sm80"
LOADED = st.one_of(
    st.sampled_from(["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "lanes-x86_64"]),
    st.builds("compute_{} on sm_{}".format, st.sampled_from([70, 75, 80]), st.sampled_from([75, 80, 90])),
)


@given(
    st.sampled_from([SM75, SM80]), st.sampled_from([None, 70, 75, 80, 86, 89, 90, 100, 120]), LOADED,
    st.sampled_from(["cuda", "lanes"]),
)  # fmt: skip
def test_attested_is_what_the_tier_is_for(name: str, capability: int | None, loaded: str, executor: str) -> None:
    record = builder.parsed(builder.value([name], ("x", capability, loaded), executor=executor))
    found, why = kind(record, PATHS[name])
    attested = {
        SM75: {(75, "sm_75")},
        SM80: {(80, "sm_80"), (86, "sm_80"), (86, "sm_86"), (89, "sm_80"), (89, "sm_86"), (90, "sm_90"),
               (100, "sm_100"), (120, "sm_120")},
    }  # fmt: skip
    assert (found is Kind.ATTESTED) == (executor == "cuda" and (capability, loaded) in attested[name])
    assert (found is Kind.SIMULATED) == (executor == "lanes" or capability is None)
    assert why.startswith("" if found is Kind.ATTESTED else f"{found.value}: record {record.short} ")
    assert bool(why) == (found is not Kind.ATTESTED)


def test_one_image_of_another_kind_spoils_the_record() -> None:
    value = builder.value([SM75])
    value["images"].append({**value["images"][0], "loaded": "compute_75 on sm_75", "arch": "compute_75"})
    own = len(value["images"]) - 1
    value["cases"][1]["launches"].append({"image": own, "grid": [1, 1, 1], "blocks": 1})
    record = builder.parsed(value)
    assert len(launched(record, PATHS[SM75])) == own + 1
    assert kind(record, PATHS[SM75])[0] is Kind.SURROGATE


@pytest.mark.parametrize("name", [SM75, SM80])
def test_a_record_concerns_what_it_planned_or_ran(name: str) -> None:
    value = builder.value([SM75])
    assert concerns(builder.parsed(value), PATHS[name]) == (name == SM75)
    value["plan"]["paths"] = [SM80]
    assert concerns(builder.parsed(value), PATHS[name])
