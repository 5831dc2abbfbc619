"""What is asked of one expert path's results on one case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strata.executors.base import Executor, Kernel, Witness
from validation.core.launches import witnessed
from validation.core.negative_probes import bit_battery, self_check
from validation.core.verdict import Check, Verdict, holds, identical, within
from validation.numerics.fma import plain
from validation.operations.experts.bound import Bounded
from validation.operations.experts.case import ExpertCase
from validation.operations.experts.expected import Bits, Model, Steps
from validation.operations.experts.expected_rows import Known
from validation.operations.experts.inputs import Inputs
from validation.operations.experts.published import PUBLISHED_TOKENS
from validation.operations.experts.recipes import Values, Weights, find
from validation.operations.experts.reference import Codes
from validation.operations.experts.under_test import Grouping, Outcome

AXES = ("token", "rank", "column")
_PAIR_AXES = ("pair", "column")


def launched(
    executor: Executor, witnesses: Sequence[Witness], kernels: Sequence[Kernel], count: int | None
) -> list[Check]:
    """What was launched, against the images of the path: an entry may have several, one for each format. count: how
    many launches are due, None where it is not known."""
    due = {(kernel.entry, executor.build(kernel).digest) for kernel in kernels}
    ran = {(witness.entry, witness.image) for witness in witnesses}
    more, missing = sorted(ran - due), sorted(due - ran)
    said = f"{more[0][0]} ran from image {more[0][1][:12]}, which is not the path's" if more else ""
    said = said or (f"{missing[0][0]} of image {missing[0][1][:12]} was not launched" if missing else "")
    if not said and count is not None and len(witnesses) != count:
        said = f"{len(witnesses)} launches, expected {count}"
    return [witnessed(executor, witnesses, None, {}), holds("images", not said, said)]


def rows(x: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """[p, columns] of [tokens, top, columns]."""
    return np.ascontiguousarray(x.reshape(-1, x.shape[-1])[pairs])


def of_bits(name: str, got: Outcome, want: Bits, whole: bool) -> list[Check]:
    """Every bit that is known. whole: whether those are all of the case, which makes it EXACT."""
    pairs = want.pairs

    def same(what: str, one: np.ndarray, two: np.ndarray) -> Check:
        said = f"{name} {what}".strip()
        floats = one.dtype == np.float32
        one, two = (plain(one), plain(two)) if floats else (one, np.array(two))
        return identical(said, one, two, labels=(pairs,), axes=_PAIR_AXES)

    first = same("", rows(got.out, pairs), want.out)
    found = [replace(first, figures=first.figures | {"all_bits": whole and name == "bits"})]
    if got.gate is not None and got.up is not None:
        found += [same("of gate", rows(got.gate, pairs), want.gate), same("of up", rows(got.up, pairs), want.up)]
    if got.h is not None:
        found.append(same("of h", got.h.q[pairs], want.h.q))
        found.append(same("of the scales of h", got.h.scale[pairs], want.h.scale))
    return found


def of_steps(got: Outcome, known: Known) -> tuple[list[Check], Bounded | None]:
    """Each step against FP64 on what the kernel itself had at its beginning, and what down was held against."""
    if got.gate is None or got.up is None or got.h is None:
        return [], None
    pairs = known.referenced
    gate, up = rows(got.gate, pairs), rows(got.up, pairs)
    h = Codes(got.h.q[pairs], got.h.scale[pairs])
    due: Steps = known.steps(gate, up, h)
    found = [
        limited("gate", gate, due.gate, pairs),
        limited("up", up, due.up, pairs),
        hidden(due, h, pairs),
        limited("down", rows(got.out, pairs), due.down, pairs),
    ]
    return found, due.down


def limited(name: str, got: np.ndarray, due: Bounded, pairs: np.ndarray) -> Check:
    """Within a bound of each element's own."""
    return within(name, got, due.value, due.bound, labels=(pairs,), axes=_PAIR_AXES)


def hidden(due: Steps, h: Codes, pairs: np.ndarray) -> Check:
    """EXACT when the codes of h are those of its values, but for proven ties, and the scales are within their bound."""
    wrong, scales = due.h.wrong(h), due.h.wrong_scales(h)
    differing = int((h.q.astype(np.int64) != due.h.nearest).sum())
    figures = {"compared": wrong.size, "differing": differing, "possible_ties": due.h.ties}
    reason = ""
    if wrong.any():
        row, at = (int(i) for i in np.argwhere(wrong)[0])
        allowed = f"{int(due.h.low[row, at])}..{int(due.h.high[row, at])}"
        where = f"pair {int(pairs[row])} feature {at}"
        reason = f"{int(wrong.sum())} of {wrong.size} codes; at {where} code {int(h.q[row, at])}, allowed {allowed}"
    elif scales.any():
        row, at = (int(i) for i in np.argwhere(scales)[0])
        allowed = f"{due.h.scale_low[row, at]:.9g}..{due.h.scale_high[row, at]:.9g}"
        where = f"pair {int(pairs[row])} block {at}"
        reason = f"{int(scales.sum())} scales; at {where} {float(h.scale[row, at]):.9g}, allowed {allowed}"
    return holds("h", not reason, reason, figures)


def nobody(inputs: Inputs, got: Outcome) -> list[Check]:
    """Rows of ids that name no expert: +0 and counted."""
    stray = ~inputs.named
    count = int(stray.sum())
    found = [holds("ignored", got.ignored == count, f"{got.ignored} pairs reported ignored, expected {count}")]
    if count:
        bits = np.ascontiguousarray(got.out[stray]).view(np.uint32)
        found.append(holds("nobody's rows", not bits.any(), f"{int((bits != 0).any(axis=1).sum())} rows are not +0"))
    return found


