"""What a person sees: tables on stdout; messages and progress on stderr; JSON for programs.

Progress is a line: on a terminal it is written anew in its place, elsewhere one comes now and then.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import zip_longest
from typing import Any

import click

from exporters.archive.figures import size_text

Advance = Callable[[int], None]
"""Called with the bytes that were just done."""

Count = Callable[[str, int, int], None]
"""Called with what is counted, how many are done, and how many there are (0: not known)."""

_LINE_SECONDS = 10.0  # between two lines of progress
_ANEW_SECONDS = 0.2  # before the line on a terminal is written anew
_CLEARED = "\r\x1b[K"
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
        is_terminal = sys.stdout.isatty()
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

    def document(self, value: Mapping[str, Any]) -> None:
        """The result for programs, where that was asked for."""
        if self.json:
            click.echo(json.dumps(value, indent=1, default=_plain, allow_nan=False))

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Show bytes as they are done; `total` where it is known."""
        line = _Line(self, label, total)
        try:
            yield line.advance
        finally:
            line.clear()
        if line.is_said and not line.is_terminal:
            seconds = _duration(time.monotonic() - line.started)
            self.message(f"{label}: {size_text(line.completed)} in {seconds}")

    @contextmanager
    def counts(self, label: str) -> Iterator[Count]:
        """Show how many of several kinds of things are done."""
        line = _Line(self, label)
        try:
            yield line.count
        finally:
            line.clear()


@dataclass(slots=True)
class _Line:
    """Progress as a line of text, written now and then."""

    screen: Screen
    label: str
    total: int | None = None
    completed: int = 0
    started: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)
    is_said: bool = False
    is_terminal: bool = field(default_factory=lambda: sys.stderr.isatty())
    began: dict[str, tuple[float, int]] = field(default_factory=dict)

    def advance(self, size: int) -> None:
        self.completed += size
        of = f" of {size_text(self.total)}" if self.total else ""
        seconds = time.monotonic() - self.started
        rate = f", {size_text(int(self.completed / seconds))}/s" if seconds else ""
        estimate = _left(self.completed, self.total, seconds)
        self._write(f"{self.label}: {size_text(self.completed)}{of}{rate}{estimate}")

    def count(self, what: str, completed: int, total: int) -> None:
        of = f" of {total:,}" if total else ""
        started, first = self.began.setdefault(what, (time.monotonic(), completed))
        estimate = _left(completed - first, total and total - first, time.monotonic() - started)
        self._write(f"{self.label} {what}: {completed:,}{of}{estimate}")

    def clear(self) -> None:
        if self.is_terminal and self.is_said:
            click.echo(_CLEARED, err=True, nl=False)

    def _write(self, text: str) -> None:
        pause = _ANEW_SECONDS if self.is_terminal else _LINE_SECONDS
        if time.monotonic() - self.last_line < pause:
            return
        self.last_line, self.is_said = time.monotonic(), True
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{_CLEARED}{text[:width]}", err=True, nl=False)
        else:
            self.screen.message(text)


def _plain(value: object) -> object:
    """What JSON has not: a dataclass is its fields, unless it has a text of its own."""
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return str(value)


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
    """How many places the longest line of a text takes."""
    return max(map(len, text.split("\n")))


def _print(text: str, *, err: bool = False) -> None:
    # Colours are data here: what is styled is so only on a terminal.
    before = _CLEARED if err and sys.stderr.isatty() else ""  # a line of progress may stand there
    click.echo(before + text.translate(_CONTROLS), err=err, color=True)
