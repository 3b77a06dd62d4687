"""Collecting segments from a data node into the source, and how much time is left for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.site.site import Site
from transforms.errors import ConfigError, NodeError
from transforms.scratch import exclusive, scratch_folder, sweep_scratch
from transforms.stores.store import SCRATCH, Store
from transforms.stores.store_address import open_store
from transforms.warehouse.files.local_files import CACHES

# Python's clients of HTTP take their time to import, which whoever has no node need not pay.
if TYPE_CHECKING:
    from transforms.collecting.collection import CollectedSegment
    from transforms.collecting.node_list import Backlog, ListedSegment

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

    def backlog(self) -> Backlog:
        """What the node has and the source lacks. Raises what `ask_node` and `backlog` do."""
        from transforms.collecting.node_list import ask_node, backlog

        return backlog(ask_node(self.node), self._keys(), self.site.settings.retention_blocks)

    def _keys(self) -> Iterator[str]:
        """What the source has; a folder that is not there yet has nothing."""
        place = self.source.path(_FOLDER)
        if place is None or place.parent.is_dir():
            yield from (info.key for info in self.source.list())

    def collect(
        self, segments: Sequence[ListedSegment], folder: Path
    ) -> Iterator[CollectedSegment]:
        """Collect segments by way of a folder; see `transforms.collecting.collection.collect`."""
        from transforms.collecting.collection import AdminSocket, collect

        return collect(segments, AdminSocket(self.site.settings.node_socket), self.source, folder)


def collection_sentence(site: Site) -> str:
    """What waits at the data node, or why that cannot be said; empty where nothing does."""
    if not site.settings.node:
        return ""
    try:
        waiting = Collector(site).backlog()
    except (ConnectionError, NodeError, ConfigError) as error:
        return f"what is left to collect cannot be said: {error}"
    if not waiting.segments:
        return ""
    return (
        f"{len(waiting.segments):,} segments to collect; the data node drops the oldest after "
        f"{waiting.blocks_left:,} more blocks: strata collect"
    )
