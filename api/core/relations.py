"""Tables as the files of a volume hold them, with their index files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from api.core.api_errors import UnavailableError
from transforms.block_range import BlockRange
from transforms.lookups.index_file import IndexFile
from transforms.lookups.lookup_tables import NEEDED
from transforms.lookups.row_columns import TableColumns
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.shapes import Shape


@dataclass(frozen=True)
class HeldTable:
    """One table of one volume: of a run of segments, or of a current state.

    `place` is its data file, None where it has no rows, or its name in SQL; `index` is the index
    file beside it, if it has one.
    """

    table: str
    place: Path | str | None
    blocks: BlockRange
    shape: Shape
    index: IndexFile | None = None

    @cached_property  # most are never asked for
    def source(self) -> str:
        """SQL for its rows."""
        if isinstance(self.place, str):
            return self.place
        files = [self.place] if self.place else []
        return rows_sql(self.table, self.shape.column_list(), files)

    @property
    def lookups(self) -> IndexFile:
        """The index file, which has rows of this table. Raises `UnavailableError` without one."""
        index = self.index
        if index is None or self.table not in index.tables:
            raise UnavailableError(
                f"the blocks {self.blocks} have no index file, as a load had too little memory: "
                "let STRATA_MEMORY_MB be more and run strata repair, which makes it"
            )
        return index

    @cached_property
    def is_usable(self) -> bool:
        """Whether the table has the columns that every query about it needs."""
        return all(map(self.columns.has, _NEEDED[self.table]))

    @cached_property
    def columns(self) -> TableColumns:
        """The columns that it has."""
        return TableColumns.of(self.shape.columns, self.shape.raw)


_NEEDED: Mapping[str, tuple[str, ...]] = {
    **NEEDED,
    "live_liquidity_provisions": NEEDED["liquidity_provisions"],
    "blocks": ("height", "vega_time"),
    "network_parameters": ("key", "value", "vega_time"),
    "epochs": ("id",),
}
