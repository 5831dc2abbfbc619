"""Fuzzed dense products: random configurations, each run twice, and every bit compared with the model.

The second run has its rows in another order and in two launches; on lanes it is in the checked build under a permuted
schedule. Scales, offsets and rows may be any bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strata.executors.base import Executor
from strata.formats import FORMATS
from strata.kernels.linear_weights import LINEAR_FORMATS
from strata.kernels.paths import Path
from validation.core.fuzz_compared import Compared, FuzzKind
from validation.core.fuzz_numbers import NUMBERS, floats, halves
from validation.core.handed import handed
from validation.core.outcome import Outcome
from validation.core.random_streams import Stream
from validation.core.unknown_operation import UnknownOperationError
from validation.numerics.fma import plain
from validation.operations.experts.fuzz import SCHEDULES, other
from validation.operations.linear import model, units
from validation.operations.linear.blocks import HALVES_OF, Half
from validation.operations.linear.formats import GROUP, HALVES
from validation.operations.linear.inputs import Inputs
from validation.operations.linear.kernels import MULTIPLIERS, UNITS
from validation.operations.linear.random_cases import OUTPUTS, ROWS

#: Values of a row at most, in blocks of 256, of 32 and in fours; multiply-adds of one in the checked build, which is
#: slow, and elsewhere.
BLOCKS, PARTS, FOURS = 9, 70, 300
MOST_WORK = {True: 1 << 18, False: 1 << 20}
#: Exponents of groups of rows where they have sizes of their own.
EXPONENTS = (-140, 120)


@dataclass(frozen=True)
class Configuration:
    """Sizes of one draw.

    Parameters
    ----------
    scales, numbers
        Of the matrix and of rows, one of `NUMBERS`.
    sized
        Whether groups of rows have sizes of their own.
    """

    index: int
    mode: str
    scales: str
    numbers: str
    sized: bool
    rows: int
    outputs: int
    width: int

    def text(self) -> str:
        own = ", groups of their own sizes" if self.sized else ""
        return (
            f"#{self.index} {self.mode} scales {self.scales}, rows {self.numbers}{own}: {self.rows} rows, "
            f"{self.outputs} outputs of {self.width} values"
        )


def configuration(seed: int, index: int, modes: Sequence[str] = LINEAR_FORMATS, checked: bool = False) -> Configuration:
    """Configuration `index` of a seed, in one of `modes`; checked: whether it is run in the checked build."""
    words = Stream.of(seed, "fuzz linear", index).words(6).tolist()
    mode = modes[index % len(modes)]
    block = 4 if mode == HALVES else FORMATS[mode].values
    width = block * (1 + words[0] % (FOURS if mode == HALVES else BLOCKS if block == 256 else PARTS))
    rows = ROWS[words[1] % len(ROWS)]
    outputs = min(OUTPUTS[words[2] % len(OUTPUTS)], max(MOST_WORK[checked] // (rows * width), 1))
    scales, numbers = NUMBERS[words[3] % len(NUMBERS)], NUMBERS[words[4] % len(NUMBERS)]
    return Configuration(index, mode, scales, numbers, words[5] % 2 == 0, rows, outputs, width)


def draw(seed: int, what: Configuration) -> Inputs:
    """The matrix and the rows of a configuration."""
    stream = Stream.of(seed, "fuzz linear", what.index)
    x = floats(stream.child("x"), (what.rows, what.width), what.numbers)
    if what.sized:
        low, high = EXPONENTS
        exponent = low + stream.child("exponent").below(high - low + 1, (what.rows, -(-what.width // GROUP)))
        size = np.repeat(exponent, GROUP, axis=1)[:, : what.width].astype(np.int32)
        with np.errstate(invalid="ignore", over="ignore"):
            x = np.ldexp(x.astype(np.float64), size).astype(np.float32)
    return Inputs(what.mode, _matrix(stream.child("matrix"), what), x)


def _matrix(stream: Stream, what: Configuration) -> np.ndarray:
    """As `Inputs` has it; of three outputs one has moderate scales whatever is drawn."""
    if what.mode == HALVES:
        made = [halves(stream.child(kind), (what.outputs, what.width), kind) for kind in (what.scales, "moderate")]
        wild, tame = (one.view(np.uint16) for one in made)
        return np.where((np.arange(what.outputs) % 3 == 2)[:, None], tame, wild)
    form = FORMATS[what.mode]
    shape = (what.outputs, what.width // form.values)
    blocks = stream.child("bytes").octets((*shape, form.nbytes)).copy()
    for index, half in enumerate(HALVES_OF.get(what.mode, (Half(0),))):
        made = [halves(stream.child(index, kind), shape, kind) for kind in (what.scales, "moderate")]
        wild, tame = (one.view(np.uint16) for one in made)
        bits = np.where((np.arange(what.outputs) % 3 == 2)[:, None], tame, wild).astype("<u2")
        blocks[..., half.at : half.at + 2] = bits[..., None].view(np.uint8)
    return np.ascontiguousarray(blocks.reshape(what.outputs, -1))


def compare(executor: Executor, seed: int, what: Configuration, path: Path) -> Compared:
    """A product, run twice and held against the model. Raises UnknownOperationError for another operation's path."""
    if path.operation not in MULTIPLIERS:
        raise UnknownOperationError(path, "configuration", tuple(MULTIPLIERS))
    own, given = MULTIPLIERS[path.operation], draw(seed, what)
    stream = Stream.of(seed, "fuzz linear runs", what.index)
    second = other(executor, 1 + int(stream.child("schedule").below(SCHEDULES, ())))
    order = stream.child("order").permutation(what.rows)
    bits = model.bits(what.mode, given.matrix, given.x)
    due = {"out": bits.out} | ({} if bits.codes is None else {UNITS: units.packed(bits.codes)})
    one, turned = handed(own.run)(executor, path, given), given.rows(order)
    if what.rows == 1:
        two = handed(own.run)(second, path, turned)
    else:
        cut = 1 + int(stream.child("cut").below(what.rows - 1, ()))
        two = handed(own.parts)(second, path, turned, cut)
    wrong, said = 0, list[str]()
    for got, rows in ((one, np.arange(what.rows)), (two, order)):
        wrong += _differing(got.outputs["out"], due["out"][rows])
        codes = _differing(got.outputs[UNITS], due[UNITS][rows]) if UNITS in due else 0
        said += [f"{codes} bytes of units differ"] if codes else []
        if bits.codes is not None and got.counts["lost"] != bits.codes.lost:
            said.append(f"{got.counts['lost']} groups lost, expected {bits.codes.lost}")
    return _compared(path, what, (one, two), wrong, bits.out, said)


def _compared(
    path: Path, what: Configuration, runs: Sequence[Outcome], wrong: int, due: np.ndarray, said: Sequence[str]
) -> Compared:
    arch = tuple(sorted({witness.arch for witness in runs[0].witnesses}))
    lost, guards = int((~np.isfinite(due)).sum()), all(one.guards_ok for one in runs)
    return Compared(what.text(), path.name, 2 * due.size, wrong, lost, guards, "; ".join(said), arch)


def _differing(got: np.ndarray, due: np.ndarray) -> int:
    """How many elements of two arrays differ in a bit; a NaN is as good as another."""
    if got.shape != due.shape or got.dtype != due.dtype:
        return int(due.size)
    if got.dtype == np.float32:
        got, due = plain(got).view(np.uint32), plain(due).view(np.uint32)
    return int((got != due).sum())


KIND = FuzzKind(configuration, compare)
