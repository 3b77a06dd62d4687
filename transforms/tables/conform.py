r"""Types: how each PostgreSQL type is held in DuckDB, read from CSV text and rendered back to it.

`parse` and `render` are SQL over one column. A cell is typed only if it renders back to its text;
any other text (a 78-digit amount, `1.50` in a whole number) stays in the row's `_raw` map, so
nothing is rounded or lost (spec 2.8; the text forms are those of PostgreSQL's output functions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transforms.quoting import quote_name, quote_text
from transforms.tables.dialect import has_marks, select_list
from transforms.tables.registry import Column


@dataclass(frozen=True, slots=True)
class Conversion:
    """One PostgreSQL type in DuckDB: the column type, text to value, value to text, both as SQL.

    `faithful` says as SQL which texts the type holds, where rendering them back need not decide it.
    `bounded` is SQL from a value to the same value, or to NULL if some readers cannot show it.
    """

    type: str
    parse: Callable[[str], str]
    render: Callable[[str], str]
    faithful: Callable[[str], str] | None = None
    bounded: Callable[[str], str] | None = None


# Python, Delta tables and most engines know only the years 1 to 9999. Where readers have
# milliseconds, the greatest time of a file rounded up is one of the same year.
_FIRST_TIME, _LAST_TIME = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999+00"


def _same(sql: str) -> str:
    return sql


def _cast(type_name: str) -> Conversion:
    return Conversion(
        type_name, lambda text: f"try_cast({text} as {type_name})", lambda sql: f"{sql}::varchar"
    )


def _render_time(sql: str) -> str:
    # Independent of the session's time zone, unlike a plain cast, so that views may use it too.
    return f"make_timestamp(epoch_us({sql}))::varchar || '+00'"


def _bounded_time(sql: str) -> str:
    within = f"between timestamptz '{_FIRST_TIME}' and timestamptz '{_LAST_TIME}'"
    return f"case when {sql} {within} then {sql} end"


def _render_double(sql: str) -> str:
    """Shortest digits with PostgreSQL's choice of notation: an exponent from 1e15 on."""
    plain = f"regexp_replace({sql}::varchar, '\\.0$', '')"
    figures = f"rtrim(replace({plain}, '.', ''), '0')"
    digits = f"regexp_replace({figures}, '^(-?\\d)(\\d+)$', '\\1.\\2')"
    return (
        f"case when isnan({sql}) then 'NaN' when isinf({sql}) "
        f"then case when {sql} > 0 then 'Infinity' else '-Infinity' end "
        f"when abs({sql}) >= 1e15 and abs({sql}) < 1e16 then {digits} || 'e+15' else {plain} end"
    )


TEXT = Conversion("VARCHAR", _same, _same)
_BYTEA = Conversion(
    "VARCHAR",
    # `substr` counts the characters of all that follows.
    lambda text: f"replace({text}, '\\x', '')",
    lambda sql: f"'\\x' || {sql}",
    # Not only digits may follow, but nothing that is quoted in a CSV: see `is_plain`.
    lambda text: f"'\\x' || replace({text}, '\\x', '') = {text} and not ({has_marks(text)})",
)
_BOOLEAN = Conversion(
    "BOOLEAN",
    lambda text: f"case {text} when 't' then true when 'f' then false end",
    lambda sql: f"case when {sql} then 't' when not {sql} then 'f' end",
    lambda text: f"{text} in ('t', 'f')",
)
_CONVERSIONS = {
    "bytea": _BYTEA,
    "smallint": _cast("SMALLINT"),
    "integer": _cast("INTEGER"),
    "bigint": _cast("BIGINT"),
    "hugeint": _cast("DECIMAL(38,0)"),
    "numeric(1000,16)": _cast("DECIMAL(38,16)"),
    "timestamp with time zone": replace(
        _cast("TIMESTAMPTZ"), render=_render_time, bounded=_bounded_time
    ),
    "boolean": _BOOLEAN,
    "jsonb": _cast("JSON"),
    "double precision": replace(_cast("DOUBLE"), render=_render_double),
}
# Unbounded numerics that hold whole amounts, unlike positions and factors, which stay text.
_WHOLE_NUMERICS = {("withdrawals", "amount")}


def conversion(table: str, column: Column) -> Conversion:
    """How a column is held: enums, text, arrays, unbounded numerics and unknown columns as text."""
    if (table, column.name) in _WHOLE_NUMERICS:
        return _CONVERSIONS["hugeint"]
    return _CONVERSIONS.get(column.type, TEXT)


def is_plain(table: str, column: Column) -> bool:
    """Whether no text that a column's values render to needs quotes in a CSV."""
    how = conversion(table, column)
    return how is not TEXT and how.type != "JSON"


def _value(how: Conversion, text: str, *, exact: bool) -> str:
    """SQL from a text to its typed value; if `exact`, NULL unless that renders back to it."""
    parsed = how.parse(text)
    return f"case when {_faithful(how, text)} then {parsed} end" if exact else parsed


def typed_rows(
    table: str,
    columns: Sequence[Column],
    rows: str,
    own: Sequence[tuple[str, str]] = (),
    *,
    exact: bool,
) -> str:
    """SQL from rows of text columns to typed ones, `own` (expression, name) and the `_raw` map.

    `_raw` has, by column, the texts of cells whose value does not render back to their text, and of
    times that are infinite or outside the years 1 to 9999. Unless `exact`, it has those without a
    value and such times: the rows are right if all of them render back.
    """
    # Under other names inside, so that no column of a source can be taken for another.
    inner, outer, cells = [*own], [(quote_name(name), name) for _, name in own], []
    for number, column in enumerate(columns):
        text = f"_text{number}"
        inner.append((quote_name(column.name), text))
        alias = text
        how = conversion(table, column)
        if how is not TEXT:
            alias = f"_value{number}"
            inner.append((_value(how, quote_name(column.name), exact=exact), alias))
            alias = how.bounded(alias) if how.bounded else alias
            cells.append((column.name, text, f"{text} is not null and {alias} is null"))
        outer.append((alias, column.name))
    select = select_list([*outer, (raw_map(cells), "_raw")])
    return f"select {select} from (select {select_list(inner)} from {rows})"  # noqa: S608 - quoted


def raw_map(cells: Sequence[tuple[str, str, str]]) -> str:
    """SQL for the `_raw` map of (column name, text, condition); NULL where no condition holds."""
    if not cells:
        return "null::map(varchar, varchar)"
    cases = ", ".join(
        f"case when {lacks} then {{'k': {quote_text(name)}, 'v': {text}}} end"
        for name, text, lacks in cells
    )
    # Few rows have such cells: only for those is the list worth making.
    lacking = " or ".join(f"({lacks})" for _, _, lacks in cells)
    entries = f"list_filter([{cases}], lambda cell: cell is not null)"
    return f"case when {lacking} then map_from_entries({entries}) end"


def rendered(table: str, column: Column, *, raw: bool) -> str:
    """SQL from a typed column back to its CSV text; with `raw`, kept texts come first."""
    name = quote_name(column.name)
    how = conversion(table, column)
    text = how.render(name)
    if raw and how is not TEXT:
        return f"coalesce(_raw[{quote_text(column.name)}], {text})"
    return text


def _faithful(how: Conversion, text: str) -> str:
    if how.faithful is not None:
        return how.faithful(text)
    return f"({how.render(f'({how.parse(text)})')}) = {text}"
