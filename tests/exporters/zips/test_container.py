from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.zips.container import Member, directory, directory_record, end_records, local_header
from exporters.zips.reader import read_members
from exporters.zips.runs import STREAM_END, Run, deflate
from exporters.zips.sources import LocalSource
from tests import zip_readers
from transforms.errors import IntegrityError

LIMIT = 0xFFFFFFFF


def placed(shapes: Sequence[tuple[str, Run, Run, int]]) -> list[Member]:
    """Members one after the other from byte 0."""
    members: list[Member] = []
    for name, header, body, rows in shapes:
        offset = members[-1].end if members else 0
        members.append(Member(name, offset, header, body, rows))
    return members


def sparse_zip(path: Path, members: Sequence[Member], tail: bytes | None = None) -> LocalSource:
    """A file with headers and directory in their places and holes where the data would be."""
    with path.open("wb") as file:
        for member in members:
            file.seek(member.offset)
            file.write(local_header(member))
        file.seek(members[-1].end if members else 0)
        file.write(directory(members) if tail is None else tail)
    return LocalSource.open(path)


def real_zip(path: Path, texts: dict[str, tuple[bytes, bytes]]) -> list[Member]:
    """A ZIP of real CSVs, each a header and a body; returns its members."""
    members: list[Member] = []
    with path.open("wb") as file:
        for name, (header, body) in texts.items():
            runs: list[bytes] = []
            first, second = (deflate([text], runs.append, 1) for text in (header, body))
            member = Member(name, file.tell(), first, second, body.count(b"\n"))
            file.write(local_header(member) + b"".join(runs) + STREAM_END)
            members.append(member)
        file.write(directory(members))
    return members


TEXTS = {
    "c-orders-1-1-1000.csv": (b"id,size\n", b"1,2\n" * 5000),
    "c-orders-2-1001-2000.csv": (b"id\n", b""),
    "zürich-orders-3-2001-3000.csv": (b"id\n", b'"a\r\nb"\n'),
}


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_every_reader_takes_the_zip_and_finds_the_same_members(tmp_path: Path, count: int) -> None:
    texts = dict(list(TEXTS.items())[:count])
    path = tmp_path / "x.zip"
    members = real_zip(path, texts)
    with ZipFile(path) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == {
            name: header + body for name, (header, body) in texts.items()
        }
        assert {info.date_time for info in archive.infolist()} <= {(1980, 1, 1, 0, 0, 0)}
        assert all(info.external_attr >> 16 == 0o100644 for info in archive.infolist())
    assert read_members(LocalSource.open(path)) == tuple(members)
    if count:
        zip_readers.check(path)


def test_a_file_extracted_by_any_program_has_its_bytes(tmp_path: Path) -> None:
    real_zip(tmp_path / "x.zip", TEXTS)
    for folder in zip_readers.extract(tmp_path / "x.zip", tmp_path):
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
            name: header + body for name, (header, body) in TEXTS.items()
        }


