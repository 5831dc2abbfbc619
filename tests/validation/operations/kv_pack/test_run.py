"""Packing cases on a NumPy stand-in: stored bytes, parts, rotation and lost values are each checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strata.executors.base import Executor
from strata.kernels import kv_pack as kernels
from strata.kernels.kv_pack import Packed
from strata.kernels.paths import PATHS
from strata.kernels.pool import MODES, Pool
from tests.validation.stub import StubExecutor
from validation.controls.stub_packing import append, pack, packing
from validation.core.findings import Findings
from validation.core.verdict import Verdict
from validation.operations.kv_pack import reference
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.operation import judged
from validation.operations.kv_pack.packing import ROTATED, Packing
from validation.operations.kv_pack.pools import same_pool
from validation.operations.kv_pack.recipes import Pages, find, of_operation
from validation.run.runner import settle

GOOD = packing()
CASE = Case("pack_bell", 1, 70, 0, 4, group=1)


def run(packing: Packing = GOOD, case: Case = CASE, mode: str = "k8v4") -> Findings:
    return judged(case, PATHS[f"kv_pack/{mode}/simt"], StubExecutor(), packing=packing)


def failed(found: Findings) -> set[str]:
    return {check.name for check in found.checks if not check.verdict.passes}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [recipe.name for recipe in of_operation("kv_pack")])
@pytest.mark.parametrize(("cells", "page_size"), [(70, 4), (1, 1), (2, 64), (3, 16)])
def test_the_definition_passes_exactly(name: str, mode: str, cells: int, page_size: int) -> None:
    found = run(case=replace(CASE, recipe=name, context=cells, page_size=page_size), mode=mode)
    if cells < 64 and find(name).pages is Pages.ABSENT:
        return  # no resident page: nothing is stored, and nothing may be
    assert failed(found) == set()
    assert settle(found.checks) is Verdict.EXACT


def damaged(edit: Callable[[Pool], None]) -> Packing:
    def wrong(*args: object, **kwargs: object) -> Packed:
        made = pack(*args, **kwargs)  # type: ignore[arg-type]
        edit(made.pool)
        return made

    return replace(GOOD, pack=wrong)


def one_code(pool: Pool) -> None:
    pool.k.view(np.uint8).reshape(-1)[pool.k.size // 2] ^= 1


def beside(pool: Pool) -> None:
    pool.v[0, 0, 0, 0] ^= 1


def scale_sign(pool: Pool) -> None:
    assert pool.k_scale is not None
    pool.k_scale[pool.table[3], 0, 0, 2] *= -1


@pytest.mark.parametrize(("edit", "plane"), [(one_code, "k"), (beside, "v"), (scale_sign, "k_scale")])
def test_one_wrong_byte_anywhere_fails(edit: Callable[[Pool], None], plane: str) -> None:
    found = run(damaged(edit))
    assert "bytes" in failed(found)
    assert settle(found.checks) is Verdict.EXCEEDS
    assert next(check.reason for check in found.checks if check.name == "bytes").startswith(f"{plane} ")


def test_appending_in_parts_must_give_the_same_pool() -> None:
    def wrong(executor: Executor, pool: Pool, k: np.ndarray, v: np.ndarray, cells: object) -> Packed:
        made = append(executor, pool, k, v, cells)
        if not isinstance(cells, int):
            one_code(made.pool)
        return made

    assert failed(run(replace(GOOD, append=wrong))) == {"in parts"}


def test_every_part_is_appended() -> None:
    calls: list[int] = []

    def watch(executor: Executor, pool: Pool, k: np.ndarray, v: np.ndarray, cells: object) -> Packed:
        calls.append(len(k))
        return append(executor, pool, k, v, cells)

    run(replace(GOOD, append=watch))
    assert sum(calls) == 70
    assert calls[-1] == 1
    assert len(calls) == 3


def test_lost_values_guards_and_witnesses_are_checked() -> None:
    def with_(**fields: Any) -> Packing:
        return replace(GOOD, pack=lambda *a, **k: pack(*a, **k)._replace(**fields))

    assert failed(run(with_(lost=1))) == {"lost"}
    silent = replace(GOOD, append=lambda *a, **k: append(*a, **k)._replace(lost=0))
    assert failed(run(silent, replace(CASE, recipe="pack_lost"))) == {"lost in parts"}
    assert failed(run(with_(guards_ok=False))) == {"guards"}
    assert failed(run(with_(witnesses=[]))) == {"witness"}
    fp16 = run(case=replace(CASE, recipe="pack_decades"), mode="fp16")
    assert failed(fp16) == set()
    assert fp16.figures["lost"] > 0


def test_the_rotation_is_checked_bit_for_bit() -> None:
    def wrong(executor: Executor, x: np.ndarray) -> np.ndarray:
        return reference.hadamard(x).astype(np.float32)

    assert failed(run(replace(GOOD, hadamard=wrong))) == {"rotation"}
    assert {"rotation", "rotation to FP64"} <= failed(
        run(replace(GOOD, hadamard=lambda e, x: -reference.hadamard32(x)))
    )


def test_pools_with_other_planes_are_not_the_same() -> None:
    table = np.array([0], np.int32)
    one, two = (kernels.empty_pool(mode, 1, 4, 2, table) for mode in ("int8", "int8"))
    assert same_pool("x", one, two).verdict is Verdict.EXACT
    assert same_pool("x", replace(one, k_scale=None), two).verdict is Verdict.EXCEEDS
    assert same_pool("x", one, kernels.empty_pool("fp16", 1, 4, 2, table)).verdict is Verdict.EXCEEDS
    assert same_pool("x", one, kernels.empty_pool("int8", 2, 4, 2, table)).verdict is Verdict.EXCEEDS


def test_the_table_of_rotated_planes_is_the_engines() -> None:
    assert {mode: kernels.rotated_planes(mode) for mode in MODES} == ROTATED
