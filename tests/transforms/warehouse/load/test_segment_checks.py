"""A segment with a primary key in several rows, or other heights than its own, is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.segments_kit import Cell, Table, block_rows, block_time, columns, table_rows
from tests.transforms.warehouse_kit import (
    MemorySink,
    history_segment,
    load_folder,
    quarantine_reasons,
    state_segment,
)
from transforms.block_range import BlockRange
from transforms.verifying.findings import ForeignRows
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


def _without(column: str, names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    at = names.index(column)
    return [*names[:at], *names[at + 1 :]], [[*row[:at], *row[at + 1 :]] for row in rows]


def _foreign_rows(folder: Path, **segments: dict[str, Table]) -> list[ForeignRows]:
    """List the rows that belong to no block, after loading segments (see `_load`)."""
    assert _reasons(_load(folder, **segments)) == []
    return open_warehouse(folder / "w").catalog().foreign_rows()


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
    rows = table_rows("orders", {"vega_time": _TIME}, {"vega_time": _TIME})
    orders = _without("seq_num", *rows)
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


def test_rows_are_foreign_if_no_block_of_their_segment_has_their_time(tmp_path: Path) -> None:
    bc, earlier = _BEFORE_CHRIST
    cases = {  # the time of the fifth block, the time of an order
        "own": (block_time(5), block_time(10)),
        "between two blocks": (block_time(15), block_time(20, 1)),
        "of a later segment": (block_time(25), block_time(31)),
        "infinity": (block_time(35), "infinity"),
        "none": (block_time(45), None),
        "own infinity": ("infinity", "infinity"),
        "own before Christ": (bc, bc),
        "before Christ": (bc, earlier),
    }
    segments: dict[str, dict[str, Table]] = {}
    for number, (name, (block, time)) in enumerate(cases.items()):
        rows = [*block_rows(number * 10 + 1, number * 10 + 10)]
        rows[4] = (block, *rows[4][1:])
        segments[name] = _orders(time) | _blocks(rows)
    names = [*cases]
    foreign = _foreign_rows(tmp_path, **segments)
    assert {(each.table, each.rows) for each in foreign} == {("orders", 1)}
    assert [names[each.segment.first // 10] for each in foreign] == [
        "between two blocks",
        "of a later segment",
        "infinity",
        "none",
        "before Christ",
    ]
    history_segment(tmp_path / "more", first=81, last=90)
    load_folder(tmp_path / "w", tmp_path / "more")
    warehouse = open_warehouse(tmp_path / "w")
    assert warehouse.compact(most_partial=1)
    assert warehouse.catalog().foreign_rows() == foreign


def test_segments_without_a_column_of_times_have_no_foreign_rows(tmp_path: Path) -> None:
    times = _orders(block_time(99))
    untimed_rows = {"orders": _without("vega_time", *table_rows("orders", {}))}
    untimed_blocks = {"blocks": _without("vega_time", columns("blocks"), [*block_rows(11, 20)])}
    segments = {"rows": untimed_rows, "blocks": times | untimed_blocks, "all": times}
    expected = [ForeignRows("orders", BlockRange(21, 30), 1)]
    assert _foreign_rows(tmp_path, **segments) == expected


def test_rows_of_current_state_are_not_foreign(tmp_path: Path) -> None:
    parties = table_rows("parties", {"vega_time": block_time(99)})
    state_segment(tmp_path / "s", last=10, tables={"parties": parties})
    load_folder(tmp_path / "w", tmp_path / "s")
    assert open_warehouse(tmp_path / "w").catalog().foreign_rows() == []


def test_unknown_tables_of_history_may_have_foreign_rows(tmp_path: Path) -> None:
    rows = f"vega_time,value\n{block_time(2)},1\n{block_time(11)},2\n{block_time(12)},3\n"
    entries = {"history/novelties": rows.encode()}
    history_segment(tmp_path / "s", last=10, extra_entries=entries)
    load_folder(tmp_path / "w", tmp_path / "s")
    expected = [ForeignRows("novelties", BlockRange(1, 10), 2)]
    assert open_warehouse(tmp_path / "w").catalog().foreign_rows() == expected
