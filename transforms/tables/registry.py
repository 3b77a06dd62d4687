"""Every table of the network's database at every schema version: columns, types, keys, kind.

The facts lie in `registry.json`, one row per change of a table. A CSV header is the authority on a
segment's columns (spec 2.8.7): the registry gives their types and says what a header may not be.
"""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from transforms.errors import SegmentError

HISTORY_TABLES = (
    "balances",
    "blocks",
    "checkpoints",
    "delegations",
    "deposits",
    "ledger",
    "liquidity_provisions",
    "margin_levels",
    "market_data",
    "markets",
    "orders",
    "positions",
    "rewards",
    "trades",
    "withdrawals",
)
"""The 15 tables that are exported (spec 4.1), by file name."""

UNKNOWN_TYPE = "unknown"
"""The type of a column that the registry has never seen: kept as text."""

RESERVED_TABLES = frozenset({"spam_captures", "manifests", "state_manifest"})
"""Names of our own tables beside those of the network, in the warehouse or in the lake."""

MAX_COLUMNS = 1600
"""How many columns a table of PostgreSQL, and so of the network, can have."""

# What Delta and all engines take for a name, as all names of the network are. Our own columns begin
# with an underscore, and one of DuckDB's readers is `file_index`.
_COLUMN_NAME = re.compile(r"(?!file_index\Z)[a-z][a-z0-9_]*", re.IGNORECASE | re.ASCII)
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold_case(name: str) -> str:
    """A column's name as DuckDB compares it: of letters only A to Z are folded."""
    return name.translate(_FOLDED)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name and its PostgreSQL type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The ordered columns of one table in one segment."""

    table: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names, in CSV order."""
        return tuple(column.name for column in self.columns)

    @property
    def header(self) -> bytes:
        """The CSV header line, with its line feed."""
        return (",".join(self.names) + "\n").encode()

    @property
    def fingerprint(self) -> str:
        """A short hash that two schemas share exactly when names, order and types are equal."""
        text = "\n".join(f"{column.name} {column.type}" for column in self.columns)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KnownTable:
    """What the network's database holds of a table at one schema version."""

    kind: str
    key: tuple[str, ...]
    schema: TableSchema


@cache
def read_facts(name: str) -> Mapping[str, Any]:
    """The facts in a JSON document of this package."""
    facts: dict[str, Any] = json.loads(
        files("transforms.tables").joinpath(f"{name}.json").read_bytes()
    )
    return facts


@cache
def _changes() -> Mapping[str, tuple[tuple[int, KnownTable | None], ...]]:
    rows = read_facts("registry")
    return MappingProxyType({table: tuple(_replay(table, rows[table])) for table in rows})


def _replay(table: str, rows: Sequence[dict[str, Any]]) -> list[tuple[int, KnownTable | None]]:
    """Turn a table's rows of changes into whole states."""
    states: list[tuple[int, KnownTable | None]] = []
    kind, key, columns = "", tuple[str, ...](), list[Column]()
    for row in rows:
        kind = row.get("kind", kind)
        if kind == "dropped":
            states.append((row["version"], None))
            continue
        key = tuple(row.get("key", key))
        texts = row["columns"] if "columns" in row else row.get("added", [])
        fresh = [Column(*text.split(" ", 1)) for text in texts]
        columns = fresh if "columns" in row else [*columns, *fresh]
        states.append((row["version"], KnownTable(kind, key, TableSchema(table, tuple(columns)))))
    return states


@cache
def known_table(table: str, version: int) -> KnownTable | None:
    """The table as of schema `version`: its last change at or before it, None if there is none."""
    state: KnownTable | None = None
    for since, change in _changes().get(table, ()):
        if since <= version:
            state = change
    return state


def table_changes(table: str) -> tuple[tuple[int, KnownTable | None], ...]:
    """Every schema version that changed the table, ascending, and what it is since; None: gone."""
    return _changes().get(table, ())


def tables_ever() -> tuple[str, ...]:
    """The names of all tables that a schema version has or had, sorted."""
    return tuple(sorted(_changes()))


@cache
def history_tables() -> tuple[str, ...]:
    """The tables that any schema version dumps as history, sorted: those of the lake.

    Six of them are current state in early versions.
    """
    changes = _changes().items()
    states = ((table, state) for table, states in changes for _, state in states)
    return tuple(sorted({table for table, state in states if state and state.kind == "history"}))


@cache
def known_tables(version: int) -> tuple[str, ...]:
    """The names of all tables that exist at schema `version`, sorted."""
    return tuple(sorted(table for table in _changes() if known_table(table, version) is not None))


@cache
def types_ever(table: str) -> Mapping[str, str]:
    """Column name to type over all versions, in the order in which they came; the newest counts."""
    return {
        column.name: column.type
        for _, state in _changes().get(table, ())
        if state is not None
        for column in state.schema.columns
    }


def schema_of(table: str, version: int, header: Sequence[str]) -> TableSchema:
    """Type a CSV header: names and order from the header, types from the registry.

    A header may lack known columns or add others, known from another version or never seen (those
    are text). It may not repeat or leave unnamed a column, nor reorder the columns that the version
    is known to have: such a file contradicts its version. Raises `SegmentError`.
    """
    _check_names(table, header)
    state = known_table(table, version)
    expected = {column.name: column.type for column in state.schema.columns} if state else {}
    known_names = [name for name in header if name in expected]
    if known_names != [name for name in expected if name in known_names]:
        raise SegmentError(
            f"table {table}: the header reorders the columns of schema version {version}"
        )
    added = [name for name in header if name not in expected]
    missing = [name for name in expected if name not in known_names]
    if added and missing:
        raise SegmentError(
            f"table {table}: the header contradicts schema version {version}: it lacks "
            f"{', '.join(missing)} and has {', '.join(added)} instead"
        )
    types = {**types_ever(table), **expected}
    columns = tuple(Column(name, types.get(name, UNKNOWN_TYPE)) for name in header)
    return TableSchema(table, columns)


def _check_names(table: str, header: Sequence[str]) -> None:
    """Refuse too many names, and missing, repeated (DuckDB folds case), odd or our own ones."""
    if len(header) > MAX_COLUMNS:
        raise SegmentError(
            f"table {table}: the header has {len(header)} columns, and PostgreSQL's tables have at "
            f"most {MAX_COLUMNS}"
        )
    folded = [fold_case(name) for name in header]
    repeated = sorted({name for name in folded if folded.count(name) > 1})
    if repeated:
        raise SegmentError(f"table {table}: the header repeats {', '.join(repeated)}")
    if "" in folded:
        raise SegmentError(f"table {table}: the header has a column without a name")
    odd = [name for name in header if not _COLUMN_NAME.fullmatch(name)]
    if odd:
        raise SegmentError(f"table {table}: the header has the name {odd[0]!r}, not a plain one")


def primary_key(table: str, version: int) -> tuple[str, ...]:
    """The columns that identify a row inside one segment, in dump order; empty where unknown."""
    state = known_table(table, version)
    return state.key if state else ()
