"""Runs one case of a packing path: every stored byte against the reference packers, and the rotation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from strata.executors.base import Executor
from strata.kernels import kv_pack
from strata.kernels.kv_pack import Packed
from strata.kernels.paths import Path
from strata.kernels.pool import MODE_FORMATS, Pool
from validation.core.findings import Findings
from validation.core.handed import handed
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery
from validation.core.settings import Settings
from validation.core.verdict import Check, combine, holds, identical, within
from validation.operations.kv_pack import bound as bounds
from validation.operations.kv_pack import planes, reference
from validation.operations.kv_pack import values as pack_values
from validation.operations.kv_pack.case import Case
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.recipes import find

#: Modes whose K, and whose V, are stored rotated.
ROTATED = {"fp16": (False, False), "int8": (False, False), "k8v4": (False, True), "q4_0": (True, True)}
_PLANES = ("k", "v", "k_scale", "v_scale")


@dataclass(frozen=True)
class Packing:
    """The packing kernels under test: a whole pool, rows appended to one, the rotation alone. Each is handed copies."""

    pack: Callable[..., Packed] = kv_pack.pack
    append: Callable[..., Packed] = kv_pack.append
    hadamard: Callable[[Executor, np.ndarray], np.ndarray] = kv_pack.hadamard

    def __post_init__(self) -> None:
        for name in ("pack", "append", "hadamard"):
            object.__setattr__(self, name, handed(getattr(self, name)))


def run(case: Case, path: Path, executor: Executor, settings: Settings, packing: Packing | None = None) -> Findings:
    """Findings of one packing path on one case."""
    kernels = packing or Packing()
    found = Findings()
    mode, page_size = path.mode, case.page_size
    with found.timed("data"):
        k, v = (pack_values.draw(case.recipe, case.stream(name), case.context, case.n_head_kv) for name in ("k", "v"))
        table, pages = page_table(case.stream("pages"), find(case.recipe).pages, case.context, page_size)
        empty = kv_pack.empty_pool(mode, pages, page_size, case.n_head_kv, table)
    with found.timed("new"):
        made = kernels.pack(executor, mode, k, v, page_size=page_size, table=table, pages=pages)
    with found.timed("repeat"):
        again = kernels.pack(settings.twin or executor, mode, k, v, page_size=page_size, table=table, pages=pages)
        parts = _in_parts(case, kernels, executor, empty, k, v)
    with found.timed("reference"):
        stored = [reference.hadamard32(x) if turned else x for x, turned in zip((k, v), ROTATED[mode], strict=True)]
        keys, rows = (planes.pack(x, form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
        want = place(keys, rows, mode, table, pages, page_size, onto=empty)
        resident = table[np.arange(case.context) // page_size] >= 0
        lost = sum(reference.lost(x[resident], form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
    with found.timed("verdict"):
        entries = {f"kv_pack_{form}" for form in MODE_FORMATS[mode]} | (
            {"hadamard_256"} if any(ROTATED[mode]) else set()
        )
        images = {entry: executor.build(kv_pack.kernel(entry)).digest for entry in sorted(entries)}
        found.checks += [
            _decides(same_pool("bytes", made.pool, want)),
            same_pool("repeat", again.pool, made.pool),
            same_pool("in parts", parts.pool, made.pool),
            holds("lost", made.lost == lost, f"{made.lost} values reported lost, expected {lost}"),
            holds("lost in parts", parts.lost == lost, f"{parts.lost} values reported lost in parts, expected {lost}"),
            holds("guards", made.guards_ok and parts.guards_ok, "memory around a buffer was overwritten"),
            witnessed(executor, made.witnesses, None, images),
            bit_battery(want.k),
        ]
        found.checks += _rotation(kernels, executor, k)
        found.figures["lost"] = lost
    return found


def pack(
    executor: Executor, mode: str, k: np.ndarray, v: np.ndarray, page_size: int, table: np.ndarray, pages: int
) -> Pool:
    """The pool that the kernel under test makes of float32 k and v [cells, kv, 256], not rotated."""
    made: Packed = Packing().pack(executor, mode, k, v, page_size=page_size, table=table, pages=pages)
    return made.pool


def _in_parts(case: Case, kernels: Packing, executor: Executor, empty: Pool, k: np.ndarray, v: np.ndarray) -> Packed:
    """The same rows appended as a prompt, a shuffled batch of listed cells and one single cell."""
    first, last = case.context // 3, case.context - 1
    made = kernels.append(executor, empty, k[: max(first, 1)], v[: max(first, 1)], 0)
    if last < max(first, 1):
        return made  # one cell: a second append would write it again
    listed = max(first, 1) + case.stream("order").permutation(max(last - max(first, 1), 0))
    if len(listed):
        made = _after(made, kernels.append(executor, made.pool, k[listed], v[listed], listed))
    return _after(made, kernels.append(executor, made.pool, k[last:], v[last:], last))


def _after(one: Packed, two: Packed) -> Packed:
    return two._replace(lost=one.lost + two.lost, guards_ok=one.guards_ok and two.guards_ok)


def _decides(check: Check) -> Check:
    """Every stored bit was predicted by the reference, which makes a case that passes EXACT."""
    return replace(check, figures=check.figures | {"all_bits": True})


def same_pool(name: str, got: Pool, want: Pool) -> Check:
    """EXACT when all planes of two pools have the same bytes; the reason names the plane."""
    checks: list[Check] = []
    for plane in _PLANES:
        one, two = getattr(got, plane), getattr(want, plane)
        if one is None or two is None:
            checks.append(holds(name, one is two, f"{plane} is there on one side only"))
            continue
        check = identical(name, one, two)
        checks.append(replace(check, reason=f"{plane} {check.reason}" if check.reason else ""))
    verdict = combine(checks)
    worst = next(check for check in checks if check.verdict is verdict)
    figures: Mapping[str, int] = {
        key: sum(int(check.figures.get(key, 0)) for check in checks) for key in ("compared", "differing")
    }
    return Check(name, verdict, worst.reason, dict(figures))


def _rotation(kernels: Packing, executor: Executor, x: np.ndarray) -> list[Check]:
    """The rotation kernel: the bits of its definition, and its distance from the exact transform."""
    got = kernels.hadamard(executor, x)
    whole = np.isfinite(x).all(axis=-1)  # a row with a NaN or an infinity has no FP64 result to be near
    kept = x[whole]
    checks = [identical("rotation", got, reference.hadamard32(x))]
    if len(kept):
        bound = np.broadcast_to(bounds.hadamard(kept), kept.shape)
        checks.append(within("rotation to FP64", got[whole], reference.hadamard(kept), bound))
    return checks
