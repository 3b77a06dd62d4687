from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from exporters.lake.reports import AddedRows, LakeReport
from pipelines.commands import display
from pipelines.commands.display import Screen
from pipelines.commands.lake_report import show_lake
from transforms.block_range import BlockRange


def screen(*, terminal: bool) -> tuple[Screen, io.StringIO]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=60, highlight=False)
    return Screen(errors=console, output=console), text


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(display, "_LINE_SECONDS", 0.0)
    shown = {}
    for terminal in (True, False):
        it, text = screen(terminal=terminal)
        with it.progress("loading", total=2_000_000) as advance:
            advance(500_000)
            advance(500_000)
        shown[terminal] = text.getvalue()

    assert "\x1b[" in shown[True]
    first, second, last = shown[False].splitlines()
    pace = r", [\d.]+ ([kMGT]B|bytes)/s, \d+ s left"
    assert re.fullmatch(rf"loading: 500.0 kB of 2.0 MB{pace}", first)
    assert re.fullmatch(rf"loading: 1.0 MB of 2.0 MB{pace}", second)
    assert last == "loading: 1.0 MB in 0 s"


def test_counts_are_bars_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(display, "_LINE_SECONDS", 0.0)
    shown = {}
    for terminal in (True, False):
        it, text = screen(terminal=terminal)
        with it.counts("verifying") as count:
            count("tables", 1, 2)
            count("ZIPs", 1234, 5000)
            count("ZIPs", 1235, 0)
        shown[terminal] = text.getvalue()

    assert "verifying tables" in shown[True]
    assert "1/2" in shown[True]
    assert "1235/5000" in shown[True]
    assert shown[False] == (
        "verifying tables: 1 of 2\nverifying ZIPs: 1,234 of 5,000\nverifying ZIPs: 1,235\n"
    )


def test_lines_of_progress_keep_their_distance() -> None:
    it, text = screen(terminal=False)

    with it.counts("verifying") as count, it.progress("loading") as advance:
        count("ZIPs", 1, 2)
        advance(1000)

    assert text.getvalue() == ""


def test_a_wide_row_is_shown_cell_by_cell_where_it_does_not_fit() -> None:
    it, text = screen(terminal=True)

    it.table("", [f"column {number}" for number in range(9)], [["x" * 20] * 9])

    assert text.getvalue().count("x" * 20) == 9
    assert all(len(line) <= 60 for line in text.getvalue().splitlines())


def test_a_hash_stays_in_one_piece_on_a_narrow_terminal() -> None:
    it, text = screen(terminal=True)

    it.table("", ["file", "SHA-256"], [["a.zip", "0" * 64]])

    assert "0" * 64 in text.getvalue()


def test_json_keeps_everything_else_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    it = Screen(json=True)

    it.show("a line")
    it.table("title", ["column"], [["cell"]])
    it.document({"answer": 42})
    it.message("a message")

    captured = capsys.readouterr()
    assert captured.out == '{\n "answer": 42\n}\n'
    assert captured.err == "a message\n"


def test_markup_in_data_is_data() -> None:
    it, text = screen(terminal=False)

    it.message("[red]not a colour[/red]")
    it.table("", ["column"], [["[bold]cell[/bold]"]])

    assert "[red]not a colour[/red]" in text.getvalue()
    assert "[bold]cell[/bold]" in text.getvalue()


def test_files_of_the_lake_that_were_written_anew_are_told_without_bytes() -> None:
    rows = AddedRows("orders", "1-10.parquet", BlockRange(1, 10), 3, 2048)
    for report, told in (
        (LakeReport(replaced=3), "3 files of the lake written anew\n"),
        (LakeReport(added=(rows,)), "1 files of the lake published: 2.0 kB\n"),
        (LakeReport(), "The lake has all that is loaded.\n"),
    ):
        it, text = screen(terminal=False)
        show_lake(it, report)
        assert text.getvalue() == told
