"""The CSVs of a shard as columns: they say what its entries say, and refuse what these refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from exporters.archive.csv_columns import CsvColumns
from exporters.archive.entries import Csv, Entry
from exporters.archive.shards import Shard, table_columns, table_entries
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.runs import Run
from tests.archive_kit import CHAIN, resealed, schema, segment_source
from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError

SEGMENTS = (BlockRange(1, 10), BlockRange(11, 13), BlockRange(14, 20))


def csv(blocks: BlockRange, number: int, style: NameStyle = NameStyle.SPEC) -> Csv:
    """A CSV with numbers that no other one has."""
    name = csv_name(CHAIN, "orders", number, blocks, style)
    runs = (Run(7 + number, 90, 1), Run(2**33 * number, 4000 + number, 2**32 - number))
    return Csv(name, number, blocks, number, 100, "ab" * 32, schema("orders"), runs)


def entry(*blocks: BlockRange, style: NameStyle = NameStyle.SPEC) -> Entry:
    """The entry of a ZIP with a CSV for each of these segments."""
    whole = BlockRange(blocks[0].first, blocks[-1].last)
    path = f"orders/{zip_name(CHAIN, 'orders', whole, style)}"
    members = tuple(csv(run, number, style) for number, run in enumerate(blocks, 1))
    sources = tuple(map(segment_source, blocks))
    return Entry("orders", path, 1000 + whole.last, "0c" * 32, sources, members)


SHARD = Shard(
    CHAIN,
    0,
    (
        *map(entry, SEGMENTS[:2]),
        entry(*SEGMENTS[:2]),
        entry(SEGMENTS[2], style=NameStyle.REFERENCE),
        entry(*SEGMENTS),
    ),
)


def indented(shard: Shard) -> bytes:
    """The document as somebody's editor writes it."""
    document = json.loads(shard.to_bytes())
    del document["sha256"]
    return resealed(json.dumps(document, indent=1).encode() + b"\n")


def read(data: bytes) -> CsvColumns:
    return table_columns(data, "orders", "here", CHAIN, 0)


@pytest.mark.parametrize("write", [Shard.to_bytes, indented])
def test_the_columns_say_what_the_entries_say(write: Callable[[Shard], bytes]) -> None:
    data = write(SHARD)
    assert table_entries(data, "orders", "here", CHAIN, 0) == SHARD.entries
    csvs = read(data)
    members = [(item, member) for item in SHARD.entries for member in item.members]
    assert len(csvs) == len(members) == 8
    for row, (item, member) in enumerate(members):
        zip_row = csvs.zip_of(row)
        names = ("table", "path", "bytes", "sha256", "blocks", "zip_members")
        assert [getattr(zip_row, n) for n in names] == [getattr(item, n) for n in names]
        assert (csvs.firsts[row], csvs.lasts[row]) == (member.blocks.first, member.blocks.last)
        assert csvs.schemas[row] == member.schema
        assert csvs.offsets[row] == csvs.member(row).data_offset
        assert csvs.member(row) == item.zip_members[item.members.index(member)]
    assert not len(table_columns(data, "trades", "here", CHAIN, 0))


def test_joined_columns_are_the_rows_of_all() -> None:
    csvs = read(SHARD.to_bytes())
    twice = CsvColumns.joined("orders", [csvs, csvs])
    assert [twice.member(row) for row in range(16)] == 2 * [csvs.member(row) for row in range(8)]
    assert [twice.zip_of(row).zip_members for row in (12, 15)] == [
        SHARD.entries[at].zip_members for at in (2, 4)
    ]


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
        ('"segments":[', '"segments":[],"others":['),
        ('"schema":"', '"schema":"0'),
        ('"from":1,"to":10', '"from":10,"to":1'),
    ],
)
def test_an_entry_with_impossible_values_is_damage(old: str, new: str) -> None:
    text = Shard(CHAIN, 0, SHARD.entries[:1]).to_bytes().decode()
    assert old in text
    with pytest.raises(IntegrityError, match="here is no document of format 1"):
        read(resealed(text.replace(old, new).encode()))


def test_an_entry_of_another_shard_or_chain_is_refused() -> None:
    with pytest.raises(IntegrityError, match="does not belong into this shard"):
        table_columns(SHARD.to_bytes(), "orders", "here", CHAIN, 1)
    with pytest.raises(IntegrityError, match="is not named as one of chain other"):
        table_columns(SHARD.to_bytes(), "orders", "here", "other", 0)
    stray = replace(SHARD.entries[0], members=(csv(BlockRange(1, 9), 1),))
    with pytest.raises(IntegrityError, match="has pieces that are not blocks 1-10"):
        read(Shard(CHAIN, 0, (stray,)).to_bytes())
