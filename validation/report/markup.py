"""HTML as values: everything is escaped but what was built here.

What the page tells comes from files that anybody may have written. A plain `str` is therefore always text; only a
`Markup`, which `tag` and `raw` alone make, goes into the page as it is.
"""

from __future__ import annotations

from html import escape

from strata.shown import shown as safe

#: Characters shown of one text.
LONGEST = 800
_ONE_LINE = 32
_VOID = frozenset({"meta", "br", "wbr"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Node = str | int | None


def shown(value: object, longest: int = LONGEST) -> str:
    """Text of an untrusted value on one line, as escapes what does not print.

    Parameters
    ----------
    value
        Any object.
    longest
        Characters that are shown before it is cut.
    """
    return safe(value, longest)


def joined(*nodes: Node) -> Markup:
    """Nodes one after another; None is nothing, and what is no Markup is escaped."""
    parts = (node if isinstance(node, Markup) else escape(shown(node)) for node in nodes if node is not None)
    return Markup("".join(parts))


def tag(name: str, *children: Node, **attributes: Node) -> Markup:
    """`<name ...>children</name>`.

    Parameters
    ----------
    name
        The name of the element.
    *children
        What is in it.
    **attributes
        `class_` is `class`, `_` is `-`; None leaves one out.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    end = "" if name in _VOID else f"</{name}>"
    return Markup(f"<{name}{words}>{joined(*children)}{end}")


def coded(text: str) -> Markup:
    """Text with what stands between backticks as code."""
    parts = shown(text).split("`")
    return joined(*(tag("code", part) if i % 2 else part for i, part in enumerate(parts)))


def breakable(path: str) -> Markup:
    """A path on one line, or where it is long broken behind its slashes."""
    first, *rest = shown(path).split("/")
    if len(path) <= _ONE_LINE:
        return tag("span", path, class_="once")
    return joined(first, *(joined("/", tag("wbr"), part) for part in rest))


def raw(text: str) -> Markup:
    """HTML that was made elsewhere in this package."""
    return Markup(text)


def table(headings: list[Node], rows: list[list[Node]], caption: str, numbers: tuple[int, ...] = ()) -> Markup:
    """A table with headers for columns and, in the first cell of each row, for rows.

    Parameters
    ----------
    headings
        The headings of the columns.
    rows
        The cells of each row.
    caption
        What it shows.
    numbers
        Columns that are set right.
    """

    def style(column: int) -> str | None:
        return "n" if column in numbers else None

    head = tag("tr", *(tag("th", item, scope="col", class_=style(i)) for i, item in enumerate(headings)))
    body = [
        tag(
            "tr",
            *(
                tag("td", item, class_=style(i)) if i else tag("th", item, scope="row", class_=style(i))
                for i, item in enumerate(row)
            ),
        )
        for row in rows
    ]
    inner = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", inner, class_="wide", tabindex="0", role="region", aria_label=caption)


def folded(title: str, *children: Node) -> Markup:
    """A part of the page that opens on a click.

    Parameters
    ----------
    title
        What is seen before.
    *children
        What is in it.
    """
    return tag("details", tag("summary", title), *children)
