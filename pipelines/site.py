"""The four places that everything works on, opened from settings. Nothing here knows Dagster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from exporters.archive import Archive
from exporters.staging import PartStage
from exporters.store import Store, open_store
from pipelines.settings import Settings
from transforms.source import Source
from transforms.volumes import Progress
from transforms.warehouse import Warehouse


def ignore(_bytes: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Site:
    """Source, warehouse, waiting parts and archive of one chain; each is opened when first used.

    `progress` is called with the CSV bytes that were just loaded and proven.
    """

    settings: Settings
    progress: Progress = ignore

    def watched(self, progress: Progress) -> Site:
        """The same site, with somebody watching loads."""
        return replace(self, progress=progress)

    @cached_property
    def source(self) -> Source:
        """Where the segments come from."""
        return Source(open_store(self.settings.source))

    @cached_property
    def warehouse(self) -> Warehouse:
        """The typed tables."""
        return Warehouse(self.settings.warehouse)

    @cached_property
    def store(self) -> Store:
        """Where the archive lies."""
        return open_store(self.settings.archive)

    def archive(self, chain_id: str) -> Archive:
        """The archive of a chain."""
        return Archive(self.store, chain_id)

    @cached_property
    def stage(self) -> PartStage:
        """The proven CSVs that wait to be published."""
        return PartStage(self.settings.warehouse.absolute() / "parts", self.settings.names)
