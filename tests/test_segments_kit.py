"""The test kit itself: an oracle that is wrong would make every other test agree with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import zip_readers
from tests.cases import each_of
from tests.hostile_tables import EXACT_CELLS, REFUSED_TABLES, exact_segment
from tests.hostile_zips import REFUSED_ZIPS, encrypted_entry, understated_size, wrong_crc
from tests.segments_kit import (
    Cell,
    all_shared_segments,
    block_time,
    build_segment,
    columns,
    decode,
    entry_bytes,
    expected_member,
    pg_csv,
    pg_field,
    table_rows,
    tokens,
)
from transforms.tables.registry import known_tables

_REFUSED = {**REFUSED_ZIPS, **REFUSED_TABLES}
_ALPHABET = st.characters(codec="utf-8") | st.sampled_from(list(',"\r\n#\\. '))
_CELLS = st.none() | st.text(_ALPHABET, max_size=12)


@each_of(
    ("value", "null", "text"),
    [
        (None, "", ""),
        ("", "", '""'),
        ("abc", "", "abc"),
        ("a,b", "", '"a,b"'),
        ('say "hi"', "", '"say ""hi"""'),
        ('"', "", '""""'),
        ("a\nb", "", '"a\nb"'),
        ("a\rb", "", '"a\rb"'),
        ("a\r\nb", "", '"a\r\nb"'),
        ("trail\r", "", '"trail\r"'),
        ("\\.", "", "\\."),
        ("#tag", "", "#tag"),
        (" padded\t", "", " padded\t"),
        ("NULL", "", "NULL"),
        ("\\N", "", "\\N"),
        ("{}", "", "{}"),
        ("\ufeffé😀", "", "\ufeffé😀"),
        (None, "NULL", "NULL"),
        ("NULL", "NULL", '"NULL"'),
        ("", "NULL", ""),
        ("null", "NULL", "null"),
    ],
)
def test_a_value_is_encoded_as_postgresql_prints_it(value: Cell, null: str, text: str) -> None:
    assert pg_field(value, null) == text


def test_a_table_without_rows_is_its_header_line() -> None:
    assert pg_csv(["a", "b"], []) == b"a,b\n"


@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.tuples(*[_CELLS] * n), max_size=6)))
def test_what_the_encoder_writes_the_tokenizer_reads_back(rows: list[tuple[Cell, ...]]) -> None:
    header = [f"c{n}" for n in range(len(rows[0]) if rows else 2)]
    assert decode(pg_csv(header, rows)) == (header, [list(row) for row in rows])


@given(st.binary(max_size=40))
def test_the_tokenizer_accepts_only_what_the_encoder_could_have_written(data: bytes) -> None:
    try:
        rows = list(tokens(data))
    except ValueError:
        return
    needed = {True: b'"', False: b""}
    text = b"".join(
        b",".join(needed[q] + t.replace(b'"', b'""') + needed[q] for q, t in row) + b"\n"
        for row in rows
    )
    assert text == data


@pytest.mark.parametrize(
    "data", [b"a,b", b'a,"b\n', b'a"b\n', b'"a"b\n', b"a\rb\n", b"a\r\n", b'a\n"'], ids=repr
)
def test_the_tokenizer_refuses_what_no_database_writes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"at byte|no line feed"):
        list(tokens(data))


def test_a_quoted_and_a_bare_empty_field_differ() -> None:
    assert decode(b'a,b\n"",\n') == (["a", "b"], [["", None]])


@pytest.mark.parametrize("version", [1, 21, 123])
def test_a_built_segment_holds_every_table_of_its_version_in_order(
    tmp_path: Path, version: int
) -> None:
    path = build_segment(tmp_path, version=version, first=5, last=8)
    assert path.name == f"kit-chain-{version}-5-8.zip"
    with ZipFile(path) as archive:
        first, *names = archive.namelist()
        metadata = json.loads(archive.read("metadata.json"))
    assert first == "metadata.json"
    assert names == sorted(names)
    assert sorted(name.split("/")[1] for name in names) == list(known_tables(version))
    assert (metadata["HeightFrom"], metadata["HeightTo"]) == (5, 8)
    assert entry_bytes(path, "trades") == (",".join(columns("trades", version)) + "\n").encode()
    assert [row[1] for row in decode(entry_bytes(path, "blocks"))[1]] == ["5", "6", "7", "8"]


