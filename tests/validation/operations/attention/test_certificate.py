"""Enclosures hold the value that mpmath computes from the definition, and are narrow; the checks on them can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.kernels.paths import PATHS
from strata.kernels.pool import MODES, Pool
from tests.validation.stub import StubExecutor, healthy
from validation.core.findings import Findings
from validation.core.memo import Memo
from validation.core.operation import Trial
from validation.core.random_streams import Stream
from validation.core.settings import Settings
from validation.core.verdict import Verdict
from validation.numerics.interval import Enclosure, certificate, certified
from validation.operations.attention import reference as reference_module
from validation.operations.attention.bound import reference_bound
from validation.operations.attention.certificate import NotFiniteError, certify, dots, enclose, halves, units
from validation.operations.attention.operation import under_test
from validation.operations.attention.pools import Inputs, build
from validation.operations.attention.reference import Reference, attend, resident, values
from validation.operations.attention.selection import WIDTH
from validation.operations.kv_pack.case import Case
from validation.run.runner import settle

CASE = Case("signed_decades", 3, 70, 3, 4)
#: Bits of the independent computation: exact for scores of these inputs, and far past the enclosures' 120.
MP = mpmath.mp.clone()
MP.prec = 400


def inputs_of(mode: str, recipe: str = "signed_decades", cells: int = 70, seed: int = 3, exponent: int = 0) -> Inputs:
    inputs = build(Case(recipe, seed, cells, 1, 4), mode)
    return replace(inputs, q=Stream.of(seed, "q").normals(inputs.q.shape, exponent))


def by_definition(inputs: Inputs, head: int, dim: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """sum w V / sum w and sum w |V| / sum w in 400 bits, from the reference's decoders, one product after another."""
    cells = resident(inputs.pool, inputs.ids[0, : int(inputs.steps[0, WIDTH])])
    if len(cells) == 0:
        return MP.mpf(0), MP.mpf(0)
    k, v = (plane[:, head // 12] for plane in values(inputs.pool, cells))
    q = [MP.mpf(x) for x in inputs.q[0, head].tolist()]
    scores = [MP.fdot(q, [MP.mpf(x) for x in row]) / 16 for row in k.tolist()]
    weights = [MP.exp(s - max(scores)) for s in scores]
    total = MP.fsum(weights)
    column = v[:, dim].tolist()
    return MP.fdot(weights, column) / total, MP.fdot(weights, [abs(x) for x in column]) / total


#: Below this a value counts as zero: a weight of e**-1e9 would be a fraction of 2**30 bits.
FLOOR = Fraction(1, 2**4000)


def fraction(x: mpmath.mpf) -> Fraction:
    """A number as it is, or zero where it is nearer to zero than `FLOOR`."""
    sign, mantissa, exponent, bits = x._mpf_
    if exponent + bits < -4000:
        return Fraction(0)
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** int(exponent)


def test_a_weight_far_below_every_other_is_no_fraction_of_a_billion_bits() -> None:
    """Found by hypothesis: one such example took minutes, and CI with it."""
    assert fraction(MP.exp(MP.mpf(-(10**12)))) == 0
    assert fraction(MP.mpf(2) ** -3000) == Fraction(1, 2**3000)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(MODES),
    st.sampled_from(["signed_decades", "scale_extremes", "absent_pages", "flat", "all_absent", "zeros"]),
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.one_of(st.integers(-140, 60), st.sampled_from([-140, -6, 0, 3, 60])),
)
def test_the_enclosure_holds_the_value_by_definition_and_is_narrow(
    mode: str, recipe: str, cells: int, seed: int, exponent: int
) -> None:
    inputs = inputs_of(mode, recipe, cells, seed, exponent)
    head, dim = seed % 24, seed % 256
    found = enclose(inputs, 0, head, [dim])[0]
    exact, magnitude = (fraction(x) for x in by_definition(inputs, head, dim))
    own = magnitude / 2**350 + FLOOR  # of the 400 bits; 50 are more than the operations lose
    assert found.low - own <= exact <= found.high + own
    # A weight is known to 2**-118 of itself or, below that, to 2**-1099; numerator and denominator both count.
    assert found.width <= magnitude * Fraction(1, 2**115) + Fraction(1, 2**1000)


@pytest.mark.parametrize("mode", MODES)
def test_the_bytes_are_read_as_the_reference_reads_them(mode: str) -> None:
    pool = inputs_of(mode).pool
    cells = resident(pool, np.arange(70, dtype=np.int32))
    pages, slots = pool.table[cells // 4].astype(np.int64), cells % 4
    for head in range(2):
        for plane, scale, by_reference in zip(
            (pool.k, pool.v), (pool.k_scale, pool.v_scale), values(pool, cells), strict=True
        ):
            got = units(plane, scale, pages, slots, head)
            assert (np.abs(got) < 1 << 48).all()
            assert np.array_equal(got * 2.0**-24, by_reference[:, head])


def test_every_finite_half_is_an_integer_of_its_unit() -> None:
    bits = np.arange(1 << 16).astype(np.uint16)
    finite = bits[(bits & 0x7C00) != 0x7C00]
    assert np.array_equal(halves(finite) * 2.0**-24, finite.view(np.float16).astype(np.float64))
    with pytest.raises(NotFiniteError, match="K or V is not finite"):
        halves(np.array([0x7C00], np.uint16))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=6), st.integers(0, 2**32))
