"""Quality of a whole model's answers: a gate between two settings, losses beside FP64, needles, and wrong kernels that
must be seen.

Parts: `gate` compares settings A and B over the same prompts, in turn, and flags B when it differs by more than formats
and rounding explain; `loss` has the loss per token of FP64, of every setting and of a published runtime; `needles` asks
a model that retrieves by construction; `planted` puts faults into copies of the kernels, which the gate must flag.
Without a part all but `planted` run. docs/quality.md says what the numbers mean. Exit status: 0 passed, 1 a verdict of
failure, 2 could not run.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from rich.console import Console

import strata
from strata.dispatch import Gate
from strata.engine.gguf_file import open_gguf
from strata.engine.packaged import MODELS, fetch
from strata.engine.tokenizer import Tokenizer, tokenizer_of
from strata.executors.base import StrataError, source_digests, system_reason
from strata.gates.gate import Decision
from validation.host import whole_file
from validation.quality import gate, loss, planted, published, run_needles, texts
from validation.quality.fp64_file import Fp64File
from validation.quality.fp64_kv import FORMATS
from validation.quality.fp64_model import Fp64Model
from validation.quality.needles import LENGTHS, SHORT_LENGTHS
from validation.quality.options import GATE, LOSS, MODEL, NEEDLES, PARTS, PLANTED, add_arguments
from validation.quality.outcome import Outcome
from validation.quality.page import NAME, page
from validation.quality.references import References
from validation.quality.setting import parse
from validation.quality.subject import EngineSubject, place
from validation.quality.terminal_table import show
from validation.run import unfinished
from validation.run.progress import Reporter
from validation.run.run_file import QUALITY_SCHEMA, RunFile

__all__ = ["add_arguments", "run"]

PASSED, FAILED = 0, 1


def run(options: argparse.Namespace, console: Console) -> int:
    """Exit status 0 when every part passed, 1 when one did not or Ctrl-C came.

    Raises StrataError when it cannot run; what is finished is kept.
    """
    plan = _Plan(options, console)
    with ExitStack() as stack:
        kept = stack.enter_context(closing(RunFile(options.out))) if options.out else None
        if kept is not None and kept.replaces:
            console.print(kept.replaces, soft_wrap=True)
        try:
            for part in plan.parts:
                began = time.perf_counter()
                plan.do(part)
                plan.outcome.seconds[part] = time.perf_counter() - began
                if kept is not None:
                    kept.write(plan.record(unfinished.RUNNING))
        except BaseException as error:
            if kept is not None:
                kept.write(plan.record(unfinished.status(error)))
            show(plan.outcome, console)
            done = f"{len(plan.outcome.seconds)} of {len(plan.parts)} parts are finished{unfinished.where(kept)}"
            unfinished.say(console, error, done)
            if not isinstance(error, KeyboardInterrupt):
                raise
            return FAILED
        if kept is not None:
            kept.write(plan.record(unfinished.COMPLETE))
            whole_file.write(options.out / NAME, page(plan.outcome, plan.facts()))
    show(plan.outcome, console)
    return PASSED if plan.outcome.passes else FAILED


@dataclass
class _Plan:
    """What is asked for, and what has come of it."""

    options: argparse.Namespace
    console: Console
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        options = self.options
        self.parts = [part for part in PARTS if part in (options.parts or (GATE, LOSS, NEEDLES))]
        self.a, self.b = parse(options.a), parse(options.b)
        self.settings = [parse(text) for text in options.settings.split(",")]
        self.executor, self.where = place(options.executor)
        self.lengths = options.lengths or (SHORT_LENGTHS if self.executor == "lanes" else LENGTHS)
        self.gate: Gate | None = _open if options.ungated else None
        facts = ", ".join(f"{name} {value}" for name, value in self.where.items() if value is not None)
        self.console.print(f"{', '.join(self.parts)}: {facts}", soft_wrap=True)
        self._model: FilePath | None = None
        self._references: References | None = None
        self._tokenizer: Tokenizer | None = None

    def do(self, part: str) -> None:
        """Carry out a part."""
        {GATE: self._gate, LOSS: self._loss, NEEDLES: self._needles, PLANTED: self._planted}[part]()

    def facts(self) -> dict[str, Any]:
        """What the page says of the run."""
        texts = {f"text of {part}, SHA-256": digest for part, digest in self.outcome.text_sha256.items()}
        told = {"command": shlex.join(sys.argv[1:]), "model, SHA-256": self.outcome.model_sha256, **texts}
        return told | {name: value for name, value in self.where.items() if value is not None}

    def record(self, status: str) -> dict[str, Any]:
        """The run as JSON."""
        options = self.options
        told = {
            "schema": QUALITY_SCHEMA,
            "status": status,
            "command": shlex.join(sys.argv[1:]),
            "parts": self.parts,
            "executor": self.where,
            "seed": options.seed,
            "model_sha256": self.outcome.model_sha256,
            "sources": source_digests(),
        }
        if options.ungated:  # for who planted a fault, to see that it ran
            told["package"] = str(FilePath(str(strata.__file__)).parent)
        return told | self.outcome.record()

    def _gate(self) -> None:
        options = self.options
        prompts = texts.prompts(self.tokenizer, texts.text_of(options.text), options.prompts, options.length)
        self.outcome.text_sha256["gate"] = texts.digest(prompts)
        context = options.length + options.continued
        with (
            EngineSubject(self.model, self.a, self.executor, context, self.gate) as a,
            EngineSubject(self.model, self.b, self.executor, context, self.gate) as b,
            Reporter(self.console, len(prompts), "prompts") as reporter,
        ):
            for subject in (a, b):
                self.console.print(f"{subject.name}: {subject.served[0]}", soft_wrap=True)
            self.outcome.gate = gate.run(
                a,
                b,
                (self.a.kv, self.b.kv),
                prompts,
                self.references,
                options.continued,
                lambda number: reporter.finished(f"prompt {number}", ""),
            )

    def _loss(self) -> None:
        tokens = texts.tokens(self.tokenizer, texts.text_of(self.options.text), self.options.tokens)
        self.outcome.text_sha256["loss"] = texts.digest([tokens])
        rows: list[loss.Row] = []
        for kv in [loss.EXACT, *(kv for kv in FORMATS if kv in {one.kv for one in self.settings})]:
            states = self.references.states(tokens, kv)
            rows.append(loss.Row(loss.FP64, kv, kv, self.references.model.losses(states, tokens)))
            self._told(f"FP64, KV {kv}", rows[-1])
        for setting in self.settings:
            with EngineSubject(self.model, setting, self.executor, len(tokens), self.gate) as subject:
                found = loss.of_subject(subject, tokens)
                rows.append(loss.Row(loss.ENGINE, str(setting), setting.kv, found, subject.served[0]))
            self._told(str(setting), rows[-1])
        with Reporter(self.console, len(tokens) - 1, "tokens") as reporter:
            theirs = published.kept(
                self.options.references or self.options.out,
                f"{self.outcome.model_sha256} {self.outcome.text_sha256[LOSS]}",
                lambda: published.losses(
                    self.model, tokens, self.options.published, lambda done: reporter.finished(f"token {done}", "")
                ),
            )
        name = theirs.runtime or "published runtime"
        rows.append(loss.Row(loss.PUBLISHED, name, "fp16", theirs.losses, theirs.absent))
        self.outcome.loss = loss.Table(len(tokens), rows)

    def _told(self, name: str, row: loss.Row) -> None:
        self.console.print(f"{name}: {row.mean:.5f} a token", soft_wrap=True)

    def _needles(self) -> None:
        total = 1 + len(self.settings)
        with Reporter(self.console, total, "settings") as reporter:
            self.outcome.needles = run_needles.run(
                self.settings,
                self.lengths,
                self.options.seed,
                self.executor,
                self.gate,
                lambda name: reporter.finished(name, ""),
            )

    def _planted(self) -> None:
        options = self.options
        words = [
            "--model",
            str(self.model.resolve()),
            "--executor",
            self.executor,
            "--a",
            str(self.a),
            "--b",
            str(self.b),
        ]
        for name in ("prompts", "length", "continued", "seed"):
            words += [f"--{name}", str(getattr(options, name))]
        words += ["--settings", str(self.b), "--lengths", ",".join(map(str, self.lengths))]
        kept = options.references or options.out
        words += ["--references", str(kept.resolve())] if kept else []
        words += ["--text", str(options.text.resolve())] if options.text else []
        with Reporter(self.console, len(planted.FAULTS), "faults") as reporter:
            for name in planted.FAULTS:
                one = planted.run(name, words)
                self.outcome.planted.append(one)
                reporter.finished(name, "" if one.seen else f"{name} was not flagged: {one.reason}")

    @property
    def model(self) -> FilePath:
        """The model's file."""
        if self._model is None:
            self._model = self.options.model or fetch(MODELS[MODEL])
            try:
                with self._model.open("rb") as opened:
                    self.outcome.model_sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
            except OSError as error:
                raise StrataError(f"model {str(self._model)!r} cannot be read: {system_reason(error)}") from error
        return self._model

    @property
    def references(self) -> References:
        """FP64 states of the model."""
        if self._references is None:
            model = Fp64Model(Fp64File(self.model))
            self._references = References(model, self.outcome.model_sha256, self.options.references or self.options.out)
        return self._references

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        if self._tokenizer is None:
            opened = open_gguf(self.model)
            self._tokenizer = tokenizer_of(opened, opened.tensor("token_embd.weight").shape[0])
        return self._tokenizer


def _open(path: Any, device: Any) -> Decision:
    """A gate that is open: for sources that no record can cover, since a fault is planted in them."""
    return Decision(True, "open: --ungated, no record is asked for")
