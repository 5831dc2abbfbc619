"""The laws of the engine on a model's file: bits do not depend on how the work was cut.

`run` reads a prompt and compares, bit for bit:

    E1   the logits of every position, cut into chunks in five ways
    E2   random pieces of work: chunks, calls, decoding, shared prefixes, neighbours, page layouts; logits, keys, values
    E4   the answers of three requests in any order, and with their steps mixed
    E3   with --out, digests of the logits of every position; `compare` says whether two machines have the same

E3 holds between a card and lanes under its rule: `run --executor lanes --capability 9.0 --out LANES.json`, on the card
`run --out CARD.json`, then `compare CARD.json LANES.json`. Exit status: 0 all bits are equal, 1 some are not, 2 nothing
could be compared.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from rich.console import Console

from strata.arguments import capability, file, whole
from strata.engine.engine import CHUNK, MOST_CHUNK, MOST_PAGE_SIZE, PAGE_SIZE, Engine
from strata.engine.gguf_file import GgufFile, open_gguf
from strata.executors import NAMES, open_executor
from strata.executors.base import QueueingExecutor, StrataError, system_reason
from strata.kernels.pool import MODES
from validation.engine_laws import digest_file, laws
from validation.engine_laws.cuts import random_cut, ways
from validation.engine_laws.digest_file import Digests
from validation.numerics.tensorcore_rules import DEFAULT_RULE

#: What is taken where nothing is asked for.
TOKENS, CUTS, ORDERS = 256, 20, 2
MOST_TOKENS, MOST_CUTS = 1 << 20, 1_000_000
LAWS = ("e1", "e2", "e4")
#: Differences of a law that are shown.
_SHOWN = 10


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `python -m validation engine-laws`."""
    its = command.add_subparsers(dest="what", required=True, metavar="WHAT")
    run_ = its.add_parser("run", help="run the laws on a model's file")
    run_.add_argument("model", type=file, metavar="MODEL.gguf", help="the file, see `strata model fetch`")
    run_.add_argument("--tokens", type=whole(1, MOST_TOKENS), default=TOKENS, metavar="N", help="default: %(default)s")
    run_.add_argument("--text", type=file, metavar="FILE", help="the prompt, UTF-8 (default: random tokens)")
    run_.add_argument("--seed", type=whole(), default=15, metavar="N", help="of tokens and cuts (default: %(default)s)")
    run_.add_argument("--kv", nargs="+", choices=MODES, default=["fp16"], metavar="MODE", help=f"of {', '.join(MODES)}")
    run_.add_argument("--laws", nargs="*", choices=LAWS, default=[*LAWS], metavar="LAW", help=f"of {', '.join(LAWS)}")
    run_.add_argument(
        "--cuts", type=whole(0, MOST_CUTS), default=CUTS, metavar="N", help="of E2 (default: %(default)s)"
    )
    run_.add_argument("--executor", choices=NAMES, default="auto", help="auto takes a card when there is one")
    run_.add_argument("--capability", type=capability, metavar="X.Y", help="lanes: serve what that card would serve")
    run_.add_argument("--chunk", type=whole(1, MOST_CHUNK), default=CHUNK, metavar="N", help="default: %(default)s")
    run_.add_argument(
        "--page-size", type=whole(1, MOST_PAGE_SIZE), default=PAGE_SIZE, metavar="N", help="cells of a page"
    )
    run_.add_argument("--out", type=file, metavar="FILE.json", help="write digests of every position there")
    two = its.add_parser("compare", help="compare the digests of two machines")
    two.add_argument("one", type=file, metavar="ONE.json")
    two.add_argument("other", type=file, metavar="OTHER.json")


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the laws, or compare two files. Exit status: 0, 1 when bits differ."""
    if options.what == "compare":
        return _compare(options, console)
    opened = open_gguf(options.model)
    rule = DEFAULT_RULE if options.capability is None else f"sm_{options.capability}"
    executor = cast(QueueingExecutor, open_executor(options.executor, rule=rule))
    tokens: list[int] | None = None
    wrong = 0
    attention, logits = {}, {}
    for mode in options.kv:
        engine = _engine(opened, executor, mode, options)
        if tokens is None:
            tokens = _tokens(engine, options)
        _say(console, f"{mode}: {engine.facts()['attention']}, {len(tokens)} tokens on {engine.plan.device.title}")
        start = time.perf_counter()
        known = laws.truth(engine, tokens, _quiet, kv="e2" in options.laws)
        _say(console, f"  every position once ({time.perf_counter() - start:.1f} s)")
        wrong += sum(_laws(engine, known, options, console))
        attention[mode], logits[mode] = str(engine.facts()["attention"]), known.digests
    if options.out is not None:
        assert tokens is not None
        ids = hashlib.sha256(np.array(tokens, "<i4").tobytes()).hexdigest()
        found = Digests(_sha256(options.model), ids, attention, logits, executor.describe())
        digest_file.save(options.out, found)
        _say(console, f"digests of {len(tokens)} positions in {len(logits)} modes: {options.out}")
    return 1 if wrong else 0


def _laws(engine: Engine, known: laws.Truth, options: argparse.Namespace, console: Console) -> Iterable[int]:
    """How much differs, law by law."""
    draw = random.Random(options.seed)
    tokens, chunk = known.tokens, engine.chunk
    if "e1" in options.laws:
        for name, chunks in ways(len(tokens), chunk).items():
            check = partial(_chunked, engine, known, {name: chunks})
            yield _judged(console, f"E1 {name}", check)
    if "e2" in options.laws:
        cuts = [random_cut(draw, len(tokens), chunk) for _ in range(options.cuts)]
        said = f"E2 {len(cuts)} random pieces of work"
        yield _judged(console, said, lambda: [line for way in cuts for line in laws.cut(engine, known, way)])
    if "e4" in options.laws:
        engine.forget()
        part = max(1, len(tokens) // 4)
        prompts = [tokens[:part], tokens[: 2 * part], tokens[part : 2 * part] or tokens[:1]]
        said = f"E4 {len(prompts)} requests in {ORDERS} orders"
        yield _judged(console, said, lambda: [*laws.repeated(engine, prompts, draw, ORDERS)])


def _chunked(engine: Engine, known: laws.Truth, way: Mapping[str, Sequence[int]]) -> list[str]:
    return [*laws.chunked(engine, known, way, _quiet)]


def _judged(console: Console, said: str, check: Callable[[], list[str]]) -> int:
    start = time.perf_counter()
    found = check()
    told = f"{len(found)} differences" if found else "0 differing bits"
    _say(console, f"  {said}: {told} ({time.perf_counter() - start:.1f} s)")
    for line in found[:_SHOWN]:
        console.print(f"  {line}", markup=False, style="red", soft_wrap=True)
    return len(found)


def _compare(options: argparse.Namespace, console: Console) -> int:
    one, other = digest_file.load(options.one), digest_file.load(options.other)
    differ = digest_file.differing(one, other)
    for mode, places in differ.items():
        count = len(one.logits[mode])
        told = f", the first one {places[0]}" if places else ""
        _say(console, f"{mode}: {one.attention[mode]}: {len(places)} of {count} positions differ{told}")
    return 1 if any(differ.values()) else 0


def _engine(opened: GgufFile, executor: QueueingExecutor, mode: str, options: argparse.Namespace) -> Engine:
    """An engine with room for a sequence, its neighbour, and three short requests."""
    context = options.tokens + laws.GENERATED
    size = options.page_size
    pages = 2 * -(-context // size) + 8
    return Engine.open(
        opened,
        executor=executor,
        kv=mode,
        context=context,
        page_size=size,
        pages=pages,
        chunk=options.chunk,
        capability=options.capability,
    )


def _tokens(engine: Engine, options: argparse.Namespace) -> list[int]:
    if options.text is None:
        draw = random.Random(options.seed)
        return [draw.randrange(engine.model.vocab) for _ in range(options.tokens)]
    try:
        text = options.text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = system_reason(error) if isinstance(error, OSError) else "it is no UTF-8"
        raise StrataError(f"--text {options.text}: {why}; expected a text") from None
    found = [*itertools.islice(engine.tokenizer.encode(text), options.tokens)]
    if len(found) < options.tokens:
        raise StrataError(f"--text {options.text} has {len(found)} tokens, expected {options.tokens}: see --tokens")
    return found


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _quiet(stage: str, done: int, of: int) -> None:
    """Nothing is said of progress within a law."""


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
