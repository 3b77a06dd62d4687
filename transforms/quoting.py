"""Quoting for SQL: the one place that does it. No DuckDB here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PATTERN = re.compile(r"([*?\[])")


def quote_name(name: str) -> str:
    """Quote an identifier for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str | Path) -> str:
    """Quote a string literal for SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def quote_files(paths: Iterable[Path]) -> str:
    """Quote a list of files to read for SQL, so that no part of a path is taken for a pattern."""
    return "[" + ", ".join(quote_text(file_pattern(path)) for path in paths) + "]"


def file_pattern(path: Path | str) -> str:
    """The pattern of files to read that means just this path."""
    return _PATTERN.sub(r"[\1]", str(path))
