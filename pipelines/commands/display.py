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
# What rings, or moves the cursor back; a cell is one line besides.
_CONTROLS: dict[int, str | None] = dict.fromkeys((7, 8, 11, 12, 13))
_IN_CELLS = {**_CONTROLS, 9: " ", 10: " "}


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
        columns_of_cells = zip(map(_cell, columns), *listed, strict=True)
        aligned = [_aligned(column) for column in columns_of_cells]
        # Wider than the terminal, a line runs over its edge: a hash cut in two is of no use.
        names, *lines = ("  ".join(row) for row in zip(*aligned, strict=True))
        is_terminal = sys.stdout.isatty()
        for line in filter(None, (title, names)):
            _print(click.style(line, bold=True) if is_terminal else line)
        for line in lines:
            _print(line)

    def document(self, value: Mapping[str, Any]) -> None:
        """The result for programs, where that was asked for."""
        if self.json:
            click.echo(json.dumps(value, indent=1, default=_plain, allow_nan=False))

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Show bytes as they are done; `total` where it is known."""
        started, completed = time.monotonic(), 0
        of = f" of {size_text(total)}" if total else ""

        with self._line() as write:

            def advance(size: int) -> None:
                nonlocal completed
                completed += size
                seconds = time.monotonic() - started
                rate = f", {size_text(int(completed / seconds))}/s" if seconds else ""
                left = _left(completed, total or 0, seconds)
                write(f"{label}: {size_text(completed)}{of}{rate}{left}")

            yield advance

    @contextmanager
    def counts(self, label: str) -> Iterator[Count]:
        """Show how many of several kinds of things are done."""
        with self._line() as write:

            def count(what: str, completed: int, total: int) -> None:
                of = f" of {total:,}" if total else ""
                write(f"{label} {what}: {completed:,}{of}")

            yield count

    @contextmanager
    def _line(self) -> Iterator[Callable[[str], None]]:
        """A line of progress, which is written now and then."""
        is_terminal, last = sys.stderr.isatty(), time.monotonic()

        def write(text: str) -> None:
            nonlocal last
            if time.monotonic() - last < (_ANEW_SECONDS if is_terminal else _LINE_SECONDS):
                return
            last = time.monotonic()
            if is_terminal:
                width = shutil.get_terminal_size().columns - 1
                click.echo(f"{_CLEARED}{text[:width]}", err=True, nl=False)
            else:
                self.message(text)

        try:
            yield write
        finally:
            if is_terminal:
                click.echo(_CLEARED, err=True, nl=False)


def _plain(value: object) -> object:
    """What JSON has not: a dataclass is its fields, unless it has a text of its own."""
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return str(value)


def _left(completed: int, total: int, seconds: float) -> str:
    """How long what is left will take, at the pace until now; empty where that is not known."""
    if not 0 < completed < total:
        return ""
    minutes, rest = divmod(round((total - completed) * seconds / completed), 60)
    return f", {minutes} min {rest} s left" if minutes else f", {rest} s left"


def _cell(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_number else str(value).translate(_IN_CELLS)


def _aligned(column: Sequence[str]) -> Iterator[str]:
    """A column's name and cells, all as wide as the widest."""
    width = max(map(len, column))
    is_number = all(cell.replace(",", "").isdecimal() for cell in column[1:])
    return (cell.rjust(width) if is_number else cell.ljust(width) for cell in column)


def _print(text: str, *, err: bool = False) -> None:
    # Colours are data here: what is styled is so only on a terminal.
    before = _CLEARED if err and sys.stderr.isatty() else ""  # a line of progress may stand there
    click.echo(before + text.translate(_CONTROLS), err=err, color=True)
