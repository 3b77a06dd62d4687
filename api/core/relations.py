"""Tables as the files of a volume hold them, with their index files, which may be damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from transforms.block_range import BlockRange
from transforms.lookups.index_file import IndexFile, UnreadableIndexError
from transforms.lookups.lookup_tables import NEEDED
from transforms.lookups.row_columns import TableColumns
from transforms.warehouse.manifests.shapes import Shape

_Answer = TypeVar("_Answer")
REMEDY = "its rows are looked up in data files, slower: run strata repair, which makes it again"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldTable:
    """One table of one volume: of a run of segments, or of a current state.

    `volume` is the key of that, `source` SQL for the table's rows, `index` the index file beside
    these, if it has one.
    """

    volume: str
    table: str
    source: str
    blocks: BlockRange
    shape: Shape
    index: IndexFile | None = None

    @property
    def lookups(self) -> IndexFile | None:
        """The index file, while it can be read, if it has rows of this table.

        Raises `UnreadableIndexError` where it turns out that it cannot.
        """
        index = self.index
        if index is None or not index.is_sound or self.table not in index.tables:
            return None
        return index

    @cached_property
    def is_usable(self) -> bool:
        """Whether the table has the columns that every query about it needs."""
        return all(map(self.columns.has, _NEEDED[self.table]))

    @cached_property
    def columns(self) -> TableColumns:
        """The columns that it has."""
        return TableColumns.of(self.shape.columns, self.shape.raw)


_PROVISIONS = (*NEEDED["liquidity_provisions"], "reference")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    **NEEDED,
    "liquidity_provisions": _PROVISIONS,
    "live_liquidity_provisions": _PROVISIONS,
    "blocks": ("height", "vega_time"),
    "network_parameters": ("key", "value", "vega_time"),
    "epochs": ("id",),
}


def answered_around(read: Callable[[], _Answer]) -> _Answer:
    """What `read` answers, asked again each time that an index file turns out to be unreadable.

    It is no longer sound then, so `read` does without it.
    """
    while True:
        try:
            return read()
        except UnreadableIndexError as error:
            _log.error("%s: %s", error, REMEDY)


def union(tables: Iterable[HeldTable], query: Callable[[HeldTable], str]) -> str:
    """SQL for the same query over several tables."""
    return " union all ".join(f"({query(table)})" for table in tables)
