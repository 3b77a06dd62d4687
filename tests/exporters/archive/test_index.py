"""The index: its bytes, its sums, how far it says the archive is complete."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.archive.entries import Csv, Entry
from exporters.archive.index import ArchiveIndex, ShardSummary, index_bytes, parse_index
from exporters.archive.json_text import written
from exporters.archive.shards import SHARD_BLOCKS, Shard, shard_number, shard_path, table_columns
from exporters.archive.sums import completeness
from exporters.zip_names import NameStyle, csv_name, zip_name
from exporters.zips.runs import Run
from tests.archive_kit import CHAIN, resealed, schema, segment_source
from tests.cases import each_of
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError, OtherFormatError
from transforms.sealed import seal_text
from transforms.tables.registry import HISTORY_TABLES

RUNS = (Run(7, 90, 1), Run(80, 4000, 2))


def entry(table: str, ends: tuple[int, int], rows: int = 5, size: int = 100) -> Entry:
    """The entry of a segment."""
    blocks = BlockRange(*ends)
    name = csv_name(CHAIN, table, 1, blocks)
    csv = Csv(name, rows, 10 * rows, "ab" * 32, schema(table), RUNS)
    path = f"{table}/{zip_name(CHAIN, table, blocks)}"
    return Entry(table, path, size, "cd" * 32, segment_source(blocks), csv)


def whole_segments(*segments: tuple[int, int]) -> list[Entry]:
    return [entry(table, blocks) for blocks in segments for table in HISTORY_TABLES]


def index_of(entries: list[Entry]) -> ArchiveIndex:
    shards: dict[int, list[Entry]] = {}
    for item in entries:
        shards.setdefault(shard_number(item.blocks), []).append(item)
    held = [Shard(CHAIN, number, tuple(shards[number])) for number in shards]
    return ArchiveIndex(CHAIN).including(ShardSummary.of(shard, shard.to_bytes()) for shard in held)


def extent(entries: list[Entry]) -> tuple[int | None, list[str], list[str]]:
    """complete_until, the complete runs, the gaps, as the index's JSON says them."""
    found = json.loads(index_bytes(index_of(entries)))
    runs, gaps = (
        [f"{run['from']}-{run['to']}" for run in found[name]] for name in ("complete", "gaps")
    )
    return found["complete_until"], runs, gaps


SEGMENTS = ((1, 1000), (1001, 1087), (1088, 2000))


@each_of(
    ("entries", "expected"),
    [
        ([], (None, [], [])),
        (whole_segments((1, 1000)), (1000, ["1-1000"], [])),
        (whole_segments(*SEGMENTS), (2000, ["1-2000"], [])),
        (whole_segments((501, 1000)), (1000, ["501-1000"], [])),
        (whole_segments((0, 0)), (0, ["0-0"], [])),
        (
            whole_segments((1, 1000), (1088, 2000)),
            (1000, ["1-1000", "1088-2000"], ["1001-1087"]),
        ),
        # one table short: in the middle, at the end, at the very start
        (
            [
                e
                for e in whole_segments(*SEGMENTS)
                if e.path != f"orders/{CHAIN}-orders-1001-1087.zip"
            ],
            (1000, ["1-1000", "1088-2000"], ["1001-1087"]),
        ),
        (
            [*whole_segments((1, 1000)), entry("orders", (1001, 2000))],
            (1000, ["1-1000"], ["1001-2000"]),
        ),
        (
            [entry("orders", (1, 1000)), *whole_segments((1001, 2000))],
            (None, ["1001-2000"], ["1-1000"]),
        ),
        ([entry("orders", (1, 1000))], (None, [], ["1-1000"])),
        # runs join over the border of two shards
        (whole_segments((19001, 20000), (20001, 21000)), (21000, ["19001-21000"], [])),
    ],
)
def test_the_archive_is_complete_until_the_first_block_that_any_table_lacks(
    entries: list[Entry], expected: tuple[int | None, list[str], list[str]]
) -> None:
    assert extent(entries) == expected


