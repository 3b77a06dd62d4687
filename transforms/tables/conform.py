r"""Types: how each PostgreSQL type is held in DuckDB, read from CSV text and rendered back to it.

`parse` and `render` are SQL over one column. A cell is typed only if it renders back to its text;
any other text (a 78-digit amount, `1.50` in a whole number) stays in the row's `_raw` map, so
nothing is rounded or lost (spec 2.8; the text forms are those of PostgreSQL's output functions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transforms.duck import quote_name, quote_text
from transforms.tables.registry import Column


@dataclass(frozen=True, slots=True)
class Conversion:
    """One PostgreSQL type in DuckDB: the column type, text to value, value to text, both as SQL.

    `faithful` says as SQL which texts the type holds, where rendering them back need not decide it.
    """

    type: str
    parse: Callable[[str], str]
    render: Callable[[str], str]
    faithful: Callable[[str], str] | None = None


def _same(sql: str) -> str:
    return sql


def _as_text(sql: str) -> str:
    return f"{sql}::varchar"


def _cast(type_name: str) -> Conversion:
    return Conversion(type_name, lambda text: f"try_cast({text} as {type_name})", _as_text)


def _render_time(sql: str) -> str:
    # Independent of the session's time zone, unlike a plain cast, so that views may use it too.
    return (
        f"case when isfinite({sql}) then make_timestamp(epoch_us({sql}))::varchar || '+00' "
        f"else {sql}::varchar end"
    )


def _render_double(sql: str) -> str:
    """Shortest digits with PostgreSQL's choice of notation: an exponent from 1e15 on."""
    plain = f"regexp_replace({sql}::varchar, '\\.0$', '')"
    figures = f"rtrim(replace({plain}, '.', ''), '0')"
    digits = f"regexp_replace({figures}, '^(-?\\d)(\\d+)$', '\\1.\\2')"
    return (
        f"case when isnan({sql}) then 'NaN' when isinf({sql}) "
        f"then if({sql} > 0, 'Infinity', '-Infinity') "
        f"when abs({sql}) >= 1e15 and abs({sql}) < 1e16 then {digits} || 'e+15' else {plain} end"
    )


TEXT = Conversion("VARCHAR", _same, _same)
_BYTEA = Conversion(
    "VARCHAR",
    # A regular expression over every id would cost a third of the load; `exact_value` has it.
    lambda text: f"case when starts_with({text}, '\\x') then substr({text}, 3) end",
    lambda sql: f"'\\x' || {sql}",
    lambda text: f"regexp_full_match({text}, '\\\\x([0-9a-f]{{2}})*')",
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
    "timestamp with time zone": Conversion(
        "TIMESTAMPTZ", lambda text: f"try_cast({text} as timestamptz)", _render_time
    ),
    "boolean": _BOOLEAN,
    "jsonb": _cast("JSON"),
    "double precision": Conversion(
        "DOUBLE", lambda text: f"try_cast({text} as double)", _render_double
    ),
}
# Unbounded numerics that hold whole amounts, unlike positions and factors, which stay text.
_WHOLE_NUMERICS = {("withdrawals", "amount")}


def conversion(table: str, column: Column) -> Conversion:
    """How a column is held: enums, text, arrays, unbounded numerics and unknown columns as text."""
    if (table, column.name) in _WHOLE_NUMERICS:
        return _CONVERSIONS["hugeint"]
    return _CONVERSIONS.get(column.type, TEXT)


def fast_value(table: str, column: Column) -> str:
    """SQL from a text column to its typed value, right for every text that PostgreSQL writes."""
    return conversion(table, column).parse(quote_name(column.name))


def exact_value(table: str, column: Column) -> str:
    """SQL from a text column to its typed value where that renders back to the text, else NULL."""
    how = conversion(table, column)
    text = quote_name(column.name)
    if how is TEXT:
        return text
    parsed = how.parse(text)
    return f"case when {_faithful(how, text)} then {parsed} end"


def raw_cells(table: str, columns: tuple[Column, ...]) -> str:
    """SQL for the `_raw` map: column name to text, of the cells that no typed value can hold."""
    entries = []
    for column in columns:
        how, text = conversion(table, column), quote_name(column.name)
        if how is not TEXT:
            entries.append(
                f"case when {text} is not null and not coalesce({_faithful(how, text)}, false) "
                f"then {{'k': {quote_text(column.name)}, 'v': {text}}} end"
            )
    if not entries:
        return "null::map(varchar, varchar)"
    kept = f"list_filter([{', '.join(entries)}], lambda cell: cell is not null)"
    return f"case when len({kept}) > 0 then map_from_entries({kept}) end"


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
