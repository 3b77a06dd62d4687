"""First and last times of blocks: from the ZIP into shard, index and page, and verified."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.index import ShardSummary, index_bytes, parse_index
from exporters.archive.shards import Shard
from exporters.publishing.publication import publish_zips
from exporters.publishing.request import PublishRequest, block_times
from exporters.zip_names import csv_name, zip_name
from exporters.zips.part_zip import write_part_zip
from exporters.zips.reader import read_members
from exporters.zips.sources import LocalSource
from tests.archive_kit import CHAIN, part_request, schema, segment_source, shard_file
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore

_HASH = "\\x" + "ab" * 32


def blocks_request(folder: Path, first: int, times: list[str]) -> PublishRequest:
    """The ZIP of the blocks of a segment, one for each time."""
    blocks, columns = BlockRange(first, first + max(len(times), 1) - 1), schema("blocks")
    rows = (f"{time},{first + at},{_HASH}\n" for at, time in enumerate(times))
    body = "".join(rows).encode()
    path = folder / "parts" / zip_name(CHAIN, "blocks", blocks)
    name = csv_name(CHAIN, "blocks", 1, blocks)
    part = write_part_zip(path, name, columns.header, [body], len(times))
    sha256 = hashlib.sha256(columns.header + body).hexdigest()
    source = segment_source(blocks)
    return PublishRequest(path, part.member, source, columns, sha256, part.sha256)


def times_of(folder: Path, times: list[str]) -> tuple[str, str] | None:
    source = LocalSource.open(blocks_request(folder, 1, times).content)
    (member,) = read_members(source)
    return block_times(source, member, schema("blocks"))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (
            ["2023-06-01 00:00:01+00", "2023-06-01 00:00:02.5+00", "2023-06-01 00:00:03.25+00"],
            ("2023-06-01T00:00:01.000000Z", "2023-06-01T00:00:03.250000Z"),
        ),
        (["2023-06-01 00:00:01+00"], ("2023-06-01T00:00:01.000000Z",) * 2),
        (
            [
                f"2023-06-01 {at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}+00"
                for at in range(50_000)
            ],
            ("2023-06-01T00:00:00.000000Z", "2023-06-01T13:53:19.000000Z"),
        ),
        ([], None),
        (["infinity"], None),
        (["2023-06-01 00:00:01+00", ""], ("2023-06-01T00:00:01.000000Z",) * 2),
        (["2023-06-01 00:00:01+00", "é"], ("2023-06-01T00:00:01.000000Z",) * 2),
    ],
    ids=["three", "one", "many", "none", "no time", "no last one", "odd"],
)
def test_the_times_are_those_of_the_first_and_last_row(
    tmp_path: Path, times: list[str], expected: tuple[str, str] | None
) -> None:
    assert times_of(tmp_path, times) == expected


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Blocks 1-2, 3-4 and 20001-20002, the last two without trades."""
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(
        archive,
        [
            blocks_request(tmp_path, 1, ["2023-06-01 00:00:01+00", "2023-06-01 00:00:02+00"]),
            blocks_request(tmp_path, 3, ["2023-06-01 00:00:03+00", "2023-06-01 00:00:04+00"]),
            blocks_request(tmp_path, 20001, ["2023-06-02 00:00:00+00", "2023-06-02 00:00:01+00"]),
            part_request(tmp_path, "trades", 1, 2),
        ],
    )
    return archive


def test_shard_index_and_page_say_them(archive: Archive) -> None:
    zips = json.loads(archive.store.read(archive.key(shard_file(archive))))["zips"]
    said = {(entry["table"], entry["from"]): entry["csv"].get("last_time") for entry in zips}
    assert said == {
        ("blocks", 1): "2023-06-01T00:00:02.000000Z",
        ("blocks", 3): "2023-06-01T00:00:04.000000Z",
        ("trades", 1): None,
    }
    index = archive.index()
    ends = ("2023-06-01T00:00:01.000000Z", "2023-06-02T00:00:01.000000Z")
    assert index.times == ends
    assert [shard.times for shard in index.shards.values()] == [
        (ends[0], "2023-06-01T00:00:04.000000Z"),
        ("2023-06-02T00:00:00.000000Z", ends[1]),
    ]
    document = json.loads(index_bytes(index))
    assert (document["first_time"], document["last_time"]) == ends
    assert parse_index(index_bytes(index), "index.json").times == ends
    page = (archive.read("index.html") or b"").decode()
    assert "First block at" in page
    assert "2023-06-01 00:00" in page
    assert "2023-06-02 00:00" in page


def write(archive: Archive, shard: Shard) -> None:
    path = Path(archive.store.describe(f"{CHAIN}/index/{shard.blocks.first:09d}.json"))
    path.write_bytes(shard.to_bytes())
    assert ShardSummary.of(shard, shard.to_bytes()).number == shard.number
    refresh(archive, [shard.number])
