"""HTML that escapes whatever is not markup already, and the few elements that pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import quote


class Html(str):
    """Markup: text that needs no escaping any more."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str) -> Html:
    """An element. Plain text in it is escaped; a trailing `_` is cut from attribute names."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: str) -> Html:
    """Pieces of markup and of text, one after the other."""
    return Html("".join(item if isinstance(item, Html) else escape(item) for item in content))


def link(path: str, text: str) -> Html:
    """A link to a relative path."""
    return tag("a", text, href=quote(path, safe="/#."))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """A table; the columns whose heads begin with `#` hold numbers."""
    kinds = [{"class_": "number"} if head.startswith("#") else {} for head in heads]
    names = (
        tag("th", head.lstrip("#"), scope="col", **kind)
        for head, kind in zip(heads, kinds, strict=True)
    )
    lines = (
        joined(
            tag("tr", *(tag("td", cell, **kind) for cell, kind in zip(row, kinds, strict=True))),
            "\n",
        )
        for row in rows
    )
    body = joined(tag("thead", tag("tr", *names)), "\n", tag("tbody", *lines))
    return tag("div", tag("table", body), class_="scroll")


def page(title: str, *content: Html) -> bytes:
    """A whole page in the archive's one style, as UTF-8."""
    body = joined(*(joined(piece, "\n") for piece in content))
    return _template().substitute(title=joined(title), body=body.rstrip("\n")).encode()


@cache
def _template() -> Template:
    return Template(files("exporters.archive").joinpath("page.html").read_text("utf-8"))
