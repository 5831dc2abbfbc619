"""Laws hold on the kernels under every rule, each law refuses the stand-in that breaks it, and none passes unasked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from strata.executors.lanes import LanesExecutor
from strata.kernels.paths import PATHS, select
from strata.kernels.pool import MODES
from tests.validation.stub import Lawful, StubCard, StubExecutor
from validation.core.verdict import Check, Verdict
from validation.operations.attention import fp16_fields, metamorphic, zero_weight_cells
from validation.operations.attention.kernels import ATTENTION
from validation.operations.attention.plan import quick
from validation.operations.attention.pools import Inputs, build
from validation.operations.kv_pack.case import Case

PLANNED = next(e.case for e in quick(1) if isinstance(e.case, Case) and e.case.recipe == "laws")
SMALL = Case("laws", 3, 77, 3, 4, group=4)
STUB = StubExecutor()
EDGE = np.float32(2.0**-12)


def judged(compute: Callable[[Inputs], np.ndarray], mode: str, inputs: Inputs | None = None) -> dict[str, Check]:
    """The law checks of a stand-in, by name."""
    inputs = inputs or build(SMALL, mode)
    on = metamorphic.ground(PATHS[f"prompt_attention/{mode}/sm80"], inputs, compute(inputs), STUB)
    return {check.name.removeprefix("law "): check for check in metamorphic.checks(on, compute)}


def of_kernel(path: str, rule: str, case: Case = PLANNED) -> tuple[metamorphic.Ground, Callable[[Inputs], np.ndarray]]:
    executor, where = LanesExecutor(rule=rule), PATHS[path]
    inputs = build(case, where.mode)

    def run(changed: Inputs) -> np.ndarray:
        return ATTENTION[where.operation].run(executor, where, changed).out

    return metamorphic.ground(where, inputs, run(inputs), executor), run


@pytest.mark.parametrize("path", [path.name for path in select("*_attention/*")])
def test_the_kernels_keep_every_law(path: str) -> None:
    on, run = of_kernel(path, "sm_75_block4" if path.endswith("sm75") else "sm_90")
    found = metamorphic.checks(on, run)
    assert [check.name for check in found] == [f"law {name}" for name in metamorphic.of_path(on.path)]
    assert {check.verdict for check in found} == {Verdict.EXACT}, [check.reason for check in found]


@pytest.mark.parametrize("rule", ["sm_75", "sm_80"])
def test_order_is_free_under_each_rule_as_far_as_its_step(rule: str) -> None:
    on, run = of_kernel("prompt_attention/fp16/sm80", rule)
    assert on.step == 8
    assert metamorphic._check("order", on, run).verdict is Verdict.EXACT
    # One step further is another order of cuts: so the law says all that holds, and sees a wrong order.
    assert metamorphic._check("order", replace(on, step=16), run).verdict is Verdict.EXCEEDS


def test_order_is_no_law_of_decode_attention() -> None:
    on, run = of_kernel("decode_attention/int8/simt", "exact")
    assert "order" not in metamorphic.of_path(on.path)
    assert metamorphic._check("order", on, run).verdict is Verdict.EXCEEDS


@pytest.mark.parametrize(
    ("executor", "path", "step"),
    [
        (StubCard(capability=90), "prompt_attention/fp16/sm80", 16),
        (StubCard(capability=90), "prompt_attention/fp16/sm75", 8),
        (StubCard(capability=86), "prompt_attention/fp16/sm80", 8),
        (StubCard(capability=75), "prompt_attention/fp16/sm75", 4),
        (StubCard(capability=121), "prompt_attention/fp16/sm80", 4),
        (LanesExecutor(rule="exact"), "prompt_attention/fp16/sm80", 16),
        (LanesExecutor(rule="8,24"), "prompt_attention/fp16/sm80", 8),
    ],
)
def test_the_step_holds_under_every_rule_the_executor_may_follow(executor: StubCard, path: str, step: int) -> None:
    inputs = build(SMALL, "fp16")
    assert metamorphic.ground(PATHS[path], inputs, inputs.q, executor).step == step


@pytest.mark.parametrize("mode", ["int8", "k8v4", "q4_0"])
def test_a_larger_scale_beside_the_weights_of_a_chunk_is_no_law(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Far cells take the largest scale that changes nothing: with a larger one the fold costs bits.
    on, run = of_kernel(f"prompt_attention/{mode}/sm80", "sm_90")
    assert metamorphic._check("zero weights", on, run).verdict is Verdict.EXACT
    monkeypatch.setattr(zero_weight_cells, "_largest_scales", lambda inputs, chunk: 0x7BFF)
    assert metamorphic._check("zero weights", on, run).verdict is Verdict.EXCEEDS


def by_page(cells: np.ndarray, inputs: Inputs) -> np.ndarray:
    size = inputs.pool.page_size
    return cells[np.argsort(inputs.pool.table[cells // size].astype(np.int64) * size + cells % size, kind="stable")]


BROKEN = {
    # Adds cells in the order in which they lie in memory.
    "pages": Lawful(order=by_page),
    # Adds cells in the order of the list.
    "order": Lawful(order=lambda cells, inputs: cells),
    # Rounds q towards minus infinity: another relative error for each sign.
    "key signs": Lawful(q=lambda q: np.where(q < 0, q * (1 + EDGE), q)),
    "value signs": Lawful(v=lambda v: np.where(v < 0, v * (1 + EDGE), v)),
    # Keeps q on a fixed grid, and V below a fixed limit.
    "key powers": Lawful(q=lambda q: np.rint(q * 256) / 256),
    "value powers": Lawful(v=lambda v: np.clip(v, -8, 8)),
    # Gives every cell a little weight.
    "zero weights": Lawful(weight=lambda w: np.maximum(w, np.float32(2.0**-40))),
    # Lets neighbouring dims leak into each other.
    "locator": Lawful(v=lambda v: v + EDGE * v.reshape(*v.shape[:-1], -1, 2)[..., ::-1].reshape(v.shape)),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_lawful_stand_in_passes(mode: str) -> None:
    found = judged(Lawful(), mode)
    assert set(found) == set(metamorphic.RELATIONS) == set(BROKEN)
    assert {check.verdict for check in found.values()} == {Verdict.EXACT}, found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", metamorphic.RELATIONS)
def test_each_law_refuses_the_stand_in_that_breaks_it_and_no_other_does(name: str, mode: str) -> None:
    found = judged(BROKEN[name], mode)
    assert {other for other, check in found.items() if check.verdict is not Verdict.EXACT} == {name}
    assert found[name].verdict is Verdict.EXCEEDS
    for word in ("query ", " head ", " dim ", "got ", "expected ", " bits "):
        assert word in found[name].reason
    assert "\n" not in found[name].reason


def half(inputs: Inputs, plane: str, bits: int) -> Inputs:
    """One half of a resident row replaced."""
    all_bits = fp16_fields.halves(inputs.pool, plane)
    page, slot = fp16_fields.slots(inputs, 0, 3)
    all_bits[page[0], 0, slot[0], 0] = bits
    return replace(inputs, pool=fp16_fields.with_halves(inputs.pool, plane, all_bits))


def spread(inputs: Inputs, plane: str) -> Inputs:
    """The smallest and the largest normal half in one plane."""
    all_bits = fp16_fields.halves(inputs.pool, plane)
    page, slot = fp16_fields.slots(inputs, 0, 3)
    all_bits[page[0], 0, slot[0], :2] = 0x0400, 0x7BFF
    return replace(inputs, pool=fp16_fields.with_halves(inputs.pool, plane, all_bits))


def absent(inputs: Inputs) -> Inputs:
    return replace(inputs, pool=replace(inputs.pool, table=np.full_like(inputs.pool.table, -1)))


def narrow(inputs: Inputs, width: int) -> Inputs:
    steps = inputs.steps.copy()
    steps[:, 3] = width
    return replace(inputs, steps=steps, widths=np.full(len(steps), width))


UNFIT = {
    "pages": (absent, "no resident page"),
    "order": (lambda i: narrow(i, 1), "no list has two cells"),
    "key signs": (lambda i: replace(i, q=np.zeros_like(i.q)), "is zero"),
    "key powers": (lambda i: half(i, "k", 0x0001), "subnormal"),
    "value powers": (lambda i: half(i, "v", 0x7E00), "not finite"),
    "zero weights": (lambda i: replace(i, q=-i.q * (np.arange(3) % 2 * 2 - 1)[:, None, None]), "no signs in common"),
    "locator": (absent, "no resident cell"),
}
MORE = [
    ("key powers", lambda i: spread(i, "k"), "none can move"),
    ("value powers", lambda i: spread(i, "v"), "none can move"),
    ("key powers", lambda i: replace(i, q=i.q * np.float32(2.0**80)), "outside of 2^-64"),
    ("value powers", lambda i: replace(i, q=i.q * np.float32(2.0**10)), "smallest weight"),
    ("zero weights", lambda i: narrow(i, 0), "a list is empty"),
    ("zero weights", lambda i: replace(i, q=i.q * np.float32(2.0**-10)), "far cells are"),
]


@pytest.mark.parametrize(("name", "edit", "reason"), [(name, *rest) for name, rest in UNFIT.items()] + MORE)
def test_a_law_that_the_data_do_not_allow_is_void_and_says_so(
    name: str, edit: Callable[[Inputs], Inputs], reason: str
) -> None:
    inputs = edit(build(SMALL, "fp16"))
    # The output does not matter: nothing may be run.
    on = metamorphic.ground(PATHS["prompt_attention/fp16/sm80"], inputs, np.ones(inputs.q.shape, np.float32), STUB)
    check = metamorphic._check(name, on, lambda changed: pytest.fail("a law that does not apply was run"))
    assert check.verdict is Verdict.VOID
    assert reason in check.reason


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_an_output_that_says_nothing_makes_every_law_void(value: float) -> None:
    inputs = build(SMALL, "int8")
    out = np.full(inputs.q.shape, value, np.float32)
    on = metamorphic.ground(PATHS["prompt_attention/int8/sm75"], inputs, out, STUB)
    assert {check.verdict for check in metamorphic.checks(on, lambda changed: out)} == {Verdict.VOID}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(40, 44))
def test_every_law_applies_to_every_seed_of_the_planned_case(seed: int, mode: str) -> None:
    inputs = build(replace(PLANNED, seed=seed), mode)
    for path in (PATHS[f"prompt_attention/{mode}/sm75"], PATHS[f"decode_attention/{mode}/simt"]):
        on = metamorphic.ground(path, inputs, np.ones(inputs.q.shape, np.float32), StubCard(capability=75))
        for name in metamorphic.of_path(path):
            assert isinstance(metamorphic.RELATIONS[name](on), metamorphic.Changed), (
                name,
                metamorphic.RELATIONS[name](on),
            )


def test_changes_are_changes() -> None:
    inputs = build(SMALL, "k8v4")
    on = metamorphic.ground(PATHS["prompt_attention/k8v4/sm75"], inputs, np.ones(inputs.q.shape, np.float32), STUB)
    for name, law in metamorphic.RELATIONS.items():
        changed = law(on)
        assert isinstance(changed, metamorphic.Changed)
        changed.inputs.pool.check()
        pairs = [(changed.inputs.q, inputs.q), (changed.inputs.ids, inputs.ids)]
        pairs += [(getattr(changed.inputs.pool, f), getattr(inputs.pool, f)) for f in ("k", "v", "k_scale", "table")]
        assert any(a.shape != b.shape or a.tobytes() != b.tobytes() for a, b in pairs), name


def test_shared_and_poisoned_pages_move_with_the_table() -> None:
    inputs = build(SMALL, "q4_0")
    on = metamorphic.ground(PATHS["prompt_attention/q4_0/sm75"], inputs, inputs.q, STUB)
    changed = metamorphic.pages(on)
    assert isinstance(changed, metamorphic.Changed)
    here = inputs.pool.table >= 0
    assert len(np.unique(inputs.pool.table[here])) < here.sum(), "no page is shared"
    assert (changed.inputs.pool.table[here] != inputs.pool.table[here]).all()
    for query, width in enumerate(inputs.widths.tolist()):
        before, after = (fp16_fields.slots(i, query, width) for i in (inputs, changed.inputs))
        assert np.array_equal(changed.inputs.pool.k[after[0], :, after[1]], inputs.pool.k[before[0], :, before[1]])
    assert np.array_equal(np.sort(changed.inputs.pool.k, axis=None), np.sort(inputs.pool.k, axis=None))
