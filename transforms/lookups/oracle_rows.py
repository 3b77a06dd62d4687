"""SQL for oracle data: its rows with the specs that they matched, of files of any schema version.

Up to version 36 a row names the specs it matched; later a table of their own does. `rows` below is
SQL for a relation with what `oracle_rows_sql` gives, of one file or of several.
"""

from __future__ import annotations

from transforms.lookups.row_columns import TableColumns

MISSING = "~"
"""Sorts behind every array of signers, as PostgreSQL sorts NULL."""
SHOWN = "epoch_us(vega_time), signers, seq_num, data, spec_ids, epoch_us(broadcast_at)"
"""What an answer has of a row."""

# The text of a byte array without its end sorts as PostgreSQL sorts the array.
_SIGNERS = f"coalesce(replace(signers, '}}', ''), '{MISSING}')"
_NEWEST = "order by _segment desc, _row desc"
_LATEST = "row_number() over (partition by spec_ids, data order by vega_time desc, seq_num desc)"
# An element of PostgreSQL's text of a byte array, as a regular expression.
_ELEMENT = r'"\\\\x([0-9a-f]*)"'


def oracle_rows_sql(columns: TableColumns, data: str, specs: str | None) -> str:
    """SQL for the rows of one file that have a place in a listing, with the specs they matched.

    `data` is SQL for its rows of `oracle_data`, which have `columns`, `specs` for those of
    `oracle_data_oracle_specs`, if there are any.
    """
    shown = (
        f"_segment, _row, vega_time, {_SIGNERS} as signers, seq_num, {columns.text('data')} as data"
    )
    broadcast = f"{columns.time('broadcast_at')} as broadcast_at"
    listed = "where epoch_us(vega_time) is not null and seq_num is not null"
    if columns.has("matched_spec_ids") or specs is None:
        spec_ids = columns.text("matched_spec_ids")
        return f"select {shown}, {spec_ids} as spec_ids, {broadcast} from {data} {listed}"  # noqa: S608 - ours
    element = """'"\\\\x' || spec_id || '"'"""
    key = "_segment, vega_time, seq_num"
    grouped = (
        f"select {key}, '{{' || string_agg({element}, ',' order by spec_id) || '}}' as spec_ids "  # noqa: S608
        f"from {specs} group by all"
    )
    return (
        f"select {shown}, coalesce(spec_ids, '{{}}') as spec_ids, {broadcast} "  # noqa: S608
        f"from {data} left join ({grouped}) using ({key}) {listed}"
    )


def latest_sql(rows: str) -> str:
    """SQL for the latest of the rows with the same specs and data.

    Of those with one time and number the newest counts.
    """
    newest = f"row_number() over (partition by vega_time, seq_num {_NEWEST}) = 1"
    rows = f"select * from ({rows}) qualify {newest}"  # noqa: S608 - ours
    return f"select * from ({rows}) qualify {_LATEST} = 1"  # noqa: S608 - ours


def matches_sql(rows: str) -> str:
    """SQL for the rows of each spec, in `spec_id`."""
    specs = f"list_distinct(regexp_extract_all(spec_ids, '{_ELEMENT}', 1))"
    newest = f"row_number() over (partition by spec_id, vega_time, seq_num {_NEWEST}) = 1"
    return f"select * from (select *, unnest({specs}) as spec_id from ({rows})) qualify {newest}"  # noqa: S608


def identities_sql(rows: str) -> str:
    """SQL for what tells the latest rows apart, as `Identities` want it."""
    text = "coalesce(spec_ids, '') || coalesce('+' || data, '')"
    return (
        f"select md5_number({text}) as identity, epoch_us(vega_time) as written "  # noqa: S608
        f"from ({latest_sql(rows)})"
    )
