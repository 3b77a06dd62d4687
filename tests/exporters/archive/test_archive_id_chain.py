"""The chain of ids that an archive's index alone shows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporters.archive.entries import Entry, SegmentSource, columns_of, entry_json, entry_of
from exporters.archive.index import ArchiveIndex, ShardSummary, index_bytes, parse_index
from exporters.archive.page import chain_page
from exporters.archive.shards import Shard
from exporters.archive.sums import entries_chain, id_run_json, id_run_of
from tests.archive_kit import CHAIN
from tests.exporters.archive.test_index import entry
from tests.page_kit import Page
from transforms.block_range import BlockRange
from transforms.segments.cid import CidHasher
from transforms.segments.id_chain import id_chain


def _cid(name: str) -> str:
    hasher = CidHasher()
    hasher.update(name.encode())
    return hasher.cid()


A, B, C = (_cid(name) for name in "abc")


def _entry(table: str, segment: tuple[int, str, str]) -> Entry:
    number, own, previous = segment
    blocks = BlockRange(number * 10 + 1, number * 10 + 10)
    return replace(entry(table, (1, 10)), segment=SegmentSource(blocks, 1, own, "ab", previous))


@pytest.mark.parametrize(
    ("entries", "runs"),
    [
        ([], []),
        ([_entry("orders", (0, A, "")), _entry("orders", (1, B, A))], ["1-20"]),
        ([_entry("orders", (0, A, "")), _entry("blocks", (1, B, A))], ["1-20"]),
    ],
)
def test_the_chain_of_entries(entries: list[Entry], runs: list[str]) -> None:
    chain = entries_chain(entries)
    assert [str(run.blocks) for run in chain.runs] == runs
    assert chain.contradictions == ()


def test_shards_are_joined_by_their_runs() -> None:
    shards = [entries_chain([_entry("orders", one)]) for one in ((0, A, ""), (1, B, A), (2, C, A))]
    written = [[id_run_json(run) for run in shard.runs] for shard in shards]
    chain = id_chain(id_run_of(run) for runs in written for run in runs)
    assert [str(run.blocks) for run in chain.runs] == ["1-20", "21-30"]
    (wrong,) = chain.contradictions
    assert (wrong.before.last, wrong.after.first) == (BlockRange(11, 20), BlockRange(21, 30))


@pytest.mark.parametrize("previous", ["", A])
def test_a_previous_id_is_written_and_read_back(previous: str) -> None:
    written = _entry("orders", (0, B, previous))
    found = entry_json(written)
    assert found["segment"]["previous_id"] == previous
    schema = written.csv.schema
    columns = {schema.fingerprint: [{"name": c.name, "type": c.type} for c in schema.columns]}
    assert entry_of(found, columns_of(columns)) == written


def test_the_index_and_the_page_say_how_far_the_chain_is_unbroken() -> None:
    entries = {
        0: [_entry("orders", (0, A, "")), _entry("orders", (1, B, A))],
        1: [_entry("orders", (2000, C, B)), _entry("orders", (2001, A, C))],
    }
    shards = [Shard(CHAIN, number, tuple(held)) for number, held in entries.items()]
    index = ArchiveIndex(CHAIN).including(ShardSummary.of(one, one.to_bytes()) for one in shards)
    data = index_bytes(index)
    assert json.loads(data)["ids"] == [
        {"from": 1, "to": 20, "id": B, "previous_id": ""},
        {"from": 20001, "to": 20020, "id": A, "previous_id": B},
    ]
    assert parse_index(data, "here").ids == index.ids
    text = Page(chain_page(index, ())).text
    assert "this chain is unbroken for blocks 1 to 20, 20,001 to 20,020" in " ".join(text.split())


def test_a_page_names_segments_that_contradict_each_other() -> None:
    shard = Shard(CHAIN, 0, (_entry("orders", (0, A, "")), _entry("orders", (1, B, C))))
    index = ArchiveIndex(CHAIN).including([ShardSummary.of(shard, shard.to_bytes())])
    assert f"Broken: segment 11 to 20 was made after {C}" in Page(chain_page(index, ())).text


def test_a_page_names_a_segment_whose_zips_were_made_of_different_files() -> None:
    entries = (_entry("orders", (0, A, "")), _entry("blocks", (0, B, "")))
    shard = Shard(CHAIN, 0, entries)
    index = ArchiveIndex(CHAIN).including([ShardSummary.of(shard, shard.to_bytes())])
    first, second = sorted((A, B))
    text = " ".join(Page(chain_page(index, ())).text.split())
    assert (
        f"Broken: segment 1 to 10 is {second} by other ZIPs, but segment 1 to 10 is {first}" in text
    )
    (found,) = index.ids.contradictions
    assert f"segment 1-10 has the id {first} and the id {second}" in str(found)
