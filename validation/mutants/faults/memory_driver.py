"""Mutants of the drivers' code and of the kernel that compares bytes."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

_CONTRACT = ("tests/strata/memory/driver/test_driver_contract.py", "tests/strata/memory/driver/test_real.py")
_KERNEL = ("tests/strata/kernels/test_compare_bytes.py",)


def _driver(name: str, file: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"driver-{name}", f"strata/memory/{file}.py", old, new, why, tests=_CONTRACT)


def _kernel(name: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(f"compare-{name}", "strata/kernels/compare_bytes.cu", old, new, why, tests=_KERNEL)


_DRIVER = (
    _driver(
        "staging-refilled-early",
        "driver/real_compare",
        '                call("compare", self._cuda.cuStreamSynchronize, stream)  # its last copy reads the buffer\n',
        "",
        "A staging buffer is filled again before the copy from it has been made.",
    ),
    _driver(
        "results-of-the-last-round",
        "driver/real_compare",
        '        call("compare", self._cuda.cuMemsetD8Async, self._results, 0, words * 8, first)\n',
        "",
        "A comparison adds to what an earlier one has found.",
    ),
    _driver(
        "results-read-early",
        "driver/real_compare",
        '        for lane in self._lanes:\n            call("compare", self._cuda.cuStreamSynchronize, lane.stream)\n        out',
        "        out",
        "Results are read before the kernels have run.",
    ),
    _driver(
        "offset-in-its-piece",
        "driver/real_compare",
        "index, at + difference.offset, difference.expected",
        "index, difference.offset, difference.expected",
        "A difference is named by its place in a staged piece.",
    ),
    _driver(
        "last-difference",
        "driver/real_compare",
        "differing = np.flatnonzero(found[:, 0])\n",
        "differing = np.flatnonzero(found[:, 0])[::-1]\n",
        "The last range that differs is named.",
    ),
    _driver(
        "blocking-copy-in-flight",
        "driver/real",
        '        if stream is None:\n            self._call("copy_in", self._cuda.cuStreamSynchronize, on)\n        else:\n',
        "        if stream is not None:\n",
        "A blocking copy returns before it has landed.",
    ),
    _driver(
        "source-freed-in-flight",
        "driver/real",
        "            self._streams[stream].append((self._queued, host))\n",
        "",
        "The bytes of a queued copy are freed before it has been made.",
    ),
    _driver(
        "source-kept-for-ever",
        "driver/real",
        "        while kept and kept[0][0] <= upto:\n",
        "        while kept and kept[0][0] < 0:\n",
        "The bytes of copies that have landed are never freed.",
    ),
    _driver(
        "view-without-mapping",
        "driver/real",
        "        if self.mappings.starting(va) is not None:\n            self.mappings.remove(va)\n",
        "",
        "The driver does not notice that a mapping has ended.",
    ),
    _driver(
        "fill-in-flight",
        "driver/real",
        '            self._call("fill", self._cuda.cuStreamSynchronize, self._own)\n',
        "",
        "A fill returns before it has landed.",
    ),
)

_COMPARE = (
    _kernel(
        "tail-unseen",
        "  for (u64 i = me; i < r.tail; i += threads) {\n",
        "  for (u64 i = me; i + 1 < r.tail; i += threads) {\n",
        "The last byte behind the vectors is not compared.",
    ),
    _kernel(
        "head-unseen",
        "  for (u64 i = me; i < r.head; i += threads) {\n",
        "  for (u64 i = me + 1; i < r.head; i += threads) {\n",
        "The first byte before the vectors is not compared.",
    ),
    _kernel(
        "vectors-cut",
        "  const u64 vectors = (n - head) / kVector;\n  return {head, vectors, n - head - vectors * kVector};\n",
        "  const u64 vectors = (n - head) / kVector;\n  return {head, vectors, (n - head) % 8};\n",
        "Up to eight bytes at the end are not compared.",
    ),
    _kernel(
        "misaligned-vectors",
        "  if ((first ^ second) % kVector != 0 || head > n) head = n;\n",
        "  if (head > n) head = n;\n",
        "16 bytes are loaded at addresses that are no multiples of 16.",
    ),
    _kernel(
        "highest-byte",
        "(differs & 0xffu) ? 0 : (differs & 0xff00u) ? 1 : (differs & 0xff0000u) ? 2 : 3",
        "(differs & 0xff000000u) ? 3 : (differs & 0xff0000u) ? 2 : (differs & 0xff00u) ? 1 : 0",
        "The highest byte that differs in a word is named.",
    ),
    _kernel(
        "highest-word",
        "  for (int j = 3; j >= 0; --j) {\n",
        "  for (int j = 0; j < 4; ++j) {\n",
        "The last word that differs in a vector is named.",
    ),
    _kernel(
        "sides-swapped",
        "DEVICE u64 find(u64 offset, u32 expected, u32 got) {",
        "DEVICE u64 find(u64 offset, u32 got, u32 expected) {",
        "What was found is told as what was expected.",
    ),
    _kernel(
        "whoever-comes-last",
        "  if (best != 0) atomicMax(result, best);\n",
        "  if (best != 0) store<u64>(result, best);\n",
        "The difference of whichever thread comes last is told.",
    ),
    _kernel(
        "count-of-one-thread",
        "if (t == 0) atomicAdd(result + 1, sums.ld(0));",
        "if (t == 0) atomicAdd(result + 1, compared);",
        "Only the first thread of a block counts what it compared.",
    ),
)


def mutants() -> Iterator[Mutant]:
    """Every mutant of the drivers and of comparing."""
    yield from (*_DRIVER, *_COMPARE)
