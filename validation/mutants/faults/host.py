"""Mutants of the host parts of the baseline and of packing: order of arguments, sizes, batches, tables, guards."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_KERNELS = "strata/kernels/"
_TESTS = "tests/strata/kernels/test_"


def _fault(
    name: str, file: str, old: str, new: str, why: str, paths: str, *recipes: str, tests: tuple[str, ...] = ()
) -> Mutant:
    return Mutant(f"host-{name}", f"{_KERNELS}{file}.py", old, new, why, paths, recipes, tests=tests)


def _decode(name: str, old: str, new: str, why: str, mode: str, *recipes: str) -> Mutant:
    return _fault(name, "decode_attention", old, new, why, f"decode_attention/{mode}/simt", *recipes)


def _pack(name: str, old: str, new: str, why: str, mode: str, *recipes: str) -> Mutant:
    return _fault(name, "kv_pack", old, new, why, f"kv_pack/{mode}/simt", *recipes)


_DECODE = (
    _decode(
        "first-query-omitted",
        "np.int32(inputs.page_size), np.int32(first),",
        "np.int32(inputs.page_size), np.int32(0),",
        "Every batch computes the queries of the first one.",
        "int8",
        "width_edges",
    ),
    _decode(
        "first-query-unmerged",
        "np.int32(work.chunks), np.int32(first),",
        "np.int32(work.chunks), np.int32(0),",
        "Every batch is merged into the rows of the first one.",
        "q4_0",
        "width_edges",
    ),
    _decode(
        "cap-for-page-size",
        "np.int32(inputs.cap), np.int32(inputs.page_size)",
        "np.int32(inputs.page_size), np.int32(inputs.cap)",
        "The row stride of ids and the page size change places.",
        "fp16",
        "uniform",
    ),
    _decode(
        "scales-swapped",
        "inputs.q, pool.k, pool.k_scale, pool.v, pool.v_scale,",
        "inputs.q, pool.k, pool.v_scale, pool.v, pool.k_scale,",
        "K is read with the scales of V, and V with those of K.",
        "int8",
        "signed_decades",
    ),
    _decode(
        "planes-swapped",
        "inputs.q, pool.k, pool.k_scale, pool.v, pool.v_scale,",
        "inputs.q, pool.v, pool.k_scale, pool.k, pool.v_scale,",
        "Keys and values change places, which have one size in this mode.",
        "q4_0",
        "uniform",
    ),
    _decode(
        "whole-batch",
        "count = min(BATCH, inputs.queries - first)",
        "count = BATCH",
        "The last batch has rows for queries that do not exist.",
        "k8v4",
        "uniform",
    ),
    _decode(
        "part-batch-lost",
        "for first in range(0, inputs.queries, BATCH):",
        "for first in range(0, max(inputs.queries - BATCH + 1, 1), BATCH):",
        "A last batch that is not full is never launched.",
        "fp16",
        "width_edges",
    ),
    _decode(
        "chunks-cut",
        "self.chunks = -(-inputs.cap // CELLS)",
        "self.chunks = max(inputs.cap // CELLS, 1)",
        "The part of a chunk at the end of the widest rows is not computed.",
        "int8",
        "flat",
    ),
    _decode(
        "workspace-of-one-query",
        "slots = min(BATCH, inputs.queries) * inputs.kv_heads * self.chunks",
        "slots = inputs.kv_heads * self.chunks",
        "The workspace has room for one query of a batch.",
        "q4_0",
        "uniform",
    ),
    _decode(
        "workspace-of-one-head",
        "slots = min(BATCH, inputs.queries) * inputs.kv_heads * self.chunks",
        "slots = min(BATCH, inputs.queries) * self.chunks",
        "The workspace has room for one KV head.",
        "fp16",
        "uniform",
    ),
    _decode(
        "sums-not-merged",
        "work.sums, work.maxima, work.weights, out,",
        "work.sums, work.weights, work.maxima, out,",
        "Merge takes weight sums for maxima and maxima for weight sums.",
        "k8v4",
        "uniform",
    ),
    _decode(
        "merge-of-twelve",
        'kernels("fp16", group)[0]',
        'kernels("fp16", 12)[0]',
        "Partial results of every geometry are merged as those of twelve heads.",
        "int8",
        "signed_decades",
    ),
    _fault(
        "cap-of-widths",
        "attention",
        "        ids.shape[1],\n        pool.page_size,",
        "        max(int(widths.max()), 1),\n        pool.page_size,",
        "The row stride of ids is taken to be the widest list.",
        "decode_attention/fp16/simt",
        "uniform",
    ),
    _fault(
        "heads-interleaved",
        "attention",
        "    return Result(out.host(), witnesses, intact)",
        "    split = out.host().reshape(inputs.queries, inputs.kv_heads, inputs.group, HEAD_DIM)\n"
        "    return Result(split.swapaxes(1, 2).reshape(inputs.shape), witnesses, intact)",
        "The output comes back with heads of one KV head apart.",
        "decode_attention/int8/simt",
        "peaked",
    ),
    _fault(
        "absent-page-zero",
        "pool",
        'executor.array(pool.table, "page table"),',
        'executor.array(np.maximum(pool.table, 0), "page table"),',
        "Absent pages are taken for physical page 0.",
        "decode_attention/q4_0/simt",
        "absent_pages",
    ),
    _fault(
        "v-is-k",
        "pool",
        'executor.array(pool.v, "v pool"),',
        'executor.array(pool.k, "v pool"),',
        "The values on the executor are a copy of the keys.",
        "decode_attention/fp16/simt",
        "uniform",
    ),
)

_PACK = (
    _pack(
        "append-at-zero",
        "np.int32(0 if listed is not None else first),",
        "np.int32(0),",
        "Rows appended to a pool are written from cell 0 on.",
        "int8",
        "pack_bell",
    ),
    _pack(
        "listed-cells-elsewhere",
        "records[:, 0] = listed",
        "records[:, 1] = listed",
        "The cells of a batch of steps stand in another entry than the one the kernel reads.",
        "q4_0",
        "pack_bell",
    ),
    _pack(
        "last-rows-unpacked",
        "grid = (-(-rows // _ROWS), 1, 1)",
        "grid = (max(rows // _ROWS, 1), 1, 1)",
        "Rows past the last whole block are not packed.",
        "fp16",
        "pack_bell",
    ),
    _pack(
        "rows-are-cells",
        "grid = (-(-rows // _ROWS), 1, 1)",
        "grid = (-(-n // _ROWS), 1, 1)",
        "Blocks are counted for one KV head.",
        "k8v4",
        "pack_bell",
    ),
    _pack(
        "rotation-of-part",
        "witnesses.append(_rotate(executor, given, source, rows))",
        "witnesses.append(_rotate(executor, given, source, n))",
        "As many rows are rotated as there are cells, with several rows to each.",
        "q4_0",
        "pack_bell",
    ),
    _pack(
        "k8v4-keys-rotated",
        '"k8v4": (False, True)',
        '"k8v4": (True, True)',
        "K8V4 keys are rotated, and the q that meets them is not.",
        "k8v4",
        "pack_bell",
    ),
    _pack(
        "k8v4-values-not-rotated",
        '"k8v4": (False, True)',
        '"k8v4": (False, False)',
        "K8V4 values are stored as they come.",
        "k8v4",
        "pack_bell",
    ),
    _pack(
        "q4-keys-not-rotated",
        '{"q4_0": (True, True)',
        '{"q4_0": (False, True)',
        "Q4_0 keys are stored as they come.",
        "q4_0",
        "pack_bell",
    ),
    _pack(
        "values-are-keys",
        '("k", "v"), formats, (k, v), old,',
        '("k", "v"), formats, (k, k), old,',
        "Keys are packed into both planes.",
        "int8",
        "pack_bell",
    ),
    _pack(
        "old-scales-crossed",
        "old = ((pool.k, pool.k_scale), (pool.v, pool.v_scale))",
        "old = ((pool.k, pool.v_scale), (pool.v, pool.k_scale))",
        "Scales of rows appended earlier go to the other plane, which only a second append shows.",
        "int8",
        "pack_bell",
    ),
    _pack(
        "lost-of-values-alone",
        "        source: Buffer = executor.array(x.reshape(rows, HEAD_DIM), name)\n",
        '        lost = executor.array(np.zeros(1, np.int32), "lost", written=True)\n'
        "        source: Buffer = executor.array(x.reshape(rows, HEAD_DIM), name)\n",
        "Values lost from K are not counted.",
        "fp16",
        "pack_lost",
    ),
    _pack(
        "pool-forgotten",
        'target = executor.array(plane, f"{name} pool", written=True)',
        'target = executor.array(np.zeros_like(plane), f"{name} pool", written=True)',
        "Appending to a pool clears the rows it had.",
        "q4_0",
        "pack_bell",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the host parts."""
    yield from (*_DECODE, *_PACK)
