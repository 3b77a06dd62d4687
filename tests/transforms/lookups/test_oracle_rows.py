"""Lookups of oracle data and node signatures: what they hold, and of which rows there are none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

import duckdb
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from transforms.duck import Connection
from transforms.lookups.identities import IDENTITIES
from transforms.lookups.index_file import TABLES, read_fact
from transforms.lookups.key_pages import PageTable, read_pages
from transforms.lookups.lookup_tables import (
    ORACLE_BY_SPEC,
    ORACLE_BY_TIME,
    SIGNATURES,
    LookupSource,
    prove_lookups,
    write_lookups,
)
from transforms.tables.registry import Column

_OWN = "_segment bigint, _row bigint, _raw map(varchar, varchar)"
_DATA = {
    "vega_time": ("timestamp with time zone", "timestamptz"),
    "seq_num": ("bigint", "bigint"),
    "signers": ("bytea[]", "varchar"),
    "data": ("jsonb", "json"),
    "broadcast_at": ("timestamp with time zone", "timestamptz"),
}
_NAMED = {**_DATA, "matched_spec_ids": ("bytea[]", "varchar")}
_SPECS = {**dict(list(_DATA.items())[:2]), "spec_id": ("bytea", "varchar")}
_SIGNATURES = dict.fromkeys(("resource_id", "sig"), ("bytea", "varchar"))
_SPEC_IDS = ("aa", "bb", "aabb")

_Fact = tuple[int, int, int, str, str | None, Sequence[str]]
"""Segment, time, sequence number, signers, data, specs that matched."""
_FACTS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 4),
        st.integers(0, 2),
        st.sampled_from(['{"\\\\x00"}', '{"\\\\x00","\\\\x01"}', "{}"]),
        st.sampled_from(["[]", '[{"Name": "ü"}]', None]),
        st.lists(st.sampled_from(_SPEC_IDS), unique=True).map(sorted),
    ),
    max_size=30,
    unique_by=lambda fact: fact[:3],
)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute("set TimeZone = 'UTC'")
        yield con


def _table(
    con: Connection,
    name: str,
    columns: dict[str, tuple[str, str]],
    rows: Sequence[Sequence[object]],
) -> LookupSource:
    """A table in memory; `rows` have their segment last."""
    listed = ", ".join(f"{column} {kind}" for column, (_, kind) in columns.items())
    con.execute(f"create or replace table {name} ({listed}, {_OWN})")
    places = ", ".join(
        f"make_timestamptz(${n}::bigint)" if kind == "timestamptz" else f"${n}"
        for n, (_, kind) in enumerate(columns.values(), 1)
    )
    count = len(columns)
    insert = f"insert into {name} values ({places}, ${count + 1}, ${count + 2}, null)"
    for number, row in enumerate(rows):
        con.execute(insert, [*row, number])
    return LookupSource(name, [Column(c, kind) for c, (kind, _) in columns.items()], name)


def _array(specs: Sequence[str]) -> str:
    return "{" + ",".join(f'"\\\\x{spec}"' for spec in specs) + "}"


def _sources(con: Connection, facts: Sequence[_Fact], *, named: bool) -> dict[str, LookupSource]:
    """The tables of facts as schema versions with named specs hold them, or later ones."""
    rows = [
        [time, seq, signers, data, time + 7, *([_array(specs)] if named else []), segment]
        for segment, time, seq, signers, data, specs in facts
    ]
    sources = {"oracle_data": _table(con, "oracle_data", _NAMED if named else _DATA, rows)}
    if not named:
        matches = [
            [time, seq, spec, segment]
            for segment, time, seq, _, _, specs in facts
            for spec in specs
        ]
        name = "oracle_data_oracle_specs"
        sources[name] = _table(con, name, _SPECS, matches)
    return sources


def _file() -> closing[sqlite3.Connection]:
    file = sqlite3.connect(":memory:")
    file.execute("create table facts (name text primary key, crc integer, body blob)")
    return closing(file)


def _rows(file: sqlite3.Connection, table: PageTable) -> list[list[object]]:
    return [row for page in read_pages(file, table, (), (), descending=False) for row in page]


def _shown(fact: _Fact) -> list[object]:
    _, time, seq, signers, data, specs = fact
    return [time, signers.replace("}", ""), seq, data, _array(specs), time + 7]


@given(facts=_FACTS, named=st.booleans())
@settings(max_examples=40, deadline=None)
def test_pages_have_the_rows_of_each_spec_and_the_latest_of_all(
    con: Connection, facts: list[_Fact], named: bool
) -> None:
    facts.sort(key=lambda fact: fact[0])
    newest = {fact[1:3]: _shown(fact) for fact in facts}
    latest = {(str(row[4]), row[3]): row for _, row in sorted(newest.items())}
    of_specs = {(spec, fact[1:3]): [*_shown(fact), spec] for fact in facts for spec in fact[5]}
    sources = _sources(con, facts, named=named)
    with _file() as file:
        assert write_lookups(con, file, sources)
        assert _rows(file, ORACLE_BY_TIME) == sorted(latest.values(), key=lambda row: row[:3])
        assert _rows(file, ORACLE_BY_SPEC) == sorted(
            of_specs.values(), key=lambda row: (row[6], row[:3])
        )
        times = [fact[1] for fact in facts]
        ends = [min(times), max(times)] if times else None
        assert orjson.loads(read_fact(file, TABLES)) == {"oracle_data": ends}
        assert prove_lookups(con, file, sources) == ""


_GOOD: _Fact = (1, 1, 1, "{}", "[]", ["aa"])


@each_of(
    "harm",
    ["set vega_time = 'infinity'", "set vega_time = null", "set seq_num = null"],
)
def test_rows_without_a_place_which_no_network_writes_are_left_out(
    con: Connection, harm: str
) -> None:
    sources = _sources(con, [_GOOD, (1, 2, 1, "{}", "[]", ["aa"])], named=True)
    con.execute(f"update oracle_data {harm} where vega_time = make_timestamptz(1)")
    with _file() as file:
        assert write_lookups(con, file, sources)
        assert [row[0] for row in _rows(file, ORACLE_BY_TIME)] == [2]
        assert [row[0] for row in _rows(file, ORACLE_BY_SPEC)] == [2]
        assert orjson.loads(read_fact(file, TABLES)) == {"oracle_data": [2, 2]}
        assert prove_lookups(con, file, sources) == ""


@each_of("specs", ["'{\"\\\\xAA\"}'", '\'{"\\\\xaa"\\\\xbb"}\'', "'oops'"])
def test_specs_that_no_network_writes_are_shown_as_they_are(con: Connection, specs: str) -> None:
    sources = _sources(con, [_GOOD], named=True)
    con.execute(f"update oracle_data set matched_spec_ids = {specs}")
    with _file() as file:
        assert write_lookups(con, file, sources)
        assert len(_rows(file, ORACLE_BY_TIME)) == 1
        assert prove_lookups(con, file, sources) == ""


def test_specs_that_are_null_or_none_are_as_a_network_writes_them(con: Connection) -> None:
    sources = _sources(con, [_GOOD, (1, 2, 1, "{}", "[]", [])], named=True)
    con.execute("update oracle_data set matched_spec_ids = null where seq_num = 1")
    with _file() as file:
        assert write_lookups(con, file, sources)
        assert _rows(file, ORACLE_BY_SPEC) == []
        assert [row[4] for row in _rows(file, ORACLE_BY_TIME)] == [None]


def test_signatures_are_in_the_order_of_their_bytes(con: Connection) -> None:
    rows = [["b", "01", 1], ["a", "ff", 1], ["a", "0102", 1], ["a", "01", 1]]
    sources = {"node_signatures": _table(con, "node_signatures", _SIGNATURES, rows)}
    with _file() as file:
        assert write_lookups(con, file, sources)
        ordered = [["a", "01"], ["a", "0102"], ["a", "ff"], ["b", "01"]]
        assert [row[:2] for row in _rows(file, SIGNATURES)] == ordered
        assert orjson.loads(read_fact(file, TABLES)) == {"node_signatures": None}


@each_of("row", [["a", None, 1], [None, "01", 1]])
def test_signatures_without_a_key_are_left_out(con: Connection, row: Sequence[object]) -> None:
    rows = [["a", "01", 1], row]
    sources = {"node_signatures": _table(con, "node_signatures", _SIGNATURES, rows)}
    with _file() as file:
        assert write_lookups(con, file, sources)
        assert [row[:2] for row in _rows(file, SIGNATURES)] == [["a", "01"]]


@each_of(
    "change",
    [
        (f"update {ORACLE_BY_SPEC.name} set spec_id = 'bb'", ORACLE_BY_SPEC.name),
        (f"delete from {ORACLE_BY_TIME.name}", ORACLE_BY_TIME.name),
        (f"update {SIGNATURES.name} set body = x'78'", SIGNATURES.name),
        (f"update facts set crc = 0, body = x'' where name = '{TABLES}'", TABLES),
        *(
            (f"update facts set crc = 0, body = x'' where name = 'oracle_data.{name}'", name)
            for name in IDENTITIES
        ),
    ],
)
def test_what_does_not_follow_from_the_tables_is_reported(
    con: Connection, change: tuple[str, str]
) -> None:
    sources = _sources(con, [_GOOD], named=False)
    sources["node_signatures"] = _table(con, "node_signatures", _SIGNATURES, [["a", "01", 1]])
    with _file() as file:
        assert write_lookups(con, file, sources)
        file.execute(change[0])
        problem = prove_lookups(con, file, sources)
        assert problem.endswith(f"{change[1]} does not follow from its tables")
