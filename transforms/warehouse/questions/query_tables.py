"""Which tables a query names, so that no others need be fetched to answer it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from transforms.duck import file_connection
from transforms.tables.registry import fold_case
from transforms.warehouse.manifests.shapes import QueryTables

_ROWS_WITHOUT_TABLES = frozenset(("generate_series", "range", "unnest"))
_SCHEMAS = frozenset(("", "exact", "main"))


def query_tables(query: str) -> QueryTables | None:
    """The tables that a query reads; None where that is not sure.

    That is so of anything but a plain `select`: what lists tables depends on all of them, and other
    functions may read any.
    """
    with file_connection() as con:
        row = con.execute("select json_serialize_sql($query)", {"query": query}).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        return None
    names, own = [*_names(tree)], frozenset(map(fold_case, _own_names(tree)))
    return None if None in names else QueryTables(frozenset(filter(None, names)), own)


def _names(tree: object) -> Iterator[str | None]:
    """The names in a part of a query; None for what may read other tables."""
    if isinstance(tree, list):
        for part in tree:
            yield from _names(part)
    if not isinstance(tree, dict):
        return
    kind = tree.get("type")
    if kind == "BASE_TABLE":
        yield _table(tree)
    elif kind == "SHOW_REF":
        yield None
    elif kind == "TABLE_FUNCTION":
        yield "" if tree["function"]["function_name"] in _ROWS_WITHOUT_TABLES else None
    for part in tree.values():
        yield from _names(part)


def _table(tree: dict[str, Any]) -> str | None:
    is_plain = not tree["catalog_name"] and tree["schema_name"].lower() in _SCHEMAS
    return fold_case(tree["table_name"]) if is_plain else None


def _own_names(tree: object) -> Iterator[str]:
    """The names that are defined by `with` in a part of a query."""
    if isinstance(tree, list):
        for part in tree:
            yield from _own_names(part)
    if isinstance(tree, dict):
        yield from (entry["key"] for entry in tree.get("cte_map", {}).get("map", ()))
        for part in tree.values():
            yield from _own_names(part)
