"""Collecting segments from a data node into the source, and how much time is left for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipelines.site.site import Site
from transforms.collecting.collection import AdminSocket, CollectedSegment, collect
from transforms.collecting.node_list import LIST_SECONDS, Backlog, ListedSegment, ask_node, backlog
from transforms.errors import ConfigError
from transforms.scratch import exclusive, scratch_folder, sweep_scratch
from transforms.stores.store import SCRATCH, Store
from transforms.stores.store_address import open_store
from transforms.warehouse.files.local_files import CACHES

_FOLDER = "collect"


@dataclass(frozen=True)
class Collector:
    """Brings what the data node of the settings has into the source of a site."""

    site: Site

    @cached_property
    def source(self) -> Store:
        """The source, to write to."""
        return open_store(self.site.settings.source, self.site.settings.store_options)

    @property
    def node(self) -> str:
        """The address of the node. Raises `ConfigError` where none is set."""
        if not self.site.settings.node:
            raise ConfigError(
                "no data node is named: give --node http://127.0.0.1:3008, or set STRATA_NODE"
            )
        return self.site.settings.node

    @cached_property
    def folder(self) -> Path:
        """Where the node writes files: hidden in the source, or for a bucket in the cache."""
        place = self.source.path(_FOLDER)
        if place is None:
            return (self.site.settings.cache or CACHES).expanduser().absolute() / _FOLDER
        return place.parent / SCRATCH / _FOLDER

    @contextmanager
    def alone(self) -> Iterator[Path]:
        """Keep other collectors of this machine out for a block; gives an empty folder.

        Raises `BusyError` where one stays for longer than two minutes, `ConfigError` without node.
        """
        _ = self.node  # before folders are made
        with exclusive(self.folder / "lock"):
            sweep_scratch(self.folder)
            with scratch_folder(self.folder) as folder:
                yield folder

    def backlog(self, seconds: float = LIST_SECONDS) -> Backlog:
        """What the node has and the source lacks. Raises what `ask_node` and `backlog` do."""
        listed = ask_node(self.node, seconds)
        return backlog(listed, self._keys(), self.site.settings.retention_blocks)

    def _keys(self) -> Iterator[str]:
        """What the source has; a folder that is not there yet has nothing."""
        place = self.source.path(_FOLDER)
        if place is None or place.parent.is_dir():
            yield from (info.key for info in self.source.list())

    def collect(
        self, segments: Sequence[ListedSegment], folder: Path
    ) -> Iterator[CollectedSegment]:
        """Collect segments by way of a folder; see `transforms.collecting.collection.collect`."""
        return collect(segments, AdminSocket(self.site.settings.node_socket), self.source, folder)
