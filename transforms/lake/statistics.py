"""What the log of a Delta table says of a file, so that readers can pass over it.

Only of columns whose least and greatest values every reader compares exactly: whole numbers, times
(the log has milliseconds: the least is rounded down, the greatest up) and ids. Never of decimals:
readers of Delta's JSON take them for 64-bit numbers or floats and skip files that hold the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from transforms.duck import Connection, quote_name
from transforms.tables.file_columns import OWN_COLUMNS, FileColumn

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The rows of a file, and its statistics as the log has them: a JSON text."""

    rows: int
    text: str


def read_statistics(con: Connection, source: str, columns: Sequence[FileColumn]) -> Statistics:
    """Compute the statistics of a relation that has these columns and our own."""
    described = [c for c in (*columns, *OWN_COLUMNS) if c.has_statistics]
    terms = []
    for column in described:
        name = quote_name(column.name)
        ends = [f"min({name})", f"max({name})"]
        if column.type == "timestamp":
            ends = [f"epoch_us({end})" for end in ends]
        terms += [*ends, f"count(*) - count({name})"]
    row = con.execute(f"select {', '.join(['count(*)', *terms])} from {source}").fetchone()  # noqa: S608 - quoted
    assert row is not None
    rows, values = row[0], row[1:]
    least, greatest, nulls = values[0::3], values[1::3], values[2::3]
    statistics = {
        "numRecords": rows,
        "minValues": _shown(described, least, lambda time: time // 1000),
        "maxValues": _shown(described, greatest, lambda time: -(-time // 1000)),
        "nullCount": {c.name: count for c, count in zip(described, nulls, strict=True)},
    }
    return Statistics(rows, json.dumps(statistics, separators=(",", ":")))


def fitted(statistics: str, described: Iterable[str]) -> str:
    """A file's statistics of the very columns that its table has them of.

    A column that the file lacks is NULL in all its rows, which must be said: of a column that a
    table describes and a file does not, deltalake tells pyarrow that no value of it is there.
    """
    content = json.loads(statistics)
    nulls = {name: content["nullCount"].get(name, content["numRecords"]) for name in described}
    ends = {
        end: {name: value for name, value in content[end].items() if name in nulls}
        for end in ("minValues", "maxValues")
    }
    return json.dumps(content | ends | {"nullCount": nulls}, separators=(",", ":"))


def _shown(
    columns: Sequence[FileColumn], values: Sequence[Any], milliseconds: Callable[[int], int]
) -> dict[str, object]:
    """The values as JSON has them, by column; those that are not there are left out.

    `milliseconds` is how microseconds become those of the log.
    """
    shown: dict[str, object] = {}
    for column, value in zip(columns, values, strict=True):
        if column.type != "timestamp" or value is None:
            shown[column.name] = value
        else:
            time = _EPOCH + timedelta(milliseconds=milliseconds(value))
            shown[column.name] = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {name: value for name, value in shown.items() if value is not None}
