"""Every bit of each scorer's model against exact rationals, rounded as the scorer's words say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.executors.lanes import RULES
from strata.kernels.paths import PATHS, Path
from strata.kernels.selection import DIMS, HEADS
from tests.validation.operations.block_select.exact import SCORERS, rounded_score
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.operations.block_select import model


def drawn(seed: int, exponents: tuple[int, int], cancels: bool, blocks: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """One query and some keys; sizes of rows and of numbers inside a row spread."""
    stream = Stream.of(seed, "selection")
    q, keys = stream.child("q").normals((1, HEADS, DIMS)), stream.child("keys").normals((blocks, DIMS))
    spread = stream.child("spread").below(12, (2, DIMS)).astype(np.int32) - 6
    q, keys = np.ldexp(q, exponents[0] + spread[0]), np.ldexp(keys, exponents[1] + spread[1])
    if cancels:
        q[..., DIMS // 2 :] = q[..., : DIMS // 2]
        keys[:, DIMS // 2 :] = -keys[:, : DIMS // 2]
        keys[:, -1] *= np.float32(1 + 2.0**-10)
    return q, keys


EXPONENTS = st.sampled_from([(0, 0), (-30, 40), (54, 50), (-70, -75), (-110, 20), (-110, -30), (45, -44)])


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(SCORERS), st.integers(0, 2**32), EXPONENTS, st.booleans(), st.sampled_from(["sm_75", "sm_90"]))
def test_the_model_is_the_scorers_words(
    path: Path, seed: int, exponents: tuple[int, int], cancels: bool, rule: str
) -> None:
    q, keys = drawn(seed, exponents, cancels, 1)
    got = model.scores(path, q, keys, RULES[rule])
    assert got is not None
    due = [rounded_score(path, RULES[rule], q[0], key) for key in keys]
    assert got[0].view(np.uint32).tolist() == np.array(due).view(np.uint32).tolist()


@pytest.mark.parametrize("path", SCORERS, ids=lambda path: path.name)
def test_scorers_differ_in_bits(path: Path) -> None:
    q, keys = drawn(3, (0, 0), False)
    bits = {}
    for one in SCORERS:
        got = model.scores(one, q, keys, RULES["sm_90"])
        assert got is not None
        bits[one] = got.tobytes()
    assert all(bits[path] != bits[other] for other in SCORERS if other != path)


def test_what_is_no_number_shows() -> None:
    """A NaN stays one in every scorer; an infinity is one in FP32, and a NaN where halves are split."""
    q, keys = np.ones((1, HEADS, DIMS), np.float32), np.ones((3, DIMS), np.float32)
    keys[0, 5], keys[1, 5], keys[2, 5] = np.nan, np.inf, -np.inf
    for path in SCORERS:
        got = model.scores(path, q, keys, RULES["sm_90"])
        assert got is not None
        assert got[0].view(np.uint32).tolist() == (
            [0x7FFFFFFF, 0x7F800000, 0] if path.tier == "simt" else [0x7FFFFFFF] * 3
        )


def test_negative_heads_add_nothing() -> None:
    q, keys = np.ones((1, HEADS, DIMS), np.float32), np.ones((1, DIMS), np.float32)
    q[0, 1:3] = -1
    for path in SCORERS:
        got = model.scores(path, q, keys, RULES["sm_90"])
        assert got is not None
        assert got.tolist() == [[256.0]]


def test_a_rule_without_a_model_and_a_path_without_scores() -> None:
    q, keys = drawn(1, (0, 0), False)
    assert model.scores(PATHS["block_select/fp32/sm80"], q, keys, RULES["exact"]) is None
    assert model.scores(PATHS["block_select/fp32/simt"], q, keys, RULES["exact"]) is not None
    with pytest.raises(UnknownOperationError):
        model.scores(PATHS["block_topk/fp32/simt"], q, keys, RULES["exact"])
