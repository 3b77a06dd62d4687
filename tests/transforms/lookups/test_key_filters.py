"""Key filters: never wrong about a key that is there, and seldom about one that is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection
from transforms.lookups.key_filters import KeyFilter, filter_sql, key_hashes

_IDS = st.lists(st.text("0123456789abcdef", max_size=64) | st.text(max_size=3), max_size=40)


@pytest.fixture(scope="module")
def con() -> Iterator[Connection]:
    with duckdb.connect() as con:
        yield con


def _filter(con: Connection, keys: Sequence[str]) -> KeyFilter:
    con.execute("create or replace table t (id varchar)")
    con.execute("insert into t select unnest($1::varchar[] || $1::varchar[])", [keys])
    ((bits,),) = con.execute(filter_sql(con, "t", "id")).fetchall()
    return KeyFilter(bits)


@given(ids=_IDS, others=_IDS)
@settings(max_examples=50, deadline=None)
def test_a_filter_knows_every_key(con: Connection, ids: list[str], others: list[str]) -> None:
    made = _filter(con, ids)
    assert all(made.may_hold(key_hashes(id_)) for id_ in ids)
    if not ids:
        assert not any(made.may_hold(key_hashes(id_)) for id_ in others)


def test_a_filter_is_seldom_asked_in_vain(con: Connection) -> None:
    made = _filter(con, [f"{n:064x}" for n in range(400)])
    vain = sum(made.may_hold(key_hashes(f"{n:064x}")) for n in range(400, 4400))
    assert vain < 80  # one in 150 is meant, one in 50 would be wrong
