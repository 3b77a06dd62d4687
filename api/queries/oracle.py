"""Oracle data (spec 4.2; decision 21), the same answers from every schema version.

Up to version 36 a row names the specs it matched; later a table of their own does. Up to version 41
both tables are current state, dumped whole; later they are history, and what was there before is
in the last whole copy.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import islice

from api.core.api_errors import InvalidArgumentError, Reason
from api.core.relations import HeldTable, union
from api.core.snapshots import Reading, Snapshot
from api.queries.cursors import (
    NUMBER,
    TIME,
    CursorError,
    CursorFormat,
    Form,
    IdError,
    parse_id,
    show_bytes,
    take_bytes,
)
from api.queries.pagination import Page, QueryListing, Relation, cut, page
from api.queries.records import elements, oracle_data
from api.queries.requests import ListOracleData
from transforms.tables.registry import known_table

_DATA, _SPECS = "oracle_data", "oracle_data_oracle_specs"
_MISSING = "~"
"""Sorts behind every array of signers, as PostgreSQL sorts NULL."""


@lru_cache(maxsize=1024)
def _show_signers(signers: str) -> tuple[str, ...] | None:
    return None if signers == _MISSING else tuple(map(show_bytes, elements(signers)))


def _take_signers(value: object) -> str:
    if value is None:
        return _MISSING
    if not isinstance(value, list):
        raise CursorError(f"{value!r:.60} is not a list of signers")
    return "{" + ",".join(f'"\\\\x{take_bytes(element)}"' for element in value)


_CURSORS = CursorFormat(
    ("vegaTime", TIME),
    ("signers", Form(_show_signers, _take_signers)),
    ("seqNum", NUMBER),
    extra=1,
)
# The text of a byte array without its end sorts as PostgreSQL sorts the array.
_SIGNERS = f"coalesce(replace(signers, '}}', ''), '{_MISSING}')"
_NEWEST = (
    "row_number() over (partition by vega_time, seq_num order by _segment desc, _row desc) = 1"
)
_SHOWN = "epoch_us(vega_time), signers, seq_num, data, spec_ids, epoch_us(broadcast_at)"
_LATEST = "row_number() over (partition by spec_ids, data order by vega_time desc, seq_num desc)"


def list_oracle_data(reading: Reading, request: ListOracleData) -> Page:
    """List the data of a spec, or the latest of every spec. Raises `InvalidArgumentError`."""
    window = request.pagination.window(_CURSORS)
    try:
        spec = parse_id(request.oracle_spec_id)
    except IdError as error:
        inner = f"scany: query multiple result rows: {error}"
        raise InvalidArgumentError(Reason.ORACLE_DATA, inner) from None
    name = "oracle data of a spec" if spec else "oracle data"
    relation = reading.snapshot.once(name, lambda snapshot: _relation(snapshot, of_spec=bool(spec)))
    if relation is None:
        return Page()
    section = cut(QueryListing(reading, relation, (spec,) if spec else ()), window)
    return page(section, section.cursors(_CURSORS), oracle_data)


def _relation(snapshot: Snapshot, *, of_spec: bool) -> Relation | None:
    tables = _tables(snapshot)
    if not tables:
        return None
    specs = {table.volume: table for table in _held(snapshot, _SPECS)}
    rows = union(
        tables, lambda table: _rows_sql(table, specs.get(table.volume), "$1" if of_spec else None)
    )
    newest = f"select * from ({rows}) qualify {_NEWEST}"  # noqa: S608 - ours
    return Relation(
        newest if of_spec else f"select * from ({newest}) qualify {_LATEST} = 1",  # noqa: S608 - ours
        keys=("vega_time", "signers", "seq_num"),
        shown=_SHOWN,
        bound=int(of_spec),
    )


def _held(snapshot: Snapshot, table: str) -> list[HeldTable]:
    return [*snapshot.states(table), *snapshot.history(table)]


def _tables(snapshot: Snapshot) -> list[HeldTable]:
    """The files that have all rows between them, each row once."""
    history = snapshot.history(_DATA)
    if not history:
        newest = snapshot.state(_DATA)
        return [newest] if newest else []
    starts = (
        segments.firsts[at]
        for segments in snapshot.known_segments.values()
        for at in islice((at for at, of in enumerate(segments.versions) if _is_history(of)), 1)
    )
    first = min(starts, default=history[0].blocks.first)
    older = [copy for copy in snapshot.states(_DATA) if copy.blocks.last < first]
    return [*older[-1:], *history]


@cache
def _is_history(version: int) -> bool:
    table = known_table(_DATA, version)
    return table is not None and table.kind == "history"


def _rows_sql(table: HeldTable, specs: HeldTable | None, spec: str | None) -> str:
    """SQL for the rows of one file, of one spec if it is wanted, with the specs they matched."""
    columns = (
        f"_segment, _row, vega_time, {_SIGNERS} as signers, seq_num, "
        f"{table.columns.value('data')} as data"
    )
    broadcast = f"{table.columns.time('broadcast_at')} as broadcast_at"
    if table.columns.has("matched_spec_ids") or specs is None:
        spec_ids = table.columns.value("matched_spec_ids")
        matches = f"""where contains({spec_ids}::varchar, '"\\\\x' || {spec} || '"')"""
        return (
            f"select {columns}, {spec_ids}::varchar as spec_ids, {broadcast} "  # noqa: S608 - ours
            f"from {table.source} {matches if spec else ''}"
        )
    element = """'"\\\\x' || spec_id || '"'"""
    key = "_segment, vega_time, seq_num"
    matches = f"({key}) in (select ({key}) from {specs.source} where spec_id = {spec})"  # noqa: S608
    grouped = (
        f"select {key}, '{{' || string_agg({element}, ',' order by spec_id) || '}}' as spec_ids "  # noqa: S608
        f"from {specs.source} {f'where {matches}' if spec else ''} group by all"
    )
    join = "join" if spec else "left join"
    return (
        f"select {columns}, coalesce(spec_ids, '{{}}') as spec_ids, {broadcast} "  # noqa: S608
        f"from {table.source} {join} ({grouped}) using ({key})"
    )
