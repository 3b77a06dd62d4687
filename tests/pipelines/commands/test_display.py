from __future__ import annotations

import re
import sys

import pytest

from pipelines.commands import display
from pipelines.commands.display import Screen

CLEARED = "\r\x1b[K"


def on_terminal(monkeypatch: pytest.MonkeyPatch, is_terminal: bool = True) -> None:
    """Let what is printed go to a terminal that is 60 wide, or not."""
    monkeypatch.setenv("COLUMNS", "60")
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)


def test_progress_is_a_line_in_its_place_on_a_terminal_and_lines_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for pause in ("_LINE_SECONDS", "_ANEW_SECONDS"):
        monkeypatch.setattr(display, pause, 0.0)
    shown = {}
    for terminal in (True, False):
        on_terminal(monkeypatch, terminal)
        with Screen().progress("loading", total=2_000_000) as advance:
            advance(500_000)
            Screen().message("a message")
            advance(500_000)
        shown[terminal] = capsys.readouterr().err

    first, message, last = shown[False].splitlines()
    pace = r", [\d.]+ ([kMGT]B|bytes)/s, \d+ s left"
    assert message == "a message"
    assert re.fullmatch(rf"loading: 500.0 kB of 2.0 MB{pace}", first)
    assert re.fullmatch(rf"loading: 1.0 MB of 2.0 MB{pace}", last)
    before, line, told, again, end = shown[True].split(CLEARED)
    assert (before, told, end) == ("", "a message\n", "")
    assert re.fullmatch(rf"loading: 500.0 kB of 2.0 MB{pace}", line)
    assert again.startswith("loading: 1.0 MB of 2.0 MB")


def test_counts_are_said_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for pause in ("_LINE_SECONDS", "_ANEW_SECONDS"):
        monkeypatch.setattr(display, pause, 0.0)
    lines = ["verifying tables: 1 of 2", "verifying ZIPs: 1,234 of 5,000", "verifying ZIPs: 1,235"]
    for terminal in (True, False):
        on_terminal(monkeypatch, terminal)
        with Screen().counts("verifying") as count:
            count("tables", 1, 2)
            count("ZIPs", 1234, 5000)
            count("ZIPs", 1235, 0)
        text = capsys.readouterr().err
        assert (text.split(CLEARED)[1:-1] if terminal else text.splitlines()) == lines


def test_lines_of_progress_keep_their_distance(capsys: pytest.CaptureFixture[str]) -> None:
    it = Screen()

    with it.counts("verifying") as count, it.progress("loading") as advance:
        count("ZIPs", 1, 2)
        advance(1000)

    assert capsys.readouterr().err == ""


def test_a_hash_stays_in_one_piece_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch)

    Screen().table("", ["file", "SHA-256"], [["a.zip", "0" * 64]])

    assert "0" * 64 in capsys.readouterr().out


def test_columns_are_as_wide_as_their_cells_which_are_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen().table("a title", ["word", "n"], [["long", 1234], ["two\nlines", 5], ["a\tb\r", 67]])

    assert capsys.readouterr().out.splitlines() == [
        "a title",
        "word           n",
        "long       1,234",
        "two lines      5",
        "a b           67",
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
