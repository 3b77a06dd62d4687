"""A published ZIP as rows; see `strata.read_export`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from exporters.zip_names import parse_csv_name
from strata.rows import Rows
from transforms.duck import set_up, working_connection
from transforms.errors import ConfigError, IntegrityError
from transforms.scratch import temporary_folder
from transforms.tables.conform import conversion, typed_rows
from transforms.tables.dialect import LineCounter, header_names, read_sql
from transforms.tables.registry import Column, TableSchema, schema_of

if TYPE_CHECKING:
    import duckdb

_MEMORY = "50%"
_TEXT = "text"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Csv:
    """One CSV of a ZIP, extracted; no row has more bytes than `longest`."""

    path: Path
    schema: TableSchema
    longest: int


class Export(Rows):
    """The rows of a published ZIP in their order; its CSVs lie in a temporary folder meanwhile."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, query: str, table: str, stack: ExitStack
    ) -> None:
        """`stack` is closed with it."""

        def cursor() -> duckdb.DuckDBPyConnection:
            other = con.cursor()
            set_up(other)
            return other

        super().__init__(lambda: con, cursor, query)
        self.table = table
        self._stack = stack

    def close(self) -> None:
        """Remove the temporary folder; rows that were not taken cannot be taken any more."""
        self._stack.close()

    def __enter__(self) -> Export:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_export(place: str | Path) -> Export:
    """See `strata.read_export`."""
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(prefix="strata-export-"))
        csvs = list(_extracted(Path(place).expanduser(), str(place), folder))
        if not csvs:
            raise ConfigError(f"{place} holds no CSV: give a published ZIP")
        threads = os.cpu_count() or 1
        con = stack.enter_context(working_connection(folder, threads=threads, memory_limit=_MEMORY))
        return Export(con, _union(csvs), csvs[0].schema.table, stack.pop_all())


def _extracted(path: Path, place: str, folder: Path) -> Iterator[_Csv]:
    try:
        with zipfile.ZipFile(path) as archive:
            for number, name in enumerate(archive.namelist()):
                about = parse_csv_name(name)
                target, lines = folder / f"{number}.csv", LineCounter()
                with archive.open(name) as source, target.open("wb") as copy:
                    first = source.readline()
                    for piece in chain([first], iter(lambda: source.read(_PIECE_BYTES), b"")):
                        lines.update(piece)
                        copy.write(piece)
                schema = schema_of(about.table, about.version, header_names(first))
                yield _Csv(target, schema, lines.longest)
    except IntegrityError as error:
        raise ConfigError(f"{place} is no published ZIP: {error}") from error
    except zipfile.BadZipFile as error:
        raise IntegrityError(f"{place} is no ZIP, or damaged ({error}): fetch it again") from error


def _union(csvs: Sequence[_Csv]) -> str:
    """SQL for the rows of all CSVs, with the columns of all, the newest ones first."""
    columns = {column.name: None for csv in reversed(csvs) for column in csv.schema.columns}
    kinds = {name: {_type(csv, name) for csv in csvs} - {""} for name in columns}
    parts = [_rows(csv, {name for name, types in kinds.items() if len(types) > 1}) for csv in csvs]
    listed = ", ".join(f'"{name}"' for name in (*columns, "_raw"))
    return f"select {listed} from ({' union all by name '.join(parts)})"  # noqa: S608


def _type(csv: _Csv, name: str) -> str:
    """The type that a CSV's column has here; nothing where it lacks it."""
    types = (conversion(csv.schema.table, c).type for c in csv.schema.columns if c.name == name)
    return next(types, "")


def _rows(csv: _Csv, as_text: set[str]) -> str:
    """SQL for the typed rows of a CSV; what other CSVs hold in another type stays text."""
    columns = [Column(c.name, _TEXT) if c.name in as_text else c for c in csv.schema.columns]
    texts = read_sql([csv.path], csv.schema.names, csv.longest)
    return f"({typed_rows(csv.schema.table, columns, texts, exact=True)})"
