"""The warehouse: the folder of volumes, catalog generations and quarantine, and what it can do.

current.duckdb   link to the newest catalog generation: what an analyst opens
catalog/         the generations    volumes/, state/   immutable DuckDB files
quarantine/      refused files      scratch/           unfinished files of running processes
spam/            spam captures
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from transforms.blocks import BlockRange
from transforms.duck import Connection, read_only_connection
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import ObjectInfo
from transforms.scratch import scratch_folder, sweep_scratch
from transforms.segments.inventory import Inventory, Refusal, SegmentFile
from transforms.segments.quarantine import Quarantine, QuarantinedFile
from transforms.segments.source import Source
from transforms.spam.captures import (
    CaptureReport,
    captures_file,
    load_captures,
    new_captures,
    refused_lines,
)
from transforms.spam.files import RefusedLine
from transforms.warehouse.catalog import (
    CURRENT,
    Catalog,
    advance,
    current_generation,
    read_catalog,
)
from transforms.warehouse.catalog_views import CAPTURES_VIEW
from transforms.warehouse.compaction import FAN, CompactionReport, compact
from transforms.warehouse.holdings import no_volume
from transforms.warehouse.load import Loader, LoadReport
from transforms.warehouse.receipts import Receipt
from transforms.warehouse.records import read_receipts
from transforms.warehouse.rendering import RenderedTable, rendered_table, volume_digests
from transforms.warehouse.table_load import PartSink
from transforms.warehouse.volumes import LoadSettings, Progress

GRACE_SECONDS = 24 * 3600.0
"""How long a file that no newest generation names is kept for readers of older ones."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A source held against the warehouse.

    `pending` are segments that can be loaded now; `known_bad` those whose very bytes were refused
    before; the inventory's own refusals come on top.
    """

    inventory: Inventory
    pending: tuple[SegmentFile, ...]
    known_bad: tuple[Refusal, ...]

    @property
    def blocks_behind(self) -> int:
        """How many blocks the source has beyond, or in gaps of, what is loaded."""
        return sum(file.blocks.last - file.blocks.first + 1 for file in self.pending)


class Warehouse:
    """One chain's warehouse below a folder. Nothing touches the disk until it is used."""

    def __init__(self, root: Path, settings: LoadSettings | None = None) -> None:
        self.root = root.resolve()  # views name files by path: one path, whatever the way to it
        self._settings = settings or LoadSettings()
        self._quarantine = Quarantine(self.root / "quarantine")

    def __repr__(self) -> str:
        return f"Warehouse({self.root})"

    @property
    def current(self) -> Path:
        """The link that an analyst opens."""
        return self.root / CURRENT

    def catalog(self) -> Catalog | None:
        """The newest generation, None where nothing was ever loaded."""
        return read_catalog(self.root)

    def quarantined(self) -> list[QuarantinedFile]:
        """The refused files with their reasons, by key."""
        return self._quarantine.files()

    def survey(self, source: Source) -> Survey:
        """Say what of a source is still to be loaded. Reads the listing only."""
        catalog = self.catalog()
        held = (
            {known.name: known for known in catalog.intact_segments().values()} if catalog else {}
        )
        inventory = source.inventory(held.keys())
        read = {bad.refusal.info: bad.refusal for bad in self.quarantined() if bad.was_read}
        pending: list[SegmentFile] = []
        known_bad: list[Refusal] = []
        for file in inventory.segments:
            known = held.get(file.name)
            if known is not None:
                if known.info.size != file.info.size:
                    reason = f"{file.info.key} changed after it was loaded: verify which is right"
                    known_bad.append(Refusal(file.info, reason))
            elif file.info in read:
                known_bad.append(read[file.info])
            else:
                pending.append(file)
        return Survey(inventory, tuple(pending), tuple(known_bad))

    def load(
        self,
        source: Source,
        files: Sequence[SegmentFile],
        sink: PartSink,
        progress: Progress = lambda _bytes: None,
    ) -> LoadReport:
        """Load those of the segments that are not loaded yet; the proven CSVs go to `sink`.

        A segment that fails is quarantined and reported, the others go on (spec 2.8; decisions 8
        and 9). May be killed and run again, and run beside other loads and any readers.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        sweep_scratch(self.root / "scratch")
        catalog = self.catalog()
        held = catalog.intact_segments() if catalog else {}
        wanted = [file for file in files if file.blocks not in held]
        with scratch_folder(self.root / "scratch") as scratch:
            loader = Loader(self.root, scratch, source, sink, self._settings, progress)
            loader.load(sorted(wanted, key=lambda file: file.blocks))
        self.sweep()
        return loader.report

    def load_captures(self, source: Source) -> CaptureReport:
        """Load the spam captures that are new in a source (spec 4.6; decisions, spam statistics).

        Raises `ConfigError` before the first load of segments, which names the chain. May be killed
        and run again, beside loads and readers.
        """
        catalog = self.catalog()
        if catalog is None:
            raise ConfigError(f"{self.root} holds no segments yet: load them before spam captures")
        report = load_captures(self.root, source.reader, catalog.chain_id)
        if captures_file(self.root) is not None and not self._shows_captures():
            advance(self.root, lambda newest: newest)
        return report

    def new_captures(self, source: Source) -> list[ObjectInfo]:
        """The files of spam captures that `load_captures` would read."""
        return new_captures(self.root, source.reader)

    def refused_captures(self) -> list[RefusedLine]:
        """The lines of spam captures that are none, with their reasons."""
        return refused_lines(self.root)

    def _shows_captures(self) -> bool:
        schema, view = CAPTURES_VIEW.split(".")
        with self.connect() as con:
            found = con.execute(
                "select 1 from duckdb_views() where schema_name = $1 and view_name = $2",
                [schema, view],
            )
            return bool(found.fetchall())

    def record_refusals(self, survey: Survey) -> None:
        """Keep the survey's refusals in the quarantine, and forget files that may be tried now."""
        refused = {refusal.key: refusal for refusal in survey.inventory.refused}
        for refusal in refused.values():
            known = self._quarantine.find(refusal.key)
            if known is None or known.refusal != refusal:
                self._quarantine.put(refusal)
        bad = {refusal.info for refusal in (*refused.values(), *survey.known_bad)}
        self._quarantine.release(
            file.key for file in self.quarantined() if file.refusal.info not in bad
        )

    def receipts(
        self, blocks: Iterable[BlockRange] | None = None, table: str | None = None
    ) -> list[Receipt]:
        """The receipts of loaded segments (default: all), ascending by block, then by table."""
        if self.catalog() is None:
            return []
        wanted = None if blocks is None else list(blocks)
        if wanted == []:
            return []
        clauses = ["true"]
        if wanted is not None:
            firsts = ", ".join(str(run.first) for run in wanted)
            clauses.append(f"first_block in ({firsts})")
        if table is not None:
            clauses.append("table_name = $table")
        query = (
            f"from strata.receipts where {' and '.join(clauses)} order by first_block, table_name"
        )
        with self.connect() as con:
            return read_receipts(con, query, {"table": table} if table is not None else {})

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open the newest generation read-only. Raises `ConfigError` where there is none.

        Views name volumes by path, so those of a warehouse that was moved are written anew first.
        """
        with read_only_connection(current_generation(self.root)) as con:
            ((place,),) = con.execute("select warehouse from strata.generation").fetchall()
            if Path(place) == self.root:
                yield con
                return
        advance(self.root, lambda newest: newest)
        with read_only_connection(self.current) as con:
            yield con

    def volume_path(self, blocks: BlockRange) -> Path:
        """The volume file that holds a segment's history. Raises `RangeError` where none does."""
        catalog = self.catalog()
        volume = catalog.volume_of(blocks) if catalog else None
        if volume is None:
            raise no_volume(blocks)
        return self.root / volume.file

    @contextmanager
    def render(self, blocks: BlockRange, table: str, *, null: str = "") -> Iterator[RenderedTable]:
        """Render one table of one segment as CSV (spec 2.8.1-5); see `rendered_table`."""
        volume = self.volume_path(blocks)
        with (
            scratch_folder(self.root / "scratch") as scratch,
            rendered_table(volume, scratch, blocks, table, null=null) as rendered,
        ):
            yield rendered

    def verify(
        self, progress: Callable[[int, int], None] = lambda _done, _total: None
    ) -> Iterator[tuple[str, str]]:
        """Prove every table of every volume against its receipt; yields (what, problem or "").

        Each table of each segment is rendered again and hashed; memory stays bounded. `progress` is
        called with how many tables of volumes were read and how many there are.
        """
        catalog = self.catalog()
        volumes = catalog.volumes if catalog else ()
        done, total = 0, sum(len(volume.shapes) for volume in volumes)
        for volume in volumes:
            begun: set[str] = set()
            for receipt, what, problem in self._verified(volume.file):
                if receipt and receipt.table not in begun:
                    progress(done + len(begun), total)
                    begun.add(receipt.table)
                yield what, problem
            done += len(volume.shapes)
            progress(done, total)

    def _verified(self, file: str) -> Iterator[tuple[Receipt | None, str, str]]:
        path = self.root / file
        if not path.exists():
            yield None, file, "the volume is missing: load its segments again"
            return
        try:
            for receipt, digest in self.digests(path):
                what = f"{file}: {receipt.table} of segment {receipt.blocks}"
                same = digest == receipt.sha256
                problem = "" if same else f"renders to SHA-256 {digest}, not {receipt.sha256}"
                yield receipt, what, problem
        except IntegrityError as error:
            yield None, file, str(error)

    def digests(self, volume: Path) -> Iterator[tuple[Receipt, str]]:
        """Render a volume again; yields each receipt with the SHA-256 of the CSV as it is now."""
        with scratch_folder(self.root / "scratch") as scratch:
            yield from volume_digests(volume, scratch)

    def compact(self, fan: int = FAN) -> CompactionReport:
        """Merge runs of `fan` or more neighbouring volumes of similar size, until there is none."""
        report = compact(self.root, self._settings, fan)
        self.sweep()
        return report

    def sweep(self, grace_seconds: float = GRACE_SECONDS) -> list[Path]:
        """Remove files that only generations older than the grace period name; returns them."""
        catalog = self.catalog()
        if catalog is None:
            return []
        sweep_scratch(self.root / "scratch")
        horizon = time.time() - grace_seconds
        named = {self.root / volume.file for volume in catalog.volumes} | {catalog.path}
        gone: list[Path] = []
        for folder in ("catalog", "volumes", "state"):
            for path in sorted((self.root / folder).glob("*.duckdb")):
                if path not in named and path.stat().st_mtime < horizon:
                    path.unlink(missing_ok=True)
                    gone.append(path)
        return gone
