"""What tells what is new, and what everything hashes to: `latest.json`, `SHA256SUMS`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.revisions import Revision, record
from exporters.publishing.publication import publish_zips
from tests.archive_kit import (
    CHAIN,
    THREE,
    block_time,
    contents,
    copied_archive,
    segment_requests,
)
from transforms.stores.folder_store import FolderStore

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


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


def test_latest_says_what_is_newest_and_where_things_are(archive: Archive) -> None:
    data = archive.read("latest.json") or b""
    index = archive.read("index.json") or b""
    found = json.loads(data)
    assert len(data) < 1000
    assert (found["chain_id"], found["complete_until"]) == (CHAIN, 1000)
    assert (found["first_block"], found["last_block"]) == (1, 21000)
    assert (found["first_time"], found["last_time"]) == (block_time(1), block_time(21000))
    assert found["newest"] == {"from": 20001, "to": 21000}
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
    assert {"index.json", "latest.json", "schema.json", "revisions.json"} <= found
    assert "conditions.json" in found
    zips = checked(folder, "cat index/*.sha256 | sha256sum -c")
    held = {key.removeprefix(f"{CHAIN}/") for key in contents(archive.store)}
    left = {path for path in held - found - zips if not path.endswith((".html", ".zip.sha256"))}
    assert left == {"SHA256SUMS", "chains.json"}
