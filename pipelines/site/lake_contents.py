"""How far the lake is, by its tables' logs, and removing what none of them names."""

from __future__ import annotations

from exporters.archive.lake_place import MANIFESTS
from exporters.lake.lake_files import Lake
from exporters.lake.publication.lake_sweep import sweep_lake
from exporters.lake.state_files import are_states_due
from exporters.lake.tables import LakeReport, LakeTable
from pipelines.site.site import Site, at_one_look
from transforms.block_range import BlockRange


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
    version = LakeTable(lake, MANIFESTS).expected()
    lacking = version.lacks(catalog.blocks) if version else [*catalog.blocks]
    states = catalog.intact().states()
    if not lacking and are_states_due(lake.archive, states):
        return [states[-1].blocks]
    return lacking


def sweep(site: Site) -> LakeReport:
    """Remove what no version of the last week names; see `sweep_lake`."""
    return sweep_lake(site_lake(site))
