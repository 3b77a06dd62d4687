from __future__ import annotations

import re
import sys

import pytest

from exporters.lake.tables import AddedRows, LakeReport
from pipelines.commands import display
from pipelines.commands.display import Screen
from pipelines.commands.lake_report import show_lake
from transforms.block_range import BlockRange


def on_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool = True) -> None:
    """Let what is printed go to a terminal that is 60 wide, or not."""
    monkeypatch.setenv("COLUMNS", "60")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "_LINE_SECONDS", 0.0)
    shown = {}
    for terminal in (True, False):
        on_terminal(monkeypatch, terminal)
        with Screen().progress("loading", total=2_000_000) as advance:
            advance(500_000)
            advance(500_000)
        shown[terminal] = capsys.readouterr().err

    assert "\x1b[" in shown[True]
    first, second, last = shown[False].splitlines()
    pace = r", [\d.]+ ([kMGT]B|bytes)/s, \d+ s left"
    assert re.fullmatch(rf"loading: 500.0 kB of 2.0 MB{pace}", first)
    assert re.fullmatch(rf"loading: 1.0 MB of 2.0 MB{pace}", second)
    assert last == "loading: 1.0 MB in 0 s"


def test_counts_are_bars_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "_LINE_SECONDS", 0.0)
    shown = {}
    for terminal in (True, False):
        on_terminal(monkeypatch, terminal)
        with Screen().counts("verifying") as count:
            count("tables", 1, 2)
            count("ZIPs", 1234, 5000)
            count("ZIPs", 1235, 0)
        shown[terminal] = capsys.readouterr().err

    assert "verifying tables" in shown[True]
    assert "1/2" in shown[True]
    assert "1235/5000" in shown[True]
    assert shown[False] == (
        "verifying tables: 1 of 2\nverifying ZIPs: 1,234 of 5,000\nverifying ZIPs: 1,235\n"
    )


def test_lines_of_progress_keep_their_distance(capsys: pytest.CaptureFixture[str]) -> None:
    it = Screen()

    with it.counts("verifying") as count, it.progress("loading") as advance:
        count("ZIPs", 1, 2)
        advance(1000)

    assert capsys.readouterr().err == ""


def test_a_wide_row_is_shown_cell_by_cell_where_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch)

    Screen().table("", [f"column {number}" for number in range(9)], [["x" * 20] * 9])

    text = capsys.readouterr().out
    assert text.count("x" * 20) == 9
    assert all(len(line) <= 60 for line in text.splitlines())


def test_a_hash_stays_in_one_piece_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch)

    Screen().table("", ["file", "SHA-256"], [["a.zip", "0" * 64]])

    assert "0" * 64 in capsys.readouterr().out


def test_columns_are_as_wide_as_what_a_terminal_shows_of_their_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen().table("a title", ["word", "n"], [["日本", 1234], ["two\nlines", 5], ["a\tb\r", 67]])

    assert capsys.readouterr().out.splitlines() == [
        "a title",
        "word           n",
        "日本       1,234",
        "two            5",
        "lines           ",
        "a       b     67",
    ]


def test_names_are_bold_on_a_terminal_and_only_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal, bold in ((True, "\x1b[1mname\x1b[0m"), (False, "name")):
        on_terminal(monkeypatch, terminal)
        Screen().table("", ["name"], [["cell"]])
        assert capsys.readouterr().out.splitlines()[0].rstrip() == bold


def test_json_keeps_everything_else_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    it = Screen(json=True)

    it.show("a line")
    it.table("title", ["column"], [["cell"]])
    it.document({"answer": 42})
    it.message("a message")

    captured = capsys.readouterr()
    assert captured.out == '{\n "answer": 42\n}\n'
    assert captured.err == "a message\n"


def test_markup_in_data_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    it = Screen()

    it.message("[red]not a colour[/red] :smile:")
    it.table("", ["column"], [["[bold]cell[/bold] :smile:"]])

    captured = capsys.readouterr()
    assert captured.err == "[red]not a colour[/red] :smile:\n"
    assert "[bold]cell[/bold] :smile:" in captured.out


def test_files_of_the_lake_that_were_written_anew_are_told_without_bytes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = AddedRows("orders", "1-10.parquet", BlockRange(1, 10), 3, 2048)
    for report, told in (
        (LakeReport(replaced=3), "3 files of the lake written anew\n"),
        (LakeReport(added=(rows,)), "1 files of the lake published: 2.0 kB\n"),
        (LakeReport(), "The lake has all that is loaded.\n"),
    ):
        show_lake(Screen(), report)
        assert capsys.readouterr().out == told
