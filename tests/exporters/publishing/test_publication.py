"""Publishing: complete, once, in the right order, whoever dies or comes between."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.publishing.publication import Outcome, publish_zips
from exporters.publishing.replace import Correction
from exporters.publishing.request import PublishRequest
from tests.archive_kit import (
    CHAIN,
    THREE,
    KilledError,
    KillingStore,
    contents,
    part_request,
    segment_requests,
    shard_file,
    verify_archive,
)
from tests.s3_kit import BucketServer, bucket_and_key, bucket_server
from tests.transforms.stores.test_folder_store import no_file_above
from transforms.errors import BusyError
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import S3Options, Store
from transforms.stores.store_address import open_store
from transforms.tables.registry import HISTORY_TABLES

WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
TYPO = Correction("a wrong price in block 7", WHEN)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "store")
        return
    with request.getfixturevalue("server").store() as store:
        yield store


def archive_in(folder: Path) -> Archive:
    return Archive(FolderStore(folder), CHAIN)


def root_json(archive: Archive) -> dict[str, object]:
    found: dict[str, object] = json.loads(archive.read("index.json") or b"{}")
    return found


def assert_no_entry_without_its_object(archive: Archive) -> None:
    """What a reader may rely on at any moment."""
    held = contents(archive.store)
    shards = [key for key in held if key.startswith(f"{CHAIN}/index/") and key.endswith(".json")]
    for key in shards:
        for entry in json.loads(held[key])["zips"]:
            content = held[f"{CHAIN}/{entry['path']}"]
            assert hashlib.sha256(content).hexdigest() == entry["sha256"]
            assert held[f"{CHAIN}/{entry['path']}.sha256"].startswith(entry["sha256"].encode())


def test_a_segment_is_published_with_everything_beside_it(store: Store, tmp_path: Path) -> None:
    archive = Archive(store, CHAIN)
    requests = segment_requests(tmp_path, 1, 1000) + segment_requests(tmp_path, 1001, 1087)
    report = publish_zips(archive, requests)
    size = sum(request.content.stat().st_size for request in requests)
    assert (report.created, report.bytes, len(report.results)) == (30, size, 30)
    held = contents(store)
    name = f"{CHAIN}/orders/net-1-orders-1-1000.zip"
    assert name in held
    line = f"{hashlib.sha256(held[name]).hexdigest()}  net-1-orders-1-1000.zip\n"
    assert held[f"{name}.sha256"] == line.encode()
    assert {key for key in held if "/orders/" not in key and "/index/" not in key} >= {
        "chains.json",
        "index.html",
        f"{CHAIN}/index.json",
        f"{CHAIN}/index.html",
    }
    assert root_json(archive)["complete_until"] == 1087
    assert list(verify_archive(archive)) == []


def test_publishing_again_finds_everything_identical_and_writes_nothing(
    store: Store, tmp_path: Path
) -> None:
    archive = Archive(store, CHAIN)
    requests = segment_requests(tmp_path, 1, 1000, THREE)
    publish_zips(archive, requests)
    before = list(store.list())
    report = publish_zips(archive, requests)
    assert (report.identical, report.bytes, len(report.results)) == (3, 0, 3)
    assert list(store.list()) == before


def test_publishing_one_more_segment_rewrites_its_shard_and_the_root_alone(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "store")
    publish_zips(archive, segment_requests(tmp_path, 1, 1000, THREE))
    publish_zips(archive, segment_requests(tmp_path, 20001, 21000, THREE))
    before = contents(archive.store)
    publish_zips(archive, segment_requests(tmp_path, 21001, 22000, THREE))
    changed = {
        key
        for key, data in contents(archive.store).items()
        if before.get(key) != data and "-21001-22000." not in key
    }
    assert changed == {
        "index.html",
        *(f"{CHAIN}/{name}" for name in ("SHA256SUMS", "conditions.json", "latest.json")),
        f"{CHAIN}/index.html",
        f"{CHAIN}/index.json",
        *(f"{CHAIN}/index/000020000.{kind}" for kind in ("html", "sha256")),
        archive.key(shard_file(archive, 1)),
    }


def test_the_order_of_publishing_leaves_no_trace(tmp_path: Path) -> None:
    segments = [
        segment_requests(tmp_path, *blocks, THREE) for blocks in ((1, 9), (10, 12), (20001, 20005))
    ]
    one, other = archive_in(tmp_path / "one"), archive_in(tmp_path / "other")
    publish_zips(one, [request for segment in segments for request in segment])
    for segment in reversed(segments):
        for request in reversed(segment):
            publish_zips(other, [request], workers=1)
    assert contents(one.store) == contents(other.store)


def test_a_publisher_killed_before_any_write_is_made_good_by_the_next_run(tmp_path: Path) -> None:
    new = segment_requests(tmp_path, 10, 12, THREE) + segment_requests(
        tmp_path, 20001, 20005, THREE[:1]
    )
    # ZIPs and hash files; the three files of two shards; the index, two pages and three others
    assert kills_recovered_from(tmp_path, new, None) == 4 * 2 + 2 * 3 + 6


def test_a_replacement_killed_before_any_write_is_made_good_by_the_next_run(tmp_path: Path) -> None:
    # So much longer that the page of all chains shows another size, too.
    new = [part_request(tmp_path, "orders", 1, 9, salt="corrected", rows=99)]
    # refused creation, revisions, ZIP, refused creation and swap of the hash file; as above
    assert kills_recovered_from(tmp_path, new, TYPO) == 5 + 3 + 6


def kills_recovered_from(
    tmp_path: Path, new: list[PublishRequest], correction: Correction | None
) -> int:
    """Publish `new` into copies of an archive, dying once in each, then finish; count deaths."""
    before = archive_in(tmp_path / "before")
    publish_zips(before, segment_requests(tmp_path, 1, 9, THREE))
    shutil.copytree(tmp_path / "before", tmp_path / "undisturbed")
    undisturbed = archive_in(tmp_path / "undisturbed")
    assert publish_zips(undisturbed, new, correction=correction).failed == ()
    expected = contents(undisturbed.store)
    for deaths in count():
        folder = tmp_path / f"killed-{deaths}"
        shutil.copytree(tmp_path / "before", folder)
        archive = archive_in(folder)
        killed = Archive(KillingStore(archive.store, deaths), CHAIN)
        try:
            publish_zips(killed, new, workers=1, correction=correction)
        except KilledError:
            if correction is None:
                assert_no_entry_without_its_object(archive)
            publish_zips(archive, new, correction=correction)
        else:
            return deaths
        assert contents(archive.store) == expected
    raise AssertionError


def test_other_bytes_in_its_place_fail_one_zip_and_change_nothing(
    store: Store, tmp_path: Path
) -> None:
    archive = Archive(store, CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    before = contents(store)
    other = part_request(tmp_path, "orders", 1, 9, salt="other")
    report = publish_zips(archive, [other, *segment_requests(tmp_path, 10, 19, THREE)])
    assert (report.created, report.identical, report.replaced) == (3, 0, 0)
    (failed,) = report.failed
    assert failed.name == "net-1-orders-1-9.zip"
    assert "already holds other bytes" in failed.reason
    after = contents(store)
    zips = [key for key in before if ".zip" in key]
    assert [after[key] for key in zips] == [before[key] for key in zips]
    assert list(verify_archive(archive)) == []


def test_a_replacement_goes_through_the_revisions(store: Store, tmp_path: Path) -> None:
    archive = Archive(store, CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    path = "orders/net-1-orders-1-9.zip"
    old = archive.read(path)
    report = publish_zips(
        archive, segment_requests(tmp_path, 1, 9, THREE[1:], salt="right"), correction=TYPO
    )
    assert (report.created, report.identical, report.replaced) == (0, 0, 2)
    new = archive.read(path)
    assert old is not None
    assert new is not None
    revisions = json.loads(archive.read("revisions.json") or b"")
    assert [event["path"].partition("/")[0] for event in revisions["revisions"]] == list(THREE[1:])
    assert revisions["revisions"][0] == {
        "path": path,
        "old_sha256": hashlib.sha256(old).hexdigest(),
        "new_sha256": hashlib.sha256(new).hexdigest(),
        "reason": "a wrong price in block 7",
        "at": "2026-01-31T12:00:00Z",
    }
    assert b"a wrong price in block 7" in (archive.read("index.html") or b"")
    assert list(verify_archive(archive)) == []


def test_a_correction_of_what_is_right_already_changes_nothing(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "store")
    requests = segment_requests(tmp_path, 1, 9, THREE)
    publish_zips(archive, requests)
    before = contents(archive.store)
    report = publish_zips(archive, requests, correction=TYPO)
    assert (report.identical, len(report.results)) == (3, 3)
    assert contents(archive.store) == before


def test_a_zip_damaged_on_the_way_is_not_published(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "store")
    request = part_request(tmp_path, "orders", 1, 9, rows=500)
    whole = request.content.read_bytes()
    for damaged in (whole[:-1], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:], b""):
        request.content.write_bytes(damaged)
        (failed,) = publish_zips(archive, [request]).failed
        assert (failed.name, failed.outcome) == (request.name, Outcome.DAMAGED)
    request.content.write_bytes(whole)
    assert publish_zips(archive, [request]).created == 1


def test_a_missing_local_file_ends_the_run_and_what_was_put_is_named_later(
    tmp_path: Path,
) -> None:
    archive = archive_in(tmp_path / "store")
    requests = segment_requests(tmp_path, 1, 9, THREE)
    whole = requests[2].content.read_bytes()
    requests[2].content.unlink()
    with pytest.raises(FileNotFoundError):
        publish_zips(archive, requests, workers=1)
    assert archive.read("index.json") is None
    requests[2].content.write_bytes(whole)
    report = publish_zips(archive, requests)
    assert (report.created, report.identical, report.bytes) == (1, 2, len(whole))
    assert list(verify_archive(archive)) == []


def test_a_full_disk_ends_the_run_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "store")
    small = part_request(tmp_path, "orders", 1, 9)
    large = part_request(tmp_path, "orders", 10, 19, rows=20_000)
    with no_file_above(20_000), pytest.raises(OSError, match="too large"):
        publish_zips(archive, [small, large], workers=1)
    assert [info.key for info in archive.store.list(f"{CHAIN}/")] == [
        f"{CHAIN}/{small.path}",
        f"{CHAIN}/{small.path}.sha256",
    ]
    assert publish_zips(archive, [small, large]).created == 1
    assert list(verify_archive(archive)) == []


def test_a_connection_lost_at_any_write_is_made_good_by_the_next_run(
    tmp_path: Path, server: BucketServer
) -> None:
    with server.store() as store:
        archive = Archive(store, CHAIN)
        publish_zips(archive, segment_requests(tmp_path, 90, 99, THREE[:1]))
        for block in (0, 1, 2, 5):  # the ZIP, its hash file, the shard, the index
            requests = segment_requests(tmp_path, block, block, THREE[:1])
            server.door.faults += [("PUT", "")] * block + [("PUT", "lose the answer")]
            with pytest.raises(ConnectionError):
                publish_zips(archive, requests, workers=1)
            assert server.door.faults == []
            assert_no_entry_without_its_object(archive)
            publish_zips(archive, requests)
        assert list(verify_archive(archive)) == []


def test_a_document_that_lies_damaged_in_a_bucket_is_mended(
    tmp_path: Path, server: BucketServer
) -> None:
    with server.store(attempts=3) as store:
        archive = Archive(store, CHAIN)
        publish_zips(archive, segment_requests(tmp_path, 1, 1, THREE[:1]))
        bucket, key = bucket_and_key(store, archive.key("index.json"))
        held = server.client.get_object(Bucket=bucket, Key=key)
        damaged = held["Body"].read().replace(CHAIN.encode(), b"?" * len(CHAIN), 1)
        server.client.put_object(Bucket=bucket, Key=key, Body=damaged, Metadata=held["Metadata"])
        publish_zips(archive, segment_requests(tmp_path, 2, 2, THREE[:1]))
        assert list(verify_archive(archive)) == []


PUBLISHER = """
import sys
from pathlib import Path
from exporters.archive.archive import Archive
from exporters.publishing.publication import publish_zips
from transforms.stores.store_address import open_store
from transforms.stores.store import S3Options
from tests.archive_kit import CHAIN, THREE, segment_requests

