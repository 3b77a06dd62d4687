"""The columns of the catalog's views: what each is made of, and what people read about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from transforms.duck import quote_name, quote_text
from transforms.tables.column_facts import column_meaning, enum_names, is_enum_name, type_caveat
from transforms.tables.conform import conversion, rendered
from transforms.tables.file_columns import OWN_MEANINGS
from transforms.tables.registry import Column, fold_case
from transforms.warehouse.manifests.shapes import Shape

_NUMERIC = "DECIMAL(38,10)"


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: its name, SQL over the stored columns, its comment, if any."""

    name: str
    sql: str
    comment: str = ""


def utc(time: str) -> str:
    """SQL for a time in UTC without a zone, whatever the session's time zone is.

    It takes a tenth of the time of a conversion by zone, and needs no extension of DuckDB.
    """
    plain = f"make_timestamp(epoch_us({time}))"
    return f"case when isfinite({time}) then {plain} else {time}::timestamp end"


def typed_columns(table: str, shape: Shape) -> list[ViewColumn]:
    """The columns of `main.<table>`: typed, with a name beside each enum and a date beside a time.

    A column of the CSV that has such a name already stays what it is.
    """
    columns = shape.column_list()
    names = {fold_case(column.name) for column in columns}
    listed: list[ViewColumn] = []
    for column in columns:
        listed.append(_typed(table, column, is_raw=column.name in shape.raw))
        listed += (
            beside for beside in _beside(table, column) if fold_case(beside.name) not in names
        )
    return [*listed, *(ViewColumn(name, name, text) for name, text in OWN_MEANINGS.items())]


def exact_columns(table: str, columns: Iterable[Column]) -> list[ViewColumn]:
    """The columns of `exact.<table>`: the text of the CSV; what they mean is said in `main`."""
    texts = (ViewColumn(column.name, rendered(table, column, raw=True)) for column in columns)
    return [*texts, *(ViewColumn(name, name) for name in ("_segment", "_row"))]


def rounded_columns(table: str, columns: Iterable[Column]) -> dict[str, str]:
    """The columns of texts that `main.<table>` shows as decimals: SQL for these by name.

    It rounds, so that `exact.<table>` cannot be rendered from it, and is NULL where none fits.
    """
    return {
        column.name: f"try_cast({quote_name(column.name)} as {_NUMERIC})"
        for column in columns
        if column.type == "numeric" and conversion(table, column).type == "VARCHAR"
    }


def _typed(table: str, column: Column, *, is_raw: bool) -> ViewColumn:
    name, kind = quote_name(column.name), conversion(table, column).type
    if rounded := rounded_columns(table, [column]):
        name, kind = rounded[column.name], _NUMERIC
    notes = [column_meaning(table, column.name), type_caveat(kind, table)]
    if is_raw:
        notes.append(f"Cells that do not fit are NULL here: see strata.unfit and exact.{table}.")
    return ViewColumn(column.name, name, " ".join(filter(None, notes)))


def _beside(table: str, column: Column) -> Iterator[ViewColumn]:
    """What stands beside a column: the name of an enum's value, the date of a time."""
    name, numbers = quote_name(column.name), enum_names(table, column.name)
    if numbers:
        cases = " ".join(f"when {at} then {quote_text(text)}" for at, text in numbers.items())
        text = f"The name of {column.name}; the number itself where it has none."
        sql = f"case {name} {cases} else {name}::varchar end"
        yield ViewColumn(f"{column.name}_name", sql, text)
    elif is_enum_name(table, column):
        text = f"The same as {column.name}, which is a name already."
        yield ViewColumn(f"{column.name}_name", name, text)
    if column.type == "timestamp with time zone":
        text = f"The date of {column.name} in UTC, whatever the time zone of the session is."
        yield ViewColumn(f"{column.name}_date", f"({utc(name)})::date", text)
