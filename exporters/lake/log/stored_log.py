"""The files of a Delta log as they lie there: of each data file what was said of it last.

To check a log, and for who reads an archive that cannot be listed: what a table is made of for who
publishes to it is deltalake's to say.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.errors import IntegrityError
from transforms.objects import ObjectReader
from transforms.stores.store import Store

CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
"""The name of a checkpoint: the version whose state it holds."""

NEWEST = "_last_checkpoint"
"""The file of a log that says which checkpoint is the newest."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What a log says of files, by name.

    `statistics` are the JSON texts of those that were added, `sizes` their bytes; `cut` are those
    of which rows count as deleted; `removed` is when others were removed, in seconds since 1970, as
    far as the log still says it.
    """

    statistics: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    removed: dict[str, float] = field(default_factory=dict)

    def apply(self, action: dict[str, Any]) -> None:
        """Take in one action; the last one about a file counts."""
        if added := action.get("add"):
            name = unquote(added["path"])
            self.removed.pop(name, None)
            self.statistics[name] = added.get("stats") or ""
            self.sizes[name] = added.get("size") or 0
            vector = added.get("deletionVector") or {}
            (self.cut.add if vector.get("storageType") else self.cut.discard)(name)
        if gone := action.get("remove"):
            name = unquote(gone["path"])
            self.statistics.pop(name, None)
            self.sizes.pop(name, None)
            self.cut.discard(name)
            self.removed[name] = (gone.get("deletionTimestamp") or 0) / 1000

    def apply_file(self, place: str, data: bytes) -> None:
        """Take in all actions of a commit or a checkpoint. Raises `IntegrityError` for others."""
        for action in (_checkpoint if place.endswith(".parquet") else _commit)(place, data):
            self.apply(action)


def read_stored(store: Store, folder: str, version: int) -> StoredLog:
    """Read a log's newest checkpoint and the commits after it, up to a version.

    Raises `IntegrityError` where one of them is damaged or is not there.
    """
    names = (info.key.rpartition("/")[2] for info in store.list(f"{folder}/"))
    first = newest_checkpoint(names, version)
    log = StoredLog()
    if first >= 0:
        log.apply_file(*_file(store, f"{folder}/{_checkpoint_name(first)}"))
    for number in range(first + 1, version + 1):
        log.apply_file(*_file(store, f"{folder}/{number:020}.json"))
    return log


def newest_files(store: ObjectReader, folder: str) -> dict[str, bytes]:
    """The files of a log that say what its newest version is, by name; none without a log.

    They are read by their names alone, as web servers give no lists: the one that names the newest
    checkpoint, that checkpoint, and the commits after it, in this order. Raises `IntegrityError`
    where the first is damaged, or the checkpoint gone.
    """
    files: dict[str, bytes] = {}
    number = -1
    with suppress(FileNotFoundError):
        files[NEWEST] = store.read(f"{folder}/{NEWEST}")
        number = _version(files[NEWEST], store.describe(f"{folder}/{NEWEST}"))
        name = _checkpoint_name(number)
        _, files[name] = _file(store, f"{folder}/{name}")
    with suppress(FileNotFoundError):
        while True:
            number += 1
            name = f"{number:020}.json"
            files[name] = store.read(f"{folder}/{name}")
    return files


def parse_log(files: Mapping[str, bytes], place: str) -> StoredLog:
    """What the files of a log in `place` say; see `newest_files`.

    Raises `IntegrityError` where one of them is damaged.
    """
    log = StoredLog()
    for name, data in files.items():
        if name != NEWEST:
            log.apply_file(f"{place}/{name}", data)
    return log


def _version(data: bytes, place: str) -> int:
    """The version of the newest checkpoint."""
    try:
        return int(json.loads(data)["version"])
    except (ValueError, TypeError, LookupError) as error:
        raise _damaged(place, error) from error


def _checkpoint_name(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def newest_checkpoint(names: Iterable[str], version: int) -> int:
    """The newest version, up to this one, whose checkpoint is among the names; -1 for none."""
    numbers = (int(match[1]) for name in names if (match := CHECKPOINT.fullmatch(name)))
    return max((number for number in numbers if number <= version), default=-1)


def _checkpoint(place: str, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:
            added = ("path", "size", "stats", "deletionVector.storageType")
            columns = [f"add.{name}" for name in added]
            columns += [f"remove.{name}" for name in ("path", "deletionTimestamp")]
            rows: list[dict[str, Any]] = file.read(columns, use_threads=False).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(place, error) from error
    yield from rows


def _commit(place: str, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        yield from [dict(json.loads(line)) for line in data.decode().splitlines() if line]
    except (ValueError, TypeError) as error:
        raise _damaged(place, error) from error


def _file(store: ObjectReader, key: str) -> tuple[str, bytes]:
    """Where a file of a log lies, and its bytes."""
    try:
        return store.describe(key), store.read(key)
    except FileNotFoundError as error:
        raise IntegrityError(f"{store.describe(key)} of the log is not there") from error


def _damaged(place: str, error: Exception) -> IntegrityError:
    return IntegrityError(f"{place} of the log cannot be read: {error}")
