"""Putting what is loaded in the place of what lies in the lake, on the record."""

from __future__ import annotations

from collections.abc import Sequence

from exporters.archive.revisions import Revision, record
from exporters.lake.lake_files import PARQUET_TYPE, Lake
from exporters.lake.log.table_version import ActiveFile, FileName
from exporters.lake.tables import LakeTable, NewFile, Version
from exporters.publishing.replace import Correction
from transforms.stores.store import object_sha256


def put_in_place(
    version: Version, new: Sequence[NewFile], old: Sequence[ActiveFile], correction: Correction
) -> None:
    """Let a table have new files instead of old ones and of foreign ones, in one version of it.

    Every file that goes is in the revisions before it does, with the reason. What the log says of a
    file that stays, because the new one has the same bytes, is said anew. Raises `LostRaceError`
    where the version is not the newest.
    """
    lake, first = version.lake, next((file.sha256 for file in new), "")
    for right in new:
        _put_right(lake, lake.path(version.table, right.name), right, correction)
    names = {right.name for right in new}
    going = [*version.foreign, *(file for file in old if file.name not in names)]
    for file in going:
        parts = FileName.parse(file.name)
        path = lake.path(version.table, file.name)
        _record(lake, path, parts.digest if parts else "unknown", first, correction)
    LakeTable(lake, version.table).put(version, new, going)


def _record(lake: Lake, path: str, known_hash: str, new: str, correction: Correction) -> None:
    """Write down that a file goes, and which one comes; where several do, the first of them.

    `known_hash` stands for its hash where it is gone: all that is left of it.
    """
    try:
        old = object_sha256(lake.archive.store, lake.archive.key(path))
    except FileNotFoundError:
        old = known_hash
    record(lake.archive, Revision(path, old, new, correction.reason, correction.at))


def _put_right(lake: Lake, path: str, file: NewFile, correction: Correction) -> None:
    """Where other bytes lie under the name of a file, put the right ones there, on the record."""
    store, key = lake.archive.store, lake.archive.key(path)
    info = store.head(key)
    if info is None or object_sha256(store, key) == file.sha256:
        return
    _record(lake, path, "", file.sha256, correction)
    store.put_if_match(key, file.path, info.version, PARQUET_TYPE, sha256=file.sha256)
