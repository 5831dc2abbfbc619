"""The map of recipes and paths: how near to its bound each came."""

from __future__ import annotations

from collections.abc import Sequence

from validation.report.figures import place
from validation.report.markup import Markup, shown
from validation.report.panels import MOST, by_path, label, share
from validation.report.source import CaseView
from validation.report.svg import BAD, MUTED, drawing, inline

#: Recipes in the map.
_RECIPES = 60
#: Characters of a path over its column.
_LONGEST = 28


def heat(cases: Sequence[CaseView], name: str) -> Markup | None:
    """The largest share of the bound by recipe and path, dark for small and light for large.

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
    paths = list(by_path(held))[:MOST]
    recipes = sorted({case.recipe for case in held})[:_RECIPES]
    worst = largest(held)
    with drawing(9.4, 1.5 + 0.27 * len(recipes)) as figure:
        from matplotlib import colormaps

        colours = colormaps["cividis"]
        axes = figure.subplots()
        for row, recipe in enumerate(recipes):
            for column, path in enumerate(paths):
                used = worst.get((recipe, path))
                if used is None:
                    axes.text(column, row, "-", ha="center", va="center", color=MUTED, fontsize=9)
                    continue
                depth = min(1.0, max(0.0, (place(used) + 4) / 4))
                axes.bar(column, 0.94, bottom=row - 0.47, width=0.96, color=BAD if used > 1 else colours(depth))
                red, green, blue, _ = colours(depth)
                # Whichever of black and white has more contrast: their midpoint in luminance is 0.18.
                light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
                ink = "#000000" if light > 0.18 else "#ffffff"
                axes.text(column, row, share(used), ha="center", va="center", color=ink, fontsize=9)
        names = _headings(paths)
        wide = len(paths) > 10 or max(map(len, "\n".join(names).split("\n"))) > 12
        turned = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"} if wide else {}
        axes.set_xticks(range(len(paths)), [name.replace("\n", "/") for name in names] if wide else names, **turned)
        axes.set_yticks(range(len(recipes)), [shown(recipe, 30) for recipe in recipes])
        axes.set_xlim(-0.55, len(paths) - 0.45)
        axes.set_ylim(len(recipes) - 0.45, -0.55)
        axes.grid(False)
        axes.tick_params(length=0)
        axes.xaxis.tick_top()
        for spine in axes.spines.values():
            spine.set_visible(False)
        text = (
            f"A map of {len(recipes)} recipes by {len(paths)} paths with the largest error over its bound in each;"
            " the same numbers follow as a table."
        )
        return inline(figure, f"{name}-heat", "Largest share of the bound, by recipe and path", text)


def largest(cases: Sequence[CaseView]) -> dict[tuple[str, str], float]:
    """The largest share of the bound by (recipe, path); infinity for a NaN."""
    worst: dict[tuple[str, str], float] = {}
    for case in cases:
        if "bound" in case.slack:
            key = (case.recipe, case.path)
            worst[key] = max(case.worst, worst.get(key, 0.0))
    return worst


def _headings(paths: Sequence[str]) -> list[str]:
    """Paths over narrow columns: without the operation where all have the same."""
    operations = {path.partition("/")[0] for path in paths}
    kept = [path.partition("/")[2] or path if len(operations) == 1 else path for path in paths]
    return [label(path)[:_LONGEST].replace("/", "\n") for path in kept]
