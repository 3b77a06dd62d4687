"""The CSV dialect of spec 2.8.1-5, which is PostgreSQL's `COPY ... (FORMAT csv, HEADER)`.

DuckDB reads it exactly with the options below; a test holds them, and what is written, against an
oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from transforms.errors import ConfigError
from transforms.quoting import quote_files, quote_name, quote_text

# DuckDB's own default is less, and its buffer sixteen times as much.
_MAX_LINE_BYTES = 2**21
_FORBIDDEN_IN_NULL = ',"\r\n'
_NO_MARKS = bytes({*range(256)} - {*b'"\n'})


def read_sql(files: Sequence[Path], columns: Sequence[str], longest_row: int = 0) -> str:
    """SQL that reads CSV files of one header as text columns, in file order, NULL apart from `""`.

    No row may have more bytes than `longest_row`, or 2 MiB: DuckDB may pass over one that has
    without a word. The row's file is the virtual column `file_index`, counted from 0.
    """
    types = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in columns)
    return (
        f"read_csv({quote_files(files)}, columns = {{{types}}}, auto_detect = false, "
        f"""header = true, delim = ',', quote = '"', escape = '"', nullstr = '', """
        "allow_quoted_nulls = false, strict_mode = true, hive_partitioning = false, "
        f"max_line_size = {max(_MAX_LINE_BYTES, longest_row)})"
    )


def line_sql(cells: Sequence[tuple[str, bool]], null: str = "") -> str:
    """SQL for the line of a row of texts: quoted only where spec 2.8.2-3 says.

    `cells` are SQL for them, and whether it gives but texts that need no quotes; `null` is the NULL
    string.
    """
    line = ", ',', ".join(_cell(text, null, is_plain=is_plain) for text, is_plain in cells)
    return f"concat({line}, chr(10))"


def has_marks(text: str) -> str:
    """SQL for whether a text holds what is quoted in a CSV."""
    # One regular expression takes three times as long.
    marks = ("','", "'\"'", "chr(10)", "chr(13)")
    return " or ".join(f"contains({text}, {mark})" for mark in marks)


def _cell(text: str, null: str, *, is_plain: bool) -> str:
    """SQL for the text of a cell; a NULL is no text, as which `concat` takes it."""
    if not is_plain or null:
        quoted = f"""'"' || replace({text}, '"', '""') || '"'"""
        is_quoted = f"{text} = {quote_text(null)} or {has_marks(text)}"
        text = f"case when {is_quoted} then {quoted} else {text} end"
    return f"coalesce({text}, {quote_text(null)})" if null else text


def header_names(line: bytes) -> tuple[str, ...]:
    """Split a CSV header line. No table has a name that needs quotes; a quoted one stays as is."""
    return tuple(line.decode().removesuffix("\n").split(","))


def header_line(names: Iterable[str], null: str) -> bytes:
    """The header of a CSV, in which a name that is the NULL string is quoted."""
    return (",".join(f'"{name}"' if name == null else name for name in names) + "\n").encode()


def check_null(null: str) -> None:
    """Refuse a NULL string that holds a delimiter, a quote or a line end. Raises `ConfigError`."""
    if any(char in null for char in _FORBIDDEN_IN_NULL):
        raise ConfigError(
            f"the NULL string {null!r} holds a comma, a quote or a line end: "
            "nothing could tell it from a value"
        )


def select_list(expressions: Sequence[tuple[str, str]]) -> str:
    """Join (expression, column name) pairs into a select list."""
    return ", ".join(f"{expression} as {quote_name(name)}" for expression, name in expressions)


class LineCounter:
    """Counts the line feeds outside quotes of a text that comes in pieces.

    `longest` bounds the bytes of a line: those of the pieces in which it begins and ends, and of
    the pieces between.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0
        self._quoted = False
        self._bytes = 0

    def update(self, piece: bytes) -> None:
        """Count on."""
        if self._quoted or b'"' in piece:
            # Two quotes in a row change nothing, and most quotes of a JSON text are such.
            marks = piece.translate(None, _NO_MARKS).replace(b'""', b"")
            parts = marks.split(b'"')
            feeds = sum(map(len, parts[self._quoted :: 2]))
            self._quoted ^= len(parts) % 2 == 0
        else:  # `count` takes three times as long
            feeds = len(piece) - len(piece.replace(b"\n", b""))
        self.count += feeds
        self._bytes += len(piece)
        self.longest = max(self.longest, self._bytes)
        if feeds:
            self._bytes = len(piece)
