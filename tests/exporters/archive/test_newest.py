"""What tells what is new, and what everything hashes to: `latest.json`, the feed, `SHA256SUMS`."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.feed import feed_xml
from exporters.archive.recent import PublishedSegment
from exporters.archive.revisions import Revision, record
from exporters.publishing.publication import publish_zips
from exporters.publishing.replace import Correction
from tests.archive_kit import (
    CHAIN,
    THREE,
    block_time,
    contents,
    copied_archive,
    part_request,
    segment_requests,
    verify_archive,
)
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ATOM = "{http://www.w3.org/2005/Atom}"
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    archive = Archive(FolderStore(folder / "store"), CHAIN)
    publish_zips(archive, segment_requests(folder, 1, 1000))
    publish_zips(archive, segment_requests(folder, 1001, 1087, THREE))
    publish_zips(archive, segment_requests(folder, 20001, 21000))
    return folder / "store"


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return copied_archive(model, tmp_path)


def entries_of(feed: bytes) -> list[ElementTree.Element]:
    """The entries of a feed, held against the rules of RFC 4287 on the way."""
    root = ElementTree.fromstring(feed)
    assert root.tag == f"{ATOM}feed"
    entries = root.findall(f"{ATOM}entry")
    for element in (root, *entries):
        for name in ("id", "title", "updated"):
            assert len(element.findall(f"{ATOM}{name}")) == 1
        assert (element.findtext(f"{ATOM}id") or "").startswith("urn:uuid:")
        assert RFC3339.fullmatch(element.findtext(f"{ATOM}updated") or "")
        links = element.findall(f"{ATOM}link")
        assert all(link.get("href") for link in links)
        assert [link.get("rel") for link in links].count("alternate") == 1
        assert len(element.findall(f"{ATOM}content")) == (element is not root)
    assert root.findtext(f"{ATOM}author/{ATOM}name")  # those without one have that of the feed
    assert [link.get("href") for link in root.findall(f"{ATOM}link[@rel='self']")] == ["feed.xml"]
    ids = [entry.findtext(f"{ATOM}id") for entry in entries]
    assert len(set(ids)) == len(ids)
    times = [entry.findtext(f"{ATOM}updated") or "" for entry in entries]
    assert times == sorted(times, reverse=True)
    assert root.findtext(f"{ATOM}updated") == (times[0] if times else "1970-01-01T00:00:00Z")
    return entries


def titles(feed: bytes) -> list[str | None]:
    return [entry.findtext(f"{ATOM}title") for entry in entries_of(feed)]


def test_the_feed_tells_what_was_published_the_newest_first(archive: Archive) -> None:
    feed = archive.read("feed.xml") or b""
    assert titles(feed) == [
        "Blocks 20,001 to 21,000 published",
        "Blocks 1,001 to 1,087 published",
        "Blocks 1 to 1,000 published",
    ]
    newest = entries_of(feed)[0]
    assert newest.findtext(f"{ATOM}updated") == block_time(21000)
    assert "15 ZIPs with 45 rows" in (newest.findtext(f"{ATOM}content") or "")
    for link in newest.findall(f"{ATOM}link"):
        assert archive.read(unquote(link.get("href") or "")) is not None
    page = archive.read("index.html") or b""
    assert b'<link rel="alternate" type="application/atom+xml"' in page
    assert b'href="feed.xml"' in page


def test_files_replaced_together_are_one_entry_that_names_them(
    archive: Archive, tmp_path: Path
) -> None:
    for reason in ("a <wrong> price & more", "a bell\a and a null\0"):
        parts = [part_request(tmp_path, t, 1, 1000, salt=reason[:6]) for t in THREE]
        assert publish_zips(archive, parts, correction=Correction(reason, NOON)).replaced == 3
    feed = archive.read("feed.xml") or b""
    found = [entry.findtext(f"{ATOM}content") or "" for entry in entries_of(feed)[:2]]
    assert titles(feed)[:3] == ["3 files replaced"] * 2 + ["Blocks 20,001 to 21,000 published"]
    named = ", ".join(f"{table}/net-1-{table}-1-1000.zip" for table in THREE)
    assert f"a <wrong> price & more: {named}. The list of revisions has the hashes." in found
    assert any(text.startswith("a bell\ufffd and a null\ufffd: ") for text in found)
    assert list(verify_archive(archive)) == []


def test_the_feed_is_bounded_and_leaves_out_what_has_no_time() -> None:
    segments = [
        PublishedSegment(BlockRange(n, n), (block_time(n), block_time(n)), 15, 1, 1, "index/x.json")
        for n in range(150)
    ]
    replaced = [
        Revision(f"orders/{n}.zip", "aa", "bb", "why", NOON + timedelta(days=n // 50))
        for n in range(150)
    ]
    feed = feed_xml(CHAIN, segments, replaced)
    assert len(entries_of(feed)) == 100
    assert titles(feed)[:4] == ["50 files replaced"] * 3 + ["Blocks 149 to 149 published"]
    assert len(feed) < 80_000
    unknown = PublishedSegment(BlockRange(1, 9), None, 15, 1, 1, "index/x.json")
    assert entries_of(feed_xml("a&b\0", [unknown], [])) == []


def test_latest_says_what_is_newest_and_where_things_are(archive: Archive) -> None:
    data = archive.read("latest.json") or b""
    index = archive.read("index.json") or b""
    found = json.loads(data)
    assert len(data) < 1000
    assert (found["chain_id"], found["complete_until"]) == (CHAIN, 1000)
    assert (found["first_block"], found["last_block"]) == (1, 21000)
    assert (found["first_time"], found["last_time"]) == (block_time(1), block_time(21000))
    assert found["newest"] == {
        "from": 20001,
        "to": 21000,
        "first_time": block_time(20001),
        "last_time": block_time(21000),
    }
    sha256 = hashlib.sha256(index).hexdigest()
    assert found["index"] == {"path": "index.json", "bytes": len(index), "sha256": sha256}
    assert all(archive.read(path) is not None for path in found["documents"].values())


def checked(folder: Path, command: str) -> set[str]:
    """The files that `sha256sum -c` found right; it fails where one is not."""
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, check=True, capture_output=True, text=True
    )
    return {line.removesuffix(": OK") for line in done.stdout.splitlines()}


def test_two_commands_check_everything_but_pages(archive: Archive, tmp_path: Path) -> None:
    record(archive, Revision("orders/net-1-orders-1-1000.zip", "aa", "bb", "why", NOON))
    refresh(archive, [])
    folder = tmp_path / "store" / CHAIN
    found = checked(folder, "sha256sum -c SHA256SUMS")
    assert {"index.json", "latest.json", "feed.xml", "schema.json", "revisions.json"} <= found
    assert "conditions.json" in found
    zips = checked(folder, "cat index/*.sha256 | sha256sum -c")
    held = {key.removeprefix(f"{CHAIN}/") for key in contents(archive.store)}
    left = {path for path in held - found - zips if not path.endswith((".html", ".zip.sha256"))}
    assert left == {"SHA256SUMS", "chains.json"}


def test_a_damaged_shard_leaves_feed_and_latest_as_they_are(
    archive: Archive, tmp_path: Path
) -> None:
    before = contents(archive.store)
    (tmp_path / "store" / CHAIN / "index/000020000.json").write_bytes(b"{")
    refresh(archive, [0])
    for name in ("feed.xml", "latest.json", "SHA256SUMS"):
        assert archive.read(name) == before[archive.key(name)]
