"""Current states in an archive as the warehouse has them, so that one can be made again.

<chain id>/lake/states/<from>-<to>.<SHA-256>.duckdb   the state after a segment
<chain id>/lake/states/<from>-<to>.<SHA-256>.parquet  its manifest
<chain id>/lake/states/states.json                    which of them are the newest

The tables of current state beside them have the newest rows alone, and none of a table that became
history: what it had before is only in the last state of the schema version before that.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Json, range_json, range_of
from exporters.archive.json_text import FORMAT, parsed, written
from exporters.archive.lake_place import LAKE
from exporters.lake.lake_files import PARQUET_TYPE, fetch_proven
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.manifests.shapes import Volume

STATES = "states"
"""The folder of the lake that has them."""

LIST = f"{LAKE}/{STATES}/states.json"
_NAME = re.compile(r"\d+-\d+\.[0-9a-f]{64}\.(?:duckdb|parquet)")
_TYPES = {".duckdb": "application/vnd.duckdb", ".parquet": PARQUET_TYPE}
_RECENT_SECONDS = 3600
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateFile:
    """The current state after the segment `blocks`, the newest of a schema version.

    `tables` is its DuckDB file, where it lies below the chain's folder, `manifest` what says what
    is in it.
    """

    version: int
    blocks: BlockRange
    tables: StoredFile
    manifest: StoredFile

    @classmethod
    def of(cls, volume: Volume) -> StateFile:
        """A state of a warehouse as an archive has it."""
        return cls(
            volume.version,
            volume.blocks,
            *(
                StoredFile(_path(volume.blocks, file), file.size, file.sha256)
                for file in (volume.database, volume.file)
            ),
        )

    @property
    def files(self) -> tuple[StoredFile, StoredFile]:
        """Both files."""
        return self.tables, self.manifest

    @property
    def bytes(self) -> int:
        """The bytes of both."""
        return self.tables.size + self.manifest.size


def _path(blocks: BlockRange, file: StoredFile) -> str:
    return f"{LAKE}/{STATES}/{blocks}.{file.sha256}{Path(file.key).suffix}"


def state_files(archive: Archive) -> tuple[StateFile, ...]:
    """The newest of each schema version. Raises `IntegrityError` where their list is damaged."""
    data = archive.read(LIST)
    return parsed_states(archive, data) if data is not None else ()


def parsed_states(archive: Archive, data: bytes) -> tuple[StateFile, ...]:
    """The states that their list names. Raises `IntegrityError` where that is damaged."""

    def read(document: Json) -> tuple[StateFile, ...]:
        return tuple(
            StateFile(
                item["version"],
                range_of(item),
                StoredFile(*item["tables"]),
                StoredFile(*item["manifest"]),
            )
            for item in document["states"]
        )

    return parsed(data, archive.place(LIST), read)


def are_states_due(archive: Archive, volumes: Iterable[Volume]) -> bool:
    """Whether the archive lacks one of a warehouse's current states, and got none within the hour.

    Dozens of tables change with each segment, and each is written anew whole.
    """
    if are_states_recent(archive):
        return False
    newest = {state.version: state for state in _sound(archive, archive.read(LIST))}
    return any(
        volume.version not in newest or newest[volume.version].blocks < volume.blocks
        for volume in volumes
    )


def are_states_recent(archive: Archive) -> bool:
    """Whether the archive got a current state within the hour: until then newer ones wait."""
    info = archive.store.head(archive.key(LIST))
    # Only how often: whichever clock is wrong, none is lost.
    return info is not None and abs(time.time() - info.modified) < _RECENT_SECONDS


def publish_states(archive: Archive, volumes: Iterable[Volume], files: LocalFiles) -> None:
    """Put the states of a warehouse there that are newer than those of the archive.

    Raises `ConflictError` where other bytes lie under a state's name.
    """
    states = {StateFile.of(volume): volume for volume in volumes}
    for state, volume in states.items():
        own = (volume.database, volume.file)
        with files.hold(own):
            for file, path in zip(state.files, map(files.path, own), strict=True):
                _put(archive, file, path)

    def change(before: bytes | None) -> bytes:
        newest = {state.version: state for state in _sound(archive, before)}
        for state in states:
            other = newest.get(state.version)
            if other is None or other.blocks <= state.blocks:
                newest[state.version] = state
        return _written(archive, newest.values())

    if states:
        update(archive.store, archive.key(LIST), change, "application/json")


def _put(archive: Archive, file: StoredFile, path: Path) -> None:
    """Put a file there, unless it is."""
    key, kind = archive.key(file.key), _TYPES[path.suffix]
    info = archive.store.head(key)
    if info is None or info.size != file.size:
        archive.store.put_if_absent(
            key, path, content_type=kind, sha256=file.sha256, immutable=True
        )


def fetch_state_file(archive: Archive, file: StoredFile, path: Path) -> None:
    """Fetch a file of a state; see `fetch_proven`."""
    fetch_proven(archive, file.key, path, lambda sha256: sha256 == file.sha256)


def listed_states(
    archive: Archive, listed: Callable[[str], Iterable[ObjectInfo]]
) -> list[ObjectInfo]:
    """What a listing has of states, named or not."""
    folder = archive.key(f"{LAKE}/{STATES}/")
    return [info for info in listed(folder) if _NAME.fullmatch(info.key.removeprefix(folder))]


def sweep_states(archive: Archive, infos: Iterable[ObjectInfo], oldest: float) -> list[str]:
    """Remove the states that are not named and were written before `oldest`; gives their keys."""
    due = [info for info in infos if info.modified <= oldest]
    # Read after the listing: whoever names a state has put it there before.
    states = state_files(archive) if due else ()
    named = {archive.key(file.key) for state in states for file in state.files}
    gone = [info.key for info in due if info.key not in named]
    for key in gone:
        archive.store.delete(key)
    return gone


def _sound(archive: Archive, data: bytes | None) -> tuple[StateFile, ...]:
    try:
        return parsed_states(archive, data) if data is not None else ()
    except IntegrityError as error:
        _log.warning("%s; it is made again", error)
        return ()


def _written(archive: Archive, states: Iterable[StateFile]) -> bytes:
    rows = [
        {
            **range_json(state.blocks),
            "version": state.version,
            "tables": astuple(state.tables),
            "manifest": astuple(state.manifest),
        }
        for state in sorted(states, key=lambda state: state.version)
    ]
    return written({"format": FORMAT, "chain_id": archive.chain_id, "states": rows})
