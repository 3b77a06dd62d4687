"""The files of a Delta log as they lie there: of each data file what was said of it last.

To check a log, and for who reads an archive that cannot be listed: what a table is made of for who
publishes to it is deltalake's to say.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
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


def read_stored(store: Store, folder: str, version: int) -> StoredLog:
    """Read a log's newest checkpoint and the commits after it, up to a version.

    Raises `IntegrityError` where one of them is damaged or is not there.
    """
    names = (info.key.rpartition("/")[2] for info in store.list(f"{folder}/"))
    first = newest_checkpoint(names, version)
    log = StoredLog()
    if first >= 0:
        for action in _checkpoint(store, f"{folder}/{first:020}.checkpoint.parquet"):
            log.apply(action)
    for number in range(first + 1, version + 1):
        for action in _commit(store, f"{folder}/{number:020}.json"):
            log.apply(action)
    return log


def read_newest(store: ObjectReader, folder: str) -> StoredLog | None:
    """Read a log to its end by its names alone, as web servers give no lists; None without one.

    Raises `IntegrityError` where a file of it is damaged, or the checkpoint that it names is gone.
    """
    number = _last_checkpoint(store, folder)
    log, first = StoredLog(), number
    if first >= 0:
        for action in _checkpoint(store, f"{folder}/{first:020}.checkpoint.parquet"):
            log.apply(action)
    while True:
        number += 1
        key = f"{folder}/{number:020}.json"
        try:
            data = store.read(key)
        except FileNotFoundError:
            return log if number else None
        for action in _actions(store, key, data):
            log.apply(action)


def _last_checkpoint(store: ObjectReader, folder: str) -> int:
    """The version of the checkpoint that a log names; -1 where it has none yet."""
    key = f"{folder}/_last_checkpoint"
    try:
        return int(json.loads(store.read(key))["version"])
    except FileNotFoundError:
        return -1
    except (ValueError, TypeError, LookupError) as error:
        raise _damaged(store, key, error) from error


def newest_checkpoint(names: Iterable[str], version: int) -> int:
    """The newest version, up to this one, whose checkpoint is among the names; -1 for none."""
    numbers = (int(match[1]) for name in names if (match := CHECKPOINT.fullmatch(name)))
    return max((number for number in numbers if number <= version), default=-1)


def _checkpoint(store: ObjectReader, key: str) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(io.BytesIO(_read(store, key))) as file:
            added = ("path", "size", "stats", "deletionVector.storageType")
            columns = [f"add.{name}" for name in added]
            columns += [f"remove.{name}" for name in ("path", "deletionTimestamp")]
            rows: list[dict[str, Any]] = file.read(columns, use_threads=False).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(store, key, error) from error
    yield from rows


def _commit(store: ObjectReader, key: str) -> list[dict[str, Any]]:
    return _actions(store, key, _read(store, key))


def _actions(store: ObjectReader, key: str, data: bytes) -> list[dict[str, Any]]:
    try:
        return [dict(json.loads(line)) for line in data.decode().splitlines() if line]
    except (ValueError, TypeError) as error:
        raise _damaged(store, key, error) from error


def _read(store: ObjectReader, key: str) -> bytes:
    try:
        return store.read(key)
    except FileNotFoundError as error:
        raise IntegrityError(f"{store.describe(key)} of the log is not there") from error


def _damaged(store: ObjectReader, key: str, error: Exception) -> IntegrityError:
    return IntegrityError(f"{store.describe(key)} of the log cannot be read: {error}")
