"""What a Delta log says of a table as a whole: its columns with their types and meanings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa

from exporters.archive.lake_place import MANIFESTS, STATE_MANIFEST
from exporters.lake.log.table_version import Action, TableVersion
from transforms.errors import ConflictError
from transforms.tables.column_facts import column_meaning, enum_names, table_meaning
from transforms.tables.file_columns import OWN_MEANINGS
from transforms.tables.registry import fold_case

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
_DESCRIPTIONS = {
    MANIFESTS: "What was loaded, by segments: the columns, rows, bytes and SHA-256 of each CSV.",
    STATE_MANIFEST: "The same of the newest current state.",
}
_TYPES = {
    pa.string(): "string",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.bool_(): "boolean",
    pa.float64(): "double",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def delta_field(name: str, kind: object) -> dict[str, Any]:
    """A column as the schema of a table has it, or a part of one."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _notes(table: str, column: str) -> dict[str, str]:
    """What the schema says of a column: its meaning and, as JSON, the names of an enum's numbers.

    Nothing in the tables of manifests.
    """
    if table in (MANIFESTS, STATE_MANIFEST):
        return {}
    notes = {"comment": OWN_MEANINGS.get(column) or column_meaning(table, column)}
    if names := enum_names(table, column):
        notes["strata.names"] = json.dumps({**names})
    return notes


def _delta_type(kind: Any) -> object:  # noqa: ANN401 - each type of pyarrow has a class
    """What Delta calls a type of a Parquet file."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        key, value = _delta_type(kind.key_type), _delta_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(kind):
        element = _delta_type(kind.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_struct(kind):
        fields = [delta_field(field.name, _delta_type(field.type)) for field in kind]
        return {"type": "struct", "fields": fields}
    return _TYPES[kind]


def new_columns(
    table: str, place: str, own: pa.Schema, known: dict[str, Action]
) -> Iterator[Action]:
    """The columns of a file that are not known yet by name in lower case, which then they are.

    `place` is the table's. Raises `ConflictError` for one that is known otherwise.
    """
    for column in own:
        kind = _delta_type(column.type)
        field = delta_field(column.name, kind) | {"metadata": _notes(table, column.name)}
        there = known.setdefault(fold_case(column.name), field)
        if there is field:
            yield field
        elif (there["name"], there["type"]) != (column.name, kind):
            raise ConflictError(
                f"{place}: column {there['name']} is {there['type']} there, and {column.name} is "
                f"{kind} in what is to be added: nothing is added to this table, as its readers "
                "would see other values; publish to another place, or without the lake "
                "(STRATA_LAKE=0)"
            )


def table_metadata(table: str, base: TableVersion, columns: Sequence[Action]) -> Action:
    """What the log says of a table with new columns, NULL in the files that are there.

    Upon version -1 it is a new table.
    """
    schema = {"type": "struct", "fields": [*base.fields, *columns]}
    metadata = base.metadata or {
        "id": str(uuid4()),
        "name": table,
        "description": _DESCRIPTIONS.get(table) or table_meaning(table),
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [],
        "configuration": _CONFIGURATION,
    }
    return {**metadata, "schemaString": json.dumps(schema)}
