"""Known faults of expert kernels, what usual limits say of each, and what this project says.

Every fault is a mutation of the exact-bit model, on one expert of the real geometry and random tokens, held against the
rounded model in FP64. Usual limits are those of two published tests: relative RMS 2e-3 with 3e-2 in the worst row, and
NMSE 5e-4. The project asks for every bit, and of the three steps for FP64 within derived bounds: gate and up on the
codes of x, the codes of h but for proven ties, down from the path's own h. Rounding ties another way is the one
deviation that the steps call legal, where an interval of derived errors holds the tie; the bits refuse it all the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.arguments import whole
from validation.core.random_streams import Stream
from validation.operations.experts import activations, blobs
from validation.operations.experts import bound as bounds
from validation.operations.experts import reference as exact
from validation.operations.experts.case import FF, N
from validation.operations.experts.checks import relative
from validation.operations.experts.fault_models import MUTATIONS, Machine, Mutation
from validation.operations.experts.inputs import decoded, mode_formats
from validation.operations.experts.published import RMS_TO_ROUNDED, WORST_ROW_TO_ROUNDED
from validation.operations.experts.recipes import Values, Weights
from validation.operations.experts.reference import Codes, Rows

#: The limit of another published test on the normalised mean square error, as a relative RMS.
NMSE = 5e-4
#: Pairs of formats on which rows are shown; each fault is asked on the first that has its format.
PAIRS = ("iq3_xxs/iq4_nl", "iq3_s/iq4_nl", "iq4_xs/q2_0")
TOKENS = 96
#: Tokens and experts that have a code on a tie in x and in h, of IQ3_XXS/IQ4_NL, which few have.
SEED = 28
CAUGHT, PASSES, LEGAL = "caught", "passes", "legal"
HEALTHY = Mutation("none", Machine())


@dataclass(frozen=True)
class Setting:
    """One expert, its tokens, and the right answer. expert: the decoded matrices; x: float32; codes: of x."""

    pair: str
    n: int
    ff: int
    parts: tuple[np.ndarray, np.ndarray, np.ndarray]
    x: np.ndarray
    right: Rows
    rounded: np.ndarray

    @property
    def matrices(self) -> tuple[exact.Weights, exact.Weights, exact.Weights]:
        gate_up, down = mode_formats(self.pair)
        return (
            decoded(gate_up, self.parts[0], self.ff),
            decoded(gate_up, self.parts[1], self.ff),
            decoded(down, self.parts[2], self.n),
        )


@dataclass(frozen=True)
class Row:
    """What came of one fault on one pair. bits: outputs that differ; usual: what the two published limits say;
    step: the first of the three steps that refuses, or `ties` where codes differ at proven ties alone; verdict:
    the project's."""

    name: str
    pair: str
    rms: float
    worst: float
    bits: int
    usual: tuple[str, str]
    step: str
    verdict: str


def setting(
    pair: str, seed: int = SEED, n: int = N, ff: int = FF, tokens: int = TOKENS, values: Values = Values.BELL
) -> Setting:
    """An expert of random blocks with plain scales, and tokens."""
    gate_up, down = mode_formats(pair)
    stream = Stream.of(seed, "expert faults", pair)
    blob = blobs.blob(stream.child("blob"), Weights.PLAIN, 0, gate_up, down, n, ff)
    half = ff * blobs.row_bytes(gate_up, n)
    parts = (blob[:half], blob[half : 2 * half], blob[2 * half :])
    x = activations.draw(stream.child("x"), values, tokens, n)
    right = Machine().run((gate_up, down), parts, n, ff, x)
    made = Setting(pair, n, ff, parts, x, right, np.zeros(0))
    return Setting(pair, n, ff, parts, x, right, exact.rounded(*made.matrices, exact.quantise(x)))


def judged(mutation: Mutation, of: Setting) -> Row:
    """One fault on one expert."""
    got = mutation.machine.run(mode_formats(of.pair), of.parts, of.n, of.ff, of.x)
    figures = relative("rounded", got.out, of.rounded)
    rms, worst = figures["rms_to_rounded"] or 0.0, figures["worst_row_to_rounded"] or 0.0
    first = PASSES if rms <= RMS_TO_ROUNDED and worst <= WORST_ROW_TO_ROUNDED else CAUGHT
    second = PASSES if rms * rms <= NMSE else CAUGHT
    differing = int((got.out.view(np.uint32) != of.right.out.view(np.uint32)).sum())
    step = refusing(got, of)
    verdict = CAUGHT if step not in ("", "ties") else LEGAL if step == "ties" else PASSES
    return Row(mutation.name, of.pair, rms, worst, differing, (first, second), step, verdict)


