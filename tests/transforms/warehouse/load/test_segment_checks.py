"""A segment with a primary key in several rows, or other heights than its own, is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.segments_kit import Cell, Table, block_rows, columns, table_rows
from tests.transforms.warehouse_kit import (
    MemorySink,
    history_segment,
    load_folder,
    quarantine_reasons,
)
from transforms.block_range import BlockRange
from transforms.warehouse.load.loader import LoadReport
from transforms.warehouse.warehouse_address import open_warehouse

_TIME = "2023-01-01 00:00:00+00"
_BEFORE_CHRIST = ("0044-03-15 12:00:00+00 BC", "0045-03-15 12:00:00+00 BC")


def _load(folder: Path, **segments: dict[str, Table]) -> LoadReport:
    """Load joined segments of ten blocks with these tables; what is not given is plain."""
    for number, tables in enumerate(segments.values()):
        first = number * 10 + 1
        history_segment(folder / "s", first=first, last=first + 9, tables=tables)
    return load_folder(folder / "w", folder / "s", MemorySink())


def _reasons(report: LoadReport) -> list[str]:
    return [refusal.reason for refusal in report.failures]


def _orders(*times: Cell, number: Cell = "1", **cells: Cell) -> dict[str, Table]:
    rows = ({"vega_time": time, "seq_num": number, **cells} for time in times)
    return {"orders": table_rows("orders", *rows)}


def _blocks(rows: list[tuple[str, str, str]]) -> dict[str, Table]:
    return {"blocks": (columns("blocks"), rows)}


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (_TIME, _TIME),
        ("infinity", "infinity"),
        (_BEFORE_CHRIST[0], _BEFORE_CHRIST[0]),
        (None, "None"),
    ],
    ids=["a time", "a time that Python has not", "a time that no type holds", "no time"],
)
def test_a_segment_with_one_key_twice_is_quarantined_and_its_neighbours_load(
    tmp_path: Path, time: Cell, shown: str
) -> None:
    report = _load(tmp_path, before={}, twice=_orders(time, time), after={})

    reason = f"segment 11-20: orders has several rows for vega_time {shown}, seq_num 1"
    assert quarantine_reasons(open_warehouse(tmp_path / "w")) == {"kit-chain-1-11-20.zip": reason}
    assert _reasons(report) == [reason]
    assert {*report.loaded} == {BlockRange(1, 10), BlockRange(21, 30)}


def test_rows_of_one_key_are_noticed_whatever_no_type_holds_of_their_other_cells(
    tmp_path: Path,
) -> None:
    row = {"seq_num": "1", "vega_time": _TIME}
    twice: dict[str, Table] = {"orders": table_rows("orders", row, {**row, "size": "9" * 30})}
    (reason,) = _reasons(_load(tmp_path, twice=twice))
    assert reason.startswith("segment 1-10: orders has several rows for")


def test_keys_that_no_type_holds_differ_by_their_texts(tmp_path: Path) -> None:
    assert _reasons(_load(tmp_path, only=_orders(*_BEFORE_CHRIST))) == []


def test_a_key_that_two_segments_have_is_no_fault(tmp_path: Path) -> None:
    assert _reasons(_load(tmp_path, one=_orders(_TIME), other=_orders(_TIME))) == []


def test_a_table_without_a_column_of_its_key_has_no_key(tmp_path: Path) -> None:
    names, rows = table_rows("orders", {"vega_time": _TIME}, {"vega_time": _TIME})
    at = names.index("seq_num")
    orders = ([*names[:at], *names[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows])
    assert _reasons(_load(tmp_path, only={"orders": orders})) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[1:], "9 rows with 9 heights from 2 to 10"),
        (lambda rows: [*rows[:9], rows[8]], "10 rows with 9 heights from 1 to 9"),
        (lambda rows: [*rows, *block_rows(11, 11)], "11 rows with 11 heights from 1 to 11"),
        (lambda _: [*block_rows(11, 20)], "10 rows with 10 heights from 11 to 20"),
        (lambda _: [], "0 rows with 0 heights from None to None"),
    ],
    ids=["one lacks", "one twice", "one too many", "those of another", "none"],
)
def test_a_segment_with_other_heights_than_its_own_is_quarantined(
    tmp_path: Path,
    change: Callable[[list[tuple[str, str, str]]], list[tuple[str, str, str]]],
    expected: str,
) -> None:
    report = _load(tmp_path, wrong=_blocks(change([*block_rows(1, 10)])), after={})

    assert _reasons(report) == [f"segment 1-10: its table blocks has {expected}"]
    assert report.loaded == [BlockRange(11, 20)]


def test_a_segment_whose_blocks_have_no_heights_at_all_is_quarantined(tmp_path: Path) -> None:
    rows = [(time, digest) for time, _, digest in block_rows(1, 10)]
    report = _load(tmp_path, wrong={"blocks": (("vega_time", "hash"), rows)})

    expected = "segment 1-10: its table blocks has 10 rows with 0 heights from None to None"
    assert _reasons(report) == [expected]


def test_whichever_segments_are_at_fault_only_they_are_refused(tmp_path: Path) -> None:
    twice, heights = _orders(_TIME, _TIME), _blocks([*block_rows(1, 10)])
    report = _load(tmp_path, a=twice, b={}, c=heights, d={}, e=twice, f={})

    assert sorted(reason.partition(":")[0] for reason in _reasons(report)) == [
        "segment 1-10",
        "segment 21-30",
        "segment 41-50",
    ]
    assert len(report.loaded) == 3
