"""The files of a Delta log as they lie there: of each data file what was said of it last.

Only to check a log: what a table is made of is deltalake's to say.
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
from transforms.stores.store import Store

CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
"""The name of a checkpoint: the version whose state it holds."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What a log says of files, by name.

    `statistics` are the JSON texts of those that were added; `cut` are those of which rows count as
    deleted; `removed` is when others were removed, in seconds since 1970, as far as the log still
    says it.
    """

    statistics: dict[str, str] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    removed: dict[str, float] = field(default_factory=dict)

    def apply(self, action: dict[str, Any]) -> None:
        """Take in one action; the last one about a file counts."""
        if added := action.get("add"):
            name = unquote(added["path"])
            self.removed.pop(name, None)
            self.statistics[name] = added.get("stats") or ""
            vector = added.get("deletionVector") or {}
            (self.cut.add if vector.get("storageType") else self.cut.discard)(name)
        if gone := action.get("remove"):
            name = unquote(gone["path"])
            self.statistics.pop(name, None)
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


def newest_checkpoint(names: Iterable[str], version: int) -> int:
    """The newest version, up to this one, whose checkpoint is among the names; -1 for none."""
    numbers = (int(match[1]) for name in names if (match := CHECKPOINT.fullmatch(name)))
    return max((number for number in numbers if number <= version), default=-1)


def _checkpoint(store: Store, key: str) -> Iterator[dict[str, Any]]:
    try:
        with pq.ParquetFile(io.BytesIO(store.read(key))) as file:
            added = ("path", "stats", "deletionVector.storageType")
            columns = [f"add.{name}" for name in added]
            columns += [f"remove.{name}" for name in ("path", "deletionTimestamp")]
            rows: list[dict[str, Any]] = file.read(columns, use_threads=False).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(store, key, error) from error
    yield from rows


def _commit(store: Store, key: str) -> Iterator[dict[str, Any]]:
    try:
        lines = store.read(key).decode().splitlines()
        yield from [dict(json.loads(line)) for line in lines if line]
    except FileNotFoundError as error:
        raise IntegrityError(f"{store.describe(key)} of the log is not there") from error
    except (ValueError, TypeError) as error:
        raise _damaged(store, key, error) from error


def _damaged(store: Store, key: str, error: Exception) -> IntegrityError:
    return IntegrityError(f"{store.describe(key)} of the log cannot be read: {error}")
