"""The plots of the report. Each takes cases and gives inline SVG, or None where no case has what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from validation.numerics.ulps import NOT_A_NUMBER
from validation.report.markup import Markup
from validation.report.panels import by_path, panels
from validation.report.source import CaseView
from validation.report.svg import BAD, INK, NEW, OLD, PAPER

#: Shares of a bound are counted in steps of this many powers of ten; 0 and all below go into the lowest.
_STEP = 0.25
_LOWEST, _HIGHEST = -5.0, 1.0
#: The bucket of distances that stands for itself and all above: 64k floats and more.
_FAR = 17


def shares(cases: Sequence[CaseView], name: str) -> Markup | None:
    """How much of its bound each case used: path filled, baseline as a line, and the bound itself at 1.

    Parameters
    ----------
    cases
        The cases.
    name
        What makes the figure's ids its own.

    Returns
    -------
    Markup or None
        None where no case has a bound.
    """
    held = [case for case in cases if "bound" in case.slack]
    if not held:
        return None

    def draw(axes: Any, own: Sequence[CaseView]) -> None:
        edges = [_LOWEST + _STEP * i for i in range(round((_HIGHEST - _LOWEST) / _STEP) + 1)]
        path = [place(case.slack["bound"]) for case in own]
        base = [place(case.slack["baseline bound"]) for case in own if "baseline bound" in case.slack]
        axes.hist(path, bins=edges, color=NEW, alpha=0.85, label="path", rwidth=0.9)
        if base:
            axes.hist(base, bins=edges, histtype="step", color=OLD, linewidth=1.8, label="baseline, to its own bound")
        axes.axvline(0, color=BAD, linewidth=1.6, linestyle=(0, (4, 2)), label="the bound")
        axes.set_xlim(_LOWEST, _HIGHEST)
        ticks = range(int(_LOWEST), int(_HIGHEST) + 1)
        axes.set_xticks(list(ticks), [_decade(tick) for tick in ticks])
        axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)

    worst = max(held, key=lambda case: case.worst)
    text = (
        f"Histograms for {len(by_path(held))} paths of the largest error of each case over its bound, on a"
        f" logarithmic"
        f" axis. {sum(case.worst <= 1 for case in held)} of {len(held)} cases are at or below 1. The largest"
        f" share is"
        f" {worst.worst:.3g}, of {worst.path}, recipe {worst.recipe}."
    )
    words = (f"{name}-shares", "Largest error of each case over its bound, by path", text)
    return panels(held, draw, words, ("largest error over the bound, by case", "cases"))


def ulps(cases: Sequence[CaseView], name: str) -> Markup | None:
    """Outputs by their distance from the reference in units in the last place, path and baseline.

    Parameters
    ----------
    cases
        The cases.
    name
        What makes the figure's ids its own.

    Returns
    -------
    Markup or None
        None where no case has such a histogram.
    """
    held = [case for case in cases if sum(case.ulps_new)]
    if not held:
        return None
    sums = {path: (total(own, "ulps_new"), total(own, "ulps_old")) for path, own in by_path(held).items()}

    def draw(axes: Any, own: Sequence[CaseView]) -> None:
        new, old = (_percent(_gathered(total(own, side))) for side in ("ulps_new", "ulps_old"))
        axes.bar(list(range(_FAR + 1)), new, color=NEW, alpha=0.85, width=0.9, label="path")
        if sum(old):
            edges = [i - 0.5 for i in range(_FAR + 2)]
            axes.stairs(old, edges, color=OLD, linewidth=1.8, label="baseline", baseline=None)
        axes.set_yscale("log")
        axes.set_ylim(1e-4, 200)
        axes.set_yticks([1e-3, 1e-1, 10], ["0.001", "0.1", "10"])
        ticks = [*range(0, _FAR - 1, 2), _FAR]
        axes.set_xticks(ticks, [bucket(tick) + ("+" if tick == _FAR else "") for tick in ticks])
        axes.set_xlim(-0.6, _FAR + 0.6)

    means = "; ".join(f"{path}: {_half(new)}, baseline {_half(old)}" for path, (new, old) in sums.items())
    text = (
        f"Histograms of the distance of outputs from the reference in units in the last place. Median bucket: {means}."
    )
    words = (f"{name}-ulps", "Distance from the reference in units in the last place, by path", text)
    return panels(held, draw, words, ("distance in floats, from", "percent of outputs, logarithmic"))


def speeds(cases: Sequence[CaseView], name: str) -> Markup | None:
    """How many times faster than its baseline each path was, over how long the baseline took.

    Parameters
    ----------
    cases
        The cases.
    name
        What makes the figure's ids its own.

    Returns
    -------
    Markup or None
        None where nothing was timed.
    """
    held = [case for case in cases if case.ratio is not None]
    if not held:
        return None

    def draw(axes: Any, own: Sequence[CaseView]) -> None:
        for case in own:
            assert case.new is not None
            assert case.old is not None
            ends = (case.old.least / case.new.most, case.old.most / case.new.least)
            axes.plot([case.old.median] * 2, ends, color=NEW, linewidth=1.2, solid_capstyle="butt")
        times = [case.old.median for case in own if case.old is not None]
        ratios = [case.ratio or math.nan for case in own]
        axes.plot(times, ratios, "o", color=NEW, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.5)
        axes.axhline(1, color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.set_xscale("log")
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}x")

    ratios = [case.ratio or 0.0 for case in held]
    text = (
        f"For {len(held)} cases, the device time of the baseline over that of the path against the baseline's own"
        f" time."
        f" The ratios go from {min(ratios):.2f} to {max(ratios):.2f}."
    )
    words = (f"{name}-speeds", "Device time of the baseline over that of the path", text)
    return panels(held, draw, words, ("device time of the baseline, ms", "baseline time / path time"))


def total(cases: Sequence[CaseView], side: str) -> list[int]:
    """The histograms of some cases added up, one count a bucket.

    Parameters
    ----------
    cases
        The cases.
    side
        `ulps_new` or `ulps_old`.
    """
    counts = [0] * (NOT_A_NUMBER + 1)
    for case in cases:
        for index, count in enumerate(getattr(case, side)):
            counts[index] += count
    return counts


def bucket(index: int) -> str:
    """Where a bucket of units begins, as `64` or `16k`."""
    start = 0 if index == 0 else 1 << (index - 1)
    for size, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if start >= size:
            return f"{start // size}{letter}"
    return str(start)


def _finite(counts: Sequence[int]) -> list[int]:
    """Counts without those of NaN and without trailing zeros."""
    kept = list(counts[:NOT_A_NUMBER])
    while kept and kept[-1] == 0:
        kept.pop()
    return kept


def _gathered(counts: Sequence[int]) -> list[int]:
    """Counts up to the last bucket drawn, which takes what is beyond it; NaN are not drawn."""
    return [*counts[:_FAR], sum(counts[_FAR:NOT_A_NUMBER])]


def _percent(counts: Sequence[int]) -> list[float]:
    whole = sum(counts) or 1
    return [100 * count / whole for count in counts]


def _half(counts: Sequence[int]) -> str:
    """The bucket in which half of the outputs is reached."""
    kept = _finite(counts)
    seen = 0
    for index, count in enumerate(kept):
        seen += count
        if 2 * seen >= sum(kept) > 0:
            return f"{bucket(index)} units"
    return "none"


def place(share: float) -> float:
    """log10 of a share, kept within the plot; 0 at its left end, a NaN at its right."""
    if share <= 0:
        return _LOWEST
    # Just inside, so that the last step counts what is beyond it.
    inside = _HIGHEST - 1e-9
    return inside if math.isnan(share) else min(inside, max(_LOWEST, math.log10(share)))


def _decade(power: int) -> str:
    if power == int(_LOWEST):
        return f"\u2264 {10.0**power:g}"
    if power == int(_HIGHEST):
        return f"\u2265 {10.0**power:g}"
    return f"{10.0**power:g}"
