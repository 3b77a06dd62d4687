"""`strata.sql` and `strata.duckdb`: the catalog's views over a lake's files at public addresses.

They follow from the lake's tables and the warehouse's snapshot: the same give the same text. The
database is made without asking for any file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import pyarrow.parquet as pq

from transforms.duck import quote_text, working_connection
from transforms.quoting import file_pattern
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.data_files import empty_sql
from transforms.warehouse.manifests.manifest_rows import MANIFEST
from transforms.warehouse.views.catalog_file import run_statements
from transforms.warehouse.views.table_views import ViewedTable, Views

_HEADER = """\
-- Chain {chain}, as Strata published it: views over the files of its lake at
--   {address}/lake
-- In DuckDB 1.5 or 2.0 (httpfs is loaded by itself) a database of these very statements answers:
--   attach '{address}/strata.duckdb' as vega (read_only);
--   use vega;
-- Or run the statements in an empty database of your own. A file that a newer one replaced stays
-- for a week; strata.snapshot says as of when these are: take them anew when that is long ago.
"""
_SNAPSHOT_MEANING = (
    "What these views show: snapshot of the publisher's warehouse, last block, time of the "
    "snapshot, and where. Their files stay for a week after newer ones took their place."
)


@dataclass(frozen=True)
class PublicLake:
    """A chain's tables and manifests as of a snapshot, and documented tables that are `absent`.

    `address` is that of the chain's folder, `manifests` and `conditions` those of files.
    """

    snapshot: Snapshot
    address: str
    conditions: str
    tables: Sequence[ViewedTable] = ()
    manifests: tuple[str, ...] = ()
    absent: Sequence[str] = ()

    @cached_property
    def views(self) -> Views:
        """All views over it."""
        views = Views.of(self.tables, self.manifests, self.absent)
        views.fixed += conditions_view(views.listed([self.conditions]))
        chain_id, number = self.snapshot.chain_id, self.snapshot.number
        last = max((volume.blocks.last for volume in self.snapshot.history), default=0)
        time = datetime.fromtimestamp(self.snapshot.time, UTC).isoformat(" ", "seconds")
        views.states += [
            f"create table strata.snapshot as select {quote_text(chain_id)} as chain_id, "
            f"{number}::bigint as snapshot, {last}::bigint as last_block, "
            f"timestamptz {quote_text(time)} as time, {quote_text(self.address)} as address",
            f"comment on table strata.snapshot is {quote_text(_SNAPSHOT_MEANING)}",
        ]
        return views

    def statements(self) -> str:
        """The text of all statements."""
        lines = (" ".join(map(str.strip, each.splitlines())) for each in self.views.all)
        header = _HEADER.format(chain=self.snapshot.chain_id, address=self.address)
        return header + "".join(f"{line};\n" for line in lines)

    def write_database(self, path: Path, scratch: Path) -> None:
        """Write a new database of the statements; no file of the lake is asked for.

        A view is only made over files that are there: until all are made, each list is that of a
        file without rows.
        """
        empty = self._empty_files(scratch)
        files: dict[tuple[str, ...], str] = {
            (file_pattern(empty[its]),): name for its, name in self.views.files.items()
        }
        run_statements(path, [*replace(self.views, files=files).all, *self.views.lists])

    def _empty_files(self, scratch: Path) -> dict[tuple[str, ...], Path]:
        """A new file without rows for each list of files."""
        manifest, conditions = scratch / "manifest.parquet", scratch / "conditions.json"
        pq.write_table(MANIFEST.empty_table(), manifest)
        conditions.write_text('{"days": []}')
        empty = {self.manifests: manifest, (self.conditions,): conditions}
        with working_connection(scratch, size=0) as con:
            for table in self.tables:
                for files, columns in table.groups():
                    path = empty[files] = scratch / f"{len(empty)}.parquet"
                    query = f"from {empty_sql(table.name, columns)}"
                    con.execute(f"copy ({query}) to {quote_text(path)} (format parquet)")
        return empty


_DAY = (
    '"date" DATE, condition VARCHAR, "from" BIGINT, "to" BIGINT, last_modified TIMESTAMPTZ, '
    "reason VARCHAR"
)
_MEANING = (
    "Each UTC day: available, degraded (a table lacks some of its blocks), pending (it has the "
    "newest block) or missing; the blocks of its segments; when a file of it was last replaced; "
    "and why. What conditions.json says now."
)


def conditions_view(files: str) -> Iterator[str]:
    """What makes the view over the document `conditions.json`; `files` is SQL for a list of it."""
    yield (
        'create view strata.conditions as select "date", condition, "from" as first_block, '  # noqa: S608 - of constants
        '"to" as last_block, last_modified, reason from (select unnest(days, recursive := true) '
        f"from read_json({files}, columns = {{days: 'STRUCT({_DAY})[]'}}))"
    )
    yield f"comment on view strata.conditions is {quote_text(_MEANING)}"