@given(st.data())
def test_completeness_agrees_with_counting_every_block(data: st.DataObject) -> None:
    bounds = data.draw(st.lists(st.integers(0, 60), min_size=2, max_size=9, unique=True))
    bounds.sort()
    segments = [(a, b - 1) for a, b in pairwise(bounds)]
    entries = [
        entry(table, blocks)
        for blocks in segments
        for table in data.draw(st.lists(st.sampled_from(HISTORY_TABLES), unique=True))
        + data.draw(st.sampled_from([[], list(HISTORY_TABLES)]))
    ]
    held: dict[str, set[int]] = {table: set() for table in HISTORY_TABLES}
    for item in entries:
        held[item.table] |= set(range(item.blocks.first, item.blocks.last + 1))
    every = set().union(*held.values())
    complete = set.intersection(*held.values())
    until = None
    for block in range(min(every, default=0), max(every, default=-1) + 1):
        if block not in complete:
            break
        until = block

    found = completeness(index_of(entries).tables)
    assert found.until == until
    missing = set(range(min(every), max(every) + 1)) - complete if every else set()
    for runs, blocks in ((found.complete, complete), (found.gaps, missing)):
        assert {b for run in runs for b in range(run.first, run.last + 1)} == blocks


def test_a_table_is_summed_up_over_its_zips() -> None:
    sums = index_of([entry("orders", blocks, rows=7) for blocks in SEGMENTS]).tables["orders"]
    assert (sums.zips, sums.rows, sums.bytes) == (3, 21, 300)
    assert sums.covered == (BlockRange(1, 2000),)


def test_the_same_zips_give_the_same_bytes_in_any_order() -> None:
    entries = whole_segments(*SEGMENTS)
    expected = Shard(CHAIN, 0, tuple(entries)).to_bytes()
    for seed in range(5):
        shuffled = random.Random(seed).sample(entries, len(entries))
        grown = Shard(CHAIN, 0)
        for start in range(0, len(shuffled), 7):
            grown = grown.including(shuffled[start : start + 7])
        assert grown.including(entries).to_bytes() == expected


def test_a_shard_reads_back_as_it_was_written() -> None:
    blocks = BlockRange(21001, 22000)
    segment = replace(segment_source(blocks, 21), previous_id="Qm20001")
    name = csv_name(CHAIN, "orders", 21, blocks)
    csv = Csv(name, 2, 30, "ab" * 32, schema("orders", 21), RUNS)
    path = f"orders/{zip_name(CHAIN, 'orders', blocks)}"
    other = Entry("orders", path, 10, "cd" * 32, segment, csv)
    shard = Shard(CHAIN, 1, (other, *whole_segments((20001, 21000))))
    assert Shard.parse(shard.to_bytes(), "here") == shard


def test_an_index_reads_back_as_it_was_written() -> None:
    uneven = [
        *whole_segments(*SEGMENTS),
        entry("trades", (50000, 50999)),
    ]
    index = index_of(uneven)
    assert parse_index(index_bytes(index), "here") == index


def test_the_documented_fields_are_there() -> None:
    shard = Shard(CHAIN, 0, (entry("orders", (1, 1000)),))
    found = json.loads(shard.to_bytes())
    assert (found["format"], found["chain_id"], found["from"], found["to"]) == (2, CHAIN, 0, 19999)
    assert found["zips"] == [
        {
            "table": "orders",
            "from": 1,
            "to": 1000,
            "path": "orders/net-1-orders-1-1000.zip",
            "bytes": 100,
            "sha256": "cd" * 32,
            "rows": 5,
            "schema_version": 1,
            "segment": {
                "id": "Qm1",
                "previous_id": "",
                "sha256": hashlib.sha256(b"1").hexdigest(),
            },
            "csv": {
                "name": "net-1-orders-1-1-1000.csv",
                "bytes": 50,
                "sha256": "ab" * 32,
                "schema": schema("orders").fingerprint,
                "runs": {"header": [7, 90, 1], "body": [80, 4000, 2]},
            },
        }
    ]
    columns = found["schemas"][schema("orders").fingerprint]
    assert columns[0] == {"name": schema("orders").names[0], "type": "bytea"}

    index = json.loads(index_bytes(index_of([entry("orders", (1, 1000))])))
    assert (index["first_block"], index["last_block"]) == (1, 1000)
    assert index["tables"]["orders"]["covered"] == [{"from": 1, "to": 1000}]
    assert index["tables"]["trades"]["zips"] == 0
    (listed,) = index["shards"]
    assert listed["path"] == f"index/000000000.{listed['sha256'][:16]}.json"
    assert listed["bytes"] == len(shard.to_bytes())
    assert listed["sha256"] == hashlib.sha256(shard.to_bytes()).hexdigest()


