"""What assets, jobs and sensors get: a shell that Dagster configures around a plain `Site`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import dagster as dg

from exporters.zip_names import NameStyle
from pipelines.machine_name import machine_tags
from pipelines.settings import Settings
from pipelines.site.site import Site

_PATHS = ("cache", "metrics", "node_socket", "signing_key")
"""The settings that are paths, or None; Dagster has them as text, or empty."""


class StrataResource(dg.ConfigurableResource[Site]):
    """The settings as Dagster configuration; `pipelines.settings.Settings` says what they mean."""

    source: str
    warehouse: str
    cache: str
    cache_bytes: int
    memory_mb: int
    archive: str
    name_style: str
    single_writer: bool
    bundle: int
    batch: int
    lag_blocks: int
    poll_seconds: int
    require_id_chain: bool
    lake: bool
    keep_runs_days: int
    free_mb: int
    signing_key: str
    metrics: str
    public_url: str
    node: str
    node_socket: str
    retention_blocks: int

    @classmethod
    def of(cls, settings: Settings) -> StrataResource:
        """The resource that hands out these settings."""
        values = {field.name: getattr(settings, field.name) for field in fields(settings)}
        plain = {name: str(values[name] or "") for name in _PATHS}
        plain["name_style"] = settings.name_style.value
        return cls(**{**values, **plain})

    def create_resource(self, context: dg.InitResourceContext) -> Site:
        """Open the site; nothing is read yet. A run gets the name of the machine it is on."""
        if context.run is not None and context.instance is not None:
            context.instance.add_run_tags(context.run.run_id, machine_tags())
        values = {field.name: getattr(self, field.name) for field in fields(Settings)}
        paths = {name: Path(values[name]) if values[name] else None for name in _PATHS}
        return Site(Settings(**{**values, **paths, "name_style": NameStyle(self.name_style)}))
