"""What a person sees: tables on stdout; messages and progress on stderr; JSON for programs.

On a terminal progress is a bar; elsewhere it is a plain line now and then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from exporters.archive.figures import size_text

Advance = Callable[[int], None]
"""Called with the bytes that were just done."""

Count = Callable[[str, int, int], None]
"""Called with what is counted, how many are done, and how many there are (0: not known)."""

_PIPE_WIDTH = 10_000
_MANY = 8  # columns; a wider table is shown cell by cell where it does not fit
_LINE_SECONDS = 10.0  # between two plain progress lines


def _output() -> Console:
    console = Console(highlight=False)
    # Piped somewhere, a table is as wide as it is.
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a command's results and messages go; `json` keeps stdout for one JSON document."""

    json: bool = False
    errors: Console = field(default_factory=lambda: Console(stderr=True, highlight=False))
    output: Console = field(default_factory=_output)
    warnings: list[str] = field(default_factory=list)

    def message(self, text: str) -> None:
        """Print a message for the person, on stderr."""
        self.errors.print(text, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning, and keep it for the document."""
        self.warnings.append(text)
        self.message(f"warning: {text}")

    def show(self, text: str) -> None:
        """A line of the result; programs read the JSON instead."""
        if not self.json:
            self.output.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
        """A table of the result; columns of numbers are set to the right."""
        listed = [[_cell(cell) for cell in row] for row in rows]
        if self.json or not listed:
            return
        table = Table(
            title=title, title_justify="left", box=None, pad_edge=False, title_style="bold"
        )
        for place, column in enumerate(columns):
            digits = all(row[place].replace(",", "").isdecimal() for row in listed)
            table.add_column(Text(column), justify="right" if digits else "left")
        for row in listed:
            table.add_row(*map(Text, row))
        natural = Measurement.get(self.output, self.output.options.update(width=_PIPE_WIDTH), table)
        if len(columns) > _MANY and natural.maximum > self.output.width:
            self._records(columns, listed)
            return
        # Wider than the terminal, a line runs over its edge: a hash cut in two is of no use.
        width = max(self.output.width, natural.maximum)
        terminal = self.output.is_terminal
        Console(file=self.output.file, width=width, force_terminal=terminal, highlight=False).print(
            table
        )

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
        if not self.errors.is_terminal:
            lines = _Lines(self, label, total)
            yield lines.advance
            lines.end()
            return
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.errors,
            transient=True,
        ) as bar:
            task = bar.add_task(label, total=total)
            yield lambda size: bar.advance(task, size)

    @contextmanager
    def counts(self, label: str) -> Iterator[Count]:
        """Show how many of several kinds of things are done, a bar for each kind."""
        if not self.errors.is_terminal:
            yield _Lines(self, label).count
            return
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.errors,
            transient=True,
        ) as bar:
            tasks: dict[str, TaskID] = {}

            def count(what: str, completed: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(f"{label} {what}", total=total or None)
                bar.update(tasks[what], completed=completed)

            yield count


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
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
