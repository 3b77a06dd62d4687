from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.exports.splice import layout_zip
from exporters.zips.layout import Layout, Slice
from exporters.zips.parts import PartRef, read_parts
from exporters.zips.sources import LocalSource, ObjectSource
from tests.exporters.part_kit import (
    blocks_of,
    csv_of,
    make_part,
    make_parts,
    noise,
    splice,
)
from tests.exporters.zips.test_part_zip import files_no_longer_than
from tests.s3_kit import bucket_server
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import content_sha256

BODIES = [b"1,2\n" * 30, b"", b"3,4\n"]


def small_layout(folder: Path) -> Layout:
    parts = make_parts(folder, BODIES)
    other = make_part(folder, blocks_of(3), [b"5\n"], header=b"id\n", version=2)
    return layout_zip("x.zip", [csv_of(parts), csv_of([other])])


def test_every_byte_range_is_that_slice_of_the_whole(tmp_path: Path) -> None:
    layout = small_layout(tmp_path)
    layout.write(tmp_path / "x.zip")
    whole = (tmp_path / "x.zip").read_bytes()
    assert b"".join(layout.read()) == whole
    assert layout.size == len(whole)
    for start in range(0, len(whole) + 1, 3):
        for stop in range(start, len(whole) + 1, 7):
            assert b"".join(layout.read(start, stop)) == whole[start:stop]


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 10**9)])
def test_a_range_outside_the_zip_is_an_error(tmp_path: Path, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match=r"do not lie in x\.zip"):
        small_layout(tmp_path).read(start, stop)


def test_a_long_slice_is_read_in_blocks_of_a_megabyte(tmp_path: Path) -> None:
    text = noise(9 << 20)
    layout = layout_zip("x.zip", [csv_of([make_part(tmp_path, blocks_of(0), [text])])])
    blocks = [len(block) for block in layout.read(100, layout.size - 100)]
    assert set(blocks[:-1]) == {1 << 20}
    assert sum(blocks) == layout.size - 200


@given(text=st.binary(max_size=300), offset=st.integers(0, 300), length=st.integers(0, 300))
def test_what_is_written_are_the_slices_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, offset: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("slice")
    (folder / "in").write_bytes(text)
    piece = text[offset : offset + length]
    cut = Slice(LocalSource.open(folder / "in"), offset, len(piece))
    Layout("x", (), (b"before", cut, b"after", cut)).write(folder / "out", durable=False)
    assert (folder / "out").read_bytes() == b"before" + piece + b"after" + piece


def test_parts_in_a_store_give_the_same_zip_as_local_ones(tmp_path: Path) -> None:
    parts = make_parts(tmp_path / "archive", BODIES)
    local = splice(tmp_path / "local.zip", parts)
    store = FolderStore(tmp_path / "archive")
    stored = [part for info in store.list() for part in read_parts(ObjectSource(store, info))]
    remote = splice(tmp_path / "remote.zip", sorted(stored, key=lambda part: part.blocks))
    assert remote.read_bytes() == local.read_bytes()


def test_a_part_in_a_bucket_takes_one_request_for_its_directory_and_one_for_its_data(
    tmp_path: Path,
) -> None:
    parts = make_parts(tmp_path / "archive", [noise(50_000), b"3,4\n", b""])
    local = splice(tmp_path / "local.zip", parts)
    with bucket_server() as server, server.store() as store:
        for path in (tmp_path / "archive").iterdir():
            digest = content_sha256(path)
            store.put_if_absent(
                path.name, path, content_type="application/zip", sha256=digest, immutable=True
            )
        objects = list(store.list())
        server.door.requests.clear()
        stored = [part for info in objects for part in read_parts(ObjectSource(store, info))]
        layout = layout_zip("x.zip", [csv_of(sorted(stored, key=lambda part: part.blocks))])
        assert b"".join(layout.read()) == local.read_bytes()
        assert len(server.door.requests) == 3 + 2  # the third part has no rows


def truncated(part: PartRef, size: int) -> None:
    os.truncate(part.source.name, size)


@pytest.mark.parametrize("left", [0, 60, 90])
def test_a_part_that_became_shorter_breaks_the_splice_and_leaves_no_zip(
    tmp_path: Path, left: int
) -> None:
    parts = make_parts(tmp_path / "parts", [b"1,2\n", noise(500), b"3,4\n"])
    layout = layout_zip("x.zip", [csv_of(parts)])
    truncated(parts[1], left)
    with pytest.raises(IntegrityError, match=r"orders-1001-2000\.zip lacks bytes \d+ to \d+"):
        layout.write(tmp_path / "out" / "x.zip")
    with pytest.raises(IntegrityError, match="was truncated or replaced"):
        list(layout.read())
    assert list((tmp_path / "out").iterdir()) == []


def test_a_stored_part_that_became_shorter_breaks_the_splice(tmp_path: Path) -> None:
    (part,) = make_parts(tmp_path / "parts", [noise(500)])
    store = FolderStore(tmp_path / "parts")
    (stored,) = read_parts(ObjectSource(store, next(store.list())))
    layout = layout_zip("x.zip", [csv_of([stored])])
    truncated(part, 300)
    with pytest.raises(IntegrityError, match="lacks bytes 300 to"):
        layout.write(tmp_path / "x.zip")
    assert not (tmp_path / "x.zip").exists()


def test_a_part_that_is_gone_breaks_the_splice(tmp_path: Path) -> None:
    layout = small_layout(tmp_path / "parts")
    for path in (tmp_path / "parts").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError):
        layout.write(tmp_path / "out" / "x.zip")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_takes_no_more_leaves_what_stood_there(tmp_path: Path) -> None:
    path = tmp_path / "out" / "x.zip"
    before = splice(path, make_parts(tmp_path / "small", [b"1,2\n"])).read_bytes()
    layout = layout_zip("x.zip", [csv_of(make_parts(tmp_path / "big", [noise(90_000)] * 3))])
    with files_no_longer_than(100_000), pytest.raises(OSError, match="File too large"):
        layout.write(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_entity_tag_stays_while_the_parts_do_and_changes_with_them(tmp_path: Path) -> None:
    make_parts(tmp_path, BODIES)

    def tag(**versions: str) -> str:
        sources = [LocalSource.open(path, **versions) for path in sorted(tmp_path.glob("*.zip"))]
        parts = [part for source in sources for part in read_parts(source)]
        return layout_zip("x.zip", [csv_of(parts)]).etag

    before, hashed = tag(), tag(version="a hash")
    assert before[0] == before[-1] == '"'
    assert before == tag() != hashed
    os.utime(tmp_path / "testnet-001-orders-2001-3000.zip", (1, 1))
    assert tag() != before
    assert tag(version="a hash") == hashed
