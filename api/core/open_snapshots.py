"""Open snapshots: a snapshot of the warehouse held open for requests, and the change to the next.

A request reads one snapshot from beginning to end. A newer one is opened beside it; the files
that only the older one needs are let go of when its last request is over. While a file of the
newest snapshot is lost or damaged, requests for rows are refused: they never get fewer. Index
files are answered around.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeVar

from api.core.api_errors import UnavailableError
from api.core.damage import Damage, Losses, LostFiles
from api.core.indexes import Indexes
from api.core.relations import HeldTable
from transforms.duck import quote_name
from transforms.errors import IntegrityError, UnreadableFilesError
from transforms.lookups.index_file import IndexFile
from transforms.memory import MEMORY_LIMIT
from transforms.objects import StoredFile
from transforms.open_files import check_open_files
from transforms.sessions import Row, Session, SessionPool, Value
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.data_files import rows_sql
from transforms.warehouse.manifests.segment_list import SegmentList, segment_list
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse

_Built = TypeVar("_Built")
NOTHING_LOADED = "nothing is loaded yet: load segments first"
_NEW_COPIES = "a damaged copy of a file of the warehouse is replaced: try again"


@dataclass(frozen=True, slots=True)
class Block:
    """The newest loaded block: its height, its time in Unix nanoseconds, its hash in hex."""

    height: int
    time: int
    hash: str


@dataclass(repr=False)
class OpenSnapshot:
    """One snapshot with its files attached; the same for all requests that read it.

    `files` are the names in SQL of the files of current states, by the key of their volume; `lease`
    keeps them attached, and all files on this machine; `lost` are files that are not among them:
    with any, no rows may be asked. `indexes` are the index files, by the key of their volume.
    `segment_lists` are the segments of each volume, by its key, None where their manifests are
    lost; `newest` is None where no block is loaded; `captures` names the file of spam captures;
    `tables` are those that were asked for, by volume; `users` are the jobs that read it, and one
    more while it is the newest.
    """

    catalog: Catalog
    files: Mapping[str, str]
    lease: ExitStack
    lost: Losses = field(default_factory=dict)
    indexes: Mapping[str, IndexFile] = field(default_factory=dict)
    segment_lists: Mapping[str, SegmentList] | None = None
    newest: Block | None = None
    captures: str | None = None
    tables: dict[tuple[str, str], HeldTable] = field(default_factory=dict)
    users: int = 1
    _built: dict[Hashable, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"OpenSnapshot(snapshot {self.catalog.snapshot.number}, {self.users} users)"

    @property
    def segments(self) -> int | None:
        """How many there are; None where their manifests cannot be read."""
        return None if self.segment_lists is None else sum(map(len, self.segment_lists.values()))

    @property
    def known_segments(self) -> Mapping[str, SegmentList]:
        """The segments of each volume, by its key; none where their manifests are lost."""
        return self.segment_lists or {}

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows that were ever loaded."""
        return not (self.lost or self.catalog.snapshot.losses)

    def is_of(self, catalog: Catalog | None) -> bool:
        """Whether it is this snapshot."""
        return catalog is not None and catalog.snapshot.commit == self.catalog.snapshot.commit

    def history(self, table: str) -> Sequence[HeldTable]:
        """The table in every file of history that has it, ascending by block."""
        return self._held(f"history of {table}", table, self.catalog.history)

    def states(self, table: str) -> Sequence[HeldTable]:
        """The table's whole copies, ascending by block: one per schema version that has it."""
        return self._held(f"states of {table}", table, self.catalog.states)

    def state(self, table: str) -> HeldTable | None:
        """The table's newest whole copy, unless the newest schema version has none."""
        tables = self._held(f"state of {table}", table, lambda: self.catalog.states()[-1:])
        return tables[0] if tables else None

    def once(self, name: Hashable, build: Callable[[OpenSnapshot], _Built]) -> _Built:
        """What `build` makes of this snapshot, kept as long as it: SQL texts, for instance.

        A name may not depend on the volumes that a request needs, of which there is no end.
        """
        if name not in self._built:
            self._built[name] = build(self)
        built: _Built = self._built[name]  # type: ignore[assignment]
        return built

    def table(self, volume: Volume, table: str) -> HeldTable:
        """A table of a volume that has it."""
        held_table = self.tables.get((volume.key, table))
        if held_table is None:
            held_table = self.tables[volume.key, table] = self._table(volume, table)
        return held_table

    def _table(self, volume: Volume, table: str) -> HeldTable:
        shape, index = volume.shapes[table], self.indexes.get(volume.key)
        if volume.kind == "state":
            source = f"{self.files[volume.key]}.main.{quote_name(table)}"
        else:
            file, paths = volume.data.get(table), self.catalog.files
            local = [paths.path(file)] if file else []
            source = rows_sql(table, shape.column_list(), local, shape.raw)
        return HeldTable(volume.key, table, source, volume.blocks, shape, index)

    def _held(
        self, name: str, table: str, volumes: Callable[[], Sequence[Volume]]
    ) -> Sequence[HeldTable]:
        def find(snapshot: OpenSnapshot) -> Sequence[HeldTable]:
            tables = (snapshot.table(each, table) for each in volumes() if table in each.shapes)
            return [held_table for held_table in tables if held_table.is_usable]

        return self.once(name, find)


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot and a connection, for one job in a thread; only `interrupt` is for others."""

    snapshot: OpenSnapshot
    session: Session
    examine: Callable[[Collection[Path]], UnavailableError | None] = lambda _: None
    """Hashes files of which reading failed; returns what refuses the request if any is lost."""

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement; see `Session.rows`."""
        try:
            return self.session.rows(sql, values)
        except UnreadableFilesError as error:
            raise self.examine(error.paths) or error from error.__cause__

    def check_rows(self) -> None:
        """Raise `UnavailableError` where files are lost, so that rows would lack."""
        refusal = None if self.snapshot.is_whole else self.examine(())
        if refusal is not None:
            raise refusal

    def check_interrupt(self) -> None:
        """Raise `InterruptedQueryError` after `interrupt`, for what asks no session."""
        self.session.check_interrupt()

    def interrupt(self) -> None:
        """Stop what runs; it raises `InterruptedQueryError`, as does all that follows."""
        self.session.interrupt()


