"""`strata generate`: a model reads a prompt and writes on.

Text goes to standard output as it comes, and nothing else does. What serves and how fast it was goes to standard error,
after the text. Status 0 when the answer is whole; 2 when it could not begin, could not go on or was interrupted, with
one line why: what is printed by then stays.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from strata import arguments
from strata.arguments import decimal, file, whole
from strata.device import dotted
from strata.engine import gemma3
from strata.engine.gguf_file import GgufFile, open_gguf
from strata.engine.sampler import MOST_SEED, MOST_TOKENS, MOST_WINDOW, Sampling, sample
from strata.engine.telling import Done, telling
from strata.engine.tokenizer import Streamed, Tokenizer, tokenizer_of
from strata.executors import NAMES
from strata.executors.base import StrataError, system_reason
from strata.executors.lanes.rules import CAPABILITIES
from strata.kernels.pool import MODES
from strata.shown import shown
from strata.unforeseen import COULD_NOT_RUN
from strata.whole_file import replacing

#: The setting that names a file for the first logits.
DUMP = "STRATA_DUMP_FIRST_LOGITS"
#: Tokens that are written where nothing is asked for.
USUAL_TOKENS = 256
#: A prompt that is longer is longer than every context.
MOST_PROMPT_BYTES = 1 << 28
#: Tokens that lanes read between two words on how far they are; each such piece computes one more row of logits.
LANES_PIECE = 128
MOST_PAGE, MOST_CHUNK = 1 << 12, 1 << 14
_NO_SPEED = "on lanes, a CPU: no speed of any card"


class Model(Protocol):
    """What reads and writes: `strata.engine.engine.Engine`, or a model that a test makes up."""

    def start(self) -> None:
        """Begin a new sequence."""
        ...

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens to the sequence; float32 [vocab], the logits of the last one."""
        ...

    def decode(self, token: int) -> np.ndarray:
        """Append one token; float32 [vocab], its logits."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """What serves and why, and the plan."""
        ...


@dataclass(frozen=True)
class Options:
    """What the options of the command ask of an engine.

    Parameters
    ----------
    executor
        `auto`, `lanes` or `cuda`.
    capability
        Ten times the compute capability whose paths lanes serve; None for those of the executor itself.
    kv
        The mode of the KV cache.
    context
        Cells; 0 for as many as prompt and answer take.
    chunk, page
        Tokens that are read at once, and cells of a page; None for what the engine takes.
    built
        Told how many kernels are compiled, and how many there are.
    """

    executor: str
    capability: int | None
    kv: str
    context: int
    chunk: int | None
    page: int | None
    built: Done | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Request:
    """What is asked of a model.

    Parameters
    ----------
    tokens
        The prompt, at least one token and at most `context`.
    most
        Tokens that are written at most.
    sampling
        How they are chosen.
    context
        Cells of the sequence.
    chunk
        Tokens of the prompt that are read at once; None for what is usual where it runs.
    dump
        The file that takes the first logits; None for none.
    """

    tokens: Sequence[int]
    most: int
    sampling: Sampling
    context: int
    chunk: int | None = None
    dump: Path | None = None


@dataclass
class Rates:
    """What a request took.

    Parameters
    ----------
    read, read_s
        Tokens of the prompt, and the seconds until its last logits.
    written
        Tokens chosen.
    decoded, decoded_s
        Tokens that were computed to go on, and their seconds, choosing included.
    """

    read: int = 0
    read_s: float = 0.0
    written: int = 0
    decoded: int = 0
    decoded_s: float = 0.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `generate`."""
    its = commands.add_parser("generate", help="a model reads a prompt and writes on")
    its.add_argument("file", type=file, metavar="FILE", help="a GGUF file of Gemma 3, see `strata model`")
    its.add_argument(
        "--prompt-file", required=True, type=file, metavar="FILE", help="text in UTF-8; - reads standard input"
    )
    its.add_argument("--kv", default="fp16", metavar="MODE", help=f"of {', '.join(MODES)}; default %(default)s")
    its.add_argument("--max", default=str(USUAL_TOKENS), metavar="N", help="tokens at most; default %(default)s")
    its.add_argument("--context", metavar="N", help="cells, e.g. 8k; default: as many as prompt and answer take")
    its.add_argument("--chunk", metavar="N", help="tokens of the prompt that are read at once; it changes no bit")
    its.add_argument("--page", metavar="N", help="cells of a page of the KV cache; it changes no bit")
    its.add_argument("--temperature", default="0", metavar="T", help="0, the default, takes the likeliest token")
    its.add_argument("--seed", default="0", metavar="N", help="of random numbers; the same seed gives the same tokens")
    its.add_argument("--top-k", default="0", metavar="K", help="only the K likeliest tokens; 0, the default, all")
    its.add_argument("--top-p", default="1", metavar="P", help="only the likeliest, together P likely; default 1")
    its.add_argument("--min-p", default="0", metavar="P", help="only those P times as likely as the likeliest")
    its.add_argument("--repeat-penalty", default="1", metavar="X", help="makes last tokens less likely; default 1")
    its.add_argument("--repeat-window", default="64", metavar="N", help="how many last tokens; default %(default)s")
    its.add_argument("--executor", default="auto", metavar="NAME", help=f"{', '.join(NAMES)}; default %(default)s")
    its.add_argument("--capability", metavar="N.N", help="on lanes: the paths and the bits of such a card, e.g. 8.0")
    its.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Answer the prompt that the options of `strata generate` name. Raises StrataError for what cannot be."""
    sampling = sampling_of(chosen)
    most = arguments.of("--max", whole(1), chosen.max)
    dump = dump_file(os.environ)
    options = _options(chosen)
    rates = Rates()
    try:
        text = prompt(chosen.prompt_file)
        weights = open_gguf(chosen.file)
        model = gemma3.load(weights)
        tokenizer = tokenizer_of(weights, model.vocab)
        context = options.context or model.context_length
        if context > model.context_length:
            raise StrataError(
                f"--context {context}: expected at most {model.context_length}, what the model was made for"
            )
        tokens = tokens_of(tokenizer, text, context)
        if not options.context:
            context = min(context, len(tokens) + most)
        with ExitStack() as held:
            with telling(sys.stderr, "compiling what is not in the cache", "kernels") as built:
                engine = held.enter_context(opened(weights, replace(options, context=context, built=built)))
            request = Request(tokens, most, sampling, context, options.chunk, dump)
            line = _Line(sys.stdout)
            with line:
                for part in written(engine, tokenizer, request, rates):
                    line.write(part)
            for said in summary(engine.facts(), rates):
                print(said, file=sys.stderr)
    except KeyboardInterrupt:
        some = "token" if rates.written == 1 else "tokens"
        done = f"after {rates.written} {some}; what is printed stays" if rates.written else "before the first token"
        print(f"interrupted {done}", file=sys.stderr)
        return COULD_NOT_RUN
    return 0


def sampling_of(chosen: argparse.Namespace) -> Sampling:
    """How tokens are chosen, by the options of the command. Raises StrataError for values out of range."""
    return Sampling(
        temperature=arguments.of("--temperature", decimal, chosen.temperature),
        seed=arguments.of("--seed", whole(0, MOST_SEED), chosen.seed),
        top_k=arguments.of("--top-k", whole(0, MOST_TOKENS), chosen.top_k),
        top_p=arguments.of("--top-p", decimal, chosen.top_p),
        min_p=arguments.of("--min-p", decimal, chosen.min_p),
        repeat_penalty=arguments.of("--repeat-penalty", decimal, chosen.repeat_penalty),
        repeat_window=arguments.of("--repeat-window", whole(0, MOST_WINDOW), chosen.repeat_window),
    )


def _options(chosen: argparse.Namespace) -> Options:
    if chosen.kv not in MODES:
        raise StrataError(f"--kv {arguments.shown(chosen.kv)}: expected one of {', '.join(MODES)}")
    if chosen.executor not in NAMES:
        raise StrataError(f"--executor {arguments.shown(chosen.executor)}: expected one of {', '.join(NAMES)}")
    capability = chosen.capability and arguments.of("--capability", arguments.capability, chosen.capability)
    if capability is not None and capability not in CAPABILITIES:
        known = ", ".join(map(dotted, CAPABILITIES))
        raise StrataError(f"--capability {chosen.capability}: expected one of {known}, whose arithmetic lanes know")
    if capability is not None and chosen.executor == "cuda":
        raise StrataError(f"--capability {chosen.capability}: expected none with --executor cuda, which is what it is")

    def size(name: str, text: str | None, most: int) -> int | None:
        return None if text is None else arguments.of(name, whole(1, most), text)

    context = chosen.context and arguments.of("--context", arguments.thousands(1, gemma3.MOST_CONTEXT), chosen.context)
    return Options(
        # Lanes follow a capability, and a card is what it is.
        executor="lanes" if capability is not None else chosen.executor,
        capability=capability,
        kv=chosen.kv,
        context=context or 0,
        chunk=size("--chunk", chosen.chunk, MOST_CHUNK),
        page=size("--page", chosen.page, MOST_PAGE),
    )


def prompt(path: Path, stdin: Any = None) -> str:
    """The text of a prompt.

    Parameters
    ----------
    path
        A file; `-` for standard input.
    stdin
        Standard input, a stream with a `buffer`; None for the process's own.

    Raises
    ------
    StrataError
        For a file that cannot be read, is empty, too long, or no UTF-8.
    """
    try:
        if path == Path("-"):
            what, stream = "standard input", stdin or sys.stdin
            if stream is None:
                raise StrataError("standard input is closed; expected a prompt")
            data = stream.buffer.read(MOST_PROMPT_BYTES + 1)
        else:
            what = f"--prompt-file {shown(path)}"
            with path.open("rb") as opened_file:
                data = opened_file.read(MOST_PROMPT_BYTES + 1)
    except OSError as error:
        raise StrataError(f"{what}: {system_reason(error)}; expected a prompt") from None
    if not data:
        raise StrataError(f"{what} is empty; expected a prompt")
    if len(data) > MOST_PROMPT_BYTES:
        raise StrataError(f"{what} has more than {MOST_PROMPT_BYTES} bytes; expected a prompt that a context holds")
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise StrataError(f"{what} is no UTF-8 at byte {error.start}; expected text") from None


def tokens_of(tokenizer: Tokenizer, text: str, context: int) -> list[int]:
    """The tokens of a prompt. Raises StrataError when there are more than a context holds, and reads no further."""
    # A text that would take minutes to cut is too long by its characters alone.
    cut = tokenizer.encode(text) if len(text) <= context * tokenizer.longest else itertools.repeat(0)
    tokens = list(itertools.islice(cut, context + 1))
    if len(tokens) > context:
        raise StrataError(f"the prompt has more than {context} tokens; expected at most {context}, the context")
    return tokens


def dump_file(environ: Mapping[str, str]) -> Path | None:
    """The file that takes the first logits. Raises StrataError where none can be: the prompt would be read in vain."""
    if not (name := environ.get(DUMP)):
        return None
    path = arguments.of(DUMP, file, name)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise StrataError(f"{DUMP} {arguments.shown(name)}: expected a file in a directory that is there")
    return path


def opened(weights: GgufFile, options: Options) -> AbstractContextManager[Model]:
    """An engine for a model's file."""
    from strata.engine.engine import PAGE_SIZE, Engine

    engine: AbstractContextManager[Model] = Engine.open(
        weights,
        executor=options.executor,
        kv=options.kv,
        context=options.context,
        page_size=options.page or PAGE_SIZE,
        chunk=options.chunk,
        capability=options.capability,
        built=options.built,
    )
    return engine


