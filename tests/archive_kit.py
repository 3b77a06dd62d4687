"""Small real ZIPs to publish, and ways to look at what came of it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.documents import refresh
from exporters.archive.entries import SegmentSource
from exporters.archive.hash_lists import SUMS, sums_text
from exporters.archive.shards import Shard, shard_path
from exporters.archive.sound_documents import INDEX, LISTED
from exporters.archive.stored_shards import put_shard
from exporters.publishing.request import PublishRequest
from exporters.verifying.archive_check import ArchiveCheck
from exporters.verifying.named_files import NamedFiles
from exporters.zip_names import csv_name, zip_name
from exporters.zips.part_zip import write_part_zip
from transforms.block_range import BlockRange
from transforms.objects import ObjectInfo
from transforms.sealed import seal_text
from transforms.stores.folder_store import FolderStore
from transforms.stores.store import PutResult, Store, Versioned
from transforms.tables.registry import HISTORY_TABLES, TableSchema, known_table
from transforms.verifying.findings import Finding, restored
from transforms.verifying.verification import Verification

CHAIN = "net-1"
_SHARD = re.compile(r"/index/\d+\.[0-9a-f]{16}\.json\Z")
THREE = ("blocks", "orders", "trades")
_RECORDING = (b"index.json", b"latest.json")
_RECORDS = ("warehouses", "index", "sha256")


def schema(table: str, version: int = 1) -> TableSchema:
    known = known_table(table, version)
    assert known is not None
    return known.schema


def block_time(height: int) -> str:
    """The time of a block as the archive writes it."""
    return f"{pg_time(height)[:-3].replace(' ', 'T')}.000000Z"


def pg_time(height: int) -> str:
    """The time of a block, one second apart, as a segment writes it."""
    return f"{datetime(2023, 1, 1, tzinfo=UTC) + timedelta(seconds=height):%Y-%m-%d %H:%M:%S}+00"


def part_request(
    folder: Path,
    table: str,
    first: int,
    last: int,
    *,
    rows: int = 3,
    salt: str = "",
    version: int = 1,
) -> PublishRequest:
    """A real single-segment ZIP whose rows span lines and hold quotes."""
    blocks, columns = BlockRange(first, last), schema(table, version)
    empty = "," * (len(columns.columns) - 1)
    lines = [f'"{salt} {number}, of\n""{table}"""{empty}\n' for number in range(rows)]
    if table == "blocks" and rows:  # of which the archive says when they were made
        lines = [f"{pg_time(first)}{empty}\n", *lines[1:-1], f"{pg_time(last)}{empty}\n"][:rows]
    body = "".join(lines).encode()
    path = folder / (salt or "plain") / zip_name(CHAIN, table, blocks)
    name = csv_name(CHAIN, table, version, blocks)
    part = write_part_zip(path, name, columns.header, [body], rows)
    sha256 = hashlib.sha256(columns.header + body).hexdigest()
    source = segment_source(blocks, version)
    return PublishRequest(path, part.member, source, columns, sha256, part.sha256)


def segment_source(blocks: BlockRange, version: int = 1) -> SegmentSource:
    """A segment that names none before it."""
    sha256 = hashlib.sha256(b"%d" % blocks.first).hexdigest()
    return SegmentSource(blocks, version, f"Qm{blocks.first}", sha256, "")


def segment_requests(
    folder: Path,
    first: int,
    last: int,
    tables: Iterable[str] = HISTORY_TABLES,
    *,
    rows: int = 3,
    salt: str = "",
    version: int = 1,
) -> list[PublishRequest]:
    """One ZIP for each table of a segment."""
    return [
        part_request(folder, table, first, last, rows=rows, salt=salt, version=version)
        for table in tables
    ]


def resealed(data: bytes) -> bytes:
    """A document that was changed, with the hash that it would have: a lie without a seam."""
    text = re.sub(rb',\n"sha256": ?"[0-9a-f]{64}"\n\}\n\Z', b"\n}\n", data)
    return seal_text(text)


def shard_file(archive: Archive, number: int = 0) -> str:
    """The path of a shard below the chain's folder, by the index alone."""
    shards = json.loads(archive.store.read(archive.key("index.json")))["shards"]
    (path,) = (row["path"] for row in shards if row["from"] == number * 20_000)
    return str(path)


def forge_shard(archive: Archive, shard: Shard, *, is_followed: bool = True) -> None:
    """Let the index name another shard, and the other documents follow from it, or not."""
    summary = put_shard(archive, shard.number, shard.to_bytes())
    paths = None if is_followed else [INDEX]
    refresh(archive, [shard.number], paths, lambda index: index.including([summary]))


