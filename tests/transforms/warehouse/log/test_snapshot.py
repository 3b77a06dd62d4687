"""Snapshots of the log as bytes: what is written is read back, and nothing else is believed."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.commits import LIMIT_BYTES, volumes
from transforms.block_range import BlockRange
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.sealed import seal, unseal
from transforms.segments.quarantine import QuarantinedFile
from transforms.warehouse.log.snapshot import (
    Snapshot,
    dump_snapshot,
    following,
    parse_snapshot,
)
from transforms.warehouse.manifests.data_files import data_key
from transforms.warehouse.manifests.file_names import named_file
from transforms.warehouse.manifests.shapes import Shape, Volume

# Names of files may hold bytes that are no UTF-8, which Python has as surrogates.
_names = st.text(st.characters() | st.sampled_from('\ud800\udcff\x00"\\\n'), max_size=12)
_plain = st.text(string.ascii_letters + "_ ", min_size=1, max_size=8)
_hashes = st.text("0123456789abcdef", min_size=64, max_size=64)
_numbers = st.integers(0, 2**63 - 1)
_times = st.integers(0, 4 * 10**15).map(lambda microseconds: microseconds / 10**6)
_files = st.builds(lambda sha256, size: named_file(f"spam/{sha256}.x", size), _hashes, _numbers)
_blocks = st.tuples(_numbers, _numbers).map(lambda pair: BlockRange(min(pair), max(pair)))
_shapes = st.builds(Shape, st.dictionaries(_plain, _plain, max_size=4), st.sets(_plain, max_size=2))
_tables = st.text(string.ascii_lowercase, min_size=1, max_size=8)
_data = st.dictionaries(_tables, st.tuples(_hashes, _numbers), max_size=3)


def _data_files(blocks: BlockRange, rows: Mapping[str, tuple[str, int]]) -> dict[str, StoredFile]:
    return {
        table: StoredFile(data_key(table, blocks, sha256), size, sha256)
        for table, (sha256, size) in rows.items()
    }


@st.composite
def _volumes(draw: st.DrawFn) -> Volume:
    blocks = draw(_blocks)
    return Volume(
        draw(st.sampled_from(("history", "state"))),
        draw(_files),
        blocks,
        draw(st.integers(1, 2**31)),
        draw(st.integers(0, 2**31)),
        draw(st.dictionaries(_plain, _shapes, max_size=3)),
        _data_files(blocks, draw(_data)),
        draw(st.none() | _files),
        draw(st.none() | st.tuples(_numbers, _numbers)),
    )


_refused = st.builds(
    QuarantinedFile,
    st.builds(ObjectInfo, _names, _numbers, _names),
    _names,
    st.none() | _files,
)


def _tuples(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=4).map(tuple)


_snapshots = st.builds(
    Snapshot.with_volumes,
    st.builds(
        Snapshot,
        _numbers,
        _hashes,
        _times,
        _names,
        captures=st.none() | _files,
        quarantine=_tuples(_refused),
        dropped=st.dictionaries(_names, _times, max_size=4),
    ),
    _tuples(_volumes()),
)


@given(_snapshots)
def test_what_is_written_is_read_back(snapshot: Snapshot) -> None:
    read = parse_snapshot(dump_snapshot(snapshot), "here")
    assert read == snapshot
    for ours, theirs in zip(read.volumes, snapshot.volumes, strict=True):
        for table, shape in theirs.shapes.items():
            assert list(ours.shapes[table].columns) == list(shape.columns)


def _example() -> Snapshot:
    file = named_file(f"manifests/1-10.{'0' * 64}.parquet", 5)
    shapes = {"orders": Shape({"id": "bytea", "price": "hugeint"}, {"price"})}
    blocks = BlockRange(1, 10)
    data = _data_files(blocks, {"orders": ("1" * 64, 7)})
    volume = Volume("history", file, blocks, 1, 1, shapes, data, file)
    refused = QuarantinedFile(ObjectInfo("x.zip", 1, "v"), "it is bad", file)
    base = Snapshot(3, "c" * 32, 1e9, "chain", (volume,), (), file, (refused,))
    return following(base, base.with_volumes([]), 2e9)


def test_every_flipped_bit_of_a_snapshot_is_refused() -> None:
    data = dump_snapshot(_example())
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            with pytest.raises(IntegrityError, match="here"):
                parse_snapshot(bytes(flipped), "here")


def test_a_snapshot_that_was_cut_or_continued_is_refused() -> None:
    data = dump_snapshot(_example())
    for length in range(len(data)):
        with pytest.raises(IntegrityError, match="here"):
            parse_snapshot(data[:length], "here")
    for longer in (data + b"\n", data + data, b" " + data):
        with pytest.raises(IntegrityError, match="here"):
            parse_snapshot(longer, "here")


@pytest.mark.parametrize("lacking", ["format", "shapes", "volumes", "losses"])
def test_a_whole_document_that_is_no_snapshot_is_refused(lacking: str) -> None:
    row = unseal(dump_snapshot(_example()), "here")
    odd = {"volumes": [{"blocks": [5, 3]}], "losses": [1]}
    for members in ({name: row[name] for name in row if name != lacking}, row | odd):
        with pytest.raises(IntegrityError, match="here is no snapshot"):
            parse_snapshot(seal(members), "here")


@pytest.mark.parametrize(
    ("kind", "remedy"), [(4, "use a newer release"), (2, "load the segments into a warehouse in a")]
)
def test_a_snapshot_of_another_format_says_what_to_do(kind: int, remedy: str) -> None:
    with pytest.raises(ConfigError, match=f"here has format {kind} .* reads format 3: {remedy}"):
        parse_snapshot(seal({"format": kind, "whatever": []}), "here")


@settings(max_examples=50)
@given(_snapshots, _snapshots)
def test_the_next_snapshot_is_read_back_too(base: Snapshot, wanted: Snapshot) -> None:
    after = following(base, wanted, 0.0)
    assert parse_snapshot(dump_snapshot(after), "here") == after
    assert after.number == base.number + 1
    assert after.time >= base.time


def test_what_a_snapshot_no_longer_names_is_dropped_until_it_is_forgotten() -> None:
    files = StoredFile("manifests/a", 1, ""), StoredFile("index/a", 1, "")
    named = Volume("history", files[0], BlockRange(1, 2), 1, 1, {}, {}, files[1])
    first = following(Snapshot(), Snapshot().with_volumes([named]), 0.0)
    second = following(first, first.with_volumes([]), 0.0)
    assert [*second.dropped] == ["index/a", "manifests/a"]
    left = {"manifests/a": second.time}
    third = following(second, replace(second, dropped=left), 0.0)
    assert third.dropped == left
    again = following(third, third.with_volumes([named]), 0.0)
    assert again.dropped == {}


def test_the_snapshot_of_75000_compacted_segments_is_below_a_megabyte() -> None:
    snapshot = Snapshot(history=tuple(volumes(750, 100)))
    assert len(dump_snapshot(snapshot)) < LIMIT_BYTES


def test_what_no_volume_holds_any_more_is_missed_until_it_is_there_again() -> None:
    def volume(kind: str, first: int, last: int) -> Volume:
        blocks = BlockRange(first, last)
        name = f"{kind}/{blocks.key}.{'a' * 64}.duckdb"
        return Volume(kind, StoredFile(name, 1, "a" * 64), blocks, 1, 71, {})

    def after(base: Snapshot, *volumes: Volume) -> Snapshot:
        found = following(base, base.with_volumes(volumes), 0.0)
        return parse_snapshot(dump_snapshot(found), "it")

    captures = named_file(f"spam/{'c' * 64}.duckdb", 1)
    whole = Snapshot().with_volumes([volume("history", 1, 30), volume("state", 21, 30)])
    lost = following(replace(whole, captures=captures), Snapshot(), 0.0)
    assert sorted(map(str, lost.losses)) == [
        "the blocks 1 to 30",
        "the current state at block 30",
        "the spam captures",
    ]
    older = after(lost, volume("history", 11, 20), volume("state", 11, 20))
    assert [*map(str, older.losses)] == [
        "the blocks 1 to 10",
        "the blocks 21 to 30",
        "the current state at block 30",
        "the spam captures",
    ]
    newer = after(older, volume("history", 1, 40), volume("state", 31, 40))
    assert [*map(str, newer.losses)] == ["the spam captures"]
    assert following(newer, replace(newer, captures=captures), 0.0).losses == ()
