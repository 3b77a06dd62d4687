from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.zips.container import Member
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.reader import read_csv
from exporters.zips.runs import STREAM_END, Run
from exporters.zips.sources import LocalSource
from tests.exporters.part_kit import (
    HEADER,
    MemorySource,
    blocks_of,
    make_part,
    make_parts,
    noise,
    splice,
)
from transforms.errors import IntegrityError


def text_of(part: PartRef) -> bytes:
    return b"".join(read_csv(part.source, part.member))


@given(bodies=st.lists(st.text(max_size=200).map(str.encode), min_size=1, max_size=5))
def test_the_text_of_parts_and_of_their_splice_is_what_went_in(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    parts = make_parts(folder, bodies)
    assert [text_of(part) for part in parts] == [HEADER + body for body in bodies]
    (wide,) = read_parts(LocalSource.open(splice(folder / "wide.zip", parts)))
    assert text_of(wide) == HEADER + b"".join(bodies)


def test_long_text_comes_in_blocks_of_at_most_a_megabyte(tmp_path: Path) -> None:
    part = make_part(tmp_path, blocks_of(0), [b"0" * (40 << 20), noise(5 << 20)])
    blocks = [len(block) for block in read_csv(part.source, part.member)]
    assert max(blocks) <= 1 << 20
    assert sum(blocks) == part.member.whole.plain


def test_any_one_damaged_byte_of_the_data_is_noticed(tmp_path: Path) -> None:
    part = make_part(tmp_path, blocks_of(0), [b"1,2\n3,44\n", noise(40)])
    path = Path(part.source.name)
    whole = path.read_bytes()
    for at in range(part.member.data_offset, part.member.end):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        assert read_parts(LocalSource.open(path)) != ()  # the directory is whole
        with pytest.raises(IntegrityError, match=r"orders-1-1-1000\.csv in .*: make it again"):
            text_of(part)


@pytest.mark.parametrize("cut", [1, 2, 7])
def test_a_stream_that_ends_too_early_or_too_late_is_noticed(tmp_path: Path, cut: int) -> None:
    part = make_part(tmp_path, blocks_of(0), [b"1,2\n" * 50])
    body = part.member.body
    for deflated in (body.deflated - cut, body.deflated + cut):
        longer = type(body)(deflated, body.plain, body.crc32)
        member = Member(part.member.name, 0, part.member.header, longer, 0)
        with pytest.raises(IntegrityError):
            list(read_csv(part.source, member))


def test_bytes_after_the_stream_are_noticed_also_where_a_read_ends_with_the_stream() -> None:
    """A bucket is read 4 MiB at a time; `text` deflates to just that, in stored blocks."""
    blocks = -(-(4 << 20) // (65535 + 5))
    text = bytes((4 << 20) - 5 * blocks)
    cells = [text[at : at + 65535] for at in range(0, len(text), 65535)]
    stream = b"".join(
        struct.pack("<BHH", at == blocks - 1, len(cell), len(cell) ^ 0xFFFF) + cell
        for at, cell in enumerate(cells)
    )
    surplus = b"1,2\n"
    body = Run(len(stream) + len(surplus) - len(STREAM_END), len(text), zlib.crc32(text))
    member = Member("a.csv", 0, Run(), body, 0)
    source = MemorySource("a.zip", bytes(member.data_offset) + stream + surplus)

    assert len(stream) == 4 << 20
    with pytest.raises(IntegrityError, match="does not end where its directory says"):
        list(read_csv(source, member))