url, endpoint, folder, first = sys.argv[1:]
archive = Archive(open_store(url, S3Options(endpoint or None, "us-east-1")), CHAIN)
sys.stdin.readline()
for block in range(int(first), int(first) + 8, 2):
    report = publish_zips(archive, segment_requests(Path(folder), block, block, THREE), workers=2)
    assert report.created == 3, report
"""


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_two_publishers_at_once_lose_nothing(
    kind: str, tmp_path: Path, server: BucketServer
) -> None:
    url = str(tmp_path / "store") if kind == "folder" else f"s3://{server.bucket()}/a"
    endpoint = "" if kind == "folder" else server.url
    publishers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                PUBLISHER,
                url,
                endpoint,
                str(tmp_path / f"{first}"),
                f"{first}",
            ],
            stdin=subprocess.PIPE,
            text=True,
        )
        for first in (1, 2)
    ]
    for publisher in publishers:
        assert publisher.stdin is not None
        publisher.stdin.write("go\n")
        publisher.stdin.close()
    assert [publisher.wait(60) for publisher in publishers] == [0, 0]

    both = open_store(url, S3Options(endpoint or None, "us-east-1"))
    assert list(verify_archive(Archive(both, CHAIN))) == []
    alone = archive_in(tmp_path / "alone")
    for block in range(1, 9):
        publish_zips(alone, segment_requests(tmp_path / "parts", block, block, THREE))
    assert contents(both) == contents(alone.store)


def test_others_that_always_win_are_an_error_and_not_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Contested(KillingStore):
        def put_if_match(
            self,
            key: str,
            data: Path | bytes,
            expected_version: str | None,
            content_type: str,
            *,
            sha256: str | None = None,
        ) -> str:
            return super().put_if_match(key, data, "another version", content_type, sha256=sha256)

    monkeypatch.setattr("exporters.archive.archive._LONGEST_PAUSE_SECONDS", 0)
    archive = Archive(Contested(FolderStore(tmp_path), -1), CHAIN)
    with pytest.raises(BusyError, match="others keep changing"):
        publish_zips(archive, segment_requests(tmp_path / "parts", 1, 9, THREE[:1]))


def test_all_tables_make_a_segment_complete(tmp_path: Path) -> None:
    archive = archive_in(tmp_path / "store")
    requests: list[PublishRequest] = segment_requests(tmp_path, 1, 9)
    publish_zips(archive, requests[:-1])
    assert root_json(archive)["complete_until"] is None
    publish_zips(archive, requests[-1:])
    assert root_json(archive)["complete_until"] == 9
    assert len(requests) == len(HISTORY_TABLES)


def test_no_cache_keeps_a_zip_that_may_be_replaced(server: BucketServer, tmp_path: Path) -> None:
    with server.store() as store:
        publish_zips(Archive(store, CHAIN), segment_requests(tmp_path, 1, 1000, ("orders",)))
        (zip_key,) = (info.key for info in store.list() if info.key.endswith(".zip"))
        bucket, key = bucket_and_key(store, zip_key)
        held = server.client.head_object(Bucket=bucket, Key=key)
    assert held["CacheControl"] == "public, no-cache"
