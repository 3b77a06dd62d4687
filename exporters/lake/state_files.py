"""Current states in an archive as the warehouse has them, so that one can be made again.

<chain id>/lake/states/<from>-<to>.<SHA-256>.duckdb  the state after a segment
<chain id>/lake/states/states.json                   which of them are the newest

The tables of current state beside them have the newest rows alone, and none of a table that became
history: what it had before is only in the last state of the schema version before that.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from exporters.archive.archive import Archive, update
from exporters.archive.entries import Json, range_json, range_of
from exporters.archive.json_text import FORMAT, parsed, written
from exporters.archive.lake_place import LAKE
from exporters.lake.lake_files import fetch_proven
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError
from transforms.objects import ObjectInfo, StoredFile
from transforms.warehouse.files.local_files import LocalFiles
from transforms.warehouse.manifests.shapes import Volume

STATES = "states"
"""The folder of the lake that has them."""

LIST = f"{LAKE}/{STATES}/states.json"
_NAME = re.compile(r"\d+-\d+\.[0-9a-f]{64}\.duckdb")
_RECENT_SECONDS = 3600
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateFile:
    """The current state after the segment `blocks`, the newest of a schema version."""

    version: int
    blocks: BlockRange
    bytes: int
    sha256: str

    @property
    def path(self) -> str:
        """Where it lies, below the chain's folder."""
        return f"{LAKE}/{STATES}/{self.blocks}.{self.sha256}.duckdb"

    @property
    def stored(self) -> StoredFile:
        """What it is in a warehouse."""
        return StoredFile(f"state/{self.blocks.key}.{self.sha256}.duckdb", self.bytes, self.sha256)


def state_files(archive: Archive) -> tuple[StateFile, ...]:
    """The newest of each schema version. Raises `IntegrityError` where their list is damaged."""
    data = archive.read(LIST)
    return parsed_states(archive, data) if data is not None else ()


def parsed_states(archive: Archive, data: bytes) -> tuple[StateFile, ...]:
    """The states that their list names. Raises `IntegrityError` where that is damaged."""

    def read(document: Json) -> tuple[StateFile, ...]:
        return tuple(
            StateFile(item["version"], range_of(item), item["bytes"], item["sha256"])
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
    states = [StateFile(v.version, v.blocks, v.file.size, v.file.sha256) for v in volumes]
    store, kind = archive.store, "application/vnd.duckdb"
    with files.hold([state.stored for state in states]):
        for state in states:
            key, path = archive.key(state.path), files.path(state.stored)
            info = store.head(key)
            if info is None or info.size != state.bytes:
                store.put_if_absent(
                    key, path, content_type=kind, sha256=state.sha256, immutable=True
                )

    def change(before: bytes | None) -> bytes:
        newest = {state.version: state for state in _sound(archive, before)}
        for state in states:
            other = newest.get(state.version)
            if other is None or other.blocks <= state.blocks:
                newest[state.version] = state
        return _written(archive, newest.values())

    if states:
        update(archive.store, archive.key(LIST), change, "application/json")


def fetch_state(archive: Archive, state: StateFile, path: Path) -> None:
    """Fetch a state; see `fetch_proven`."""
    fetch_proven(archive, state.path, path, lambda sha256: sha256 == state.sha256)


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
    named = {archive.key(state.path) for state in state_files(archive)} if due else set()
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
            "bytes": state.bytes,
            "sha256": state.sha256,
        }
        for state in sorted(states, key=lambda state: state.version)
    ]
    return written({"format": FORMAT, "chain_id": archive.chain_id, "states": rows})