Prepare = Callable[[Reading], object]


class OpenSnapshots:
    """The newest snapshot of a warehouse, for all requests of a process."""

    def __init__(
        self, warehouse: Warehouse, pool: SessionPool, prepare: Prepare | None = None
    ) -> None:
        self._warehouse = warehouse
        self._pool = pool
        self._prepare = prepare
        self._lock = Lock()
        self._refreshing = Lock()
        self._examining = Lock()
        self._current: OpenSnapshot | None = None
        self._damage: Damage | None = None
        self._lost = LostFiles(warehouse)
        self._indexes = Indexes(warehouse)

    @classmethod
    @contextmanager
    def open(
        cls,
        warehouse: Warehouse,
        *,
        memory_limit: str = MEMORY_LIMIT,
        prepare: Prepare | None = None,
    ) -> Iterator[OpenSnapshots]:
        """Open a warehouse for serving, whether or not anything is loaded yet, or lost.

        `memory_limit` is DuckDB's, for all requests together. `prepare` is called with each
        snapshot, so that no request has to wait for what it makes.
        """
        with ExitStack() as closing:
            scratch = Path(closing.enter_context(TemporaryDirectory(prefix="strata-")))
            pool = SessionPool(scratch, memory_limit=memory_limit)
            closing.callback(pool.close)
            snapshots = cls(warehouse, pool, prepare)
            closing.callback(snapshots._indexes.close)
            with suppress(IntegrityError):  # requests are refused with it until it is mended
                snapshots.refresh()
            yield snapshots

    @property
    def current(self) -> OpenSnapshot | None:
        """The newest snapshot, None where nothing was ever loaded. Not held open by this."""
        return self._current

    @property
    def damage(self) -> Damage | None:
        """What of the newest snapshot is lost or damaged, so that no rows are served."""
        return self._damage

    def refresh(self) -> bool:
        """Go over to a newer snapshot if there is one: say so.

        Cheap when there is nothing new, so that it can be called every second. Raises
        `IntegrityError` while something is lost or damaged. What else it raises leaves the present
        snapshot in use.
        """
        with self._refreshing:
            try:
                return self._follow()
            except IntegrityError as error:
                self._damage = self._lost.damage(error)
                raise

    def look(self) -> None:
        """Refuse requests for rows, and be refreshed, where files of the present snapshot lack.

        This lists the warehouse's folders, and hashes what was written to.
        """
        with self._refreshing:
            current = self._current
            if self._damage is not None or current is None:
                return
            try:
                if not current.is_of(self._newest_catalog()):
                    return
                self._indexes.examine(current.catalog)
                report = self._lost.examine_written(current.catalog)
                if lost := self._lost.of(current.catalog):
                    raise self._lost.error(lost)
                if report.has_new_copies:
                    self._damage = Damage(_NEW_COPIES)
            except IntegrityError as error:
                self._damage = self._lost.damage(error)

    @property
    def lost_indexes(self) -> int:
        """How many index files of the newest snapshot are answered around."""
        indexes = self._current.indexes.values() if self._current is not None else ()
        return sum(not index.is_sound for index in indexes)

    def _follow(self) -> bool:
        current = self._current
        newest = self._newest_catalog()
        if newest is None:
            self._damage = None
            return False
        is_present = current is not None and current.is_of(newest)
        if is_present and self._damage is None:
            return False
        lost = self._losses(newest)
        lacking = self._lost.lacking(newest)
        damage = self._lost.damage(lacking) if lacking else None
        is_stale = not lost and self._damage != damage  # damaged files may be mended by now
        if current is None or not is_present or current.lost != lost or is_stale:
            current = self._opened(newest, lost)
            self._go_over(current)
            is_present = False
        if current.lost:
            raise self._lost.error(current.lost)
        if lacking:
            raise lacking
        self._damage = None
        return not is_present

    def _newest_catalog(self) -> Catalog | None:
        """The newest snapshot, None where nothing is loaded.

        At the start, and with the bucket away, it is the last one that this machine has seen.
        """
        try:
            snapshot = self._warehouse.snapshot()
        except ConnectionError:
            catalog = self._warehouse.last_seen() if self._current is None else None
            if catalog is None:
                raise
            return catalog
        if snapshot is None or not (snapshot.volumes or snapshot.losses):
            return None
        return self._warehouse.backing.catalog(snapshot)

    def _losses(self, catalog: Catalog) -> Losses:
        """The lost files; with the bucket away at the start nothing counts as lost."""
        try:
            return self._lost.of(catalog)
        except ConnectionError:
            if self._current is None:
                return {}
            raise

    def _go_over(self, following: OpenSnapshot) -> None:
        with self._lock:
            former, self._current = self._current, following
        if former is not None:
            self._release(former)

    @contextmanager
    def reading(self, *, needs_rows: bool = True) -> Iterator[Reading]:
        """Hold the newest snapshot for one job, which begins and ends on one thread.

        Raises `UnavailableError` without a snapshot, and where files of it are lost, unless the job
        needs no rows.
        """
        with self._lock:
            snapshot, damage = self._current, self._damage
            if damage is not None and (needs_rows or snapshot is None):
                raise UnavailableError(damage.sentence)
            if snapshot is None:
                raise UnavailableError(NOTHING_LOADED)
            snapshot.users += 1
        try:
            with self._pool.session() as session:
                yield Reading(snapshot, session, partial(self._examine, snapshot.catalog))
        finally:
            self._release(snapshot)

    def check_rows(self) -> None:
        """Raise `UnavailableError` where files of the newest snapshot are lost or damaged."""
        if self._damage is not None:
            raise UnavailableError(self._damage.sentence)

    def refusal(self, snapshot: OpenSnapshot) -> UnavailableError | None:
        """What refuses a request that found a record damaged; None where none is."""
        return self._examine(snapshot.catalog, ())

    def _examine(self, catalog: Catalog, paths: Collection[Path]) -> UnavailableError | None:
        """Refuse a request, and those that follow, where files of which reading failed are damaged.

        Manifests, whose readers do not say which one it was, are examined in any case.
        They are opened again, or left out, when the snapshot is refreshed.
        """
        with self._examining:
            if self._damage is None:
                manifests = map(catalog.files.path, catalog.snapshot.manifests())
                examination = self._lost.examine(catalog, {*paths, *manifests})
                if examination.losses:
                    self._damage = self._lost.damage(self._lost.error(examination.losses))
                elif examination.has_new_copies:
                    self._damage = Damage(_NEW_COPIES)
            return UnavailableError(self._damage.sentence) if self._damage else None

    def _release(self, snapshot: OpenSnapshot) -> None:
        """Count one user less, and let go of the files after the last one."""
        with self._lock:
            snapshot.users -= 1
            if snapshot.users:
                return
        if self._current is not None:
            self._indexes.keep(self._current.catalog)
        snapshot.lease.close()

    def _opened(self, catalog: Catalog, lost: Losses) -> OpenSnapshot:
        """Open a snapshot without the files that are lost, or turn out to be."""
        while True:
            try:
                return self._open(catalog, lost)
            except UnreadableFilesError as error:
                result, cause = self._lost.examine(catalog, error.paths), error.__cause__ or error
            except (IntegrityError, FileNotFoundError) as error:
                result, cause = self._lost.examine_all(catalog), error
            if not (result.losses or result.has_new_copies):
                raise cause
            lost = {**lost, **result.losses}

    def _open(self, catalog: Catalog, lost: Losses) -> OpenSnapshot:
        check_open_files(len(catalog.volumes))
        with ExitStack() as undo:
            lease = undo.enter_context(ExitStack())
            there = [file for file in catalog.snapshot.readable() if file not in lost]
            lease.enter_context(catalog.files.hold(there))
            databases = {
                volume.key: volume.database for volume in catalog.volumes if volume.kind == "state"
            }
            captures = catalog.snapshot.captures
            aliases: dict[StoredFile, str] = {}
            for file in (*databases.values(), *([captures] if captures else [])):
                if file not in lost:
                    aliases[file] = self._pool.attach(catalog.files.path(file))
                    lease.callback(self._pool.detach, aliases[file])
            files = {key: aliases[file] for key, file in databases.items() if file in aliases}
            snapshot = OpenSnapshot(catalog, files, lease, lost)
            snapshot.segment_lists = self._segments(snapshot)
            if not lost:
                snapshot.indexes = self._indexes.open(catalog, lease)
                self._complete(snapshot, aliases)
            undo.pop_all()
            return snapshot

    def _complete(self, snapshot: OpenSnapshot, aliases: Mapping[StoredFile, str]) -> None:
        """What requests for rows need besides the files."""
        captures, current = snapshot.catalog.snapshot.captures, self._current
        snapshot.captures = aliases[captures] if captures is not None else None
        if current is not None:
            entries = [*current.tables.items()]  # requests add to them
            snapshot.tables = {
                at: table for at, table in entries if _is_same(current, snapshot, at[0])
            }
        with self._pool.session() as session:
            snapshot.newest = _newest(session, snapshot)
            if self._prepare is not None:
                self._prepare(Reading(snapshot, session))

    def _segments(self, snapshot: OpenSnapshot) -> Mapping[str, SegmentList] | None:
        """The segments; None where the manifests of some are lost."""
        catalog = snapshot.catalog
        if not snapshot.lost.keys().isdisjoint(catalog.snapshot.manifests()):
            return None
        former = self._current.known_segments if self._current is not None else {}
        return {
            volume.key: former.get(volume.key) or segment_list(catalog.files.path(volume.file))
            for volume in catalog.history()
        }


def _is_same(former: OpenSnapshot, following: OpenSnapshot, volume: str) -> bool:
    """Whether a volume is asked at the same places."""
    has_same_file = former.files.get(volume) == following.files.get(volume)
    return has_same_file and former.indexes.get(volume) == following.indexes.get(volume)


def _newest(session: Session, snapshot: OpenSnapshot) -> Block | None:
    blocks = snapshot.history("blocks")
    if not blocks:
        return None
    sql = (
        "select height, epoch_us(vega_time) * 1000, hash "  # noqa: S608 - our own name
        f"from {blocks[-1].source} order by height desc limit 1"
    )
    return next((Block(*row) for row in session.rows(sql)), None)
