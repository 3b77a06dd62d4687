"""The segments of one page, each with its published ZIPs, their sizes and hashes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from api.http.pages.text import EXPORT, blocks_text, size_text
from api.http.pages.view import ArchiveView
from exporters.archive.entries import Entry
from exporters.archive.markup import Html, joined, link, table, tag
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.receipts import LoadedSegment


def segments(view: ArchiveView, base: str) -> Html:
    """The section: a line for each segment that opens on its files, and the ways to others."""
    jump = tag(
        "form",
        tag("label", "Go to block ", Html('<input type="number" name="block" min="0" required>')),
        tag("button", "Show", type="submit"),
        method="get",
        class_="jump",
    )
    pages = tag(
        "nav",
        *(
            joined(tag("a", text, href=f"?block={block}#segments"), " ")
            for text, block in (("← newer", view.newer), ("older →", view.older))
            if block is not None
        ),
        jump,
        class_="pages",
    )
    rows = (_segment(view, base, segment) for segment in view.shown)
    return tag("section", tag("h2", "Segments"), pages, *rows, id="segments")


def _segment(view: ArchiveView, base: str, segment: LoadedSegment) -> Html:
    entries = view.files.get(segment.blocks, {})
    count = len(entries)
    state = "published" if count == len(HISTORY_TABLES) else "partly" if count else "loaded"
    what = f"{count} of {len(HISTORY_TABLES)} published"
    size = f"{segment.rows:,} rows, {size_text(segment.bytes)} of CSV"
    summary = tag(
        "summary",
        tag("i", "", class_=f"mark {state}"),
        tag("b", blocks_text(segment.blocks)),
        tag("span", f"schema version {segment.name.version}"),
        tag("span", size),
        tag("span", what),
        data_first=str(segment.blocks.first),
        data_last=str(segment.blocks.last),
    )
    identity = tag(
        "p",
        *([f"Segment {segment.segment_id} "] if segment.segment_id else []),
        "SHA-256 of the segment file ",
        tag("code", segment.sha256),
    )
    heads = ("table", "file", "#rows", "#size", "SHA-256")
    return tag("details", summary, identity, table(heads, _file_rows(view, base, segment, entries)))


def _file_rows(
    view: ArchiveView, base: str, segment: LoadedSegment, entries: Mapping[str, Entry]
) -> Iterator[tuple[str, ...]]:
    folder = f"{base}/archive/{view.chain_id}"
    for name in HISTORY_TABLES:
        entry = entries.get(name)
        if entry is None:
            blocks = segment.blocks
            query = f"table=TABLE_{name.upper()}&fromBlock={blocks.first}&toBlock={blocks.last}"
            made = tag("a", "made on request", href=f"{base}{EXPORT}?{query}")
            yield name, made, "", "", ""
            continue
        path = f"{folder}/{entry.path}"
        links = joined(
            link(path, entry.path.rpartition("/")[2]), " ", link(f"{path}.sha256", ".sha256")
        )
        yield name, links, f"{entry.rows:,}", size_text(entry.bytes), tag("code", entry.sha256)
