"""The four places that everything works on, opened from settings. Nothing here knows Dagster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from exporters.archive.archive import Archive
from exporters.locations import signing_password
from exporters.warehouse_place import site_warehouse
from exporters.zips.staging import PartStage
from pipelines.settings import Settings
from transforms.segments.source import Source
from transforms.stores.store import Store
from transforms.stores.store_address import open_store
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.warehouse import Progress, Warehouse

if TYPE_CHECKING:
    from exporters.exports.copies import Warn
    from exporters.exports.range_export import RangeExport, RangeExporter
    from exporters.signing_keys import Signer

LISTED_SECONDS = 60.0
"""How long what a run does may go by one listing of the source; each file is looked at again."""


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def at_one_look(
    work: Callable[Concatenate[Site, _Arguments], _Result],
) -> Callable[Concatenate[Site, _Arguments], _Result]:
    """Let work on a site go by one look at the warehouse's log, however often it asks for it."""

    @wraps(work)
    def looking(site: Site, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with site.warehouse.one_look():
            return work(site, *arguments, **named)

    return looking


def no_progress(_bytes: int) -> None:
    """Progress that is not shown."""


@dataclass(eq=False)
class Site:
    """Source, warehouse, staged ZIPs and archive of one chain; each is opened when first used.

    `progress` is called with the bytes of segment ZIPs whose CSVs were just loaded and proven.
    """

    settings: Settings
    progress: Progress = no_progress

    @cached_property
    def source(self) -> Source:
        """Where the segments come from."""
        return Source(open_store(self.settings.source))

    @cached_property
    def warehouse(self) -> Warehouse:
        """The typed tables."""
        return site_warehouse(self.settings)

    @cached_property
    def store(self) -> Store:
        """Where the archive lies."""
        return open_store(self.settings.archive, self.settings.store_options)

    def archive(self, chain_id: str) -> Archive:
        """The archive of a chain."""
        return Archive(self.store, chain_id, self.signer)

    def published_archive(self, catalog: Catalog) -> Archive:
        """The archive of a chain for its publisher, who records the snapshot of the warehouse."""
        snapshot = catalog.snapshot
        return Archive(self.store, snapshot.chain_id, self.signer, snapshot.seen)

    @cached_property
    def signer(self) -> Signer | None:
        """What signs what is published; None where no key is set."""
        key = self.settings.signing_key
        if not key:
            return None
        # Only who signs needs minisign.
        from exporters.signing_keys import Signer

        return Signer(key, signing_password())

    def loaded_catalog(self) -> Catalog:
        """The warehouse's catalog. Raises `ConfigError` where nothing is loaded."""
        return self.warehouse.loaded_catalog()

    @cached_property
    def stage(self) -> PartStage:
        """The proven CSVs that wait to be published."""
        return PartStage(self.warehouse.cache / "parts", self.settings.name_style)

    @cached_property
    def exporter(self) -> RangeExporter:
        """What exports ranges of blocks."""
        # Most commands export nothing.
        from exporters.exports.range_export import RangeExporter

        settings = self.settings
        return RangeExporter(
            self.warehouse.cache,
            self.store,
            settings.name_style,
            memory_limit=settings.memory_limit,
        )

    def export(self, table: str, first: int, last: int, warn: Warn) -> RangeExport:
        """Lay out one table over a range, every part proven; see `RangeExporter.export`.

        `progress` gets the bytes of ZIPs that were just proven.
        """
        return self.exporter.export(
            self.loaded_catalog(),
            table,
            first,
            last,
            warn=warn,
            progress=self.progress,
        )

    def render_part(self, receipt: Receipt, stage: PartStage) -> None:
        """Render a loaded table of a segment from the warehouse as a ZIP in a folder of parts."""
        # Only who renders needs DuckDB.
        from exporters.exports.staged_zips import render_part

        limit = self.warehouse.backing.rendering_limit
        render_part(stage, self.loaded_catalog(), receipt, self.scratch(), limit)

    def scratch(self) -> Path:
        """A folder for unfinished ZIPs, on the file system of the parts."""
        self.stage.scratch.mkdir(parents=True, exist_ok=True)
        return self.stage.scratch

    def sweep(self) -> None:
        """Remove what killed processes left, and what only long outdated catalogs name."""
        self.stage.sweep()
        self.warehouse.sweep()