def test_products_are_exact_for_any_finite_q(words: list[int], seed: int) -> None:
    q = np.zeros(256, np.uint32)
    q[: len(words)] = [word if word >> 23 & 255 != 255 else word & 0xBFFFFFFF for word in words]
    # The largest magnitude of a plane: the code -128 under the largest FP16 scale.
    k = np.where(Stream.of(seed, "k").below(2, (3, 256)) == 1, 1, -1) * (128 * 65504 << 24)
    got, down = dots(q.view(np.float32), k)
    want = [sum(Fraction(float(x)) * int(y) for x, y in zip(q.view(np.float32), row, strict=True)) for row in k]
    assert [Fraction(value, 1 << down) for value in got] == [value / (1 << 24) for value in want]


def test_q_that_is_not_finite_has_no_true_value() -> None:
    inputs = inputs_of("int8")
    inputs.q[0, 1, 7] = np.inf
    with pytest.raises(NotFiniteError, match="q is not finite"):
        enclose(inputs, 0, 1, [0])


def test_a_case_samples_its_narrowest_and_widest_rows_and_both_kv_heads() -> None:
    inputs = build(replace(CASE, recipe="width_edges", queries=12), "int8")
    proof = certify(replace(CASE, recipe="width_edges", queries=12), inputs, np.arange(12))
    rows = {enclosure.row for enclosure in proof.sampled}
    widths = inputs.widths
    assert {int(np.where(widths > 0, widths, 999).argmin()), int(widths.argmax())} <= rows
    assert {enclosure.head // 12 for enclosure in proof.sampled} == {0, 1}
    assert proof.at(2, 5, 7) is proof.at(2, 5, 7)
    assert (proof.at(2, 5, 7).low, proof.at(2, 5, 7).high) == (
        enclose(inputs, 2, 5, [7])[0].low,
        enclose(inputs, 2, 5, [7])[0].high,
    )


def reference_of(mode: str) -> tuple[Reference, np.ndarray, list[Enclosure]]:
    inputs = build(CASE, mode)
    rows = np.arange(3)
    reference = attend(inputs.q, inputs.pool, inputs.ids, inputs.steps, rows)
    return reference, reference_bound(inputs, reference), certify(CASE, inputs, rows).sampled


@pytest.mark.parametrize("mode", MODES)
def test_a_reference_off_by_more_than_its_bound_is_refused(mode: str) -> None:
    reference, own, sampled = reference_of(mode)
    sound = certificate(reference.out, own, sampled)
    assert sound.verdict is Verdict.WITHIN_BOUND
    assert sound.figures["slack"] < 1
    # One bound off from a value that is itself off by less is at most two from the truth: two bounds are too many.
    for enclosure in sampled:
        out = reference.out.copy()
        out[enclosure.index] += 2.0 * own[enclosure.index] + np.spacing(np.abs(out[enclosure.index]))
        check = certificate(out, own, sampled)
        assert check.verdict is Verdict.VOID
        assert check.reason.startswith("the reference is wrong: at [")
        assert "\n" not in check.reason


def test_a_straddling_enclosure_is_inconclusive() -> None:
    half = Fraction(1, 2)
    wide = Enclosure(0, 0, 0, 0, -half, half)
    zero = np.zeros((1, 1, 1))

    def verdict(bound: float, value: float = 0.0) -> tuple[Verdict, Verdict]:
        out, limit = np.full((1, 1, 1), value), np.full((1, 1, 1), bound)
        first = certificate(out, limit, [wide])
        return first.verdict, certified("certified", out.astype(np.float32), limit, [wide]).verdict

    assert verdict(0.5) == (Verdict.WITHIN_BOUND, Verdict.WITHIN_BOUND)
    assert verdict(0.25) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert verdict(0.25, 0.75) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert verdict(0.25, 0.875) == (Verdict.VOID, Verdict.EXCEEDS)
    assert verdict(1.0, np.nan) == (Verdict.VOID, Verdict.EXCEEDS)
    assert verdict(np.nan) == (Verdict.VOID, Verdict.VOID)
    assert certified("certified", zero, np.ones((1, 1, 1)), []).verdict is Verdict.VOID
    # A wide enclosure that cannot tell hides no other that can.
    far = Enclosure(0, 0, 0, 0, Fraction(9), Fraction(9))
    assert certified("x", zero, np.full((1, 1, 1), 0.25), [wide, far]).verdict is Verdict.EXCEEDS


def run(mode: str = "int8") -> Findings:
    path = PATHS[f"prompt_attention/{mode}/sm80"]
    operation = under_test(healthy())[path.operation]
    return operation.judge(Trial(operation, CASE, path, StubExecutor(), Settings(), Memo()))


def one_row(k: np.ndarray, v: np.ndarray) -> None:
    v[17] = v[18]


def scale_sign(k: np.ndarray, v: np.ndarray) -> None:
    k[5, :, :64] *= -1


def one_value(k: np.ndarray, v: np.ndarray) -> None:
    v[40, 0, 9] += 2.0**-11 * np.abs(v).max()


@pytest.mark.parametrize("fault", [one_row, scale_sign, one_value])
@pytest.mark.parametrize("mode", ["fp16", "q4_0"])
def test_a_wrong_reference_voids_the_case(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[np.ndarray, np.ndarray], None], mode: str
) -> None:
    right = values

    def wrong(pool: Pool, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        k, v = right(pool, cells)
        fault(k, v)
        return k, v

    assert settle(run(mode).checks) is Verdict.WITHIN_BOUND
    monkeypatch.setattr(reference_module, "values", wrong)
    found = run(mode)
    assert settle(found.checks) is Verdict.VOID
    assert [check.name for check in found.checks if not check.verdict.passes] == ["certificate"]


def test_figures_of_a_case_say_how_tight_the_proof_is() -> None:
    checks = {check.name: check for check in run().checks}
    for name in ("certificate", "certified"):
        assert checks[name].verdict is Verdict.WITHIN_BOUND
        assert checks[name].figures["width"] < checks[name].figures["slack"] < 1
        assert checks[name].figures["enclosed"] > 8