def ordinary(case: ExpertCase) -> bool:
    """Whether every step of a case is finite in float32: tokens are, and products stay in range."""
    recipe = find(case.recipe)
    return recipe.weights is not Weights.EXTREMES and recipe.values is not Values.BROKEN


def as_published(case: ExpertCase) -> bool:
    """Whether the published limits say something of a case: enough tokens, and steps well inside of float32. Those of
    tiny tokens, or under scales of every class, may fall below it, where a sound path gives zeros and FP64 does not;
    the derived bounds allow for that, a relative error does not."""
    recipe = find(case.recipe)
    usual = recipe.weights in (Weights.PLAIN, Weights.DECADES, Weights.GOLDEN)
    return case.tokens >= PUBLISHED_TOKENS and usual and recipe.values in (Values.BELL, Values.DECADES)


def finite(case: ExpertCase, inputs: Inputs, got: Outcome, want: Bits, whole: bool) -> list[Check]:
    """Tokens that are not finite give rows of NaN, are counted, and no other row is touched. whole: whether `want`
    are the bits of all pairs that name an expert; else what is lost of h and out is nothing where every step is finite,
    and where not as much as the run itself shows."""
    broken = inputs.named & ~np.isfinite(inputs.x).all(axis=1)[:, None]
    found = []
    if broken.any():
        hidden_rows = int((~np.isnan(got.out[broken])).any(axis=1).sum())
        found.append(holds("broken rows", hidden_rows == 0, f"{hidden_rows} rows of tokens not finite hold numbers"))
    if got.lost is None:
        return found
    due_x = want.lost_x
    found.append(holds("lost x", got.lost[0] == due_x, f"{got.lost[0]} blocks of x reported lost, expected {due_x}"))
    if whole:
        due = (want.h.lost, int((~np.isfinite(want.out)).sum()))
    elif ordinary(case) or got.h is None:
        due = (0, 0)
    else:
        due = (int((~np.isfinite(got.h.scale)).sum()), int((~np.isfinite(got.out)).sum()))
    for name, seen, wanted in zip(("h", "out"), got.lost[1:], due, strict=True):
        found.append(holds(f"lost {name}", seen == wanted, f"{seen} of {name} reported lost, expected {wanted}"))
    return found


def grouped(inputs: Inputs, grouping: Grouping) -> Check:
    """Every pair has one row, inside its expert's rows, of its own token; strays have none."""
    ids, top = inputs.ids.reshape(-1), inputs.top
    real = np.flatnonzero(inputs.named.reshape(-1))
    counts = np.bincount(ids[real], minlength=inputs.experts)
    due = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(grouping.offsets, due):
        return holds("grouping", False, "the first rows of the experts are not the sums of their pairs")
    slot = grouping.slot.reshape(-1)[real]
    if not np.array_equal(np.sort(slot), np.arange(len(real))):
        return holds("grouping", False, f"rows {len(np.unique(slot))} of {len(real)} pairs are not each there once")
    inside = (slot >= due[ids[real]]) & (slot < due[ids[real] + 1])
    if not inside.all():
        pair = int(real[np.argmin(inside)])
        return holds("grouping", False, f"pair {pair} is outside of the rows of its expert {int(ids[pair])}")
    right = grouping.source[slot] == real // top
    pair = int(real[np.argmin(right)]) if len(real) else 0
    return holds("grouping", bool(right.all()), f"the row of pair {pair} has another token")


def battery(got_pairs: np.ndarray, due: Bounded, inputs: Inputs) -> Check:
    """Whether the bound refuses every wrong answer of the battery on tokens all of whose pairs are in `got_pairs`."""
    top = inputs.top
    tokens, counts = np.unique(got_pairs // top, return_counts=True)
    tokens = tokens[counts == top]
    if len(tokens) == 0:
        return Check("self", Verdict.EXACT, "", {"refused": []})
    places = np.searchsorted(got_pairs, (tokens[:, None] * top + np.arange(top)).reshape(-1))
    value = due.value[places].reshape(len(tokens), top, -1)
    bound = due.bound[places].reshape(value.shape)

    def judged(candidate: np.ndarray) -> bool:
        return within("self", candidate, value, bound).verdict.passes

    return self_check(value, bound, judged)


def refused_bit(out: np.ndarray) -> Check:
    """Whether the bit comparison refuses a flipped bit."""
    return replace(bit_battery(out), name="self bits")


def errors(got: np.ndarray, model: Model) -> dict[str, float | None]:
    """Relative root mean square errors and worst rows of float32 [p, n], against both FP64 models."""
    return {
        **relative("rounded", got, model.rounded.value),
        **relative("fp32", got, model.unrounded),
    }


def relative(name: str, got: np.ndarray, want: np.ndarray) -> dict[str, float | None]:
    """RMS of the differences over that of `want`, and the worst row: largest difference over largest value."""
    wide = got.astype(np.float64)
    # Sizes first: squares of large outputs leave the range of FP64.
    scale = float(np.abs(want).max(initial=0.0))
    if scale == 0:
        return {f"rms_to_{name}": None, f"worst_row_to_{name}": None}
    off = np.abs(wide - want) / scale
    largest = np.abs(want / scale).max(axis=1)
    known = largest > 0
    rms = float(np.sqrt(np.square(off).sum() / np.square(want / scale).sum()))
    worst = float((off.max(axis=1)[known] / largest[known]).max())
    return {f"rms_to_{name}": rms, f"worst_row_to_{name}": worst}
