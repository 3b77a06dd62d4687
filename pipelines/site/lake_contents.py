"""How far the lake is, by its tables' logs, and removing what none of them names."""

from __future__ import annotations

from dataclasses import dataclass

from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import sweep_lake, tables_there
from exporters.lake.state_files import are_states_due
from exporters.lake.tables import LakeReport, LakeTable, Version
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
def lacking_segments(site: Site) -> list[BlockRange]:
    """The loaded segments of which the lake has no manifest, ascending, by their log alone.

    With them comes the newest one of whose current state the lake is to have a newer copy. Raises
    `IntegrityError` where that cannot be said.
    """
    lake, catalog = site_lake(site), site.loaded_catalog()
    lacking = _lacks(LakeTable(lake, MANIFESTS).expected(), MANIFESTS, catalog)
    states = catalog.intact().states()
    if not lacking and are_states_due(lake.archive, states):
        return [states[-1].blocks]
    return lacking


def _lacks(version: Version | None, table: str, catalog: Catalog) -> list[BlockRange]:
    """The segments of volumes with rows that a table has not."""
    if table == MANIFESTS:
        return version.lacks(catalog.blocks) if version else [*catalog.blocks]
    volumes = [volume.blocks for volume in catalog.history() if table in volume.data]
    lacking = version.lacks(volumes) if version else volumes
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
    return LakeTableStatus(
        version.table,
        version.content.number,
        len(version.files),
        sum(lake_file.rows for lake_file in version.files),
        sum(lake_file.bytes for lake_file in version.files),
        tuple(contiguous_runs(lake_file.blocks for lake_file in version.files)),
        tuple(contiguous_runs(_lacks(version, version.table, catalog))),
    )