def test_a_field_of_a_later_release_is_passed_over() -> None:
    shard = Shard(CHAIN, 0, (entry("orders", (1, 1000)),))
    found = json.loads(shard.to_bytes())
    found["zips"][0]["colour"] = "blue"
    assert Shard.parse(resealed(written(found)), "here") == shard


@each_of(
    "data",
    [b"", b"{", b"[]", b"null", b"{}", b'{"format":2}', b'{"format":2,"chain_id":"x"}', b"\xff"],
)
def test_a_damaged_index_is_named_and_not_guessed_at(data: bytes) -> None:
    sentence = r"^s3://b/index.json is no (whole )?document.*: strata publish makes it again$"
    for read in (Shard.parse, parse_index):
        with pytest.raises(IntegrityError, match=sentence):
            read(data, "s3://b/index.json")
        with pytest.raises(IntegrityError, match=sentence):
            read(seal_text(data + b"\n}\n"), "s3://b/index.json")


def test_a_flipped_bit_anywhere_in_a_document_is_refused() -> None:
    shard = Shard(CHAIN, 0, (entry("orders", (1, 1000)),))
    for data, read in ((shard.to_bytes(), Shard.parse), (index_bytes(index_of([])), parse_index)):
        read(data, "here")
        unsealed = data[: data.rindex(b",")] + b"\n}\n"
        with pytest.raises(IntegrityError, match="here is no whole document"):
            read(unsealed, "here")
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(IntegrityError, match="here"):
                read(bytes(flipped), "here")


@each_of(
    ("change", "problem"),
    [
        (
            lambda e: replace(e, path="orders/net-1-orders-1-999.zip"),
            "is not named as one of chain",
        ),
        (lambda e: replace(e, path="trades/net-1-orders-1-1000.zip"), "is not named as one of"),
        (lambda e: replace(e, path="../orders/net-1-orders-1-1000.zip"), "is not named as one of"),
        (lambda e: replace(e, table="trades"), "is not named as one of chain net-1"),
        (lambda e: _with_csv(e, name="net-1-orders-2-1-1000.csv"), "is not named as one of chain"),
        (lambda e: _with_csv(e, name="net-1-orders-1-1-9.csv"), "is not named as one of chain"),
        (lambda e: entry("orders", (20001, 21000)), "does not belong into this shard"),
    ],
)
def test_an_entry_whose_names_contradict_what_it_holds_is_refused(
    change: Callable[[Entry], Entry], problem: str
) -> None:
    changed = change(entry("orders", (1, 1000)))
    data = Shard(CHAIN, 0, (changed,)).to_bytes()
    with pytest.raises(IntegrityError, match=problem):
        Shard.parse(data, "here")
    with pytest.raises(IntegrityError, match=problem):
        table_columns(data, changed.table, "here", CHAIN, 0)


def _with_csv(entry: Entry, **changes: Any) -> Entry:
    return replace(entry, csv=replace(entry.csv, **changes))


def test_a_zip_named_as_the_data_node_pads_is_named_right() -> None:
    blocks = BlockRange(1, 1000)
    padded = _with_csv(
        entry("orders", (1, 1000)), name=csv_name(CHAIN, "orders", 1, blocks, NameStyle.REFERENCE)
    )
    name = zip_name(CHAIN, "orders", blocks, NameStyle.REFERENCE)
    shard = Shard(CHAIN, 0, (replace(padded, path=f"orders/{name}"),))
    assert Shard.parse(shard.to_bytes(), "here") == shard


def test_an_impossible_range_in_the_index_is_damage() -> None:
    data = index_bytes(index_of([entry("orders", (7, 8))])).replace(b'"to":8', b'"to":6')
    with pytest.raises(IntegrityError, match="7 to 6 is not a run of blocks"):
        parse_index(resealed(data), "here")


def test_an_index_of_a_later_format_asks_for_a_later_release() -> None:
    sentence = "here has format 3 and this release reads format 2: use a newer release"
    with pytest.raises(OtherFormatError, match=sentence):
        Shard.parse(seal_text(b'{\n"format":3\n}\n'), "here")


def test_shards_sort_as_text_like_their_blocks() -> None:
    paths = [shard_path(number, "ab" * 32) for number in (0, 1, 4, 5, 50, 1124)]
    assert paths == sorted(paths)
    assert shard_number(BlockRange(SHARD_BLOCKS - 1, SHARD_BLOCKS)) == 0
    assert shard_number(BlockRange(SHARD_BLOCKS, SHARD_BLOCKS)) == 1
