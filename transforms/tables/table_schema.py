"""The schema reference as a Data Package: each table a resource with a Table Schema.

Types and formats are those of the published CSVs, so a reader of the standard can check one. What
the standard has no name for (`unit`, `decimals`, `joinsTo`, `sourceType`, `schemaVersions`, `kind`)
are further properties, which the standard allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transforms.tables.reference import (
    ColumnReference,
    TableReference,
    Versions,
    schema_reference,
)

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_SCHEMA_PROFILE = "https://datapackage.org/profiles/2.0/tableschema.json"

_TYPES: dict[str, dict[str, Any]] = {
    "smallint": {"type": "integer"},
    "integer": {"type": "integer"},
    "bigint": {"type": "integer"},
    "hugeint": {"type": "integer"},
    "numeric": {"type": "number"},
    "numeric(1000,16)": {"type": "number"},
    "double precision": {"type": "number"},
    "boolean": {"type": "boolean", "trueValues": ["t"], "falseValues": ["f"]},
    # `2023-06-01 00:00:01.325067+00` is no form that the standard's default reads.
    "timestamp with time zone": {"type": "datetime", "format": "any"},
    "jsonb": {"type": "any"},
}


def data_package(name: str, title: str, path_of: Callable[[str], str | None]) -> dict[str, Any]:
    """A descriptor of all tables; `path_of` says where a table's data is, None for nowhere."""
    return {
        "$schema": PROFILE,
        "name": name,
        "title": title,
        "resources": [
            _resource(table, path_of(table.name)) for table in schema_reference().values()
        ],
    }


def _resource(table: TableReference, path: str | None) -> dict[str, Any]:
    where: dict[str, Any] = {"data": []} if path is None else {"path": path, "format": "csv"}
    return {
        "name": table.name,
        "type": "table",
        "description": table.meaning,
        **where,
        "kind": [{"kind": kind, **_span(versions)} for versions, kind in table.kinds],
        **({"identity": list(table.identity)} if table.identity else {}),
        **({"latestRowsIn": table.latest} if table.latest else {}),
        **({"latestRowsOf": table.history} if table.history else {}),
        "schema": table_schema(table),
    }


def table_schema(table: TableReference) -> dict[str, Any]:
    """The Table Schema of a table's CSV over all schema versions."""
    return {
        "$schema": _SCHEMA_PROFILE,
        # A CSV of an older schema version lacks columns that came later.
        "fieldsMatch": "superset",
        "fields": [_field(column) for column in table.columns],
        "primaryKey": list(table.key),
        "missingValues": [""],
    }


def _field(column: ColumnReference) -> dict[str, Any]:
    field: dict[str, Any] = {
        "name": column.name,
        **_TYPES.get(column.source_type, {"type": "string"}),
        "description": column.meaning,
        "sourceType": column.source_type,
        "schemaVersions": [_span(versions) for versions in column.versions],
    }
    if column.values:
        field["categories"] = [
            name if number is None else {"value": number, "label": name}
            for number, name in column.values
        ]
    for key, value in (
        ("unit", column.unit),
        ("decimals", column.decimals),
        ("joinsTo", column.target),
    ):
        if value:
            field[key] = value
    return field


def _span(versions: Versions) -> dict[str, int]:
    last = {} if versions.last is None else {"last": versions.last}
    return {"first": versions.first, **last}
