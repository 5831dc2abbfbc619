"""What fuzzed experts are given: pure configurations, every kind of number and routing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.formats import FORMATS
from strata.kernels.experts import EXPERT_MODES
from validation.operations.experts import fuzz_inputs as fuzz


@given(st.integers(0, 2**31), st.integers(0, 4000))
def test_configurations_are_pure_and_small(seed: int, index: int) -> None:
    what = fuzz.configuration(seed, index, checked=True)
    assert what == fuzz.configuration(seed, index, checked=True)
    assert what.tokens == 1 or what.tokens * what.top * what.n * what.ff <= fuzz.MOST_WORK[True]
    other = fuzz.configuration(seed, index, ("iq3_s/q2_0",), True)
    assert other == replace(what, mode="iq3_s/q2_0")


def test_every_choice_occurs() -> None:
    drawn = [fuzz.configuration(1, index) for index in range(200)]
    assert {what.mode for what in drawn} == set(EXPERT_MODES)
    assert {what.scales for what in drawn} == set(fuzz.SCALES)
    assert {what.values for what in drawn} == set(fuzz.TOKENS)
    assert {what.routing for what in drawn} == set(fuzz.ROUTINGS)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 400))
def test_what_is_drawn_is_what_its_configuration_says(index: int) -> None:
    what = fuzz.configuration(3, index, checked=True)
    made = fuzz.draw(3, what)
    assert made.x.shape == (what.tokens, what.n)
    assert made.ids.shape == (what.tokens, what.top)
    assert (what.mode, what.experts) == (f"{made.gate_up}/{made.down}", len(made.blobs))
    form = FORMATS[made.gate_up]
    blocks = made.blobs[:, : 2 * made.ff * form.row_bytes(made.n)].reshape(what.experts, -1, form.nbytes)
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16)
    if what.scales in ("moderate", "finite"):
        assert np.isfinite(scales).all()
    assert np.isfinite(scales[1:3]).all()  # of three experts one has wild scales here, of them all where they are raw
    if what.scales == "raw" and scales[0].size >= 1024:
        assert not np.isfinite(scales[0]).all()
    if what.values not in ("special", "raw", "broken"):
        assert np.isfinite(made.x).all()