def name_shard(archive: Archive, data: bytes, number: int = 0) -> None:
    """Let the index name a shard of any bytes in place of the one that it names."""
    index = archive.store.read(archive.key(INDEX)).decode()
    (row,) = (row for row in json.loads(index)["shards"] if row["from"] == number * 20_000)
    sha256 = hashlib.sha256(data).hexdigest()
    path = shard_path(number, sha256)
    update(archive.store, archive.key(path), lambda _: data, "application/json")
    text = index.replace(row["path"], path).replace(row["sha256"], sha256).encode()
    update(archive.store, archive.key(INDEX), lambda _: resealed(text), "application/json")


def list_documents(archive: Archive) -> None:
    """Let `SHA256SUMS` list the documents as they are."""
    contents = {name: archive.read(name) for name in LISTED}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items() if data}
    text = sums_text(archive.index(), hashes)
    update(archive.store, archive.key(SUMS), lambda _: text, "text/plain")


def copied_archive(model: Path, folder: Path) -> Archive:
    """An archive of one's own, as good as the one in `model`."""
    shutil.copytree(model, folder / "store")
    return Archive(FolderStore(folder / "store"), CHAIN)


def contents(store: Store) -> dict[str, bytes]:
    """Everything in a store, without the shards that newer ones replaced."""
    return without_old_shards({info.key: store.read(info.key) for info in store.list()})


def without_old_shards(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of an archive by path, without the shards that newer ones replaced."""
    named = {
        f"{key.removesuffix('index.json')}{row['path']}"
        for key, data in files.items()
        if key.endswith("/index.json")
        for row in json.loads(data)["shards"]
    }
    return {key: data for key, data in files.items() if key in named or not _SHARD.search(key)}


def without_records(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of an archive without the records of warehouses, whose ids are random.

    The hash of an index goes with them, wherever it is.
    """
    return {key: _without_record(key.rpartition("/")[2], data) for key, data in files.items()}


def _without_record(name: str, data: bytes) -> bytes:
    if name == "SHA256SUMS":
        lines = data.splitlines(keepends=True)
        return b"".join(line for line in lines if line.split()[1] not in _RECORDING)
    if name.encode() not in _RECORDING:
        return data
    document = json.loads(data)
    return json.dumps({key: document[key] for key in document if key not in _RECORDS}).encode()


def verify_archive(
    archive: Archive, verification: Verification | None = None, scratch: Path | None = None
) -> Iterator[Finding]:
    """Yield what is wrong in one chain's archive by itself; nothing, if all is well.

    See `ArchiveCheck` and `LakeCheck`.
    """
    from exporters.verifying.verify_lake import LakeCheck

    check, named = verification or Verification(), NamedFiles(archive.store)
    found = [*restored(ArchiveCheck(archive, check, named, scratch).findings())]
    found += restored(LakeCheck(archive, check, named).findings())
    yield from found or named.strangers([archive.chain_id])


class KilledError(Exception):
    """The publisher died here."""


class KillingStore:
    """A real store whose user is killed before its write number `writes`, counted from 0."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._left = writes

    def _write(self, key: str) -> None:
        if self._left == 0:
            raise KilledError(key)
        self._left -= 1

    def now(self) -> float:
        return self._store.now()

    def delete(self, key: str) -> None:
        self._write(key)
        self._store.delete(key)

    def put_if_absent(
        self,
        key: str,
        source: Path | bytes,
        *,
        content_type: str,
        sha256: str,
        immutable: bool,
        take: bool = False,
    ) -> PutResult:
        self._write(key)
        return self._store.put_if_absent(
            key, source, content_type=content_type, sha256=sha256, immutable=immutable, take=take
        )

    def put_if_match(
        self,
        key: str,
        data: Path | bytes,
        expected_version: str | None,
        content_type: str,
        *,
        sha256: str | None = None,
    ) -> str:
        self._write(key)
        return self._store.put_if_match(key, data, expected_version, content_type, sha256=sha256)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def get(self, key: str) -> Versioned:
        return self._store.get(key)

    def head(self, key: str) -> ObjectInfo | None:
        return self._store.head(key)

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, version: str | None = None
    ) -> bytes:
        return self._store.read(key, start, length, version=version)

    def path(self, key: str) -> Path | None:
        return self._store.path(key)

    def fetch(self, key: str, path: Path) -> None:
        self._store.fetch(key, path)

    def describe(self, key: str = "") -> str:
        return self._store.describe(key)