def written(
    engine: Model,
    tokenizer: Tokenizer,
    request: Request,
    rates: Rates,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[str]:
    """What a model writes behind a prompt.

    Parameters
    ----------
    engine
        The model.
    tokenizer
        Its tokenizer.
    request
        What is asked.
    rates
        Kept as it goes.
    clock
        Seconds.

    Yields
    ------
    str
        Text that is whole, which may be empty, after each token.
    """
    lanes = is_lanes(engine.facts())
    began = clock()
    with telling(sys.stderr, "reading", "tokens") as progress:
        logits = read(engine, request.tokens, request.chunk or (LANES_PIECE if lanes else MOST_CHUNK), progress)
    rates.read, rates.read_s = len(request.tokens), clock() - began
    if request.dump is not None:
        with replacing(request.dump) as target:
            np.save(target, np.asarray(logits, np.float32), allow_pickle=False)
    before, stream, began = list(request.tokens), Streamed(tokenizer), clock()
    while True:
        token = sample(logits, before, request.sampling)
        rates.written += 1
        rates.decoded_s = clock() - began
        if token in tokenizer.ends:
            break
        yield stream.add(token)
        # A token needs a cell when another follows it.
        if rates.written == request.most or len(before) == request.context:
            break
        before.append(token)
        logits = engine.decode(token)
        rates.decoded += 1
    yield stream.end()


def read(engine: Model, tokens: Sequence[int], piece: int, progress: Done) -> np.ndarray:
    """Logits behind a prompt that is read piece by piece."""
    engine.start()
    for first in range(0, len(tokens), piece):
        logits = engine.prefill(tokens[first : first + piece])
        progress(min(first + piece, len(tokens)), len(tokens))
    return logits


def is_lanes(facts: Mapping[str, Any]) -> bool:
    """Whether an engine runs on lanes."""
    return bool(facts["executor"]["executor"] == "lanes")


def summary(facts: Mapping[str, Any], rates: Rates) -> Iterator[str]:
    """Lines on what a request took, the plan, and the paths that served with why."""
    said = f"read {rates.read} tokens in {rates.read_s:.2f} s, {_rate(rates.read, rates.read_s)}"
    said += f"; wrote {rates.written} in {rates.decoded_s:.2f} s"
    if rates.decoded:
        said += f", {_rate(rates.decoded, rates.decoded_s)}"
    if is_lanes(facts):
        said += f"; {_NO_SPEED}"
    plan = ", ".join(f"{name.replace('_', ' ')} {facts[name]}" for name in ("context", "pages", "page_size", "chunk"))
    yield f"{said}; kv {facts['kv']}, {plan}"
    yield from map(shown, facts["paths"])


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:.1f} tokens/s" if seconds > 0 else "in no time"


class _Line:
    """Text on a stream, at once. At the end of its `with` block, however that is reached, a line that it began ends."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._open = False

    def write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()
            self._open = not text.endswith("\n")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
