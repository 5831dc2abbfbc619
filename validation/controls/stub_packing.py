"""Stand-ins for the packing kernels: the reference packers in their place. Nothing is compiled."""

from __future__ import annotations

import numpy as np

from strata.executors.base import Executor
from strata.kernels import kv_pack as kernels
from strata.kernels.kv_pack import Packed
from strata.kernels.pool import MODE_FORMATS, Pool
from validation.core.stub_executor import witness
from validation.operations.kv_pack import planes, reference
from validation.operations.kv_pack.packing import ROTATED, Packing


def append(executor: Executor, pool: Pool, k: np.ndarray, v: np.ndarray, cells: object) -> Packed:
    """What the kernel must do, by the reference packers and the row formula."""
    listed = np.arange(len(k)) + int(cells) if isinstance(cells, int | np.integer) else np.asarray(cells)
    page = pool.table[listed // pool.page_size]
    here = page >= 0
    arrays: list[np.ndarray | None] = [
        a if a is None else a.copy() for a in (pool.k, pool.v, pool.k_scale, pool.v_scale)
    ]
    lost = 0
    for side, (x, form, turned) in enumerate(zip((k, v), MODE_FORMATS[pool.mode], ROTATED[pool.mode], strict=True)):
        stored = reference.hadamard32(x) if turned else x
        made = planes.pack(stored, form)
        for array, data in ((arrays[side], made.data), (arrays[side + 2], made.scale)):
            if array is not None and data is not None:
                array[page[here], :, (listed % pool.page_size)[here]] = data[here]
        lost += reference.lost(stored[here], form)
    k_, v_, ks, vs = arrays
    assert k_ is not None
    assert v_ is not None
    entries = sorted({f"kv_pack_{form}" for form in MODE_FORMATS[pool.mode]})
    entries += ["hadamard_256"] if any(ROTATED[pool.mode]) else []
    seen = [witness(executor, (1, 1, 1), entry=entry) for entry in entries]
    made_pool = Pool(pool.mode, pool.page_size, pool.n_head_kv, k_, v_, ks, vs, pool.table)
    return Packed(made_pool, lost, seen, True)


def pack(
    executor: Executor, mode: str, k: np.ndarray, v: np.ndarray, *, page_size: int, table: np.ndarray, pages: int
) -> Packed:
    return append(executor, kernels.empty_pool(mode, pages, page_size, k.shape[1], table), k, v, 0)


def packing() -> Packing:
    """Healthy stand-ins of all three."""
    return Packing(pack, append, lambda executor, x: reference.hadamard32(x))
