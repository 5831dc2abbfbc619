"""Data that breaks its recipe's promise, which a case must call void; and seeds, which must matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strata.kernels.pool import Pool
from validation.core.control import Control
from validation.core.random_streams import Stream
from validation.operations.attention import plan, pools, preconditions
from validation.operations.attention.pools import Inputs
from validation.operations.kv_pack import plan as pack_plan
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.recipes import of_operation
from validation.operations.kv_pack.reference import Q4_BYTES
from validation.run import plan as profiles

#: Sizes at which every promise is asked: more than 256 scales of a plane, more than 32 pages, a sparse selection.
SMALL = Case("signed_decades", 1, 70, 3, 2, n_head_kv=2, group=4, top=40)

#: Edits a copy of the inputs; what it returns takes the place of a plane or a list by name.
Edit = Callable[[Inputs], dict[str, np.ndarray]]


def _edited(inputs: Inputs, edit: Edit) -> Inputs:
    changes = edit(inputs)
    stored: dict[str, Any] = {name: value for name, value in changes.items() if hasattr(inputs.pool, name)}
    lists: dict[str, Any] = {name: value for name, value in changes.items() if name not in stored}
    return replace(inputs, pool=replace(inputs.pool, **stored), **lists)


def _blocks(plane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy of a Q4_0 plane and a view of its blocks' bytes [..., blocks, 18]."""
    out = plane.copy()
    return out, out.reshape(*out.shape[:-1], -1, Q4_BYTES)


def _positive(name: str) -> Edit:
    """All scales of a plane made positive (of Q4_0 in its blocks; poison, a NaN, is positive already)."""

    def edit(inputs: Inputs) -> dict[str, np.ndarray]:
        scale = getattr(inputs.pool, f"{name}_scale")
        if scale is not None:
            return {f"{name}_scale": np.abs(scale)}
        out, blocks = _blocks(getattr(inputs.pool, name))
        blocks[..., 1] &= 0x7F
        return {name: out}

    return edit


def _codes(inputs: Inputs) -> dict[str, np.ndarray]:
    out, blocks = _blocks(inputs.pool.v)
    blocks[..., 2:] &= 0x77
    return _keep_poison(inputs, "v", out)


def _keep_poison(inputs: Inputs, name: str, out: np.ndarray) -> dict[str, np.ndarray]:
    """`out`, with poison as it was in the first and the last page and behind the last cell."""
    used = _used(inputs.pool, inputs)
    plane = getattr(inputs.pool, name)
    return {name: np.where(used[:, None, :, None], out, plane)}


