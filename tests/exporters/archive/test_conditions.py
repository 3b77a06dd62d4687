"""The condition of every day: what is missing, pending and replaced says so, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.archive.archive import Archive
from exporters.archive.conditions import Condition, DayCondition, day_conditions
from exporters.archive.documents import refresh
from exporters.archive.entries import Csv, Entry
from exporters.archive.index import ArchiveIndex, ShardSummary, index_bytes, parse_index
from exporters.archive.revisions import Revision
from exporters.archive.shards import Shard, shard_number
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from exporters.zip_names import csv_name, zip_name
from exporters.zips.runs import Run
from tests.archive_kit import (
    CHAIN,
    THREE,
    block_time,
    copied_archive,
    part_request,
    schema,
    segment_requests,
    segment_source,
    verify_archive,
)
from tests.duckdb15_kit import asked_over_http
from tests.page_kit import Page
from tests.web_files_kit import WebFiles
from tests.web_kit import web_server
from transforms.block_range import BlockRange
from transforms.bounds import rfc3339
from transforms.lake.public_views import PublicLake
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES
from transforms.warehouse.log.snapshot import Snapshot

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BLOCKS_A_DAY = 86_400  # the kit's blocks are a second apart, the first day begins with block 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five days: a gap from the second to the fourth, and only three tables on the last two."""
    folder = tmp_path_factory.mktemp("model")
    archive = Archive(FolderStore(folder / "store"), CHAIN)
    publish_zips(archive, segment_requests(folder, 1, 80_000))
    publish_zips(archive, segment_requests(folder, 80_001, 100_000))
    publish_zips(archive, segment_requests(folder, 300_001, 345_000))
    publish_zips(archive, segment_requests(folder, 345_001, 350_000, THREE))
    return folder / "store"


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return copied_archive(model, tmp_path)


def rows(archive: Archive) -> list[tuple[object, ...]]:
    document = json.loads(archive.read("conditions.json") or b"")
    assert (document["format"], document["chain_id"]) == (2, CHAIN)
    assert all(len(row) == 6 for row in document["days"])
    return [tuple(row.values()) for row in document["days"]]


def test_each_day_says_what_is_missing_and_what_may_come(archive: Archive) -> None:
    gap = "missing: blocks 100001 to 300000"
    newest = f"newest block 350000, made {block_time(350_000)}"
    lacking = sorted(set(HISTORY_TABLES) - set(THREE))
    lack = f"missing: blocks 345001 to 350000 of {', '.join(lacking[:3])} and 9 more"
    assert rows(archive) == [
        ("2023-01-01", "available", 1, 100_000, None, None),
        ("2023-01-02", "degraded", 80_001, 100_000, None, gap),
        ("2023-01-03", "missing", None, None, None, gap),
        (
            *("2023-01-04", "degraded", 300_001, 350_000, None),
            "missing: blocks 100001 to 300000, 345001 to 350000",
        ),
        ("2023-01-05", "pending", 345_001, 350_000, None, f"{newest}; {lack}"),
    ]


def test_a_gap_that_is_filled_is_gone_from_the_days(archive: Archive, tmp_path: Path) -> None:
    publish_zips(archive, segment_requests(tmp_path, 100_001, 200_000))
    publish_zips(archive, segment_requests(tmp_path, 200_001, 300_000))
    publish_zips(archive, segment_requests(tmp_path, 345_001, 350_000))
    assert [row[1] for row in rows(archive)] == ["available"] * 4 + ["pending"]
    # A segment of more than a day has the day between its ends, too.
    assert rows(archive)[2][2:4] == (100_001, 300_000)
    assert list(verify_archive(archive)) == []


def test_a_day_with_a_file_that_was_replaced_stays_available_and_says_why(
    archive: Archive, tmp_path: Path
) -> None:
    for number, tables in enumerate([THREE, THREE[1:], THREE, THREE[:1]]):
        parts = [part_request(tmp_path, t, 1, 80_000, salt=f"s{number}") for t in tables]
        correction = Correction(f"typo {number}", NOON + timedelta(days=number))
        publish_zips(archive, parts, correction=correction)
    first, second = rows(archive)[:2]
    assert first == (
        *("2023-01-01", "available", 1, 100_000, "2026-02-03T12:00:00Z"),
        "replaced 2026-02-03: blocks (typo 3); replaced 2026-02-02: blocks, orders, trades "
        "(typo 2); replaced 2026-02-01: orders, trades (typo 1); 1 earlier",
    )
    assert second[4] is None
    assert list(verify_archive(archive)) == []


