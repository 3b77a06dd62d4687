from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.duck import Connection, working_connection
from transforms.errors import UnreadableFilesError
from transforms.lookups import key_filter
from transforms.lookups.index_file import (
    IndexConnections,
    IndexFile,
    filter_fact,
    new_index,
    write_fact,
)
from transforms.lookups.key_filter import KeyFilter, filter_bits, key_hashes
from transforms.lookups.key_pages import PageTable, row_sql, write_pages

_TABLE = PageTable("by_id", (("id", "text"),))


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with working_connection(tmp_path_factory.mktemp("scratch")) as con:
        yield con


def _filter(con: Connection, values: list[str]) -> KeyFilter:
    hashes = array("I", key_hashes(value.encode() for value in values))
    return KeyFilter(filter_bits(con, hashes))


@settings(max_examples=50)
@given(values=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_what_a_file_has_is_never_denied(con: Connection, values: list[str]) -> None:
    key_filter = _filter(con, values)
    assert all(map(key_filter.may_have, values))


@pytest.mark.parametrize("kind", [lambda n: sha256(b"%d" % n).hexdigest(), str, "{:064x}".format])
@pytest.mark.parametrize("count", [1, 6, 100, 3000, 50_000])
def test_of_what_it_has_not_few_percent_are_possible(
    con: Connection, kind: Callable[[int], str], count: int
) -> None:
    key_filter = _filter(con, [kind(number) for number in range(count)])
    others = [kind(number) for number in range(10**6, 10**6 + 3000)]
    assert sum(map(key_filter.may_have, others)) < 0.03 * len(others)


def test_nothing_is_possible_where_nothing_is(con: Connection) -> None:
    assert not _filter(con, []).may_have("")
    assert not _filter(con, []).may_have("\ud800")


def test_more_than_the_most_values_have_no_filter(
    con: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_filter, "MOST_KEYS", 2)
    assert _filter(con, ["a", "b"]).bits
    assert not _filter(con, ["a", "b", "c"]).bits
    assert _filter(con, ["a", "b", "c"]).may_have("d")


def _index(con: Connection, path: Path, bits: bytes, connections: IndexConnections) -> IndexFile:
    rows = "(select unnest(['a', 'b']) as id)"
    with new_index(path) as file:
        write_pages(con, file, _TABLE, f"select id, {row_sql('id')} from {rows} order by id")
        write_fact(file, filter_fact(_TABLE), bits)
    return IndexFile(path, connections)


def test_a_file_is_not_asked_for_what_its_filter_denies(con: Connection, tmp_path: Path) -> None:
    connections = IndexConnections()
    index = _index(con, tmp_path / "a", _filter(con, ["a"]).bits, connections)
    assert index.rows(_TABLE, "a", 0) == [("a",)]
    assert not index.may_have(_TABLE, "b")  # the filter lies about it
    assert index.rows(_TABLE, "\ud800", 0) == []
    connections.keep()


def test_a_filter_that_lacks_is_no_empty_one(con: Connection, tmp_path: Path) -> None:
    connections = IndexConnections()
    index = _index(con, tmp_path / "a", b"", connections)
    other = PageTable("by_party", _TABLE.key)
    with pytest.raises(UnreadableFilesError) as caught:
        index.may_have(other, "a")
    assert "the fact by_party.filter" in str(caught.value.__cause__)
    connections.keep()


def test_filters_take_a_bounded_number_of_bytes(con: Connection, tmp_path: Path) -> None:
    bits = _filter(con, []).bits  # says that nothing is there
    connections = IndexConnections(filter_bytes=17 * len(bits) - 1)
    first, second = (_index(con, tmp_path / name, bits, connections) for name in "ab")
    assert not first.may_have(_TABLE, "b")
    assert second.may_have(_TABLE, "b"), "there is no room for its filter"
    first.close()
    third = _index(con, tmp_path / "c", bits, connections)
    assert not third.may_have(_TABLE, "b"), "what was forgotten leaves its room"
    connections.keep()
