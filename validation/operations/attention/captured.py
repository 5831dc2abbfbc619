"""Inputs of recipe `captured`: q, K and V of a real model, rotated and packed as the engine does it.

The pool is packed by the kernel under test, by the NumPy reference or, for Q4_0 data, by the `gguf`
package (option `packer=kernel|reference|gguf` of the case): input this project did not make.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path as FilePath

import numpy as np

from strata.arguments import shown
from strata.executors.base import Executor, StrataError
from strata.imports import NotImportedError, optional
from strata.kernels.pool import GROUPS, HEAD_DIM, MODE_FORMATS, Pool
from validation.captured import archive
from validation.captured.archive import Capture, CaptureError
from validation.core.arrays import frozen
from validation.core.case import CaseError
from validation.operations.attention.pools import Inputs, select
from validation.operations.kv_pack import planes
from validation.operations.kv_pack import reference as kv_pack
from validation.operations.kv_pack.case import MOST_CELLS, MOST_KV_HEADS, Case
from validation.operations.kv_pack.packing import ROTATED, pack
from validation.operations.kv_pack.pages import page_table, place
from validation.operations.kv_pack.planes import Cells
from validation.operations.kv_pack.recipes import find

PACKERS = ("kernel", "reference", "gguf")


@lru_cache(maxsize=1)
def load(file: FilePath) -> Capture:
    """The capture in a file, its arrays read-only; the last one is kept.

    Raises CaptureError when the kernels cannot take its shapes.
    """
    capture = archive.load(file)
    facts = capture.metadata
    if facts.head_dim != HEAD_DIM:
        raise CaptureError(f"{file} has head_dim {facts.head_dim}; expected {HEAD_DIM}, the only one of these kernels")
    group, rest = divmod(facts.n_head, facts.n_head_kv)
    if rest or group not in GROUPS:
        raise CaptureError(
            f"{file} has {facts.n_head} query heads on {facts.n_head_kv} KV heads; expected {_listed(GROUPS)} query"
            " heads a KV head"
        )
    if facts.n_head_kv > MOST_KV_HEADS or facts.tokens > MOST_CELLS:
        raise CaptureError(
            f"{file} has {facts.n_head_kv} KV heads and {facts.tokens} tokens; expected at most {MOST_KV_HEADS} and"
            f" {MOST_CELLS}"
        )
    return frozen(capture)


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}"


def build_captured(case: Case, mode: str, executor: Executor, file: FilePath | None) -> Inputs:
    """Inputs of the case's layer: the first `context` tokens as cells, the last `queries` of them as queries.

    K and V are rotated for Q4_0 (k8v4: V alone), q where K is. Raises StrataError without a capture,
    and for a layer, a length or a geometry that the capture does not have.
    """
    if file is None:
        raise StrataError("recipe captured needs a capture: name its file by --capture")
    capture = load(file)
    layer = case.option("layer", "")
    known = ", ".join(str(number) for number in sorted(capture.layers))
    number = {str(number): number for number in capture.layers}.get(layer)
    if number is None:
        raise CaseError(f"case: layer is {shown(layer)}, expected one of those captured: {known}")
    data = capture.layers[number]
    tokens, heads = data.k.shape[:2]
    if case.context > tokens:
        raise CaseError(f"case: context is {case.context}, expected at most the {tokens} tokens of the capture")
    if (case.n_head_kv, case.n_head) != (heads, data.q.shape[1]):
        found = f"kv={heads} group={data.q.shape[1] // heads}"
        raise CaseError(f"case: kv={case.n_head_kv} group={case.group}, expected the capture's {found}")
    q = data.q[case.context - case.queries : case.context]
    k, v = data.k[: case.context], data.v[: case.context]
    if ROTATED[mode][0]:
        q = kv_pack.hadamard32(np.ascontiguousarray(q))
    pool = _packed(case, mode, executor, np.ascontiguousarray(k), np.ascontiguousarray(v))
    ids, steps, widths = select(case, find("captured").widths, len(pool.table))
    return Inputs(np.ascontiguousarray(q), pool, ids, steps, widths)


def _packed(case: Case, mode: str, executor: Executor, k: np.ndarray, v: np.ndarray) -> Pool:
    """The pool of float32 k, v [cells, kv, 256], not rotated, by the case's packer."""
    packer = case.option("packer", "reference")
    if packer not in PACKERS:
        raise CaseError(f"case: packer is {packer!r}, expected one of {', '.join(PACKERS)}")
    table, pages = page_table(case.stream("pages"), find("captured").pages, case.context, case.page_size)
    if packer == "kernel":
        return pack(executor, mode, k, v, case.page_size, table, pages)
    make = _by_gguf if packer == "gguf" else planes.pack
    stored = [kv_pack.hadamard32(x) if turned else x for x, turned in zip((k, v), ROTATED[mode], strict=True)]
    keys, values = (make(x, form) for x, form in zip(stored, MODE_FORMATS[mode], strict=True))
    return place(keys, values, mode, table, pages, case.page_size)


def _by_gguf(x: np.ndarray, form: str) -> Cells:
    """Q4_0 blocks as the `gguf` package writes them; it has no format like our INT8 and FP16."""
    if form != "q4_0":
        return planes.pack(x, form)
    try:
        gguf, quants = (optional(name) for name in ("gguf", "gguf.quants"))
    except NotImportedError as error:
        raise StrataError(f"packer=gguf needs the package gguf (extra `model`): {error}") from error
    rows = quants.quantize(x.reshape(-1, kv_pack.HEAD_DIM), gguf.GGMLQuantizationType.Q4_0)
    return Cells(np.asarray(rows, dtype=np.uint8).reshape(*x.shape[:-1], kv_pack.Q4_ROW))