def test_sql_over_http_gives_each_day_as_it_is_now(archive: Archive, tmp_path: Path) -> None:
    database = tmp_path / "store" / CHAIN / "strata.duckdb"
    query = "from strata.conditions"
    with web_server(tmp_path / "store") as url:
        snapshot, folder = Snapshot(chain_id=CHAIN), f"{url}/{CHAIN}"
        lake = PublicLake(snapshot, folder, f"{folder}/conditions.json")
        lake.write_database(database, tmp_path)
        with duckdb.connect() as con:
            con.register_filesystem(WebFiles())
            con.execute(f"attach '{database}' as vega (read_only); use vega")
            con.execute("set timezone = 'Asia/Kolkata'")
            days = con.execute(query).fetchall()
            assert [as_documented(row) for row in days] == rows(archive)

            part = part_request(tmp_path, "trades", 1, 80_000, salt="corrected")
            publish_zips(archive, [part], correction=Correction("typo", NOON))

            days = con.execute(query).fetchall()
            assert [as_documented(row) for row in days] == rows(archive)
            assert days[0][4] == NOON
        (over_http,) = asked_over_http(f"{url}/{CHAIN}/strata.duckdb", [query])
        assert over_http == json.loads(json.dumps(days, default=str))


def as_documented(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row of the view with the texts that the document has for its times."""
    day, *middle, at, reason = row
    assert isinstance(day, date)
    moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(at, datetime) else at
    return (day.isoformat(), *middle, moment, reason)


def test_a_first_block_after_the_first_of_the_chain_is_said(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1001, 90_000))
    assert rows(archive) == [
        ("2023-01-01", "degraded", 1001, 90_000, None, "begins with block 1001"),
        (
            *("2023-01-02", "pending", 1001, 90_000, None),
            f"newest block 90000, made {block_time(90_000)}",
        ),
    ]


def test_without_times_there_are_no_days(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 1000, ["orders"]))
    assert rows(archive) == []
    assert "All days" not in (archive.read("index.html") or b"").decode()


def test_damaged_revisions_leave_the_days_without_them(archive: Archive, tmp_path: Path) -> None:
    before = archive.read("conditions.json")
    part = part_request(tmp_path, "orders", 1, 80_000, salt="other")
    publish_zips(archive, [part], correction=Correction("a typo", NOON))
    assert archive.read("conditions.json") != before
    (tmp_path / "store" / CHAIN / "revisions.json").write_bytes(b"{")
    refresh(archive, [0])
    assert archive.read("conditions.json") == before


def test_the_page_names_each_day_of_which_there_is_something_to_say(archive: Archive) -> None:
    page = Page(archive.read("index.html") or b"")
    for day, condition, first, last, _, reason in rows(archive):
        blocks = f", blocks {first:,} to {last:,}" if first else ""
        assert (f"{day} {condition}{blocks}; {reason}" in page.text) == bool(reason)
    assert "conditions.json" in page.links


def test_duckdb_reads_the_days_as_rows(archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "store" / CHAIN / "conditions.json"
    query = f"""
        select date, condition, "from", "to", last_modified, reason
        from (select unnest(days, recursive := true) from read_json('{path}'))
        where condition = 'missing'
    """
    assert duckdb.execute(query).fetchall() == [
        (
            *(date(2023, 1, 3), "missing", None, None, None),
            "missing: blocks 100001 to 300000",
        )
    ]


@dataclass(frozen=True)
class MadeSegment:
    """A segment of an invented history: its blocks, their times, and what is published of it."""

    blocks: BlockRange
    start: datetime
    end: datetime
    tables: tuple[str, ...]

    def is_of(self, day: date) -> bool:
        return self.start.date() <= day <= self.end.date()

    @property
    def is_whole(self) -> bool:
        return self.tables == HISTORY_TABLES

    def entries(self) -> list[Entry]:
        times = tuple(rfc3339(round(t.timestamp() * 1e6)) for t in (self.start, self.end))
        return [self._entry(table, (times[0], times[1])) for table in self.tables]

    def _entry(self, table: str, times: tuple[str, str]) -> Entry:
        csv = Csv(
            *(csv_name(CHAIN, table, 1, self.blocks), 1, 1, "aa" * 32),
            *(schema(table), (Run(1, 1, 1), Run(1, 1, 1)), times if table == "blocks" else None),
        )
        path = f"{table}/{zip_name(CHAIN, table, self.blocks)}"
        return Entry(table, path, 1, "bb" * 32, segment_source(self.blocks), csv)


_PUBLISHED = st.sampled_from(
    [HISTORY_TABLES, HISTORY_TABLES, (), ("blocks",), ("orders", "trades")]
)
_SECONDS = st.sampled_from([0, 60, 3_600, 43_200, 86_399, 86_400, 300_000])


@st.composite
def histories(draw: st.DrawFn) -> list[MadeSegment]:
    height, clock = 1, datetime(2023, 1, 1, tzinfo=UTC) + timedelta(seconds=draw(_SECONDS))
    segments = []
    for _ in range(draw(st.integers(1, 12))):
        length, lasting = draw(st.sampled_from([1, 300, 9_000, 25_000])), draw(_SECONDS)
        end = clock + timedelta(seconds=lasting)
        blocks = BlockRange(height, height + length - 1)
        segments.append(MadeSegment(blocks, clock, end, draw(_PUBLISHED)))
        height, clock = height + length, end + timedelta(seconds=1 + draw(_SECONDS))
    return segments


def index_of(segments: Sequence[MadeSegment]) -> ArchiveIndex:
    """The index of what is published, as whoever reads it gets it."""
    entries = [entry for segment in segments for entry in segment.entries()]
    entries.sort(key=lambda entry: shard_number(entry.blocks))
    shards = groupby(entries, key=lambda entry: shard_number(entry.blocks))
    summaries = [ShardSummary.of(Shard(CHAIN, n, tuple(zips)), b"") for n, zips in shards]
    return parse_index(index_bytes(ArchiveIndex(CHAIN).including(summaries)), "the index")


@given(histories())
def test_whatever_is_published_no_day_with_a_hole_is_available_and_no_whole_one_is_not(
    segments: list[MadeSegment],
) -> None:
    timed = [segment for segment in segments if "blocks" in segment.tables]
    found = day_conditions(index_of(segments), ())
    if not timed:
        assert found == []
        return
    first, last = timed[0].start.date(), timed[-1].end.date()
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    assert [row.day for row in found] == days
    start = next(s for s in segments if s.tables).blocks.first
    newest = max(n for n, segment in enumerate(segments) if segment.tables)
    published = [s for s in segments[: newest + 1] if s.blocks.first >= start]
    for row in found:
        check_row(row, published, timed, last)
    assert (found[0].condition is not Condition.AVAILABLE) or start == 1


def check_row(
    row: DayCondition, published: list[MadeSegment], timed: list[MadeSegment], last: date
) -> None:
    """Hold a day against all segments between the first and the last one that is published."""
    here = [segment.blocks for segment in timed if segment.is_of(row.day)]
    whole = BlockRange(here[0].first, here[-1].last) if here else None
    assert row.blocks == whole
    assert (row.condition is Condition.PENDING) == (row.day == last)
    assert (row.condition is Condition.AVAILABLE) <= (row.reason in (None, "no block was made"))
    of_day = [segment for segment in published if segment.is_of(row.day)]
    if not all(segment.is_whole for segment in of_day):
        assert row.condition is not Condition.AVAILABLE
    if row.condition is Condition.MISSING:
        assert not here
    around = [s for s in published if may_be_of(s, row.day, timed)]
    if all(s.is_whole for s in around) and published[0].blocks.first == 1:
        assert row.condition in (Condition.AVAILABLE, Condition.PENDING)


def may_be_of(segment: MadeSegment, day: date, timed: list[MadeSegment]) -> bool:
    """Whether a segment may have blocks of a day, for who knows the times of published ones."""
    if "blocks" in segment.tables:
        return segment.is_of(day)
    before = [s.end.date() for s in timed if s.blocks.last < segment.blocks.first]
    after = [s.start.date() for s in timed if s.blocks.first > segment.blocks.last]
    return max(before, default=date.min) <= day <= min(after, default=date.max)


def test_one_senseless_time_does_not_make_millions_of_rows() -> None:
    times = (datetime(1, 1, 1, tzinfo=UTC), datetime(2023, 1, 1, tzinfo=UTC))
    segments = [
        MadeSegment(BlockRange(n, n), time, time, HISTORY_TABLES) for n, time in enumerate(times)
    ]
    found = day_conditions(index_of(segments), ())
    assert [row.day for row in found] == [date(1, 1, 1), date(2023, 1, 1)]


def test_the_newest_block_is_pending_whatever_time_another_one_has() -> None:
    noon, last = datetime(2023, 1, 1, 12, tzinfo=UTC), datetime(9999, 12, 31, 12, tzinfo=UTC)
    times = ((noon, last), (noon, noon))
    segments = [
        MadeSegment(BlockRange(n * 10 + 1, n * 10 + 10), *ends, HISTORY_TABLES)
        for n, ends in enumerate(times)
    ]
    first, second = day_conditions(index_of(segments), ())
    assert (first.day, first.condition) == (date(2023, 1, 1), Condition.PENDING)
    assert first.reason == "newest block 20"
    assert (second.day, second.condition) == (date.max, Condition.AVAILABLE)


def test_days_between_segments_are_bounded_in_all() -> None:
    days = [datetime(1900, 1, 1, tzinfo=UTC) + timedelta(days=900 * n) for n in range(20)]
    segments = [MadeSegment(BlockRange(n, n), d, d, HISTORY_TABLES) for n, d in enumerate(days)]
    found = [row.day for row in day_conditions(index_of(segments), ())]
    assert {day.date() for day in days} <= {*found}
    assert len(found) == 20 + 11 * 899


def test_a_revision_whose_path_is_no_zip_is_of_no_day() -> None:
    day = datetime(2023, 1, 1, tzinfo=UTC)
    index = index_of([MadeSegment(BlockRange(1, 9), day, day, HISTORY_TABLES)])
    event = Revision("orders/what.zip", "aa", "bb", "why", NOON)
    assert day_conditions(index, [event]) == day_conditions(index, [])


def test_times_that_go_backwards_still_give_days() -> None:
    moments = [datetime(2023, 1, n, tzinfo=UTC) for n in (9, 1, 5)]
    segments = [
        MadeSegment(BlockRange(n * 10, n * 10 + 9), time, time, HISTORY_TABLES)
        for n, time in enumerate(moments, 1)
    ]
    assert len(day_conditions(index_of(segments), ())) == 9
