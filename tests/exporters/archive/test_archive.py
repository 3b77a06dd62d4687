"""Where everything lies in an archive, and how it is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporters.archive.archive import Archive, chains, update
from exporters.archive.csv_columns import ZipRow
from exporters.publishing.publication import publish_zips
from exporters.zips.parts import read_parts
from tests.archive_kit import (
    CHAIN,
    THREE,
    KillingStore,
    contents,
    copied_archive,
    resealed,
    segment_requests,
    shard_file,
)
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import LostRaceError, Versioned


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments 1-10, 11-13, 14-20 and 31-40."""
    folder = tmp_path_factory.mktemp("model")
    archive = Archive(FolderStore(folder / "store"), CHAIN)
    for blocks in ((1, 10), (11, 13), (14, 20), (31, 40)):
        publish_zips(archive, segment_requests(folder, *blocks, THREE))
    return folder / "store"


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return copied_archive(model, tmp_path)


def test_the_layout_is_chain_table_zip(archive: Archive) -> None:
    keys = [info.key for info in archive.store.list(f"{CHAIN}/orders/")]
    blocks = ("1-10", "11-13", "14-20", "31-40")
    names = [f"{CHAIN}/orders/net-1-orders-{run}.zip" for run in blocks]
    assert keys == [key for name in names for key in (name, f"{name}.sha256")]


def test_an_archive_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path), CHAIN)
    assert archive.index().shards == {}
    assert archive.shard(0).entries == ()
    assert list(archive.entries("orders", BlockRange(0, 10**9), archive.index())) == []
    assert chains(archive.store) == ()


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (BlockRange(1, 40), ["1-10", "11-13", "14-20", "31-40"]),
        (BlockRange(12, 14), ["11-13", "14-20"]),
        (BlockRange(21, 30), []),
        (BlockRange(40, 99), ["31-40"]),
    ],
)
def test_entries_are_found_by_their_blocks(
    archive: Archive, blocks: BlockRange, expected: list[str]
) -> None:
    entries = archive.entries("orders", blocks, archive.index())
    assert [str(entry.blocks) for entry in entries] == expected


def test_a_published_zip_reads_with_its_hash_as_its_version(archive: Archive) -> None:
    (entry,) = archive.entries("orders", BlockRange(31, 31), archive.index())
    source = archive.source(entry)
    assert (source.version, source.size) == (entry.sha256, entry.bytes)


def test_the_archive_serves_as_parts_of_any_range(archive: Archive) -> None:
    csvs = archive.csvs_inside("orders", BlockRange(1, 20), lambda *_: pytest.fail("unreadable"))
    parts = [read_parts(archive.source(ZipRow(csvs, row)))[0] for row in range(len(csvs))]
    assert [str(part.blocks) for part in parts] == ["1-10", "11-13", "14-20", "31-40"]


def test_sha256sum_checks_what_was_published(archive: Archive, tmp_path: Path) -> None:
    chain = tmp_path / "store" / CHAIN
    beside = sorted(path.name for path in (chain / "orders").glob("*.sha256"))
    for folder, files in ((chain / "orders", beside), (chain, ["index/000000000.sha256"])):
        check = ["sha256sum", "--check", "--strict", "--quiet", *files]
        assert subprocess.run(check, cwd=folder, check=True).returncode == 0
    (chain / "orders/net-1-orders-1-10.zip").write_bytes(b"other")
    assert subprocess.run(check, cwd=chain, capture_output=True).returncode == 1


def test_chains_share_a_store(archive: Archive, tmp_path: Path) -> None:
    update(
        archive.store,
        "chains.json",
        lambda old: resealed((old or b"").replace(b"net-1", b"net-0")),
        "",
    )
    publish_zips(archive, segment_requests(tmp_path, 41, 50, THREE))
    assert chains(archive.store) == ("net-0", "net-1")


def damage_document(archive: Archive, key: str, damage: str) -> None:
    data = archive.store.read(key)
    archive.store.delete(key)
    if damage != "gone":
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        archive.store.put_if_match(key, flipped if damage == "flip" else data[:middle], None, "")


@pytest.mark.parametrize(
    "key",
    [f"{CHAIN}/index.json", "chains.json", "index.html"]
    + [f"{CHAIN}/index/000000000.{kind}" for kind in ("sha256", "html")],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_document_is_made_again_from_what_is_there(
    archive: Archive, tmp_path: Path, key: str, damage: str
) -> None:
    before = contents(archive.store)
    damage_document(archive, key, damage)
    assert publish_zips(archive, segment_requests(tmp_path, 1, 10, THREE)).identical == 3
    assert contents(archive.store) == before


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_into_a_damaged_shard_nothing_is_published(
    archive: Archive, tmp_path: Path, damage: str
) -> None:
    damage_document(archive, archive.key(shard_file(archive)), damage)
    before = contents(archive.store)
    with pytest.raises(IntegrityError, match=r"000000000\.\w+\.json .*: .*strata publish"):
        publish_zips(archive, segment_requests(tmp_path, 1, 10, THREE))
    assert contents(archive.store) == before


def test_an_update_that_lost_the_race_starts_from_what_won(tmp_path: Path) -> None:
    class Overtaken(KillingStore):
        rivals = 2

        def put_if_match(
            self,
            key: str,
            data: Path | bytes,
            expected_version: str | None,
            content_type: str,
            *,
            sha256: str | None = None,
        ) -> str:
            if self.rivals:
                self.rivals -= 1
                super().put_if_match(key, b"rival %d" % self.rivals, expected_version, "")
                raise LostRaceError(key)
            return super().put_if_match(key, data, expected_version, content_type, sha256=sha256)

    store = Overtaken(FolderStore(tmp_path), -1)
    assert update(store, "x", lambda old: (old or b"nothing") + b" and me", "")
    assert store.read("x") == b"rival 0 and me"


def test_an_update_never_buries_what_came_between_its_reading_and_its_writing(
    tmp_path: Path,
) -> None:
    class Interrupted(KillingStore):
        interruptions = 1

        def get(self, key: str) -> Versioned:
            data, version = super().get(key)
            if self.interruptions:
                self.interruptions -= 1
                self.put_if_match(key, data + b" rival", version, "")
            return data, version

    store = Interrupted(FolderStore(tmp_path), -1)
    store.put_if_match("x", b"old", None, "")
    assert update(store, "x", lambda old: (old or b"nothing") + b" me", "")
    assert store.read("x") == b"old rival me"


def test_an_update_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    assert update(store, "x", lambda _: b"1", "")
    before = store.head("x")
    assert not update(store, "x", lambda _: b"1", "")
    assert store.head("x") == before
