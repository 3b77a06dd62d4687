"""The CSVs of a shard as columns: they say what its entries say, and refuse what these refuse."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporters.archive.csv_columns import CsvColumns, ZipRow
from exporters.archive.entries import Csv, Entry
from exporters.archive.shards import Shard, table_columns
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.runs import Run
from tests.archive_kit import CHAIN, resealed, schema, segment_source
from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError

SEGMENTS = (BlockRange(1, 10), BlockRange(11, 13), BlockRange(14, 20))


def entry(blocks: BlockRange, number: int = 1, style: NameStyle = NameStyle.SPEC) -> Entry:
    """The entry of a segment, with numbers that no other one has."""
    name = csv_name(CHAIN, "orders", 1, blocks, style)
    runs = (Run(7 + number, 90, 1), Run(2**33 * number, 4000 + number, 2**32 - number))
    csv = Csv(name, number, 100, "ab" * 32, schema("orders"), runs)
    path = f"orders/{zip_name(CHAIN, 'orders', blocks, style)}"
    return Entry("orders", path, 1000 + blocks.last, "0c" * 32, segment_source(blocks), csv)


SHARD = Shard(
    CHAIN,
    0,
    (
        entry(SEGMENTS[0]),
        entry(SEGMENTS[1], 2),
        entry(SEGMENTS[2], 3, style=NameStyle.REFERENCE),
    ),
)


def read(data: bytes) -> CsvColumns:
    return table_columns(data, "orders", "here", CHAIN, 0)


def test_the_columns_say_what_the_entries_say() -> None:
    data = SHARD.to_bytes()
    csvs = read(data)
    assert len(csvs) == len(SHARD.entries) == 3
    for row, item in enumerate(SHARD.entries):
        zip_row = ZipRow(csvs, row)
        names = ("table", "path", "bytes", "sha256", "blocks", "member")
        assert [getattr(zip_row, n) for n in names] == [getattr(item, n) for n in names]
        assert csvs.schemas[row] == item.csv.schema
        assert csvs.csv_sha256[32 * row : 32 * (row + 1)].hex() == item.csv.sha256
        assert csvs.offsets[row] == item.member.data_offset
    assert not len(table_columns(data, "trades", "here", CHAIN, 0))


def test_joined_columns_are_the_rows_of_all() -> None:
    csvs = read(SHARD.to_bytes())
    twice = CsvColumns.joined("orders", [csvs, csvs])
    members = [item.member for item in SHARD.entries]
    assert [ZipRow(twice, row).member for row in range(6)] == 2 * members


def test_lines_that_another_program_wrote_are_refused() -> None:
    document = json.loads(SHARD.to_bytes())
    del document["sha256"]
    indented = resealed(json.dumps(document, indent=1).encode() + b"\n")
    with pytest.raises(IntegrityError, match="its lines are not those that Strata writes"):
        read(indented)


@each_of(
    ("old", "new"),
    [
        ('"bytes":1010', f'"bytes":{2**63}'),
        ('"bytes":1010', '"bytes":1010.5'),
        ('"bytes":1010', '"bytes":"1010"'),
        ("0c" * 32, "0c" * 31),
        ("0c" * 32, "0x" * 32),
        ("0c" * 32, "0c" * 31 + "  "),
        ('"header":[8,90,1]', '"header":[8,90]'),
        ('"schema":"', '"schema":"0'),
        ('"from":1,"to":10', '"from":10,"to":1'),
    ],
)
def test_an_entry_with_impossible_values_is_damage(old: str, new: str) -> None:
    text = Shard(CHAIN, 0, SHARD.entries[:1]).to_bytes().decode()
    assert old in text
    with pytest.raises(IntegrityError, match="here is no document of format 2"):
        read(resealed(text.replace(old, new).encode()))


def test_an_entry_of_another_shard_or_chain_is_refused() -> None:
    with pytest.raises(IntegrityError, match="does not belong into this shard"):
        table_columns(SHARD.to_bytes(), "orders", "here", CHAIN, 1)
    with pytest.raises(IntegrityError, match="is not named as one of chain other"):
        table_columns(SHARD.to_bytes(), "orders", "here", "other", 0)
    stray = replace(SHARD.entries[0], csv=SHARD.entries[1].csv)
    with pytest.raises(IntegrityError, match="is not named as one of chain"):
        read(Shard(CHAIN, 0, (stray,)).to_bytes())
