"""What assets, jobs and sensors get: a shell that Dagster configures around a plain `Site`."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from exporters.names import NameStyle
from pipelines.settings import Settings
from pipelines.site.site import Site


class StrataResource(dg.ConfigurableResource[Site]):
    """The settings as Dagster configuration; `pipelines.settings.Settings` says what they mean."""

    source: str
    warehouse: str
    cache: str
    cache_bytes: int
    archive: str
    name_style: str
    window: int
    batch: int
    lag_blocks: int

    @classmethod
    def of(cls, settings: Settings) -> StrataResource:
        """The resource that hands out these settings."""
        return cls(
            source=settings.source,
            warehouse=settings.warehouse,
            cache=str(settings.cache or ""),
            cache_bytes=settings.cache_bytes,
            archive=settings.archive,
            name_style=settings.name_style.value,
            window=settings.window,
            batch=settings.batch,
            lag_blocks=settings.lag_blocks,
        )

    def create_resource(self, context: dg.InitResourceContext) -> Site:  # noqa: ARG002
        """Open the site; nothing is read yet."""
        return Site(
            Settings(
                source=self.source,
                warehouse=self.warehouse,
                cache=Path(self.cache) if self.cache else None,
                cache_bytes=self.cache_bytes,
                archive=self.archive,
                name_style=NameStyle(self.name_style),
                window=self.window,
                batch=self.batch,
                lag_blocks=self.lag_blocks,
            )
        )
