"""Mutants of the executors: builds and their cache, guards and poison, the machine that lanes are. Tests judge them."""

from __future__ import annotations

from collections.abc import Iterator

from validation.mutants.mutant import Mutant

BASE, CACHE = "strata/executors/base.py", "strata/executors/cache.py"
BUILD, EXECUTOR, RULES = (f"strata/executors/lanes/{name}.py" for name in ("build", "executor", "rules"))
CHECKS, TENSOR, ENTRY, FLOATING = (
    f"strata/executors/lanes/runtime/{name}.hpp" for name in ("checks", "tensorcore", "entry", "floating")
)


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    files = tuple(f"tests/strata/executors/{test}.py" for test in tests)
    return Mutant(f"lanes-{name}", file, old, new, why, tests=files)


def _builds() -> Iterator[Mutant]:
    """An old library under a new name; flags that change the arithmetic."""
    made = 'parts += [*options, compiler.version, " ".join(compiler.command), _native(compiler.command)]'
    yield _fault(
        "key-without-sources",
        BUILD,
        "parts += [file, content]",
        "parts += [file]",
        "An edited source or header loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-headers",
        BUILD,
        "parts += [file, content]",
        'parts += [file, b"" if file.startswith("include/") else content]',
        "An edited kernel header loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-runtime",
        BUILD,
        "parts += [file, content]",
        'parts += [file, b"" if file.startswith("runtime/") else content]',
        "An edited header of lanes loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-flags",
        BUILD,
        made,
        made.replace("*options, ", ""),
        "Other flags or macros load the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-command",
        BUILD,
        made,
        made.replace('" ".join(compiler.command), ', ""),
        "Another compiler command loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-version",
        BUILD,
        made,
        made.replace("compiler.version, ", ""),
        "A newer compiler of the same name loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-processor",
        BUILD,
        made,
        made.replace(", _native(compiler.command)", ""),
        "Another processor loads the old library.",
        "lanes/test_build",
    )
    yield _fault(
        "key-without-lengths",
        CACHE,
        '        digest.update(len(data).to_bytes(8, "little"))\n',
        "",
        "Bytes that move from one part to the next keep the key.",
        "test_cache",
    )
    yield _fault(
        "damaged-image-served",
        CACHE,
        "    final = root / key\n    if _intact(final):",
        "    final = root / key\n    if final.exists():",
        "An image that changed on disk is loaded.",
        "test_cache",
    )
    yield _fault(
        "fast-math",
        BUILD,
        '    "-fno-fast-math",\n',
        '    "-ffast-math",\n',
        "The compiler may assume that no NaN exists, and reorder sums.",
        "lanes/test_numbers",
        "lanes/test_build",
    )
    yield _fault(
        "fused-products",
        BUILD,
        '    "-ffp-contract=off",\n',
        '    "-ffp-contract=fast",\n',
        "a*b+c loses a rounding.",
        "lanes/test_build",
    )


def _memory() -> Iterator[Mutant]:
    """Guards, poison and the counting of blocks."""
    intact = "return bool((before == GUARD_BYTE).all() and (after == GUARD_BYTE).all())"
    yield _fault(
        "guards-believed", EXECUTOR, intact, "return True", "No byte beside a buffer is looked at.", "lanes/test_build"
    )
    yield _fault(
        "guards-behind-only",
        EXECUTOR,
        intact,
        "return bool((after == GUARD_BYTE).all())",
        "What is written before a buffer is not noticed.",
        "lanes/test_build",
    )
    yield _fault(
        "guards-before-only",
        EXECUTOR,
        intact,
        "return bool((before == GUARD_BYTE).all())",
        "What is written behind a buffer is not noticed.",
        "lanes/test_build",
    )
    yield _fault(
        "guards-of-no-bytes",
        BASE,
        "GUARD_BYTES = 512\n",
        "GUARD_BYTES = 0\n",
        "Guards have no bytes.",
        "lanes/test_build",
    )
    yield _fault(
        "outputs-start-as-zeros",
        EXECUTOR,
        "        buffer.bytes[:] = poisoned(buffer.nbytes, poison)\n",
        "        buffer.bytes[:] = 0\n",
        "An output that nobody wrote is zeros.",
        "lanes/test_build",
    )
    yield _fault(
        "blocks-believed",
        EXECUTOR,
        "grid, kernel.block, kernel.shared_bytes, finished\n",
        "grid, kernel.block, kernel.shared_bytes, grid[0] * grid[1] * grid[2]\n",
        "The witness says that the whole grid ran.",
        "lanes/test_build",
    )
    yield _fault(
        "image-of-the-request",
        EXECUTOR,
        "self._digests[built] = hashlib.sha256(built.path.read_bytes()).hexdigest()",
        "self._digests[built] = hashlib.sha256(repr(built.path).encode()).hexdigest()",
        "The digest is that of a file's name.",
        "lanes/test_build",
    )
    yield _fault(
        "schedule-ignored",
        EXECUTOR,
        "seed=0 if self.seed is None or first else (self.seed * 2 + 1)",
        "seed=0",
        "Every schedule is the first one.",
        "lanes/test_schedules",
    )
    yield _fault(
        "rule-ignored",
        EXECUTOR,
        "            rule=self.rule,\n",
        '            rule=parse_rule("sm_90"),\n',
        "Every architecture has one tensor core.",
        "lanes/test_lanes_tensorcore",
    )


