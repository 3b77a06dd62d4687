"""Open snapshots: a snapshot of the warehouse held open for requests, and the change to the next.

A request reads one snapshot from beginning to end. A newer one is opened beside it; the files
that only the older one needs are let go of when its last request is over. While a file of the
newest snapshot is lost or damaged, requests for rows are refused: they never get fewer.
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
from api.core.damage import Damage, LostFiles, files_of, is_of_file
from api.core.indexes import Indexes
from api.core.relations import HeldTable
from api.core.telemetry import log
from transforms.collector import collector_paused
from transforms.duck import quote_name
from transforms.errors import IntegrityError, UnreadableFilesError
from transforms.lookups.index_file import IndexFile
from transforms.memory import MEMORY_LIMIT
from transforms.objects import StoredFile
from transforms.open_files import check_open_files
from transforms.sessions import Row, Session, SessionPool, Value
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.manifests.shapes import Volume
from transforms.warehouse.warehouse import Warehouse

_Built = TypeVar("_Built")
NOTHING_LOADED = "nothing is loaded yet: load segments first"


@dataclass(frozen=True, slots=True)
class Block:
    """The newest loaded block: its height, its time in Unix nanoseconds, its hash in hex."""

    height: int
    time: int
    hash: str


@dataclass(repr=False)
class OpenSnapshot:
    """One snapshot with its files attached; the same for all requests that read it.

    `lease` keeps all files on this machine. `files` are the names in SQL of the files of current
    states, by the key of their volume, `indexes` the index files; `newest` is None where no block
    is loaded; `captures` names the file of spam captures. One that is not whole, as files are lost,
    has none of these: no rows may be asked. `users` are the jobs that read it, and one more while
    it is the newest. `former` is the one before it, while this one is made.
    """

    catalog: Catalog
    lease: ExitStack
    is_whole: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, IndexFile] = field(default_factory=dict)
    newest: Block | None = None
    captures: str | None = None
    users: int = 1
    former: OpenSnapshot | None = None
    _built: dict[Hashable, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"OpenSnapshot(snapshot {self.catalog.snapshot.number}, {self.users} users)"

    @property
    def segments(self) -> int | None:
        """How many there are; None where that is not known, as files are lost."""
        history = self.catalog.snapshot.history
        return sum(volume.segments for volume in history) if self.is_whole else None

    def history(self, table: str) -> Sequence[HeldTable]:
        """The table in every file of history that has it, ascending by block."""
        return self._held(f"history of {table}", table, self.catalog.snapshot.history)

    def states(self, table: str) -> Sequence[HeldTable]:
        """The table's whole copies, ascending by block: one per schema version that has it."""
        return self._held(f"states of {table}", table, self.catalog.snapshot.states)

    def state(self, table: str) -> HeldTable | None:
        """The table's newest whole copy, unless the newest schema version has none."""
        tables = self._held(f"state of {table}", table, self.catalog.snapshot.states[-1:])
        return tables[0] if tables else None

    def once(self, name: Hashable, build: Callable[[OpenSnapshot], _Built]) -> _Built:
        """What `build` makes of this snapshot, kept as long as it: SQL texts, for instance.

        A name may not depend on the volumes that a request needs, of which there is no end.
        """
        if name not in self._built:
            self._built[name] = build(self)
        built: _Built = self._built[name]  # type: ignore[assignment]
        return built

    def former_result(self, name: Hashable, kind: type[_Built]) -> _Built | None:
        """What the one before has built under a name, while this one is made; None if nothing."""
        built = self.former._built.get(name) if self.former else None
        return built if isinstance(built, kind) else None

    def table(self, volume: Volume, table: str) -> HeldTable:
        """A table of a volume that has it."""
        place: Path | str | None
        if volume.kind == "state":
            place = f"{self.files[volume.key]}.main.{quote_name(table)}"
        else:
            file = volume.data.get(table)
            place = self.catalog.files.path(file) if file else None
        shape, index = volume.shapes[table], self.indexes.get(volume.key)
        return HeldTable(table, place, volume.blocks, shape, index)

    def _held(self, name: str, table: str, volumes: Sequence[Volume]) -> Sequence[HeldTable]:
        def find(_: OpenSnapshot) -> Sequence[HeldTable]:
            tables = (self.table(each, table) for each in volumes if table in each.shapes)
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
        return self.session.rows(sql, values)

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
        self.current: OpenSnapshot | None = None
        """The newest snapshot, None where nothing was ever loaded. Not held open by this."""
        self.damage: Damage | None = None
        """What of the newest snapshot is lost or damaged, so that no rows are served."""
        # The commit that these are about; empty where it has to be opened again.
        self._followed = ""
        self._lost = LostFiles(warehouse)
        self._indexes = Indexes()

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
            closing.callback(snapshots._indexes.keep, None)
            snapshots.refresh()
            yield snapshots

    @property
    def refusal(self) -> str:
        """Why no rows can be read, as a sentence; empty where they can."""
        damage = self.damage
        if damage is not None:
            return damage.sentence
        return "" if self.current is not None else NOTHING_LOADED

    def refresh(self) -> bool:
        """Go over to a newer snapshot if there is one: say so.

        Cheap when there is nothing new, so that it can be called every second. What it raises
        leaves the present snapshot in use.
        """
        with self._refreshing:
            newest = self._followable()
            if newest is None or newest.snapshot.commit == self._followed:
                return False
            try:
                self._lost.check(newest)
                following = self._opened(newest)
                self.damage = None
            except IntegrityError as error:
                self._refuse(error)
                following = OpenSnapshot(newest, ExitStack())
            self._followed = newest.snapshot.commit
            with self._lock:
                former, self.current = self.current, following
            if former is not None:
                self._release(former)
            return following.is_whole

    def look(self) -> None:
        """Look whether files are lost, or sound again, when the present snapshot is opened anew.

        This lists the warehouse's folders.
        """
        with self._refreshing:
            newest = self._followable()
            if newest is None or newest.snapshot.commit != self._followed:
                return
            try:
                self._lost.check(newest)
                if self.damage is not None:
                    self._followed = ""
            except IntegrityError as error:
                self._refuse(error)

    def _followable(self) -> Catalog | None:
        """The newest snapshot; None where nothing is loaded, or the log is damaged."""
        try:
            snapshot = self._warehouse.snapshot()
            if snapshot.volumes or snapshot.losses:
                return self._warehouse.backing.catalog(snapshot)
            self.damage = None
        except IntegrityError as error:
            self._refuse(error)
            self._followed = ""
        return None

    def _refuse(self, error: IntegrityError) -> None:
        """Refuse requests for rows with what an error says."""
        damage = self._lost.damage(error)
        if damage != self.damage:
            log.error("%s", error)
        self.damage = damage

    @contextmanager
    def reading(self, *, needs_rows: bool = True) -> Iterator[Reading]:
        """Hold the newest snapshot for one job, which begins and ends on one thread.

        Raises `UnavailableError` without a snapshot, and where files of it are lost, or turn out to
        be, unless the job needs no rows.
        """
        with self._lock:
            snapshot, refusal = self.current, self.refusal
            if snapshot is None or (needs_rows and refusal):
                raise UnavailableError(refusal)
            snapshot.users += 1
        examine = partial(self._examine, snapshot.catalog)
        try:
            with self._pool.session() as session:
                yield Reading(snapshot, session, examine)
        except UnreadableFilesError as error:
            raise examine(error.paths) or error.__cause__ or error from error.__cause__
        except (IntegrityError, OSError) as error:
            if not is_of_file(error):
                raise
            raise examine(_named(error)) or error from error
        finally:
            self._release(snapshot)

    def check_rows(self) -> None:
        """Raise `UnavailableError` where nothing is loaded, or files are lost or damaged."""
        if refusal := self.refusal:
            raise UnavailableError(refusal)

    def _examine(self, catalog: Catalog, paths: Collection[Path]) -> UnavailableError | None:
        """What refuses a request, and those that follow, where files are damaged that it reads.

        `paths` are those of which reading failed. Manifests, whose readers do not say which one it
        was, are examined in any case. Where all are sound they are opened again: copies may have
        been replaced.
        """
        with self._refreshing:
            is_newest = catalog.snapshot.commit == self._followed
            if is_newest and self.damage is not None:
                return UnavailableError(self.damage.sentence)
            manifests = (catalog.files.path(volume.file) for volume in catalog.snapshot.history)
            try:
                self._lost.check(catalog, {*paths, *manifests})
            except IntegrityError as error:
                if is_newest:
                    self._refuse(error)
                return UnavailableError(self._lost.damage(error).sentence)
            self._followed = ""
            return None

    def _release(self, snapshot: OpenSnapshot) -> None:
        """Count one user less, and let go of the files after the last one."""
        with self._lock:
            snapshot.users -= 1
            if snapshot.users:
                return
        if self.current is not None:
            self._indexes.keep(self.current.catalog)
        snapshot.lease.close()

    def _opened(self, catalog: Catalog) -> OpenSnapshot:
        """Open a snapshot. Raises what `_check` says of files that turn out to be lost."""
        if not self._followed or self.damage is not None:
            self._indexes.keep(None)
        try:
            return self._open(catalog)
        except UnreadableFilesError as error:
            self._lost.check(catalog, error.paths)
            raise error.__cause__ or error from error.__cause__
        except (IntegrityError, OSError) as error:
            paths = map(catalog.files.path, files_of(catalog))
            absent = [path for path in paths if not path.exists()]
            self._lost.check(catalog, [*absent, *_named(error)])
            raise

    def _open(self, catalog: Catalog) -> OpenSnapshot:
        check_open_files(len(catalog.snapshot.volumes))
        with ExitStack() as undo:
            lease = undo.enter_context(ExitStack())
            lease.enter_context(catalog.files.hold(files_of(catalog)))
            snapshot = self._prepared(catalog, lease)
            undo.pop_all()
            return snapshot

    @collector_paused()
    def _prepared(self, catalog: Catalog, lease: ExitStack) -> OpenSnapshot:
        """The snapshot whose files the lease keeps, with all that is made before it is used."""

        def attached(file: StoredFile) -> str:
            alias = self._pool.attach(catalog.files.path(file))
            lease.callback(self._pool.detach, alias)
            return alias

        captures = catalog.snapshot.captures
        snapshot = OpenSnapshot(
            catalog,
            lease,
            is_whole=True,
            files={volume.key: attached(volume.database) for volume in catalog.snapshot.states},
            indexes=self._indexes.of(catalog),
            captures=attached(captures) if captures else None,
            former=self.current,
        )
        with self._pool.session() as session, self._indexes.passing():
            snapshot.newest = _newest(session, snapshot)
            if self._prepare is not None:
                with suppress(UnavailableError):  # who asks for the rows is told so
                    self._prepare(Reading(snapshot, session))
        snapshot.former = None
        return snapshot


def _named(error: Exception) -> list[Path]:
    """The file that an error of the machine names."""
    name = error.filename if isinstance(error, OSError) else None
    return [Path(name)] if isinstance(name, str) else []


def _newest(session: Session, snapshot: OpenSnapshot) -> Block | None:
    blocks = snapshot.history("blocks")
    if not blocks:
        return None
    sql = (
        "select height, epoch_us(vega_time), hash "  # noqa: S608 - our own name
        f"from {blocks[-1].source} order by height desc limit 1"
    )
    rows = session.rows(sql)
    return next((Block(height, nanos(micros), digest) for height, micros, digest in rows), None)


def nanos(micros: int | None) -> int:
    """Unix nanoseconds; 0 for none. What 64 bits do not hold wraps, as it does for the network."""
    if not micros:
        return 0
    value = micros * 1000
    return value if -(2**63) <= value < 2**63 else (value + 2**63) % 2**64 - 2**63