LENGTHS = [
    ("below the limit", Run(10, LIMIT - 9, 7), 20),
    ("plain length at the limit", Run(LIMIT // 1000, LIMIT - 8, 7), 45),
    ("plain length above it", Run(LIMIT // 1000, 10 * LIMIT, 7), 45),
    ("deflated length at the limit", Run(LIMIT - 12, LIMIT - 9, 7), 45),
    ("both lengths above it", Run(LIMIT + 5, 3 * LIMIT, 7), 45),
]


@pytest.mark.parametrize(("body", "needed"), [c[1:] for c in LENGTHS], ids=[c[0] for c in LENGTHS])
def test_zip64_is_used_exactly_where_a_length_needs_it(
    tmp_path: Path, body: Run, needed: int
) -> None:
    body = replace(body, deflated=max(body.deflated, body.plain // 1000))
    header, small = Run(10, 8, 3), Run(10, 20, 5)
    members = placed([("a.csv", header, body, 1), ("b.csv", header, small, 2)])
    source = sparse_zip(tmp_path / "x.zip", members)
    assert read_members(source) == tuple(members)
    with ZipFile(source.path) as archive:
        first, second = archive.infolist()
    assert (first.file_size, first.compress_size) == (8 + body.plain, 12 + body.deflated)
    assert first.extract_version == needed
    assert struct.unpack_from("<H", local_header(members[0]), 4) == (needed,)
    assert second.header_offset == members[0].end
    assert second.extract_version == (45 if members[0].end >= LIMIT else 20)


def test_a_member_that_lies_beyond_four_gigabytes_is_found_by_every_reader(tmp_path: Path) -> None:
    runs: list[bytes] = []
    header, body = (deflate([text], runs.append, 1) for text in (b"id\n", b"7\n"))
    huge = ("a.csv", Run(10, 8, 3), Run(5 << 30, 6 << 30, 7), 1)
    members = placed([huge, ("b.csv", header, body, 1)])
    source = sparse_zip(tmp_path / "x.zip", members)
    with source.path.open("r+b") as file:
        file.seek(members[1].data_offset)
        file.write(b"".join(runs) + STREAM_END)
    with ZipFile(source.path) as archive:
        assert archive.read("b.csv") == b"id\n7\n"
    assert set(zip_readers.read(source.path, "b.csv")) == {b"id\n7\n"}


def test_65535_members_take_the_zip64_end_record_and_one_fewer_does_not(tmp_path: Path) -> None:
    assert len(end_records(65_534, 0, 0)) == 22
    run = Run(1, 1, 1)
    members = placed([(f"{number}.csv", run, run, 1) for number in range(65_535)])
    source = sparse_zip(tmp_path / "x.zip", members)
    assert read_members(source) == tuple(members)
    with ZipFile(source.path) as archive:
        assert len(archive.infolist()) == 65_535


lengths = st.integers(0, 2**36)
runs = st.builds(
    lambda deflated, ratio, crc: Run(deflated, deflated * ratio, crc),
    *(lengths, st.integers(0, 1032), st.integers(0, LIMIT)),
)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
shapes = st.lists(st.tuples(names, runs, runs, st.integers(0, 2**64 - 1)), max_size=6)


@given(shapes=shapes)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[str, Run, Run, int]]
) -> None:
    members = placed(shapes)
    source = sparse_zip(tmp_path_factory.mktemp("zip") / "x.zip", members)
    assert read_members(source) == tuple(members)


def refused(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(IntegrityError) as caught:
        read_members(LocalSource.open(path))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_zip_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    real_zip(path, TEXTS)
    whole = path.read_bytes()
    for length in range(len(whole)):
        assert "cannot be spliced" in refused(path, whole[:length])


def test_any_one_damaged_byte_of_the_directory_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    members = real_zip(path, TEXTS)
    whole = path.read_bytes()
    for at in range(members[-1].end, len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            refused(path, whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])


def test_a_damaged_zip64_end_record_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    header = Run(10, 8, 3)
    members = placed([("a.csv", header, Run(5 << 30, 6 << 30, 7), 1), ("b.csv", header, header, 2)])
    tail = directory(members)
    for at in range(len(tail) - 98, len(tail)):
        damaged = tail[:at] + bytes([tail[at] ^ 0x41]) + tail[at + 1 :]
        source = sparse_zip(path, members, damaged)
        with pytest.raises(IntegrityError):
            read_members(source)


def test_bytes_before_or_after_the_zip_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    real_zip(path, TEXTS)
    whole = path.read_bytes()
    assert "truncated" in refused(path, whole + b"\n")
    assert "should end the file" in refused(path, b"#!/bin/sh\n" + whole)


def test_a_zip_made_elsewhere_is_refused_for_want_of_the_private_field(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "made.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("c-orders-1-1-1000.csv", b"id\n")
    made = (tmp_path / "made.zip").read_bytes()
    assert "has no private field" in refused(tmp_path / "x.zip", made)


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    run = Run(100, 100, 1)
    first, second = placed([("a.csv", run, run, 1), ("b.csv", run, run, 1)])
    records = directory_record(first) + directory_record(replace(second, offset=20))
    tail = records + end_records(2, second.end, len(records))
    source = sparse_zip(tmp_path / "x.zip", [first, second], tail)
    with pytest.raises(IntegrityError, match=r"offset of b\.csv contradict"):
        read_members(source)


def test_bytes_between_the_members_and_the_directory_are_refused(tmp_path: Path) -> None:
    run = Run(100, 100, 1)
    (member,) = placed([("a.csv", run, run, 1)])
    record = directory_record(member)
    tail = bytes(5) + record + end_records(1, member.end + 5, len(record))
    source = sparse_zip(tmp_path / "x.zip", [member], tail)
    with pytest.raises(IntegrityError, match="its members end at byte"):
        read_members(source)


@pytest.mark.parametrize(
    ("header", "body"),
    [(Run(2**63, 1, 0), Run(1, 1, 0)), (Run(1, 1, 0), Run(1, 1033, 0)), (Run(0, 1, 0), Run())],
)
def test_lengths_that_deflate_cannot_reach_are_refused(
    tmp_path: Path, header: Run, body: Run
) -> None:
    (member,) = placed([("a.csv", header, body, 1)])
    record = directory_record(member)
    path = tmp_path / "x.zip"
    path.write_bytes(record + end_records(1, 0, len(record)))
    with pytest.raises(IntegrityError, match=r"run lengths of a\.csv are impossible"):
        read_members(LocalSource.open(path))


def test_the_private_field_is_laid_out_as_documented() -> None:
    member = Member("a.csv", 0, Run(1, 2, 3), Run(4, 5, 6), 7)
    field = struct.pack("<BQQIQQIQ", 1, 1, 2, 3, 4, 5, 6, 7)
    sealed = field + struct.pack("<I", zlib.crc32(b"a.csv" + field))
    assert directory_record(member).endswith(b"St" + struct.pack("<H", 53) + sealed)
