"""Matplotlib figures as SVG that stands inside the page: its colours are the page's, so that they follow its theme.

A figure is drawn in stand-in colours, which are then replaced by CSS variables. Text stays text, in the page's font.
The same figure gives the same bytes: ids come from a fixed salt and there is no date.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from strata.executors.base import StrataError
from strata.imports import NotImportedError, optional
from validation.report.markup import Markup, raw, shown

#: Roles of colours and the stand-ins that matplotlib draws.
INK, MUTED, GRID, NEW, OLD, BAD, PAPER = (f"#0{i}0{i}0{i}" for i in range(1, 8))
_ROLES = {INK: "ink", MUTED: "muted", GRID: "grid", NEW: "new", OLD: "old", BAD: "bad", PAPER: "paper"}
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "strata",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 10,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}
_DROPPED = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", re.DOTALL)
_IDS = re.compile(r'(\sid="|xlink:href="#|url\(#)')
_NAMES = re.compile(r'\sxmlns(:\w+)?="[^"]*"')
_FONT = re.compile(r"font: (?:[\w.]+ )*?([\d.]+)px [^;\"]*")


def plots() -> Any:
    """matplotlib's Figure.

    Raises
    ------
    StrataError
        Without matplotlib; the message says how to install it.
    """
    try:
        return optional("matplotlib.figure").Figure
    except NotImportedError as error:
        what = "is not installed" if error.absent else f"does not import ({error})"
        how = "`nox -s report` installs it, or python -m pip install matplotlib"
        raise StrataError(f"the report draws with matplotlib, which {what}: {how}") from error


@contextmanager
def drawing(width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, in the style of the page.

    Parameters
    ----------
    width, height
        Inches.

    Raises
    ------
    StrataError
        Without matplotlib.
    """
    figure_type = plots()
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield figure_type(figsize=(width, height), layout="constrained")


def inline(figure: Any, name: str, title: str, text: str) -> Markup:
    """A figure for the page.

    Parameters
    ----------
    figure
        matplotlib's.
    name
        What makes its ids its own.
    title, text
        What it is and what it shows, for those who do not see it.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = _NAMES.sub("", _DROPPED.sub("", buffer.getvalue())).strip()
    svg = _IDS.sub(lambda match: f"{match[1]}{name}-", svg)
    svg = _FONT.sub(r"font-size: \1px", svg)
    for stand_in, role in _ROLES.items():
        svg = svg.replace(stand_in, f"var(--{role})")
    opening, rest = svg.split(">", 1)
    view = re.search(r'viewBox="[^"]*"', opening)
    width = re.search(r'width="([\d.]+)pt"', opening)
    size = f'style="width: {float(width[1]) if width else 0:.0f}pt"'
    head = (
        f'<svg {view[0] if view else ""} {size} role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(shown(title))}</title>'
        f'<desc id="{name}-desc">{escape(shown(text, 2000))}</desc>'
    )
    return raw(head + re.sub(r"\n\s*", "\n", rest))
