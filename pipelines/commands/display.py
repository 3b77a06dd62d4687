"""What a person sees: tables on stdout; messages and progress on stderr; JSON for programs.

On a terminal progress is a bar; elsewhere it is a plain line now and then.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from exporters.archive.figures import size_text

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

Advance = Callable[[int], None]
"""Called with the bytes that were just done."""

Count = Callable[[str, int, int], None]
"""Called with what is counted, how many are done, and how many there are (0: not known)."""

_MANY = 8  # columns; a wider table is shown cell by cell where it does not fit
_LINE_SECONDS = 10.0  # between two plain progress lines
_BETWEEN = "  "  # two columns of a table
# What rings, or moves the cursor back.
_CONTROLS = dict.fromkeys((7, 8, 11, 12, 13))


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a command's results and messages go; `json` keeps stdout for one JSON document."""

    json: bool = False
    warnings: list[str] = field(default_factory=list)

    def message(self, text: str) -> None:
        """Print a message for the person, on stderr."""
        _print(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning, and keep it for the document."""
        self.warnings.append(text)
        self.message(f"warning: {text}")

    def show(self, text: str) -> None:
        """A line of the result; programs read the JSON instead."""
        if not self.json:
            _print(text)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
        """A table of the result; columns of numbers are set to the right."""
        listed = [[_cell(cell) for cell in row] for row in rows]
        if self.json or not listed:
            return
        names = [*map(_cell, columns)]
        widths = [max(map(_width, column)) for column in zip(names, *listed, strict=True)]
        width = sum(widths) + len(_BETWEEN) * (len(columns) - 1)
        is_terminal = sys.stdout.isatty()
        if len(columns) > _MANY and is_terminal and width > shutil.get_terminal_size().columns:
            self._records(columns, listed)
            return
        digits = [
            all(cell.replace(",", "").isdecimal() for cell in column)
            for column in zip(*listed, strict=True)
        ]
        # Wider than the terminal, a line runs over its edge: a hash cut in two is of no use.
        head = [title] if title else []
        for line in (*head, *_lines(names, widths, digits)):
            _print(click.style(line, bold=True) if is_terminal else line)
        for row in listed:
            for line in _lines(row, widths, digits):
                _print(line)

    def _records(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows too wide for a table: a line for each cell."""
        width = max(map(len, columns))
        for number, row in enumerate(rows, 1):
            self.show(f"-- {number} ".ljust(width + 20, "-"))
            for column, cell in zip(columns, row, strict=True):
                self.show(f"{column.ljust(width)}  {cell}")

    def document(self, value: Mapping[str, Any]) -> None:
        """The result for programs, where that was asked for."""
        if self.json:
            click.echo(json.dumps(value, indent=1, default=str, allow_nan=False))

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Show bytes as they are done; `total` where it is known."""
        if not sys.stderr.isatty():
            lines = _Lines(self, label, total)
            yield lines.advance
            lines.end()
            return
        from rich.progress import DownloadColumn, TransferSpeedColumn

        with _bars(DownloadColumn(), TransferSpeedColumn()) as bar:
            task = bar.add_task(label, total=total)
            yield lambda size: bar.advance(task, size)

    @contextmanager
    def counts(self, label: str) -> Iterator[Count]:
        """Show how many of several kinds of things are done, a bar for each kind."""
        if not sys.stderr.isatty():
            yield _Lines(self, label).count
            return
        from rich.progress import MofNCompleteColumn

        with _bars(MofNCompleteColumn()) as bar:
            tasks: dict[str, TaskID] = {}

            def count(what: str, completed: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(f"{label} {what}", total=total or None)
                bar.update(tasks[what], completed=completed)

            yield count


def _bars(*columns: ProgressColumn) -> Progress:
    """Bars on a terminal, with these columns after each."""
    # rich takes its time to import, and no bar is shown to cron.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )


@dataclass(slots=True)
class _Lines:
    """Progress as plain lines, one every `_LINE_SECONDS` at most."""

    screen: Screen
    label: str
    total: int | None = None
    completed: int = 0
    started: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)
    is_said: bool = False
    began: dict[str, tuple[float, int]] = field(default_factory=dict)

    def advance(self, size: int) -> None:
        self.completed += size
        of = f" of {size_text(self.total)}" if self.total else ""
        seconds = time.monotonic() - self.started
        rate = f", {size_text(int(self.completed / seconds))}/s" if seconds else ""
        estimate = _left(self.completed, self.total, seconds)
        self._line(f"{self.label}: {size_text(self.completed)}{of}{rate}{estimate}")

    def end(self) -> None:
        """Say what was done, where progress was said at all."""
        if self.is_said:
            seconds = time.monotonic() - self.started
            self.screen.message(
                f"{self.label}: {size_text(self.completed)} in {_duration(seconds)}"
            )

    def count(self, what: str, completed: int, total: int) -> None:
        of = f" of {total:,}" if total else ""
        started, first = self.began.setdefault(what, (time.monotonic(), completed))
        estimate = _left(completed - first, total and total - first, time.monotonic() - started)
        self._line(f"{self.label} {what}: {completed:,}{of}{estimate}")

    def _line(self, text: str) -> None:
        if time.monotonic() - self.last_line >= _LINE_SECONDS:
            self.last_line, self.is_said = time.monotonic(), True
            self.screen.message(text)


def _left(completed: int, total: int | None, seconds: float) -> str:
    """How long what is left will take, at the pace until now; empty where that is not known."""
    if not total or not 0 < completed < total:
        return ""
    return f", {_duration(max(0, total - completed) * seconds / completed)} left"


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    if hours:
        return f"{hours} h {rest // 60} min"
    return f"{rest // 60} min {rest % 60} s" if rest >= 60 else f"{rest} s"


def _cell(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value).translate(_CONTROLS).expandtabs()


def _lines(row: Sequence[str], widths: Sequence[int], digits: Sequence[bool]) -> Iterator[str]:
    """The lines of a row of a table: as many as its cells have."""
    for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
        cells = []
        for part, width, is_right in zip(parts, widths, digits, strict=True):
            space = " " * (width - _width(part))
            cells.append(f"{space}{part}" if is_right else f"{part}{space}")
        yield _BETWEEN.join(cells)


def _width(text: str) -> int:
    """How many places the longest line of a text takes on a terminal."""
    if text.isascii():
        return max(map(len, text.split("\n")))
    from unicodedata import combining, east_asian_width

    return max(
        sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in line)
        for line in text.split("\n")
    )


def _print(text: str, *, err: bool = False) -> None:
    # Colours are data here: what is styled is so only on a terminal.
    click.echo(text.translate(_CONTROLS), err=err, color=True)
