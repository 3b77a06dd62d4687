"""What is there of each table, as bars over one axis: published, loaded only, missing."""

from __future__ import annotations

from collections.abc import Iterator

from api.http.pages.text import blocks_text, size_text
from api.http.pages.view import ArchiveView
from exporters.archive.coverage import Coverage, difference, union
from exporters.archive.markup import Html, joined, table, tag
from exporters.archive.sums import TableSums
from transforms.blocks import BlockRange
from transforms.tables.registry import HISTORY_TABLES

_BAR = 1000
_THINNEST = 3  # of the bar's thousand: one missing block in a million must be seen
_LISTED_GAPS = 50


def coverage(view: ArchiveView, held: BlockRange) -> Html:
    """The section: a bar, counts and sizes for every table, and where no segment is."""
    tables = view.root.tables
    axis = tag("div", tag("span", f"{held.first:,}"), tag("span", f"{held.last:,}"), class_="axis")
    rows = [("", axis, "", "", "", "")]
    rows += [
        (
            name,
            _bar(held, view.loaded, tables[name].covered),
            _missing(held, tables[name]),
            f"{tables[name].zips + tables[name].windows:,}",
            f"{tables[name].rows:,}",
            size_text(tables[name].bytes + tables[name].window_bytes),
        )
        for name in HISTORY_TABLES
    ]
    heads = ("table", "blocks", "#not published", "#ZIPs", "#rows", "#size")
    marks = (("published", "published"), ("loaded", "loaded only"), ("gap", "missing"))
    legend = tag(
        "p",
        *(joined(tag("i", "", class_=f"mark {kind}"), f"{text} ") for kind, text in marks),
        class_="legend",
    )
    return tag(
        "section", tag("h2", "What is there"), legend, table(heads, rows), *_gaps(view, held)
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
    label = f"published: {', '.join(map(blocks_text, published[:3])) or 'none'}"
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
        shown = ", ".join(blocks_text(gap) for gap in gaps[:_LISTED_GAPS])
        more = f" and {len(gaps) - _LISTED_GAPS:,} more" if len(gaps) > _LISTED_GAPS else ""
        yield tag("p", f"No segment holds blocks {shown}{more}.", class_="warning")