def _used(pool: Pool, inputs: Inputs) -> np.ndarray:
    used = np.zeros((len(pool.k), pool.page_size), dtype=bool)
    cells = np.arange(SMALL.context)
    used[pool.table[cells // pool.page_size], cells % pool.page_size] = True
    return used


def _narrow(inputs: Inputs) -> dict[str, np.ndarray]:
    """All K scales in one binade, their signs kept."""
    out, blocks = _blocks(inputs.pool.k)
    blocks[..., 1] = blocks[..., 1] & 0x83 | 0x34
    return _keep_poison(inputs, "k", out)


def _clean(name: str, page: int, slot: int) -> Edit:
    """Zeros instead of poison in one slot that no cell lives in; page -1 is the last physical one."""

    def edit(inputs: Inputs) -> dict[str, np.ndarray]:
        out = getattr(inputs.pool, name).copy()
        out[page, :, slot] = 0
        return {name: out}

    return edit


def _padding(inputs: Inputs) -> dict[str, np.ndarray]:
    """Zeros behind the last cell, in its own page."""
    out = inputs.pool.v.copy()
    logical = -(-RAGGED.context // RAGGED.page_size)
    out[inputs.pool.table[logical - 1], :, -1] = 0
    return {"v": out}


def _at(name: str, index: Any, value: Any) -> Edit:
    """One element of ids, steps, q or the table changed."""

    def edit(inputs: Inputs) -> dict[str, np.ndarray]:
        out = getattr(inputs if hasattr(inputs, name) else inputs.pool, name).copy()
        out[index] = value(out[index]) if callable(value) else value
        return {name: out}

    return edit


def _sorted(inputs: Inputs) -> dict[str, np.ndarray]:
    table = inputs.pool.table.copy()
    logical = SMALL.context // SMALL.page_size
    table[:logical].sort()
    return {"table": table}


def _unshared(inputs: Inputs) -> dict[str, np.ndarray]:
    table = inputs.pool.table.copy()
    logical = SMALL.context // SMALL.page_size
    free = np.setdiff1d(np.arange(1, len(inputs.pool.k) - 1), table)
    table[:logical][3::4] = free[: len(table[:logical][3::4])]
    return {"table": table}


def _first_cells(inputs: Inputs) -> dict[str, np.ndarray]:
    out = inputs.ids.copy()
    out[:, : SMALL.top] = np.arange(SMALL.top)
    return {"ids": out}


def _wide(inputs: Inputs) -> dict[str, np.ndarray]:
    """Every width the same, in lists and step records."""
    steps = inputs.steps.copy()
    steps[:, 3] = 1
    return {"steps": steps, "widths": np.ones_like(inputs.widths)}


#: Every recipe that makes its own data.
SYNTHETIC = tuple(recipe.name for recipe in of_operation("prompt_attention") if recipe.name != "captured")
RAGGED = replace(SMALL, context=71)
EDGES = replace(SMALL, recipe="width_edges", queries=60)


def _of(recipe: str) -> Case:
    return replace(SMALL, recipe=recipe, context=211) if recipe == "sunken_ladder" else replace(SMALL, recipe=recipe)


def _plane(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Edit:
    """FP16 K or V changed where it is no poison."""

    def edit(inputs: Inputs) -> dict[str, np.ndarray]:
        plane = getattr(inputs.pool, name)
        return {name: np.where(np.isnan(plane), plane, change(plane))}

    return edit


#: name, case, mode, edit (None: the data as they are made), verdict.
SOFT: tuple[tuple[str, Case, str, Edit | None, str], ...] = (
    *((f"{mode} as made", SMALL, mode, None, "EXACT") for mode in ("q4_0", "k8v4", "fp16")),
    *((f"{name} as made", replace(SMALL, recipe=name), "int8", None, "EXACT") for name in SYNTHETIC),
    ("edges as made", EDGES, "int8", None, "EXACT"),
    ("K scales all positive", SMALL, "q4_0", _positive("k"), "VOID"),
    ("V scales all positive", SMALL, "q4_0", _positive("v"), "VOID"),
    ("INT8 K scales all positive", SMALL, "k8v4", _positive("k"), "VOID"),
    ("INT8 V scales all positive", SMALL, "int8", _positive("v"), "VOID"),
    ("V scales of negative groups positive", replace(SMALL, recipe="all_negative"), "q4_0", _positive("v"), "VOID"),
    ("FP16 V all positive", SMALL, "fp16", lambda inputs: {"v": np.abs(inputs.pool.v)}, "VOID"),
    ("K scales of one size", SMALL, "q4_0", _narrow, "VOID"),
    ("V codes of three bits", SMALL, "q4_0", _codes, "VOID"),
    ("V is K", SMALL, "q4_0", lambda inputs: {"v": inputs.pool.k}, "VOID"),
    ("one KV head twice", SMALL, "q4_0", lambda inputs: {"v": inputs.pool.v[:, [0, 0]]}, "VOID"),
    ("no poison in the first page", SMALL, "q4_0", _clean("k", 0, 0), "VOID"),
    ("no poison in the spare page", SMALL, "q4_0", _clean("v", -1, 1), "VOID"),
    ("no poison in scales", SMALL, "int8", _clean("v_scale", -1, 0), "VOID"),
    ("no poison behind the last cell", RAGGED, "q4_0", _padding, "VOID"),
    ("an absent page", SMALL, "q4_0", _at("table", 0, -1), "VOID"),
    ("no absent page", replace(SMALL, recipe="small_q"), "q4_0", _at("table", 0, 0), "VOID"),
    ("a resident page", replace(SMALL, recipe="all_absent"), "q4_0", _at("table", 0, 1), "VOID"),
    ("pages in order", SMALL, "q4_0", _sorted, "VOID"),
    ("pages out of order", replace(SMALL, recipe="in_order"), "q4_0", _at("table", [0, 1], [2, 1]), "VOID"),
    ("no shared page", replace(SMALL, recipe="shuffled"), "q4_0", _unshared, "VOID"),
    ("id behind a width on a cell", SMALL, "q4_0", _at("ids", (-1, -1), 0), "VOID"),
    ("no id behind the widest row", SMALL, "q4_0", lambda inputs: {"ids": inputs.ids[:, : SMALL.top]}, "VOID"),
    ("an id twice", SMALL, "q4_0", _at("ids", (0, 1), lambda it: it * 0), "VOID"),
    ("the first cells selected", SMALL, "q4_0", _first_cells, "VOID"),
    ("width in the step record alone", SMALL, "q4_0", _at("steps", (-1, 3), 1), "VOID"),
    ("widths of one", SMALL, "q4_0", _wide, "VOID"),
    ("widths of one, edges", EDGES, "int8", _wide, "VOID"),
    ("a width where there is none", replace(SMALL, recipe="zeros"), "q4_0", _wide, "VOID"),
    ("q of zeros", SMALL, "q4_0", _at("q", ..., 0), "VOID"),
    ("a row of q of zeros", SMALL, "q4_0", _at("q", (-1, -1), 0), "VOID"),
    ("q all positive", SMALL, "q4_0", _at("q", ..., np.abs), "VOID"),
    ("q small", SMALL, "q4_0", _at("q", ..., lambda q: q / 64), "VOID"),
    ("no loud head", replace(SMALL, recipe="outlier_head"), "q4_0", _at("q", ..., lambda q: q.clip(-2, 2)), "VOID"),
    ("q off its ladder", _of("q_ladder"), "q4_0", _at("q", (-1, -1), lambda q: q / 64), "VOID"),
    ("q against a slope of K", _of("k_ladder"), "int8", _at("q", ..., lambda q: q[..., ::-1]), "VOID"),
    ("scores of a ladder that all rise", _of("q_ladder"), "fp16", _at("q", ..., np.abs), "VOID"),
    ("a K ladder without steps", _of("k_ladder"), "fp16", _plane("k", lambda k: np.sign(k)), "VOID"),
    ("a V ladder on one level", _of("v_ladder"), "fp16", _plane("v", lambda v: np.sign(v)), "VOID"),
    ("a K ladder where no cell is alone", _of("v_ladder"), "fp16", _plane("k", lambda k: k.clip(-1, 1)), "VOID"),
    ("a sunken ladder on one level", _of("sunken_ladder"), "fp16", _plane("k", lambda k: k.clip(-1, 1)), "VOID"),
    ("queries all alike", SMALL, "q4_0", _at("q", ..., lambda q: q[:1, :1].repeat(8, 1).repeat(3, 0)), "VOID"),
)


def soft() -> Iterator[Control]:
    """The rows of SOFT."""
    made: dict[tuple[Case, str], Inputs] = {}

    def ask(case: Case, mode: str, edit: Edit | None) -> str:
        if (case, mode) not in made:
            made[case, mode] = pools.build(case, mode)
        inputs = made[case, mode]
        return preconditions.kept(case, mode, inputs if edit is None else _edited(inputs, edit)).verdict.value

    for name, case, mode, edit, expected in SOFT:
        yield Control(f"data/{name}", partial(ask, case, mode, edit), expected)


def _parts(inputs: Inputs) -> dict[str, np.ndarray]:
    pool = inputs.pool
    scales = {"K scale": pool.k_scale, "V scale": pool.v_scale}
    planes = {"K": pool.k, "V": pool.v, "q": inputs.q, "table": pool.table, "ids": inputs.ids}
    return planes | {name: scale for name, scale in scales.items() if scale is not None}


def seeds() -> Iterator[Control]:
    """Two seeds give other data in every part, one seed the same; and a profile's cases have the seed asked for."""

    def same(mode: str, one: int, two: int) -> str:
        sides = [_parts(pools.build(replace(SMALL, seed=seed), mode)) for seed in (one, two)]
        alike = [name for name, part in sides[0].items() if part.tobytes() == sides[1][name].tobytes()]
        return f"{', '.join(sorted(alike)) or 'nothing'} alike"

    everything = {"q4_0": "K, V, ids, q, table alike", "int8": "K, K scale, V, V scale, ids, q, table alike"}
    for mode, whole in everything.items():
        yield Control(f"seed/{mode}, two seeds", partial(same, mode, 8, 9), "nothing alike")
        yield Control(f"seed/{mode}, seeds far apart", partial(same, mode, 8, 8 + (1 << 63)), "nothing alike")
        yield Control(f"seed/{mode}, one seed", partial(same, mode, 1, 1), whole)

    def streams(one: Stream, two: Stream) -> str:
        return f"{int((one.words(64) == two.words(64)).sum())} words alike"

    yield Control("seed/streams of two names", lambda: streams(Stream.of(1, "k"), Stream.of(1, "v")), "0 words alike")
    yield Control(
        "seed/child streams", lambda: streams(Stream(1).child("scale"), Stream(1).child("sign")), "0 words alike"
    )
    for profile in profiles.PROFILES:

        def shift(profile: str = profile) -> str:
            one, two = ({entry.case.seed for entry in plan.planned(seed, profile)} for seed in (100, 7100))
            packed = {entry.case.seed for entry in pack_plan.planned(100, profile)}
            return "as asked" if {seed + 7000 for seed in one} == two and min(one) == 100 and packed == {100} else "not"

        yield Control(f"seed/profile {profile}", shift, "as asked")
