"""The warehouse: a log of snapshots, the volumes that they name, and what it can do.

In its store, a folder or a bucket:
log/             the snapshots                        state/          current states in DuckDB
manifests/       what was loaded, by runs             spam/           spam captures
data/<table>/    the rows, in Parquet                 quarantine/     copies of refused files
index/           what servers look rows up in

In this machine's folder for it, which for a folder is the folder itself unless another is named:
current.duckdb   what an analyst opens                scratch/           unfinished files
source.json      hashes of the source's files that seem to have changed
lake/            versions of the lake's tables, as this machine left them
served/          what a server gives where the archive has no `strata.duckdb`
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from transforms.block_range import BlockRange
from transforms.collector import collector_paused
from transforms.duck import Connection, read_only_connection
from transforms.duck_files import remove_spills
from transforms.errors import BusyError, ConfigError, IntegrityError
from transforms.machine_errors import MemoryLimitError
from transforms.scratch import exclusive, scratch_folder, sweep_scratch
from transforms.segments.inventory import SegmentFile
from transforms.segments.source import Source
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.unnamed_volumes import check_not_lost
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.manifests.receipts import Receipt
from transforms.warehouse.merge.merge_plan import MOST_PARTIAL
from transforms.warehouse.merge.sweep import GRACE_SECONDS, ORPHAN_SECONDS, sweep
from transforms.warehouse.survey import Survey, compare_altered, survey
from transforms.warehouse.views.catalog_file import CURRENT, CatalogFile

if TYPE_CHECKING:
    from transforms.warehouse.load.loader import LoadReport
    from transforms.warehouse.load.table_load import PartSink

# Each of these is a quarter of the package, and who looks or reads needs none of them: what loads
# or merges is imported where that is done.
_log = logging.getLogger(__name__)

# Each look hashes so much of files that only seem to have changed: a source may have moved.
_COMPARED_BYTES = 256 * 2**20

Progress = Callable[[int], None]
"""Called with the bytes that were just done."""


class Warehouse:
    """One chain's warehouse. Nothing touches the store until it is used."""

    def __init__(self, backing: Backing) -> None:
        self.backing = backing

    @property
    def cache(self) -> Path:
        """The folder where this machine keeps what is its own."""
        return self.backing.cache

    def describe(self) -> str:
        """Name it for a person: a folder or an `s3://` address."""
        return self.backing.store.describe()

    @property
    def in_folder(self) -> bool:
        """Whether its store is a folder, so that its files are files of this machine."""
        return self.backing.store.path("data") is not None

    @property
    def current(self) -> Path:
        """The file of views that an analyst opens; it is there, and new, after `connect`."""
        return CatalogFile(self.backing).path

    def one_look(self) -> AbstractContextManager[None]:
        """Go by one look at the log in this block; see `Log.one_look`."""
        return self.backing.log.one_look()

    def snapshot(self) -> Snapshot:
        """The newest snapshot, an empty one where the warehouse was never used.

        Raises `IntegrityError` where the log is damaged or lost.
        """
        snapshot = self.backing.log.newest()
        if not snapshot.number:
            check_not_lost(self.backing)
        return snapshot

    def catalog(self) -> Catalog:
        """The newest snapshot for readers."""
        return self.backing.catalog(self.snapshot())

    def loaded_catalog(self) -> Catalog:
        """The newest snapshot for readers.

        Raises `ConfigError` where nothing is loaded, `LostRowsError` where all of it was lost.
        """
        catalog = self.catalog()
        if not catalog.snapshot.volumes:
            if catalog.lost_rows:
                raise catalog.lost_rows
            raise ConfigError(f"{self.describe()} holds nothing yet: load segments first")
        return catalog

    def survey(
        self, source: Source, known_for: float = 0.0, compared_bytes: float = _COMPARED_BYTES
    ) -> Survey:
        """Say what of a source is still to be loaded, and which loaded files changed.

        A listing that this process took within `known_for` seconds may be used again. Of loaded
        files with another version, about `compared_bytes` are hashed; hashes stay in the cache.
        """
        with ThreadPoolExecutor(1) as pool:
            listing = pool.submit(source.listing, known_for)
            catalog, memory_mb = self.catalog(), self.backing.memory_mb
            contents, quarantine = catalog.held(), catalog.snapshot.quarantine
            found = survey(source, contents, quarantine, memory_mb, listing.result())
        return compare_altered(found, source, catalog, self.cache / "source.json", compared_bytes)

    def load(
        self,
        source: Source,
        files: Sequence[SegmentFile],
        sink: PartSink,
        progress: Progress = lambda _bytes: None,
        *,
        requires_id_chain: bool = False,
    ) -> LoadReport:
        """Load those of the segments that are not loaded yet; the proven CSVs go to `sink`.

        A segment that fails is quarantined and reported, the others go on (spec 2.8; decisions 8
        and 9); with `requires_id_chain` one that contradicts the chain of the network's ids fails
        (decision 29). May be killed and run again, and run beside other loads, on any machine, and
        any readers.
        """
        from transforms.warehouse.load.loader import Loader, LoadReport

        sweep_scratch(self.backing.scratch)
        with self.one_look():
            catalog = self.catalog()
            new_files = [file for file in files if catalog.name_over(file.blocks) != file.name]
        if not new_files:
            return LoadReport()
        with scratch_folder(self.backing.scratch) as scratch:
            loader = Loader(self.backing, scratch, source, sink, progress, requires_id_chain)
            loader.load(sorted(new_files, key=lambda file: file.blocks))
        with self.one_look():
            self.tidy_up()
        return loader.report

    def tidy_up(self) -> None:
        """Merge, show and sweep after a load; what was loaded is, whatever becomes of this."""
        from transforms.duck_errors import Error

        for step in (self._merge, self.show, self.sweep):
            try:
                step()
            except (IntegrityError, ConfigError, MemoryLimitError, Error) as error:
                what = (
                    "segments were loaded, but what follows failed (strata compact tries again): %s"
                )
                _log.warning(what, error)

    def _merge(self) -> None:
        from transforms.warehouse.merge.compaction import merge

        # One process of a machine at a time; of several machines the slower one gives in.
        with suppress(BusyError), exclusive(self.cache / ".merging.lock", wait_seconds=0):
            merge(self.backing)

    @collector_paused()
    def show(self) -> None:
        """Make the file of views new, for who opens it without us.

        Not of a bucket, all of whose volumes would have to be fetched: `connect` does that.
        """
        if self.in_folder and self.catalog().snapshot.volumes:
            self._views()

    def _views(self) -> tuple[Catalog, Path]:
        """The newest snapshot, and its file of views."""
        file, catalog = CatalogFile(self.backing), self.loaded_catalog()
        if not file.is_made(catalog):
            # One at a time, each from what is the newest by then: an older one never comes last.
            with exclusive(self.cache / ".views.lock"):
                catalog = self.loaded_catalog()
                if not file.is_made(catalog):
                    file.make(catalog)
        return catalog, file.path

    def record_refusals(self, survey: Survey) -> None:
        """Keep the survey's refusals in the quarantine, and forget files that may be tried now."""
        if self.snapshot().number or survey.inventory.refused:
            self.backing.log.commit(survey.quarantined)

    def receipts(self, segments: Iterable[BlockRange] | None = None) -> list[Receipt]:
        """The receipts of loaded segments (default: all), ascending by block, then by table."""
        catalog = self.catalog()
        wanted = {*(catalog.blocks if segments is None else segments)}
        if not wanted:
            return []
        hull = BlockRange(min(item.first for item in wanted), max(item.last for item in wanted))
        return [receipt for receipt in catalog.receipts(hull) if receipt.blocks in wanted]

    def prove(self, catalog: Catalog) -> None:
        """Hash the files that queries of a snapshot read, if they changed since they were hashed.

        Raises `IntegrityError` for one with other bytes, and what `LocalFiles.hold` does.
        """
        self.backing.files.bring(catalog.snapshot.readable(), prove=True)

    @contextmanager
    def views(self, catalog: Catalog | None = None) -> Iterator[Path]:
        """The file of views of a snapshot, the newest by default, for who opens it in the block.

        Of a bucket, the files that they are over are fetched: `catalog` may be of some volumes or
        tables only, and other views are not right then. Raises `ConfigError` where nothing is
        loaded.
        """
        with ExitStack() as stack:
            if catalog is None:
                catalog, path = self._views()
            else:
                path = stack.enter_context(scratch_folder(self.backing.scratch)) / CURRENT
                CatalogFile(self.backing).write(path, catalog)
            stack.enter_context(self.backing.files.hold(catalog.snapshot.readable()))
            yield path

    @contextmanager
    def connect(self, catalog: Catalog | None = None) -> Iterator[Connection]:
        """Open a snapshot read-only; its views are those of `current.duckdb`. See `views`."""
        with self.views(catalog) as path, read_only_connection(path) as con:
            yield con

    def compact(self, most_partial: int = MOST_PARTIAL) -> list[str]:
        """Merge neighbouring volumes until few are left; see `merge`."""
        from transforms.warehouse.merge.compaction import merge

        merged = merge(self.backing, most_partial)
        self.show()
        self.sweep()
        return merged

    def sweep(
        self, grace_seconds: float = GRACE_SECONDS, orphan_seconds: float = ORPHAN_SECONDS
    ) -> list[str]:
        """Delete files that only snapshots older than the grace period name; see `sweep`."""
        sweep_scratch(self.backing.scratch)
        remove_spills(self.current, grace_seconds)
        self.backing.files.evict()
        return sweep(self.backing, grace_seconds, orphan_seconds)
