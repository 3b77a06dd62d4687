"""What a commit to a table's Delta log says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

import pyarrow as pa

from exporters.lake.log.log_files import PROTOCOL
from exporters.lake.log.table_version import Action, ActiveFile, TableVersion
from transforms.tables.file_columns import RECEIPT_LIST, TEXTS, FileColumn
from transforms.warehouse.manifests.manifest_rows import RECEIPTS

KEPT_HOURS = 168
"""How long a file that a table no longer names stays, for readers of older versions."""

COMMITS = 10
"""After so many commits one is summed up: who opens a table reads each that came after that one."""

_CONFIGURATION = {
    # Others forget by their clock when files were removed, which may be days ahead.
    "delta.deletedFileRetentionDuration": f"interval {2 * KEPT_HOURS} hours",
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.checkpointInterval": str(COMMITS),
}


def _field(name: str, kind: object) -> Action:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


_NESTED = {
    TEXTS: {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": True,
    },
    RECEIPT_LIST: {
        "type": "array",
        "elementType": {
            "type": "struct",
            "fields": [
                _field(field.name, "long" if pa.types.is_integer(field.type) else "string")
                for field in RECEIPTS
            ],
        },
        "containsNull": True,
    },
}


def commit_actions(
    table: str,
    base: TableVersion,
    added: Iterable[ActiveFile],
    removed: Iterable[ActiveFile],
    columns: Sequence[FileColumn],
    now: int,
) -> Iterator[Action]:
    """The actions of a commit upon a version, as Delta's protocol has them; `now` is in ms.

    Upon version -1 they make the table. `columns` are new ones, NULL in the files that are there.
    """
    metadata = base.metadata
    if base.number < 0:
        yield {"protocol": PROTOCOL}
        metadata = _new_metadata(table, now)
    if columns:
        new = (_field(column.name, _NESTED.get(column.type, column.type)) for column in columns)
        schema = {"type": "struct", "fields": [*base.fields, *new]}
        yield {"metaData": {**metadata, "schemaString": json.dumps(schema)}}
    yield from ({"remove": file.removed(now)} for file in removed)
    yield from ({"add": file.added(now)} for file in added)


def _new_metadata(table: str, now: int) -> Action:
    return {
        "id": str(uuid4()),
        "name": table,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": _CONFIGURATION,
        "createdTime": now,
    }
