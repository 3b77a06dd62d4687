"""Summing up a Delta log: its newest state in one file, so that readers need not read every commit.

deltalake reads a log several times over for that, a request for each file. So it gets a copy of the
few files that it needs, and what it makes is put into the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from deltalake import DeltaTable

from exporters.archive.lake_place import LOG
from exporters.lake.log.stored_log import CHECKPOINT, newest_checkpoint
from transforms.objects import ObjectInfo
from transforms.stores.store import LostRaceError, Store

LAST = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_TYPES = {".parquet": "application/vnd.apache.parquet", "": "application/json"}


def sum_up(store: Store, folder: str, version: int, kept_seconds: float) -> None:
    """Write the checkpoint of a version of the log in `folder`, and remove what is older.

    Files are removed that only versions before a checkpoint need which is older than
    `kept_seconds` by the store's clock, the oldest first: where a commit is, those after it are.
    Raises what deltalake and the store do, `FileNotFoundError` where a commit lacks.
    """
    infos = {info.key.rpartition("/")[2]: info for info in store.list(f"{folder}/")}
    with TemporaryDirectory(prefix="strata-log-") as place:
        log = Path(place, LOG)
        log.mkdir()
        for name in _needed(infos, version):
            store.fetch(f"{folder}/{name}", log / name)
        DeltaTable(place, version).create_checkpoint()
        for name in (f"{version:020}.checkpoint.parquet", LAST):
            _put(store, f"{folder}/{name}", log / name, infos.get(name))
    horizon = store.now() - kept_seconds
    for name in _outdated(infos.values(), horizon):
        store.delete(f"{folder}/{name}")


def _needed(names: Iterable[str], version: int) -> Iterator[str]:
    """The newest checkpoint before a version, and the commits from there on."""
    first = newest_checkpoint(names, version - 1)
    if first >= 0:
        yield f"{first:020}.checkpoint.parquet"
        yield LAST
    yield from (f"{number:020}.json" for number in range(first + 1, version + 1))


def _put(store: Store, key: str, path: Path, info: ObjectInfo | None) -> None:
    """Put a file there, unless somebody else did meanwhile: his is as good."""
    version = info.version if info else None
    try:
        store.put_if_match(key, path.read_bytes(), version, _TYPES[path.suffix])
    except LostRaceError:
        return


def _outdated(infos: Iterable[ObjectInfo], horizon: float) -> Iterator[str]:
    """The files that nobody needs who reads a version of after the horizon, oldest first."""
    listed = {info.key.rpartition("/")[2]: info.modified for info in infos}
    matches = ((name, _COMMIT.fullmatch(name) or CHECKPOINT.fullmatch(name)) for name in listed)
    numbers = {name: int(match[1]) for name, match in matches if match}
    bases = [
        number
        for name, number in numbers.items()
        if CHECKPOINT.fullmatch(name) and listed[name] <= horizon
    ]
    base = max(bases, default=0)
    yield from sorted(name for name, number in numbers.items() if number < base)
