from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.exports.plan import HeldColumns, plan_export
from exporters.exports.splice import layout_zip
from exporters.zip_names import NameStyle
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.sources import LocalSource
from tests import zip_readers
from tests.exporters.part_kit import (
    CHAIN,
    HEADER,
    blocks_of,
    contents,
    csv_of,
    layout_export,
    make_part,
    make_parts,
    splice,
)
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.segments.segment_name import SegmentName
from transforms.tables.registry import Column, TableSchema

cells = st.one_of(
    st.text(max_size=60).map(str.encode),
    st.sampled_from([b"", b"1,2\n", b'"a\r\nb",\n', b'"""",""\n', b"\r", b"x" * 70_000 + b"\n"]),
)


@given(bodies=st.lists(cells, min_size=1, max_size=8))
def test_parts_spliced_are_the_header_once_and_the_bodies_in_order(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    parts = make_parts(folder, bodies)
    (text,) = contents(splice(folder / "wide.zip", parts)).values()
    assert text == HEADER + b"".join(bodies)


@given(
    bodies=st.lists(cells, min_size=2, max_size=9),
    cuts=st.sets(st.integers(1, 8), max_size=4),
)
def test_a_splice_of_splices_is_the_same_bytes_as_a_splice_of_the_parts(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes], cuts: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    parts = make_parts(folder, bodies)
    direct = splice(folder / "direct.zip", parts)
    edges = sorted({0, len(parts), *(cut for cut in cuts if cut < len(parts))})
    middle = [
        splice(folder / f"middle-{first}.zip", parts[first:last]) for first, last in pairwise(edges)
    ]
    wider = [part for path in middle for part in read_parts(LocalSource.open(path))]
    assert splice(folder / "nested.zip", wider).read_bytes() == direct.read_bytes()


def test_every_tool_reads_a_zip_of_several_csvs(tmp_path: Path) -> None:
    parts = make_parts(tmp_path, [b"1,2\n" * 9000, b"", b"3,4\n"])
    other = make_part(tmp_path, blocks_of(3), [b'5,6,"\r\n"\n'], header=b"id,size,x\n", version=21)
    path = splice(tmp_path / "wide.zip", parts, [other])
    zip_readers.check(path)
    assert contents(path) == {
        "testnet-001-orders-1-1-3000.csv": HEADER + b"1,2\n" * 9000 + b"3,4\n",
        "testnet-001-orders-21-3001-4000.csv": b'id,size,x\n5,6,"\r\n"\n',
    }


def test_a_zip_of_several_csvs_offers_one_part_for_each(tmp_path: Path) -> None:
    parts = make_parts(tmp_path, [b"1,2\n", b"3,4\n"])
    other = make_part(tmp_path, blocks_of(2), [b"5\n"], header=b"id\n", version=21, rows=1)
    wide = read_parts(LocalSource.open(splice(tmp_path / "wide.zip", parts, [other])))
    assert [(part.version, part.blocks) for part in wide] == [
        (1, BlockRange(1, 2000)),
        (21, BlockRange(2001, 3000)),
    ]
    again = splice(tmp_path / "again.zip", [wide[1]])
    assert again.read_bytes() == Path(other.source.name).read_bytes()


def test_what_a_layout_tells_is_known_before_a_byte_is_read(tmp_path: Path) -> None:
    bodies = [b"1,2\n" * 5, b"", b"3,4\n"]
    parts = [
        make_part(tmp_path, blocks_of(at), [body], rows=body.count(b"\n"))
        for at, body in enumerate(bodies)
    ]
    for part in parts:  # only the directories are left; the data become zeros
        data = bytearray(Path(part.source.name).read_bytes())
        data[: part.member.end] = bytes(part.member.end)
        (tmp_path / "hollow").mkdir(exist_ok=True)
        (tmp_path / "hollow" / Path(part.source.name).name).write_bytes(data)
    hollow = [
        part
        for path in sorted((tmp_path / "hollow").iterdir())
        for part in read_parts(LocalSource.open(path))
    ]
    layout = layout_zip("wide.zip", [csv_of(hollow)])
    written = splice(tmp_path / "wide.zip", parts)
    assert layout.size == written.stat().st_size
    with ZipFile(written) as archive:
        (info,) = archive.infolist()
    (member,) = layout.members
    assert (member.name, member.version, member.blocks) == (info.filename, 1, BlockRange(1, 3000))
    assert (member.csv_bytes, member.deflated) == (info.file_size, info.compress_size)
    assert (member.crc32, member.rows) == (info.CRC, 6)


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    parts = make_parts(tmp_path, [b"1,2\n", b"3,4\n"])
    one, two = splice(tmp_path / "1" / "x.zip", parts), splice(tmp_path / "2" / "x.zip", parts)
    assert one.read_bytes() == two.read_bytes()


def test_parts_with_other_columns_are_not_joined(tmp_path: Path) -> None:
    first = make_part(tmp_path, blocks_of(0), [b"1,2\n"])
    second = make_part(tmp_path, blocks_of(1), [b"1,2\n"], header=b"id,sise\n")
    with pytest.raises(IntegrityError, match=r"orders-1001-2000\.zip has other columns than"):
        layout_zip("x.zip", [csv_of([first, second])])


def test_a_csv_beyond_four_gigabytes_is_read_by_every_tool(tmp_path: Path) -> None:
    mebibyte = b"0,0000000000000\n" * (1 << 16)
    part = make_part(tmp_path, blocks_of(0), [mebibyte], rows=1 << 16)
    many = [PartRef(part.source, part.member, 1, blocks_of(number)) for number in range(4200)]
    last = make_part(tmp_path, blocks_of(4200), [b"7\n"], header=b"id\n", version=2)
    path = splice(tmp_path / "wide.zip", many, [last])
    with ZipFile(path) as archive:
        wide, small = archive.infolist()
        assert archive.read(small) == b"id\n7\n"
    assert wide.file_size == len(HEADER) + 4200 * len(mebibyte) > 1 << 32
    assert read_parts(LocalSource.open(path))[0].member.rows == 4200 << 16
    assert f"Size:       {wide.file_size + 5}" in zip_readers.tested(path)
    assert all(str(wide.file_size) in text for text in zip_readers.listed(path))
    assert set(zip_readers.read(path, small.filename)) == {b"id\n7\n"}


def held_segments() -> list[tuple[SegmentName, TableSchema]]:
    """Three segments at versions 1, 2 and 3; the third has a column more."""
    narrow = TableSchema("orders", (Column("id", "bytea"), Column("size", "bigint")))
    wide = TableSchema("orders", (*narrow.columns, Column("x", "text")))
    return [
        (SegmentName(CHAIN, version, blocks_of(at)), schema)
        for at, (version, schema) in enumerate([(1, narrow), (2, narrow), (3, wide)])
    ]


def test_a_plan_becomes_the_zip_that_the_spec_names(tmp_path: Path) -> None:
    held = HeldColumns.of(held_segments())
    parts = [
        make_part(tmp_path, name.blocks, [b"1\n"], header=schema.header)
        for name, schema in held_segments()
    ]
    layout = layout_export(plan_export(held, "orders", BlockRange(1, 3000)), parts)
    assert layout.name == "testnet-001-orders-1-3000.zip"
    layout.write(tmp_path / layout.name)
    assert contents(tmp_path / layout.name) == {
        "testnet-001-orders-1-1-2000.csv": b"id,size\n1\n1\n",
        "testnet-001-orders-3-2001-3000.csv": b"id,size,x\n1\n",
    }
    padded = layout_export(
        plan_export(held, "orders", BlockRange(1, 1000)), parts, NameStyle.REFERENCE
    )
    assert padded.name == "testnet-001-orders-000001-001000.zip"
    assert padded.members[0].name == "testnet-001-orders-001-000001-001000.csv"
