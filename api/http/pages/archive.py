"""The archive's page as HTML: what exists, what is missing, and a form that builds a download.

It works without scripts; `static/archive.js` only saves the reader some typing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from string import Template

from api.http.pages.coverage import coverage
from api.http.pages.segments import segments
from api.http.pages.text import EXPORT, blocks_text, size_text
from api.http.pages.view import ArchiveView
from exporters.archive.markup import Html, joined, link, tag
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES


def archive_page(view: ArchiveView, base: str) -> bytes:
    """The page as UTF-8; `base` leads from where it is shown to the server's root."""
    title = f"{view.chain_id}: network history" if view.chain_id else "Network history"
    held = view.held
    content = [
        tag("header", tag("h1", view.chain_id or "Network history"), _links(view, base)),
        _facts(view, held),
    ]
    if held is None:
        content.append(tag("p", "Nothing is loaded yet: run `strata run`, then reload this page."))
    else:
        content += [
            _download(view, base),
            coverage(view, held),
            segments(view, base),
            _checking(),
        ]
    body = joined(*(joined(piece, "\n") for piece in content))
    return _template().substitute(title=joined(title), base=joined(base), body=body).encode()


@cache
def _template() -> Template:
    return Template(files("api.http").joinpath("templates", "archive.html").read_text("utf-8"))


def _links(view: ArchiveView, base: str) -> Html:
    links = [link(f"{base}/docs", "API")]
    if view.root.shards:
        folder = f"{base}/archive/{view.chain_id}"
        links += [
            link(f"{folder}/index.html", "All files"),
            link(f"{folder}/index.json", "index.json"),
        ]
    links.append(link(f"{base}/ready", "Status"))
    return tag("nav", *(joined(item, " ") for item in links))


def _facts(view: ArchiveView, held: BlockRange | None) -> Html:
    sums = view.root.tables.values()
    published = sum(item.zips + item.windows for item in sums)
    until = view.extent.until
    facts = [
        ("Blocks", blocks_text(held) if held else "none"),
        ("Segments loaded", f"{view.segments:,}"),
        ("Published until", "nothing yet" if until is None else f"{until:,}"),
        ("ZIPs published", f"{published:,}"),
        ("Rows published", f"{sum(item.rows for item in sums):,}"),
        ("Size published", size_text(sum(item.bytes + item.window_bytes for item in sums))),
    ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts))


def _download(view: ArchiveView, base: str) -> Html:
    """The form. Its fields are the parameters of the export, so it needs no script."""
    newest = view.shown[0].blocks if view.shown else None
    options = (tag("option", name, value=f"TABLE_{name.upper()}") for name in HISTORY_TABLES)
    fields = (
        tag("label", "Table ", tag("select", *options, name_="table")),
        _block_field("From block", "fromBlock", newest.first if newest else None, "firsts"),
        _block_field("To block", "toBlock", newest.last if newest else None, "lasts"),
        tag("button", "Download ZIP", type="submit"),
    )
    return tag(
        "section",
        tag("h2", "Download"),
        tag("form", *fields, action=f"{base}{EXPORT}", method="get", data_chain=view.chain_id),
        tag("output", "A range starts with a segment's first block and ends with one's last."),
        _choices("firsts", (segment.blocks.first for segment in view.shown)),
        _choices("lasts", (segment.blocks.last for segment in view.shown)),
        id="download",
    )


def _block_field(label: str, name: str, value: int | None, choices: str) -> Html:
    given = "" if value is None else str(value)
    field = tag("input", type="number", name_=name, value=given, min="0", list=choices, required="")
    return tag("label", f"{label} ", Html(field.removesuffix("</input>")))


def _choices(name: str, blocks: Iterable[int]) -> Html:
    return tag("datalist", *(tag("option", value=str(block)) for block in blocks), id=name)


def _checking() -> Html:
    commands = (
        "# a download that was cut goes on where it stopped\n"
        "curl -fLOJ -C - '<link>'\n"
        "# a published file, in its folder\n"
        "sha256sum -c <name>.zip.sha256\n"
        "# any ZIP: every CSV has its CRC-32 inside\n"
        "unzip -t <name>.zip\n"
    )
    return tag("section", tag("h2", "Fetch and check"), tag("pre", commands))