def refusing(got: Rows, of: Setting) -> str:
    """The first step that refuses: `gate`, `up`, `h` or `down`; `ties` where codes of x or h differ from the right ones
    and every one of them at a proven tie; "" where nothing differs."""
    gate, up, down = of.matrices
    x = exact.quantise(of.x)
    free = _ties_of_x(of.x, x)
    tied = False
    for name, matrix, made in (("gate", gate, got.gate), ("up", up, got.up)):
        due = bounds.product(matrix, exact.values(x))
        off = np.abs(made.astype(np.float64) - due.value)
        if not (off <= due.bound).all():
            # The slack of codes of x that may be one of two, where a tie lies in their interval.
            slack = due.bound + (free @ matrix.sizes.T) * bounds.CROSS
            if not (off <= slack).all():
                return name
            tied = True
    allowed = bounds.codes(bounds.swiglu(got.gate.astype(np.float64), got.up.astype(np.float64)))
    if allowed.wrong(got.h).any() or allowed.wrong_scales(got.h).any():
        return "h"
    due = bounds.product(down, exact.values(got.h))
    if not (np.abs(got.out.astype(np.float64) - due.value) <= due.bound).all():
        return "down"
    usual = exact.quantise(exact.swiglu(got.gate, got.up))
    return "ties" if tied or (got.h.q != usual.q).any() else ""


def _ties_of_x(x: np.ndarray, codes: Codes) -> np.ndarray:
    """float64 like x: how far what a code stands for may be off where a tie is proven, 0 elsewhere."""
    wide = x.astype(np.float64)
    allowed = bounds.codes(bounds.Bounded(wide, np.zeros_like(wide)))
    step = np.repeat(codes.scale.astype(np.float64), exact.BLOCK, axis=1)
    return np.asarray((allowed.high - allowed.low) * step)


def rows(settings: dict[str, Setting] | None = None) -> Iterator[Row]:
    """The model itself, and every fault on every pair that has its format."""
    known = settings or {pair: setting(pair) for pair in PAIRS}
    for mutation in (HEALTHY, *MUTATIONS.values()):
        for pair, of in known.items():
            if not mutation.form or mutation.form in mode_formats(pair):
                yield judged(mutation, of)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), help="pairs of formats")
    parser.add_argument("--seed", type=whole(), default=SEED, help="seed of expert and tokens")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the table; 0 when every fault is caught, and ties are legal at proven ties alone."""
    found = list(rows({pair: setting(pair, options.seed) for pair in options.pairs}))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("fault", "pair"):
        table.add_column(heading, no_wrap=True)
    for heading in ("RMS", "worst", "differ"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("2e-3 3e-2", "NMSE", "refused by", "verdict"):
        table.add_column(heading, no_wrap=True)
    for row in found:
        table.add_row(
            row.name, row.pair, f"{row.rms:.1e}", f"{row.worst:.1e}", f"{row.bits:,}", *row.usual, row.step, row.verdict
        )
    console.print(table)
    wrong = [row for row in found if not right(row)]
    through = [row for row in found if PASSES in row.usual and row.verdict == CAUGHT]
    console.print(
        f"{len(found)} rows; worst: a row's largest error over its largest value; differ: outputs with other bits. "
        f"{sum(row.verdict == CAUGHT for row in found)} caught, "
        f"{sum(row.verdict == LEGAL for row in found)} legal; of those caught usual limits let {len(through)} pass."
    )
    for row in wrong:
        console.print(f"{row.name} on {row.pair}: {row.verdict or 'nothing'}, which it should not be", style="red")
    return int(bool(wrong))


def right(row: Row) -> bool:
    """Whether the project says of a row what it must: caught, or for ties legal, or nothing where no bit differs."""
    if row.name == HEALTHY.name:
        return row.verdict == PASSES and row.bits == 0
    if MUTATIONS[row.name].legal:
        return row.verdict == LEGAL or (row.verdict == PASSES and row.bits == 0)
    return row.verdict == CAUGHT
