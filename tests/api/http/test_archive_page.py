"""The server's page of the archive, from values: that it escapes, and what it says of nothing."""

from __future__ import annotations

from api.http.pages.html import archive_page
from api.http.pages.view import ArchiveView
from exporters.archive.entries import Csv, Entry, SegmentSource
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.shards import Shard
from exporters.archive.sums import completeness
from exporters.zips.runs import Run
from tests.page_kit import HOSTILE, Page
from transforms.blocks import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.names import SegmentName
from transforms.tables.registry import known_table
from transforms.warehouse.receipts import LoadedSegment

_BLOCKS = BlockRange(1, 20)
_FILE = "<b>'&\".zip"
_RUNS = (Run(1, 1, 1), Run(1, 1, 1))


def hostile_view() -> ArchiveView:
    known = known_table("orders", 1)
    assert known is not None
    member = Csv(HOSTILE, 1, _BLOCKS, 3, 9, HOSTILE, known.schema, _RUNS)
    source = SegmentSource(_BLOCKS, 1, HOSTILE, HOSTILE, HOSTILE)
    entry = Entry("orders", f"orders/{_FILE}", 9, HOSTILE, (source,), (member,))
    index = ArchiveIndex(HOSTILE).including([ShardSummary.of(Shard(HOSTILE, 0, (entry,)), b"")])
    info = ObjectInfo(HOSTILE, 9, HOSTILE)
    name = SegmentName(HOSTILE, 1, _BLOCKS)
    segment = LoadedSegment(name, info, HOSTILE, HOSTILE, HOSTILE, 3, 9)
    files = {_BLOCKS: {"orders": entry}}
    extent = completeness(index.tables)
    return ArchiveView(HOSTILE, (_BLOCKS,), 1, index, extent, [segment], files, 21, None)


def test_everything_is_escaped() -> None:
    page = Page(archive_page(hostile_view(), "."))
    assert page.elements.count("script") == 1  # its own
    assert ("data-chain", HOSTILE) in page.attributes
    assert f"Segment {HOSTILE} SHA-256 of the segment file {HOSTILE}" in page.text
    assert _FILE in page.text
    assert f"{HOSTILE}: network history" in page.text
    assert not {'"', "'", "<"} & set("".join(page.links))


def test_the_page_of_an_empty_warehouse_says_so() -> None:
    view = ArchiveView("", (), 0, ArchiveIndex(""), completeness({}), [], {}, None, None)
    page = Page(archive_page(view, "."))
    assert "Nothing is loaded yet: run `strata run`" in page.text
    assert "Published untilnothing yet" in page.text
    assert page.elements.count("form") == 0


def test_of_many_gaps_the_first_are_listed_and_the_rest_counted() -> None:
    runs = tuple(BlockRange(start, start + 4) for start in range(10, 1_010, 10))
    view = ArchiveView("net", runs, 100, ArchiveIndex("net"), completeness({}), [], {}, None, None)
    text = Page(archive_page(view, ".")).text
    assert "No segment holds blocks 15 to 19, 25 to 29, " in text
    assert "505 to 509 and 49 more." in text