def test_another_programme_can_unpack_a_built_segment(tmp_path: Path) -> None:
    path = build_segment(tmp_path, tables={"orders": table_rows("orders", {"reference": ""})})
    zip_readers.check(path)
    assert set(zip_readers.read(path, "history/orders")) == {
        pg_csv(*table_rows("orders", {"reference": ""}))
    }


def test_default_rows_have_distinct_ascending_keys() -> None:
    for table, key in (("withdrawals", 0), ("orders", 22), ("trades", 0), ("node_signatures", 0)):
        _, rows = table_rows(table, {}, {}, {})
        assert rows[0][key] < rows[1][key] < rows[2][key]  # type: ignore[operator]


@each_of(
    ("height", "microseconds", "text"),
    [
        (0, 0, "2023-01-01 00:00:00+00"),
        (86_400, 0, "2023-01-02 00:00:00+00"),
        (1, 500_000, "2023-01-01 00:00:01.5+00"),
        (1, 1, "2023-01-01 00:00:01.000001+00"),
    ],
)
def test_a_time_prints_without_trailing_zeros(height: int, microseconds: int, text: str) -> None:
    assert block_time(height, microseconds) == text


def test_an_expected_member_has_one_header_and_every_body(tmp_path: Path) -> None:
    one = build_segment(tmp_path, last=2)
    two = build_segment(tmp_path, first=3, last=4)
    member = expected_member([one, two], "blocks")
    assert member.startswith(b"vega_time,height,hash\n")
    assert [row[1] for row in decode(member)[1]] == ["1", "2", "3", "4"]


def test_an_expected_member_never_joins_two_schemas(tmp_path: Path) -> None:
    one = build_segment(tmp_path, last=2)
    two = build_segment(tmp_path, first=3, last=4, version=21)
    with pytest.raises(AssertionError, match="another header"):
        expected_member([one, two], "orders")


@pytest.mark.parametrize("make", _REFUSED.values(), ids=_REFUSED.keys())
def test_a_hostile_segment_differs_from_a_good_one(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    good = build_segment(tmp_path / "good").read_bytes()
    bad = make(tmp_path / "bad")
    assert bad.name == "kit-chain-1-1-1000.zip"
    assert bad.read_bytes() != good


@pytest.mark.parametrize(
    ("make", "entry"), [(wrong_crc, "history/orders"), (understated_size, "history/blocks")]
)
def test_a_patched_header_breaks_only_the_entry_it_names(
    tmp_path: Path, make: Callable[[Path], Path], entry: str
) -> None:
    with ZipFile(make(tmp_path)) as archive:
        assert archive.testzip() == entry


def test_an_entry_marked_as_encrypted_asks_for_a_password(tmp_path: Path) -> None:
    with ZipFile(encrypted_entry(tmp_path)) as archive:
        archive.read("history/blocks")
        with pytest.raises(RuntimeError, match="password required"):
            archive.read("history/orders")


def test_every_exact_cell_lies_in_the_segment_as_written(tmp_path: Path) -> None:
    path = exact_segment(tmp_path)
    for (table, column), cells in EXACT_CELLS.items():
        header, rows = decode(entry_bytes(path, table))
        found = [row[header.index(column)] for row in rows]
        assert [cell for cell in cells if cell not in found] == []


def test_recorded_segments_are_read_and_written_back_to_the_byte() -> None:
    for folder in all_shared_segments():
        for segment in sorted(folder.glob("*.zip")):
            with ZipFile(segment) as archive:
                for name in archive.namelist()[1:]:
                    data = archive.read(name)
                    assert pg_csv(*decode(data)) == data, f"{segment.name} {name}"


def test_missing_recordings_skip_a_test_or_fail_it_where_they_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_TEST_SHARED", str(tmp_path))
    monkeypatch.delenv("STRATA_TEST_REQUIRE_SHARED", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no recorded segments in"):
        all_shared_segments()
    monkeypatch.setenv("STRATA_TEST_REQUIRE_SHARED", "1")
    with pytest.raises(pytest.fail.Exception, match="set STRATA_TEST_SHARED"):
        all_shared_segments()


def test_recordings_are_found_where_the_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_TEST_SHARED", str(tmp_path))
    build_segment(tmp_path / "segments/one", last=2)
    build_segment(tmp_path / "segments/two", last=2)
    assert all_shared_segments() == [tmp_path / "segments/one", tmp_path / "segments/two"]
