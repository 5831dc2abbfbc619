"""Mutants of the executors: builds and their cache, guards and poison, the machine that lanes are. Tests judge them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from validation.mutants.mutant import Mutant

BASE, CACHE = "strata/executors/base.py", "strata/executors/cache.py"
SCRATCH = "strata/scratch.py"
OWNERSHIP, RECORDS, CLI = "strata/ownership.py", "strata/gates/records.py", "strata/cli.py"
IMAGES, FIRST = "strata/executors/cuda/images.py", "strata/executors/first_launch.py"
BUILD, EXECUTOR, RULES = (f"strata/executors/lanes/{name}.py" for name in ("build", "executor", "rules"))
SHARED = "strata/executors/lanes/machine.py"
CHECKS, TENSOR, ENTRY, FLOATING = (
    f"strata/executors/lanes/runtime/{name}.hpp" for name in ("checks", "tensorcore", "entry", "floating")
)
MACHINE = "strata/executors/lanes/runtime/machine.hpp"
LIBRARY, LOADING = (f"strata/executors/lanes/{name}.py" for name in ("library", "loading"))
FORKS, IMPORTS, CPUS = (f"strata/{name}.py" for name in ("forks", "imports", "cpus"))


def _fault(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    files = tuple(posixpath.normpath(f"tests/strata/executors/{test}.py") for test in tests)
    return Mutant(f"lanes-{name}", file, old, new, why, tests=files)


def _around(name: str, file: str, old: str, new: str, why: str, *tests: str) -> Mutant:
    """As `_fault`, in what executors rely on; tests: of `tests/strata`."""
    return Mutant(f"lanes-{name}", file, old, new, why, tests=tuple(f"tests/strata/{test}.py" for test in tests))


def _queues() -> Iterator[Mutant]:
    """Queued launches that nobody waits for, recordings that run too early or something else."""
    device, recording = (f"strata/executors/cuda/{name}.py" for name in ("device", "recording"))
    yield _fault(
        "queue-never-ended",
        device,
        '            if before:\n                with self._card.using("ending what was queued"):',
        '            if not before:\n                with self._card.using("ending what was queued"):',
        "A fault of a queued launch surfaces somewhere else, or nowhere.",
        "test_cuda_device",
    )
    yield _fault(
        "queue-lasts",
        device,
        "            self._waits = before\n",
        "            self._waits = False\n",
        "After a queue no launch waits any more.",
        "test_cuda_device",
    )
    yield _fault(
        "recording-runs",
        device,
        "            self._recorded.append(call)\n        else:\n",
        "            self._recorded.append(call)\n        if True:\n",
        "What is recorded runs as well, on buffers that are not ready.",
        "test_cuda_device",
    )
    yield _fault(
        "replay-without-waiting",
        recording,
        "            if self._waits():",
        "            if not self._waits():",
        "Outside of a queue a replay does not wait.",
        "test_cuda_device",
    )
    yield _fault(
        "lanes-recording-runs",
        EXECUTOR,
        "            finished = 0\n        elif self.flavor",
        "            finished = 0\n        if self.flavor",
        "What is recorded on lanes runs as well.",
        "lanes/test_recording",
    )
    yield _fault(
        "lanes-recording-lasts",
        EXECUTOR,
        "        finally:\n            self._recorded = None\n        if not launches:",
        "        finally:\n            pass\n        if not launches:",
        "After a recording every launch is recorded and none runs.",
        "lanes/test_recording",
    )


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
        "machine-key-without-headers",
        SHARED,
        "parts += [name, data]",
        "parts += [name]",
        "A kernel is linked with the machine of headers that were edited since.",
        "lanes/test_machine",
    )
    yield _fault(
        "machine-key-without-flags",
        SHARED,
        "parts: list[str | bytes] = [*identity, *options]",
        "parts: list[str | bytes] = [*identity]",
        "A kernel that watches its accesses is linked with a machine that watches none.",
        "lanes/test_machine",
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
        "    final = root / key\n    if _intact(final, holds):",
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


def _strangers() -> Iterator[Mutant]:
    """Code and evidence that another user has put there."""
    yield _fault(
        "cache-of-others-used",
        CACHE,
        "    _refuse_strangers(root)\n    final = root / key\n",
        "    final = root / key\n",
        "A cache that another user fills is loaded from.",
        "test_cache",
    )
    yield _fault(
        "cache-looked-at-once",
        CACHE,
        "        _refuse_strangers(root)  # once more: another user may have made what was not there\n",
        "",
        "Another user makes the cache just before this one does.",
        "test_cache",
    )
    yield _fault(
        "entry-of-others-served",
        CACHE,
        "        if why:\n            raise ValueError(why)\n",
        "",
        "A library that another user wrote is loaded, when its manifest fits.",
        "test_cache",
    )
    yield _fault(
        "entry-by-link-served",
        CACHE,
        "        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):\n",
        "        if not (path.is_file() or path.is_dir()):\n",
        "An entry is taken through a link, to a place that nobody looked at.",
        "test_cache",
    )
    yield _fault(
        "entry-open-by-umask",
        CACHE,
        "        _seal(work)\n",
        "",
        "With a wide umask others may write into an entry.",
        "test_cache",
    )
    yield _fault(
        "cache-open-above",
        OWNERSHIP,
        "        if why:\n            return why\n",
        "        continue\n",
        "Another user exchanges the whole cache, from the directory above it.",
        "../test_ownership",
        "test_cache",
    )
    yield _fault(
        "cache-written-by-others",
        OWNERSHIP,
        "    if found.st_mode & stat.S_IWOTH:\n        return",
        "    if False:\n        return",
        "A directory that everybody may write in counts as the user's own.",
        "../test_ownership",
        "test_cache",
    )
    yield _fault(
        "links-of-others-followed",
        OWNERSHIP,
        "        found.append((step, status))\n        if not stat.S_ISLNK(status.st_mode):\n",
        "        if not stat.S_ISLNK(status.st_mode):\n            found.append((step, status))\n",
        "A link of another user leads to the cache.",
        "../test_ownership",
    )
    yield _fault(
        "image-by-name",
        IMAGES,
        "digest=hashlib.sha256(code).hexdigest(),",
        "digest=hashlib.sha256(str(folder).encode()).hexdigest(),",
        "The digest of a card's image is not that of the file that is loaded.",
        "test_cuda_images",
    )
    yield _fault(
        "records-of-others-read",
        RECORDS,
        'ownership.stranger(folder, private=True) if local else ""',
        '""',
        "A record that another user planted opens a path.",
        "../gates/test_records",
    )


def _failures() -> Iterator[Mutant]:
    """What is of the machine or the compiler and is told as the kernel's, or not at all."""
    yield _fault(
        "full-disk-is-the-kernels",
        BUILD,
        "    if stopped is not None:\n        return stopped\n    log =",
        "    log =",
        "A kernel that found no room on the disk does not compile, for the rest of the process.",
        "lanes/test_blame",
    )
    yield _fault(
        "compiler-believed",
        BUILD,
        "        if not image.is_file() or not image.stat().st_size:\n",
        "        if not image.is_file():\n",
        "What a compiler made empty is what the kernel is.",
        "lanes/test_blame",
    )
    yield _fault(
        "entry-without-its-file",
        CACHE,
        " and all(name in sums and (folder / name).stat().st_size for name in holds)",
        "",
        "An empty entry of an older version is served.",
        "test_cache",
    )
    yield _fault(
        "full-disk-is-a-crash",
        CACHE,
        "        except OSError as error:\n            why = _foreign(final)\n",
        "        except FileExistsError as error:\n            why = _foreign(final)\n",
        "A full disk under the cache is a crash.",
        "test_cache",
    )
    yield _fault(
        "doctor-without-a-launch",
        CLI,
        "        first_launch(executor)\n",
        "",
        "A compiler that compiles nothing, and a place that holds no programs, are good enough.",
        "../test_cli",
    )
    yield _fault(
        "doctor-from-the-cache",
        FIRST,
        "    with cache.apart():\n",
        "    if True:\n",
        "What doctor has built stays in the cache.",
        "test_first_launch",
    )
    yield _fault(
        "first-launch-believed",
        FIRST,
        "if not np.array_equal(out.host(), expected) or not out.guards_intact():",
        "if not out.guards_intact():",
        "Nobody looks at what the first kernel has stored.",
        "test_first_launch",
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


def _left_behind() -> Iterator[Mutant]:
    """What killed processes leave, and what living ones are at."""
    held = "        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    for name, old, new, why in (
        ("sweeps-the-living", held, "        pass\n", "What another process is making is taken from it."),
        (
            "sweeps-the-unmarked",
            "if time.time() - found.stat().st_mtime > ABANDONED_S:",
            "if True:",
            "What a process without locks is making is taken from it.",
        ),
        (
            "sweeps-nothing",
            "        if _held(lock):\n            shutil",
            "        if False:\n            shutil",
            "What killed processes left stays for ever.",
        ),
    ):
        yield Mutant(f"scratch-{name}", SCRATCH, old, new, why, tests=("tests/strata/test_scratch.py",))


