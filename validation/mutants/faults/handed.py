"""Mutants that change what they were given, and of what hands it to them: copies, comparison, read-only memory."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_KERNELS = "strata/kernels/"
_CLEAR = "{}.view(np.uint32)[...] &= np.uint32(0xFFFFF800)"


def _input(name: str, file: str, given: str, before: str, paths: str, *recipes: str) -> Mutant:
    """Low bits of an input are cleared in the caller's own array, before the line `before`."""
    indent = before[: len(before) - len(before.lstrip())]
    new = f"{indent}{_CLEAR.format(given)}\n{before}"
    why = f"Low bits of {given} are cleared in the array that the caller still holds."
    return Mutant(f"inputs-{name}", f"{_KERNELS}{file}", before, new, why, paths, recipes)


def _candidates() -> Iterator[Mutant]:
    """One of each operation, and kernels that write over their inputs."""
    attention = "prompt_attention/q4_0/sm80"
    yield _input("prompt-q", "attention.py", "q", '    return Inputs(\n        executor.array(q, "q"),', attention)
    yield _input(
        "decode-q",
        "decode_attention.py",
        "q",
        "    inputs = prepare(executor, q, pool, ids, steps)\n    workspace",
        "decode_attention/int8/simt",
    )
    yield _input(
        "pack-k", "kv_pack.py", "k", '    table = executor.array(pool.table, "page table")', "kv_pack/int8/simt"
    )
    yield _input(
        "fused-x",
        "expert_fused.py",
        "x",
        "    tables = {form: device_table(form) for form in (experts.gate_up, experts.down)}",
        "expert_fused/iq3_xxs/iq4_nl/sm80",
        "experts_decades",
    )
    yield _input(
        "mmq-x",
        "expert_mmq.py",
        "x",
        "    p = prepare(executor, path, placed, x, ids, together)",
        "expert_mmq/iq3_xxs/iq4_nl/sm80",
        "experts_decades",
    )
    yield _input(
        "decode-x",
        "expert_decode.py",
        "x",
        "    p = prepare(executor, path, placed, x, ids)\n    witnesses",
        "expert_decode/iq3_xxs/iq4_nl/simt",
        "experts_decades",
    )
    yield _input("router-logits", "router.py", "logits", '    source = executor.array(logits, "logits")', "router/*")
    yield _input(
        "combine-rows", "combine.py", "rows", '    buffers = {"rows": executor.array(rows, "rows")}', "combine/*"
    )
    yield Mutant(
        "inputs-rotated-in-place",
        f"{_KERNELS}kv_pack.py",
        'given, source = source, executor.empty((rows, HEAD_DIM), np.float32, name=f"rotated {name}")',
        "given = source",
        "The rotation writes over the rows that it reads.",
        "kv_pack/q4_0/simt",
        ("pack_bell",),
    )
    yield Mutant(
        "inputs-logits-written-over",
        f"{_KERNELS}router.cu",
        "key_of(load(logits + token * experts + expert), nans, infinities) : 0;\n",
        "key_of(load(logits + token * experts + expert), nans, infinities) : 0;\n"
        "      if (expert < experts) store(const_cast<float*>(logits) + token * experts + expert, 0.0f);\n",
        "The router leaves zeros where the logits were.",
        "router/*",
        ("router_bell",),
    )


def _fault(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"handed-{name}", f"validation/{file}.py", old, new, why, controls=True)


def _harness() -> Iterator[Mutant]:
    """Ways in which a changed input could go unseen again."""
    bare, named = 'object.__setattr__(self, "run", handed(self.run))', "handed(getattr(self, name))"
    for name, file, old in (
        ("attention", "operations/attention/kernels", bare),
        ("experts", "operations/experts/under_test", bare),
        ("packing", "operations/kv_pack/packing", named),
        ("rows", "core/row_hooks", "return handed(bound)(executor, path, inputs)"),
    ):
        new = {bare: "pass", named: "getattr(self, name)"}.get(old, "return bound(executor, path, inputs)")
        yield _fault(f"originals-{name}", file, old, new, "A candidate gets what its expectation is made from.")
    yield _fault(
        "no-copies",
        "core/handed",
        '        held = own.copy(order="K")\n',
        "        held = own\n",
        "What is handed out is the original.",
    )
    yield _fault(
        "stale-copies",
        "core/handed",
        "if held is None or difference(held, own) is not None:",
        "if held is None:",
        "A copy that a candidate changed is handed to the next run.",
    )
    yield _fault(
        "arrays-not-compared",
        "core/handed",
        "        if at is not None:\n",
        "        if False:\n",
        "Arrays may come back changed.",
    )
    yield _fault(
        "memory-not-compared",
        "core/handed",
        "said = [*_changed(lent), *own.changed(buffers)]",
        "said = [*_changed(lent)]",
        "Memory of an executor may hold something else after a run.",
    )
    yield _fault(
        "inner-run-forgets",
        "core/watched",
        "            self._used = outer\n",
        "            pass\n",
        "A run inside a run takes the outer one's buffers for its own.",
    )
    yield _fault(
        "reached-memory-not-compared",
        "core/watched",
        "for given in (*args, *reached):",
        "for given in reached:",
        "Only what a launch finds by addresses is compared.",
    )
    yield _fault(
        "memory-compared-with-itself",
        "core/watched",
        "np.array(host)",
        "np.asarray(host)",
        "What an input buffer was made from is the caller's array, which may change with the buffer.",
    )
    yield _fault(
        "result-not-copied",
        "core/handed",
        "return rebuilt(result, lambda name, array: array.copy())",
        "return result",
        "A later run can write over what an earlier one gave.",
    )
    yield _fault(
        "timed-originals",
        "core/timed",
        "    with handing(prepare, executor, (path, inputs)) as (own, args, _):\n",
        "    own, args = executor, (path, inputs)\n    if True:\n",
        "What is timed may change what it is given.",
    )
    yield _fault(
        "changed-inputs-pass",
        "run/runner",
        'check = Check("inputs", Verdict.EXCEEDS, str(error))',
        'check = Check("inputs", Verdict.EXACT)',
        "A run that changed its inputs passes.",
    )
    yield _fault(
        "whole-words-compared",
        "core/byte_equality",
        "np.array_equal(\n        one[whole:], two[whole:]\n    )",
        "True",
        "The last bytes of an odd size are not compared.",
    )


def _unwatched() -> Iterator[Mutant]:
    """An input of each operation is handed out as memory that kernels may write to."""
    for name, file, made in (
        ("attention-ids", "attention", 'executor.array(ids, "ids"'),
        ("pool-table", "pool", 'executor.array(pool.table, "page table"'),
        ("packed-rows", "kv_pack", "executor.array(x.reshape(rows, HEAD_DIM), name"),
        ("expert-addresses", "experts", 'executor.array(np.array(addresses, np.uint64), "expert addresses"'),
        ("fused-ids", "expert_fused", 'executor.array(ids, "ids"'),
        ("older-pairs", "experts_baseline", 'executor.array(grouping.pairs, "pairs"'),
        ("router-logits", "router", 'executor.array(logits, "logits"'),
        ("combine-weights", "combine", "buffers[name] = executor.array(x, name"),
    ):
        yield Mutant(
            f"handed-unwatched-{name}",
            f"{_KERNELS}{file}.py",
            f"{made})",
            f"{made}, written=True)",
            "Nobody knows any longer what an input buffer was made from.",
            controls=True,
        )


def mutants() -> Iterator[Mutant]:
    """Every mutant of both kinds."""
    yield from _candidates()
    yield from _harness()
    yield from _unwatched()
