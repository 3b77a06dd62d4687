"""The server's page of the archive, from values: that it escapes, and what it says of nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from api.http.archive_page import ArchiveView, archive_page
from exporters.archive.entries import Csv, Entry, SegmentSource
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.revisions import Revision
from exporters.archive.shards import Shard
from exporters.zips.runs import Run
from tests.page_kit import HOSTILE, Page
from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import known_table
from transforms.warehouse.manifests.receipts import LoadedSegment

_BLOCKS = BlockRange(1, 20)
_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
_RUNS = (Run(1, 1, 1), Run(1, 1, 1))


def loaded_segment(chain_id: str, blocks: BlockRange, text: str) -> LoadedSegment:
    name = SegmentName(chain_id, 1, blocks)
    return LoadedSegment(name, ObjectInfo(text, 9, text), "", text, text, text, 3, 9)


def hostile_view() -> ArchiveView:
    known = known_table("orders", 1)
    assert known is not None
    member = Csv(HOSTILE, 3, 9, HOSTILE, known.schema, _RUNS)
    source = SegmentSource(_BLOCKS, 1, HOSTILE, HOSTILE, HOSTILE)
    entry = Entry("orders", f"orders/{HOSTILE}", 9, HOSTILE, source, member)
    index = ArchiveIndex(HOSTILE).including([ShardSummary.of(Shard(HOSTILE, 0, (entry,)), b"")])
    replaced = Revision(f"{HOSTILE}/x.zip", HOSTILE, HOSTILE, HOSTILE, _NOON)
    return ArchiveView(index, [replaced], [loaded_segment(HOSTILE, _BLOCKS, HOSTILE)])


def test_everything_is_escaped() -> None:
    page = Page(archive_page(hostile_view(), "."))
    assert page.elements.count("script") == 1  # its own
    assert ("data-chain", HOSTILE) in page.attributes
    assert HOSTILE * 2 in page.text  # id and hash of the segment
    assert f"{HOSTILE}: network history" in page.text
    assert not {'"', "'", "<"} & set("".join(page.links))


def test_the_page_of_an_empty_warehouse_says_so() -> None:
    page = Page(archive_page(ArchiveView(ArchiveIndex("")), "."))
    assert "Nothing is loaded yet: run `strata run`" in page.text
    assert "Nothing is published yet." in page.text
    assert page.elements.count("form") == 0
    assert not [link for link in page.links if "archive/" in link]


def test_of_many_gaps_the_first_are_listed_and_the_rest_counted() -> None:
    runs = [BlockRange(start, start + 4) for start in range(10, 1_010, 10)]
    segments = [loaded_segment("net", blocks, "aa") for blocks in runs]
    text = Page(archive_page(ArchiveView(ArchiveIndex("net"), (), segments), ".")).text
    assert "No segment holds blocks 15 to 19, 25 to 29, " in text
    assert "505 to 509 and 49 more." in text
