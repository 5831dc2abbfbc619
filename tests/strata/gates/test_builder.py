"""The builder's records are records: the schema takes them, and refuses them without any one field."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from strata.executors.base import KERNELS
from tests.strata.gates import builder

SCHEMA = json.loads((KERNELS.parent / "gates" / "record.schema.json").read_text())
LANES = ("lanes", None, "lanes-x86_64")


@pytest.mark.parametrize(
    ("card", "executor"),
    [(builder.TURING, "cuda"), (builder.HOPPER, "cuda"), (("A", 90, "compute_75 on sm_90"), "cuda"), (LANES, "lanes")],
)
def test_records_follow_the_schema(card: Any, executor: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    record = builder.value(builder.PROMPT, card, executor=executor)
    validator.validate(record)
    validator.validate(builder.replan({**record, "cases": record["cases"][:1]}))
    for key in record:
        assert not validator.is_valid({other: inner for other, inner in record.items() if other != key})