def _process() -> Iterator[Mutant]:
    """What a process is: the kernels it loads, its forks, its processors, and packages that are broken."""
    yield _fault(
        "thread-local-variable",
        MACHINE,
        "inline constexpr Current current{};",
        'inline __attribute__((used, tls_model("initial-exec"))) thread_local Lane* cached = nullptr;\n'
        "inline constexpr Current current{};",
        "Each library takes room of the loader for good, which ends at some 200.",
        "lanes/test_loading",
    )
    yield _fault(
        "one-hint-for-all",
        LOADING,
        "(text for pattern, text in _HINTS if re.search(pattern, reason))",
        "(text for pattern, text in _HINTS)",
        "Whatever the loader says, one hint is given.",
        "lanes/test_loading",
    )
    yield _fault(
        "launch-lock-over-a-fork",
        LIBRARY,
        "_ONE_AT_A_TIME = ForkLock()",
        "_ONE_AT_A_TIME = threading.Lock()",
        "A child that is forked during a launch waits for ever.",
        "lanes/test_fork",
    )
    yield _fault(
        "launch-goes-on-in-a-child",
        LIBRARY,
        "            if home.left:\n",
        "            if False:\n",
        "A launch whose threads stayed in the parent waits for them.",
        "lanes/test_fork",
    )
    yield _around(
        "lock-over-a-fork",
        FORKS,
        "        in_child(self._renew)\n",
        "",
        "A lock that another thread held stays held in a child.",
        "test_forks",
    )
    yield _around(
        "broken-package-is-a-traceback",
        IMPORTS,
        "    except BaseException as error:\n",
        "    except ImportError as error:\n",
        "A package that raises anything but ImportError ends the command.",
        "test_imports",
        "executors/test_choice",
    )
    yield _around(
        "affinity-ignored",
        CPUS,
        "allowed = _allowed()",
        "allowed = os.cpu_count() or 1",
        "Threads are as many as the machine's processors, whatever the process may use.",
        "test_cpus",
    )
    yield _around(
        "share-ignored",
        CPUS,
        "return max(1, allowed if share is None else min(allowed, math.ceil(share)))",
        "return max(1, allowed)",
        "A container's share of processor time does not count.",
        "test_cpus",
    )


def mutants() -> Iterator[Mutant]:
    """Every mutant of the executors.

    Left out because nothing changes: the NaN of `Special::bits` in `tensorcore.hpp` (a store makes every NaN
    canonical again, and no kernel takes the bits of an accumulator apart).
    """
    yield _fault(
        "inputs-writable",
        CHECKS,
        'if (write && !e.writable) fail(where, "write to the input %s", e.name);',
        "",
        "A lane may write to an input.",
        "lanes/test_inputs",
    )
    yield _fault(
        "inputs-not-told",
        "strata/executors/lanes/executor.py",
        "self.address, self.nbytes, self.name, self.written, written,",
        "self.address, self.nbytes, self.name, True, written,",
        "Lanes are not told which buffers are inputs.",
        "lanes/test_inputs",
    )
    yield from _builds()
    yield from _queues()
    yield from _strangers()
    yield from _failures()
    yield from _memory()
    yield from _machine()
    yield from _left_behind()
    yield from _process()
