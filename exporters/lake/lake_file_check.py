"""Whether a file of the lake has what its name, its table's log and its receipts say.

The check of the lake and what corrects it ask the same, so that what one finds the other mends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from exporters.archive.lake_place import MANIFESTS
from exporters.archive.revisions import Revision, record
from exporters.lake.lake_files import PARQUET_TYPE, Lake
from exporters.lake.log.table_version import ActiveFile, FileName
from exporters.lake.tables import LakeTable, NewFile, Version
from exporters.publishing.replace import Correction
from transforms.block_range import BlockRange, contiguous_runs
from transforms.duck import Connection, quote_files
from transforms.errors import IntegrityError
from transforms.lake.parquet_files import lake_reader, readable_file
from transforms.lake.statistics import Statistics, fitted, read_statistics
from transforms.scratch import scratch_folder
from transforms.stores.store import object_sha256
from transforms.tables.file_columns import RECEIPT_LIST, FileColumn
from transforms.warehouse.checks.file_check import (
    csvs_problem,
    file_types,
    types_problem,
)
from transforms.warehouse.manifests.data_files import file_sql
from transforms.warehouse.manifests.manifest import manifest_receipts, read_columns
from transforms.warehouse.manifests.manifest_rows import SEGMENTS
from transforms.warehouse.manifests.receipts import Receipt, receipts_digest

_TYPES = {pa.string(): "string", pa.int32(): "integer", pa.int64(): "long"}
_DESCRIBED = ("first_block", "last_block")
COLUMNS = (
    *(FileColumn(field.name, _TYPES[field.type], field.name in _DESCRIBED) for field in SEGMENTS),
    FileColumn("receipts", RECEIPT_LIST),
)
"""The columns of the table."""


def segment_blocks(path: Path) -> list[BlockRange]:
    """The blocks of the segments of a manifest. Raises `IntegrityError` where it is damaged."""
    table = read_columns(path, _DESCRIBED)
    return [*map(BlockRange, *(table.column(name).to_pylist() for name in _DESCRIBED))]


def manifest_statistics(path: Path) -> Statistics:
    """What the log says of a manifest. Raises `IntegrityError` where it is damaged."""
    blocks = segment_blocks(path)
    firsts, lasts = [item.first for item in blocks], [item.last for item in blocks]
    summary = {
        "numRecords": len(blocks),
        "minValues": dict(zip(_DESCRIBED, (min(firsts), min(lasts)), strict=True)),
        "maxValues": dict(zip(_DESCRIBED, (max(firsts), max(lasts)), strict=True)),
        "nullCount": dict.fromkeys(_DESCRIBED, 0),
    }
    return Statistics(len(blocks), json.dumps(summary, separators=(",", ":")))


def is_sound(
    version: Version, file: ActiveFile, receipts: Sequence[Receipt] | None, scratch: Path
) -> bool:
    """Whether a file is there, whole, renders what receipts say, and is described by the log."""
    with scratch_folder(scratch) as folder:
        copy = folder / "file.parquet"
        try:
            version.lake.fetch(version.table, file, copy)
        except IntegrityError:
            return False
        with lake_reader(folder, version.lake.memory_mb, file.bytes) as con:
            return not any(file_problems(version, file, copy, folder, receipts, con))


def file_problems(
    version: Version,
    file: ActiveFile,
    copy: Path,
    scratch: Path,
    receipts: Sequence[Receipt] | None,
    con: Connection,
) -> Iterator[str]:
    """What is wrong with a file, in words; the first ones may hide others.

    `copy` is the file, which hashes to what its name says. `receipts` are those of its segments,
    ascending, which are rendered; None where nothing is to be. `con` reads it.
    """
    if (size := copy.stat().st_size) != file.bytes:
        yield f"it has {size} bytes, its table's log says {file.bytes}"
    try:
        if version.table == MANIFESTS:
            yield from _log_problems(version, file, manifest_statistics(copy))
            if [*contiguous_runs(segment_blocks(copy))] != [file.blocks]:
                yield "its segments are not those of its name"
            own = receipts_digest(manifest_receipts([copy]))
            if receipts is not None and own != receipts_digest(receipts):
                yield "its receipts are not those of what is loaded"
            return
        with readable_file(copy, scratch):
            types, described = version.content.columns, version.content.statistics_of
            names = (name for name in file_types(con, copy) if name in types and name[0] != "_")
            columns = [FileColumn(name, types[name], name in described) for name in names]
            if problem := types_problem(con, copy, columns):
                yield problem
                return
            statistics = read_statistics(con, file_sql(quote_files([copy])), columns)
            yield from _log_problems(version, file, statistics)
            if receipts is not None and (problem := csvs_problem(con, copy, receipts, scratch)):
                yield problem
    except IntegrityError as error:
        yield str(error)


def _log_problems(version: Version, file: ActiveFile, statistics: Statistics) -> Iterator[str]:
    """Hold rows and statistics against the log: by a wrong one readers pass over rows."""
    expected = json.loads(fitted(statistics.text, version.content.statistics_of))
    try:
        logged = dict(json.loads(file.statistics))
    except (ValueError, TypeError):
        logged = {}
    if not statistics.rows:  # it may be older than columns that were described since
        known = logged.get("nullCount", {})
        nulls = expected["nullCount"]
        expected["nullCount"] = {name: nulls[name] for name in nulls if name in known}
    for part, values in expected.items():
        if logged.get(part) != values:
            yield f"its table's log says {part} {logged.get(part)}, it has {values}"
            return
    if more := logged.keys() - expected.keys() - {"tightBounds"}:
        yield f"its table's log has statistics that Strata does not write: {sorted(more)}"


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