def _machine() -> Iterator[Mutant]:
    """What the checked build looks for, and the tensor core."""
    raced = (
        "    if (b.write_epoch == block->epoch && b.writer != me->linear"
        " && !ordered(me, b.writer / kWarp, b.write_sync))\n"
        '      fail(where, "race: shared byte %zu was written by thread %u with no barrier between", i, b.writer);\n'
    )
    yield _fault(
        "no-race-of-writes",
        CHECKS,
        raced + "    if (b.read_epoch",
        "    if (b.read_epoch",
        "Two threads may write a byte.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "no-race-of-reads",
        CHECKS,
        raced + "    const u16 warp",
        "    const u16 warp",
        "A byte may be read while another thread writes it.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "no-race-after-a-read",
        CHECKS,
        "if (b.read_epoch == block->epoch && b.reader != me->linear) {",
        "if (false) {",
        "A byte may be written while another thread reads it.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "unwritten-shared-memory",
        CHECKS,
        "if (b.written_serial != block->serial) fail",
        "if (false) fail",
        "Shared memory nobody wrote may be read.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "copies-in-flight",
        CHECKS,
        "if (b.in_flight) fail",
        "if (false) fail",
        "A cp.async copy may be read before its wait.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "outside-every-buffer",
        CHECKS,
        '  if (!nearest) fail(where, "global access, and the launch has no buffers");\n',
        "  return;\n",
        "Global memory outside every buffer may be touched.",
        "lanes/test_memory_rules",
        "lanes/test_faults",
    )
    yield _fault(
        "no-checks",
        CHECKS,
        "#ifdef STRATA_CHECKED\n",
        "#if 0\n",
        "The checked build checks nothing.",
        "lanes/test_memory_rules",
    )
    yield _fault(
        "one-more-bit",
        ENTRY,
        "{r->rule_block, r->rule_frac}",
        "{r->rule_block, r->rule_frac + 1}",
        "The tensor core keeps one bit more.",
        "lanes/test_lanes_tensorcore",
    )
    yield _fault(
        "block-ignored",
        TENSOR,
        "block = rule.block < k ? rule.block : k;",
        "block = rule.block < k ? k : k;",
        "A step sums all products of an instruction.",
        "lanes/test_lanes_tensorcore",
    )
    yield _fault(
        "nan-not-canonical",
        FLOATING,
        "constexpr std::uint32_t kCanonicalNaN = 0x7fffffffu;",
        "constexpr std::uint32_t kCanonicalNaN = 0x7fc00000u;",
        "A computed NaN has other bits than a card's.",
        "lanes/test_lanes_tensorcore",
    )
    yield _fault(
        "infinities-cancel",
        TENSOR,
        "nan || (plus && minus)",
        "nan",
        "Infinities of both signs give one of them.",
        "lanes/test_lanes_tensorcore",
    )
    yield _fault(
        "rule-of-hopper",
        RULES,
        '"sm_90": Rule(16, 25)',
        '"sm_90": Rule(16, 26)',
        "The rule of the measured card is another.",
        "lanes/test_lanes_tensorcore",
        "lanes/test_rules",
    )
    yield _fault(
        "rule-of-turing",
        RULES,
        '"sm_75": Rule(8, 24)',
        '"sm_75": Rule(4, 24)',
        "The rule predicted for Turing is another.",
        "lanes/test_lanes_tensorcore",
        "lanes/test_rules",
    )


def mutants() -> Iterator[Mutant]:
    """Every mutant of the executors.

    Left out because nothing changes: the check of writes to read-only memory in `checks.hpp` (no buffer of an
    executor is read-only today), and the NaN of `Special::bits` in `tensorcore.hpp` (a store makes every NaN
    canonical again, and no kernel takes the bits of an accumulator apart).
    """
    yield from _builds()
    yield from _memory()
    yield from _machine()
