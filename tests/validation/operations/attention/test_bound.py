"""The bound of a path follows the rule of the executor that ran it."""

from __future__ import annotations

import numpy as np

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS
from tests.validation.stub import StubExecutor
from validation.operations.attention.bound import bound as bound_of
from validation.operations.attention.pools import build
from validation.operations.attention.reference import attend
from validation.operations.kv_pack.case import Case

PATH = PATHS["prompt_attention/int8/sm75"]
INPUTS = build(Case("signed_decades", 3, 150, 4, 4), "int8")
REFERENCE = attend(INPUTS.q, INPUTS.pool, INPUTS.ids, INPUTS.steps, [0, 3])


def bound(path: str = PATH.name, **fields: object) -> np.ndarray:
    executor = StubExecutor()
    for name, value in fields.items():
        setattr(executor, name, value)
    return bound_of(PATHS[path], INPUTS, REFERENCE, executor)


def test_a_finer_rule_has_a_smaller_bound() -> None:
    exact, hopper, turing = (bound(rule=RULES[name]) for name in ("exact", "sm_90", "sm_75"))
    assert (exact < hopper).all()
    assert (hopper < turing).all()


def test_a_card_has_the_rule_of_its_capability_and_an_unknown_one_the_widest() -> None:
    assert np.array_equal(bound(capability=90), bound(rule=RULES["sm_90"]))
    assert np.array_equal(bound(capability=999), bound(rule=RULES["sm_75"]))


def test_the_baseline_has_no_tensor_core_in_its_bound() -> None:
    base = "decode_attention/int8/simt"
    assert np.array_equal(bound(base, rule=RULES["exact"]), bound(base, rule=RULES["sm_75"]))


def test_the_bound_is_per_element_and_near_the_size_of_rounding() -> None:
    got = bound(rule=RULES["sm_90"])
    assert got.shape == REFERENCE.out.shape
    assert (got > 0).all()
    assert len(np.unique(got)) == got.size
    assert (got < 1e-2 * REFERENCE.magnitude.max()).all()
