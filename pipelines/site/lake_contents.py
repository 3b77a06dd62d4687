"""How far the lake is, by its tables' logs, and removing what none of them names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from exporters.archive.lake_place import RECEIPTS
from exporters.lake.lake_files import Lake, lake_tables
from exporters.lake.publication.lake_sweep import sweep_lake, tables_there
from exporters.lake.reports import LakeReport
from exporters.lake.tables import LakeTable, Version
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange, contiguous_runs
from transforms.coverage import inside
from transforms.errors import ConflictError, IntegrityError
from transforms.warehouse.files.catalog import Catalog


def site_lake(site: Site) -> Lake:
    """The lake of the chain that is loaded."""
    archive = site.archive(site.loaded_catalog().chain_id)
    return Lake(archive, site.settings.memory_mb, site.warehouse.cache / "lake")


@at_one_look
def lacking_segments(site: Site, tables: Sequence[str] = ()) -> list[BlockRange]:
    """The loaded segments that any of these tables (none: all) lacks, ascending, by the logs alone.

    Those of a volume count where a table has not all of its blocks. Raises `ConflictError`,
    `IntegrityError` for a table of which that cannot be said.
    """
    lake, catalog = site_lake(site), site.loaded_catalog()
    lacking = (lacks(lake, table, catalog) for table in tables or expected_tables(catalog))
    # Comparing two ranges calls Python: of 75,000 that takes a quarter of a second.
    return sorted(frozenset(chain.from_iterable(lacking)), key=attrgetter("first", "last"))


def expected_tables(catalog: Catalog) -> list[str]:
    """The tables that the lake should have; the receipts are the last."""
    return [*lake_tables(catalog.history()), RECEIPTS]


def lacks(lake: Lake, table: str, catalog: Catalog) -> Sequence[BlockRange]:
    """The loaded segments that a table lacks, ascending; see `lacking_segments`."""
    version = LakeTable(lake, table).expected()
    if table == RECEIPTS:
        return version.lacks(catalog.blocks) if version else catalog.blocks
    volumes = (volume.blocks for volume in catalog.history() if table in volume.data)
    lacking = [blocks for blocks in volumes if not (version and version.covers(blocks))]
    return [*inside(catalog.blocks, lacking)]


def sweep(site: Site) -> LakeReport:
    """Remove what no version of the last week names; see `sweep_lake`."""
    return sweep_lake(site_lake(site))


@dataclass(frozen=True, slots=True)
class LakeTableStatus:
    """How far a table of the lake is: its version, files, rows, bytes and runs of blocks.

    `lacking` are the blocks that are loaded and not in it; for current state that is none. Of a
    table that cannot be read there is only the `problem`.
    """

    table: str
    version: int | None = None
    files: int = 0
    rows: int = 0
    bytes: int = 0
    blocks: tuple[BlockRange, ...] = ()
    lacking: tuple[BlockRange, ...] = ()
    problem: str = ""


@at_one_look
def lake_status(site: Site) -> list[LakeTableStatus]:
    """How far each table of the lake is, by the logs alone."""
    lake, catalog = site_lake(site), site.loaded_catalog()
    statuses = (_status(lake, table, catalog) for table in tables_there(lake))
    return [status for status in statuses if status is not None]


def _status(lake: Lake, table: str, catalog: Catalog) -> LakeTableStatus | None:
    try:
        version = LakeTable(lake, table).version()
        return _version_status(version, catalog) if version else None
    except (ConflictError, IntegrityError) as error:
        return LakeTableStatus(table, problem=str(error))


def _version_status(version: Version, catalog: Catalog) -> LakeTableStatus:
    is_history = version.table in expected_tables(catalog)
    return LakeTableStatus(
        version.table,
        version.content.number,
        len(version.files),
        sum(lake_file.file.rows for lake_file in version.files),
        sum(lake_file.size for lake_file in version.files),
        tuple(contiguous_runs(lake_file.blocks for lake_file in version.files)),
        tuple(contiguous_runs(lacks(version.lake, version.table, catalog))) if is_history else (),
    )
