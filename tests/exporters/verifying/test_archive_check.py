"""Checking an archive: every kind of damage is found, and named for what it is."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.shards import Shard
from exporters.publishing.publication import publish_zips
from tests.archive_kit import (
    CHAIN,
    THREE,
    copied_archive,
    forge_shard,
    name_shard,
    segment_requests,
    shard_file,
    verify_archive,
)
from transforms.stores.folder_store import FolderStore
from transforms.verifying.findings import Problem
from transforms.verifying.verification import Kind, Verification

ORDERS = f"{CHAIN}/orders/net-1-orders-1-10.zip"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    archive = Archive(FolderStore(folder / "store"), CHAIN)
    publish_zips(archive, segment_requests(folder, 1, 10, THREE, rows=200))
    publish_zips(archive, segment_requests(folder, 11, 13, THREE))
    return folder / "store"


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return copied_archive(model, tmp_path)


def found(archive: Archive) -> list[tuple[Problem, str]]:
    root = archive.store.describe() + "/"
    return [(each.problem, each.place.removeprefix(root)) for each in verify_archive(archive)]


def file(archive: Archive, key: str) -> Path:
    return Path(archive.store.describe(key))


def rewritten(archive: Archive, change: Callable[[Shard], Shard]) -> None:
    """Change the entries, and everything that follows from them: a lie without a seam."""
    forge_shard(archive, change(archive.shard(0)))


def test_a_sound_archive_has_no_findings_and_every_zip_is_read(archive: Archive) -> None:
    seen: list[tuple[str, int, int]] = []
    check = Verification(progress=lambda *step: seen.append(step))
    assert list(verify_archive(archive, check)) == []
    assert seen == [("ZIPs", number, 6) for number in range(1, 7)]
    assert check.read == {
        Kind.ZIPS: 6,
        Kind.BYTES: sum(entry.bytes for entry in archive.shard(0).entries),
    }
    assert check.there == check.read


def test_an_entry_without_its_object_is_missing(archive: Archive) -> None:
    file(archive, f"{CHAIN}/trades/net-1-trades-1-10.zip").unlink()
    assert found(archive) == [(Problem.MISSING, f"{CHAIN}/trades/net-1-trades-1-10.zip")]


def test_altered_bytes_are_found(archive: Archive) -> None:
    path = file(archive, f"{CHAIN}/trades/net-1-trades-1-10.zip")
    data = path.read_bytes()
    path.write_bytes(data[:300] + bytes([data[300] ^ 1]) + data[301:])
    key = f"{CHAIN}/trades/net-1-trades-1-10.zip"
    assert found(archive) == [(Problem.DAMAGED, key)]


@pytest.mark.parametrize("size", [0, 1, 100, 400])
def test_a_truncated_zip_is_damaged(archive: Archive, size: int) -> None:
    key = f"{CHAIN}/trades/net-1-trades-1-10.zip"
    path = file(archive, key)
    path.write_bytes(path.read_bytes()[:size])
    assert found(archive) == [(Problem.DAMAGED, key)]


@pytest.mark.parametrize("content", [None, b"", b"00  net-1-orders-1-10.zip\n"])
def test_a_wrong_hash_file_is_found(archive: Archive, content: bytes | None) -> None:
    path = file(archive, f"{ORDERS}.sha256")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    problem = Problem.MISSING if content is None else Problem.DAMAGED
    assert found(archive) == [(problem, f"{ORDERS}.sha256")]


@pytest.mark.parametrize(
    "key",
    [
        *(f"{CHAIN}/orders/net-1-orders-{blocks}.zip" for blocks in ("14-20", "001-10")),
        f"{CHAIN}/orders/net-1-orders-14-20.zip.sha256",
        *(f"{CHAIN}/orders/{name}-1-10.zip" for name in ("net-1-trades", "net-2-orders")),
        *(
            f"{CHAIN}/notes.txt",
            f"{CHAIN}/index/x.json",
            "notes.txt",
            "orders/net-1-orders-1-10.zip",
        ),
    ],
)
def test_an_object_that_nothing_names_is_an_orphan_after_an_hour(
    archive: Archive, key: str
) -> None:
    path = file(archive, key)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    assert found(archive) == []
    os.utime(path, (0, 0))
    named = key.partition("/")[0] if key.startswith("orders/") else key
    assert found(archive) == [(Problem.ORPHAN, named)]


def test_a_folder_of_no_chain_is_an_orphan_once_nobody_writes_to_it(archive: Archive) -> None:
    folder = file(archive, "old/orders")
    folder.mkdir(parents=True)
    for number in range(3):
        folder.joinpath(str(number)).write_bytes(b"x")
        os.utime(folder / str(number), (0, 0))
    (finding,) = verify_archive(archive)
    assert (finding.problem, finding.place) == (Problem.ORPHAN, str(folder.parent))
    assert "it is the folder of no chain of this archive, and holds 3 files" in str(finding)
    folder.joinpath("4").write_bytes(b"x")
    assert found(archive) == []


def test_each_table_has_its_own_blocks(archive: Archive, tmp_path: Path) -> None:
    publish_zips(archive, segment_requests(tmp_path, 14, 20, ["blocks"]))
    assert found(archive) == []
    key = f"{CHAIN}/orders/net-1-orders-14-20.zip"
    file(archive, key).write_bytes(b"x")
    os.utime(file(archive, key), (0, 0))
    assert found(archive) == [(Problem.ORPHAN, key)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", 201), ("bytes", 1), ("sha256", "00" * 32)],
)
def test_a_wrong_fact_about_a_csv_is_found(archive: Archive, name: str, value: Any) -> None:
    def lie(shard: Shard) -> Shard:
        entry = next(e for e in shard.entries if e.path.endswith("trades-1-10.zip"))
        csv = replace(entry.csv, **{name: value})
        return shard.including([replace(entry, csv=csv)])

    rewritten(archive, lie)
    assert found(archive) == [(Problem.DAMAGED, f"{CHAIN}/trades/net-1-trades-1-10.zip")]


@pytest.mark.parametrize("chunk", [1024 * 1024, 1021, 1022, 1023, 1024])
def test_rows_are_counted_outside_quotes(
    archive: Archive, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporters.verifying.verify_zip._CHUNK_BYTES", chunk)
    with zipfile.ZipFile(file(archive, ORDERS)) as opened:
        text = opened.read("net-1-orders-1-1-10.csv")
    assert text.count(b"\n") == 401  # every value spans two lines
    assert found(archive) == []


DOCUMENTS = [
    "SHA256SUMS",
    "conditions.json",
    "latest.json",
    "index.json",
    "index.html",
    "index/000000000.sha256",
    "index/000000000.html",
]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_that_does_not_follow_from_the_entries_is_found_and_written_anew(
    archive: Archive, path: str
) -> None:
    document = file(archive, f"{CHAIN}/{path}")
    whole = document.read_bytes()
    for damaged in (whole.replace(b"2", b"3", 1), b"", None):
        document.unlink(missing_ok=True)
        if damaged is not None:
            document.write_bytes(damaged)
        problems = found(archive)
        problem = Problem.MISSING if damaged is None else Problem.DAMAGED
        assert problems == [(problem, f"{CHAIN}/{path}")]
        document.unlink(missing_ok=True)
        refresh(archive, [0])
        assert document.read_bytes() == whole


def test_an_index_that_was_lost_is_made_again_from_all_shards(
    archive: Archive, tmp_path: Path
) -> None:
    publish_zips(archive, segment_requests(tmp_path, 20001, 20010, THREE))
    index = file(archive, f"{CHAIN}/index.json")
    whole = index.read_bytes()
    index.unlink()
    publish_zips(archive, segment_requests(tmp_path, 20001, 20010, THREE))
    assert index.read_bytes() == whole


def test_wrong_sums_in_the_index_are_found(archive: Archive) -> None:
    index = file(archive, f"{CHAIN}/index.json")
    found_index = json.loads(index.read_bytes())
    found_index["complete_until"] = 13
    index.write_bytes(json.dumps(found_index).encode())
    assert found(archive)[0] == (Problem.DAMAGED, f"{CHAIN}/index.json")


def test_a_damaged_shard_is_named_and_nothing_is_called_an_orphan_for_it(archive: Archive) -> None:
    for info in archive.store.list():
        os.utime(file(archive, info.key), (0, 0))
    shard = archive.key(shard_file(archive))
    file(archive, shard).write_bytes(b"{")
    assert found(archive) == [(Problem.DAMAGED, shard)]


def test_a_shard_that_is_gone_is_missed(archive: Archive, tmp_path: Path) -> None:
    publish_zips(archive, segment_requests(tmp_path, 20001, 20010, THREE))
    shard = archive.key(shard_file(archive, 1))
    file(archive, shard).unlink()
    assert found(archive)[0] == (Problem.MISSING, shard)


def test_an_entry_in_the_wrong_shard_is_found(archive: Archive) -> None:
    name_shard(archive, Shard(CHAIN, 1, archive.shard(0).entries[:1]).to_bytes())
    assert (Problem.DAMAGED, archive.key(shard_file(archive))) in found(archive)


def test_an_archive_that_does_not_exist_is_not_sound(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    problems = found(Archive(FolderStore(tmp_path / "empty"), CHAIN))
    assert (Problem.MISSING, f"{CHAIN}/index.json") in problems


def test_a_finding_reads_as_a_sentence(archive: Archive) -> None:
    file(archive, ORDERS).unlink()
    text = str(next(verify_archive(archive)))
    assert text.startswith("missing: ")
    assert text.endswith("run strata publish with the warehouse of this chain")
