"""One small plot for each path: a row a mode, a column a tier, all with the same axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from strata.kernels.paths import PATHS
from validation.report.markup import Markup, shown
from validation.report.source import CaseView
from validation.report.svg import MUTED, drawing, inline

#: Paths drawn; a page of more would be read by nobody.
MOST = 24
_WIDTH = 9.4
_HEIGHT = 1.62


def by_path(cases: Sequence[CaseView]) -> dict[str, list[CaseView]]:
    """Cases by path, in the order of the table of paths; unknown ones come last."""
    found: dict[str, list[CaseView]] = {}
    for case in cases:
        found.setdefault(case.path, []).append(case)
    order = {name: index for index, name in enumerate(PATHS)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def label(path: str) -> str:
    """A path for a plot: short enough, and without characters that do not print."""
    return shown(path, 44)


def share(number: float) -> str:
    """A share of a bound in two digits."""
    if not math.isfinite(number):
        return "NaN/inf"
    if number == 0:
        return "0"
    return f"{number:#.2g}" if 1e-3 <= number < 100 else f"{number:.1e}".replace("e-0", "e-")


def panels(
    cases: Sequence[CaseView],
    draw: Callable[[Any, Sequence[CaseView]], None],
    words: tuple[str, str, str],
    axes: tuple[str, str],
) -> Markup:
    """A panel for each path.

    Parameters
    ----------
    cases
        The cases.
    draw
        What draws the cases of a path on axes.
    words
        Name, title and text alternative.
    axes
        What the two axes are.
    """
    paths = list(by_path(cases).items())[:MOST]
    columns = 2 if len(paths) > 1 else 1
    rows = -(-len(paths) // columns)
    with drawing(_WIDTH, 0.62 + _HEIGHT * rows) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        flat = list(grid.flat)
        for place, (path, own) in zip(flat, paths, strict=False):
            draw(place, own)
            place.set_title(label(path))
            place.tick_params(length=3)
        for place in flat[len(paths) :]:
            place.set_visible(False)
        figure.supxlabel(axes[0], fontsize=10)
        figure.supylabel(axes[1], fontsize=10)
        handles, names = flat[0].get_legend_handles_labels()
        if handles:
            # Matplotlib puts lines first; the path is what the plot is about.
            order = sorted(range(len(names)), key=lambda i: (names[i] != "path", i))
            handles, names = [handles[i] for i in order], [names[i] for i in order]
            figure.legend(handles, names, loc="outside upper left", ncols=len(handles), labelcolor=MUTED)
        return inline(figure, words[0], words[1], words[2])
