"""The archive's page as HTML: what exists, what is missing, and a form that builds a download.

It works without scripts; `static/archive.js` only saves the reader some typing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from string import Template

from api.archive_view import ArchiveView
from exporters.coverage import Coverage, difference, union
from exporters.entries import Entry
from exporters.markup import Html, joined, link, table, tag
from exporters.sums import TableSums
from transforms.receipts import LoadedSegment
from transforms.registry import HISTORY_TABLES
from transforms.segments import BlockRange

_EXPORT = "/api/v2/networkhistory/export"
_BAR = 1000
_THINNEST = 3  # of the bar's thousand: one missing block in a million must be seen
_LISTED_GAPS = 50


def archive_page(view: ArchiveView, base: str = "") -> bytes:
    """The page as UTF-8; `base` is the path below which the server is reached."""
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
            _coverage(view, held),
            _segments(view, base),
            _checking(),
        ]
    body = joined(*(joined(piece, "\n") for piece in content))
    return _template().substitute(title=joined(title), base=joined(base), body=body).encode()


@cache
def _template() -> Template:
    return Template(files("api").joinpath("templates", "archive.html").read_text("utf-8"))


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
        ("Blocks", _blocks(held) if held else "none"),
        ("Segments loaded", f"{view.segments:,}"),
        ("Published without a gap", "not yet" if until is None else f"to {until:,}"),
        ("ZIPs published", f"{published:,}"),
        ("Rows published", f"{sum(item.rows for item in sums):,}"),
        ("Their size", _size(sum(item.bytes + item.window_bytes for item in sums))),
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
        tag("form", *fields, action=f"{base}{_EXPORT}", method="get", data_chain=view.chain_id),
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


def _coverage(view: ArchiveView, held: BlockRange) -> Html:
    tables = view.root.tables
    rows = [
        (
            name,
            _bar(held, view.loaded, tables[name].covered),
            _missing(held, tables[name]),
            f"{tables[name].zips + tables[name].windows:,}",
            f"{tables[name].rows:,}",
            _size(tables[name].bytes + tables[name].window_bytes),
        )
        for name in HISTORY_TABLES
    ]
    axis = tag("div", tag("span", f"{held.first:,}"), tag("span", f"{held.last:,}"), class_="axis")
    heads = ("table", "blocks", "#not published", "#ZIPs", "#rows", "#size")
    marks = (("published", "published"), ("loaded", "loaded only"), ("gap", "missing"))
    legend = tag(
        "p",
        *(joined(tag("i", "", class_=f"mark {kind}"), f"{text} ") for kind, text in marks),
        class_="legend",
    )
    return tag(
        "section", tag("h2", "What is there"), legend, axis, table(heads, rows), *_gaps(view, held)
    )


def _bar(held: BlockRange, loaded: Coverage, published: Coverage) -> Html:
    """The blocks from left to right; what is missing is drawn last and never too thin to see."""
    missing = difference((held,), union((*loaded, *published)))
    layers = (("loaded", (held,)), ("published", published), ("gap", missing))
    drawn = [
        _rectangle(kind, *_scaled(run, held, _THINNEST if kind == "gap" else 0))
        for kind, runs in layers
        for run in runs
    ]
    label = f"published: {', '.join(map(_blocks, published[:3])) or 'none'}"
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {_BAR} 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _scaled(run: BlockRange, held: BlockRange, thinnest: int) -> tuple[int, int]:
    length = held.last - held.first + 1
    start = (run.first - held.first) * _BAR // length
    stop = max(start + thinnest, (run.last - held.first + 1) * _BAR // length)
    return start, stop


def _rectangle(kind: str, start: int, stop: int) -> Html:
    return tag("rect", class_=kind, x=str(start), width=str(stop - start), height="10")


def _missing(held: BlockRange, sums: TableSums) -> str:
    missing = sum(run.last - run.first + 1 for run in difference((held,), sums.covered))
    return f"{missing:,} blocks" if missing else "nothing"


def _gaps(view: ArchiveView, held: BlockRange) -> Iterator[Html]:
    published = (run for sums in view.root.tables.values() for run in sums.covered)
    gaps = difference((held,), union((*view.loaded, *published)))
    if gaps:
        shown = ", ".join(_blocks(gap) for gap in gaps[:_LISTED_GAPS])
        more = f" and {len(gaps) - _LISTED_GAPS:,} more" if len(gaps) > _LISTED_GAPS else ""
        yield tag("p", f"No segment holds blocks {shown}{more}.", class_="warning")


def _segments(view: ArchiveView, base: str) -> Html:
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
    state = "published" if count == len(HISTORY_TABLES) else "loaded"
    what = f"{count} of {len(HISTORY_TABLES)} tables published"
    size = f"{segment.rows:,} rows, {_size(segment.bytes)} of CSV"
    summary = tag(
        "summary",
        tag("i", "", class_=f"mark {state}"),
        tag("b", _blocks(segment.blocks)),
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
            made = tag("a", "made on request", href=f"{base}{_EXPORT}?{query}")
            yield name, made, "", "", ""
            continue
        path = f"{folder}/{entry.path}"
        links = joined(
            link(path, entry.path.rpartition("/")[2]), " ", link(f"{path}.sha256", ".sha256")
        )
        yield name, links, f"{entry.rows:,}", _size(entry.bytes), tag("code", entry.sha256)


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


def _blocks(blocks: BlockRange) -> str:
    return f"{blocks.first:,} to {blocks.last:,}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
