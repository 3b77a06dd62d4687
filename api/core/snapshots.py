"""Snapshots: one catalog generation held open for requests, and the change to the next one.

A request reads one generation from beginning to end. A newer one is opened beside it; the files
that only the older one needs are let go of when its last request is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeVar

from api.core.errors import UnavailableError
from api.core.relations import HeldTable
from transforms.duck import MEMORY_LIMIT
from transforms.errors import IntegrityError
from transforms.lookups.held_lookups import Lookups
from transforms.mapped_files import MappedFolder
from transforms.open_files import check_open_files
from transforms.sessions import Row, Session, SessionPool, Value
from transforms.warehouse.catalog import Catalog
from transforms.warehouse.held_files import HeldFiles
from transforms.warehouse.segment_lists import SegmentList
from transforms.warehouse.shapes import Volume
from transforms.warehouse.warehouse import Warehouse

_Built = TypeVar("_Built")
# Of a volume: open, attached when it is asked, and two that are mapped.
_FILES = 4


@dataclass(frozen=True, slots=True)
class Block:
    """The newest loaded block: its height, its time in Unix nanoseconds, its hash in hex."""

    height: int
    time: int
    hash: str


@dataclass(repr=False)
class Snapshot:
    """One generation with its files attached; the same for all requests that read it.

    `files` and `paths` are the volumes' names in SQL and all files that may be asked, which `lease`
    keeps on this machine; `lookups` say by such a name where in a volume rows can be. `held` are
    the segments of each volume, by its key, None where their records cannot be read; `newest` is
    None where no block is loaded; `captures` names the file of spam captures; `kept` is where a
    machine keeps what was found of generations; `tables` are those that were asked for, by file.
    """

    catalog: Catalog
    files: Mapping[str, str]
    paths: tuple[Path, ...]
    lease: ExitStack
    lookups: Mapping[str, Lookups | None] = field(default_factory=dict)
    held: Mapping[str, SegmentList] | None = None
    newest: Block | None = None
    captures: str | None = None
    kept: MappedFolder | None = None
    tables: dict[tuple[str, str], HeldTable] = field(default_factory=dict)
    users: int = 0
    retired: bool = False
    _built: dict[Hashable, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Snapshot(generation {self.catalog.generation}, {self.users} users)"

    @property
    def segments(self) -> int | None:
        """How many there are; None where their records cannot be read."""
        return None if self.held is None else sum(map(len, self.held.values()))

    @property
    def known_segments(self) -> Mapping[str, SegmentList]:
        """The segments of each volume, by its key. Raises what keeps records from being read."""
        if self.held is None:
            self.catalog.files.bring(self.catalog.document.records())
            raise IntegrityError("the records of segments cannot be read: run strata verify")
        return self.held

    def history(self, table: str) -> Sequence[HeldTable]:
        """The table in every file of history that has it, ascending by block."""
        return self._held(f"history of {table}", table, self.catalog.history)

    def states(self, table: str) -> Sequence[HeldTable]:
        """The table's whole copies, ascending by block: one per schema version that has it."""
        return self._held(f"states of {table}", table, self.catalog.states)

    def state(self, table: str) -> HeldTable | None:
        """The table's newest whole copy, unless the newest schema version has none."""
        held = self._held(f"state of {table}", table, lambda: self.catalog.states()[-1:])
        return held[0] if held else None

    def once(self, name: Hashable, build: Callable[[Snapshot], _Built]) -> _Built:
        """What `build` makes of this snapshot, kept as long as it: SQL texts, for instance.

        A name may not depend on the volumes that a request needs, of which there is no end.
        """
        if name not in self._built:
            self._built[name] = build(self)
        built: _Built = self._built[name]  # type: ignore[assignment]
        return built

    def made(self, name: str) -> Any:  # noqa: ANN401 - what `once` built
        """What `once` built by a name; None where it did not."""
        return self._built.get(name)

    def _held(
        self, name: str, table: str, volumes: Callable[[], Sequence[Volume]]
    ) -> Sequence[HeldTable]:
        def find(snapshot: Snapshot) -> Sequence[HeldTable]:
            found = []
            for volume in volumes():
                if table in volume.shapes:
                    file = snapshot.files[volume.key]
                    held = snapshot.tables.get((file, table))
                    if held is None:
                        shape, lookups = volume.shapes[table], snapshot.lookups.get(file)
                        held = HeldTable(file, table, volume.blocks, shape, lookups)
                        snapshot.tables[file, table] = held
                    found.append(held)
            return [held for held in found if held.is_usable]

        return self.once(name, find)


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot and a connection, for one job in a thread; only `interrupt` is for others."""

    snapshot: Snapshot
    session: Session

    def rows(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a statement; see `Session.rows`."""
        return self.session.rows(sql, values)

    def interrupt(self) -> None:
        """Stop what runs; it raises `InterruptedQueryError`, as does all that follows."""
        self.session.interrupt()


Prepare = Callable[[Reading, Snapshot | None], object]


class Snapshots:
    """The newest generation of a warehouse, for all requests of a process."""

    def __init__(
        self, warehouse: Warehouse, pool: SessionPool, prepare: Prepare | None = None
    ) -> None:
        self._warehouse = warehouse
        self._pool = pool
        self._prepare = prepare
        self._lock = Lock()
        self._refreshing = Lock()
        self._current: Snapshot | None = None
        self._whole: Catalog | None = None
        self._held = HeldFiles(warehouse.cache)

    @classmethod
    @contextmanager
    def open(
        cls,
        warehouse: Warehouse,
        *,
        threads: int = 1,
        memory_limit: str = MEMORY_LIMIT,
        prepare: Prepare | None = None,
    ) -> Iterator[Snapshots]:
        """Open a warehouse for serving, whether or not anything is loaded yet.

        `threads` and `memory_limit` are DuckDB's, for all requests together. `prepare` is called
        with each generation, and the one before, so that no request has to wait for what it makes.
        """
        with ExitStack() as closing:
            scratch = Path(closing.enter_context(TemporaryDirectory(prefix="strata-")))
            pool = SessionPool(scratch, threads=threads, memory_limit=memory_limit)
            closing.callback(pool.close)
            snapshots = cls(warehouse, pool, prepare)
            snapshots.refresh()
            yield snapshots

    @property
    def current(self) -> Snapshot | None:
        """The newest generation, None where nothing was ever loaded. Not held open by this."""
        return self._current

    def refresh(self) -> bool:
        """Go over to a newer generation if there is one: say so.

        Cheap when there is nothing new, so that it can be called every second. What it raises
        leaves the present generation in use.
        """
        with self._refreshing:
            self._pool.rest()
            current = self._current
            newest, catalog = self._newest_catalog()
            if catalog is None or (
                current is not None and current.catalog.document == catalog.document
            ):
                return False
            following = self._open(catalog)
            self._whole = newest if newest is catalog else None
            with self._lock:
                self._current = following
            if current is not None:
                self._retire(current)
            if newest is catalog:
                self._held.tidy(catalog)
            return True

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Hold the newest generation for one job, which begins and ends on one thread.

        Raises `UnavailableError` without one.
        """
        with self._lock:
            snapshot = self._current
            if snapshot is None:
                raise UnavailableError("nothing is loaded yet: load segments first")
            snapshot.users += 1
        try:
            with self._pool.session() as session:
                yield Reading(snapshot, session)
        finally:
            with self._lock:
                snapshot.users -= 1
                unused = snapshot.retired and not snapshot.users
            if unused:
                self._let_go(snapshot)

    def _retire(self, snapshot: Snapshot) -> None:
        with self._lock:
            snapshot.retired = True
            unused = not snapshot.users
        if unused:
            self._let_go(snapshot)

    def _let_go(self, snapshot: Snapshot) -> None:
        for path in snapshot.paths:
            self._pool.release(path)
        snapshot.lease.close()

    def _newest_catalog(self) -> tuple[Catalog | None, Catalog | None]:
        """The newest generation, and what of it is there; nothing if that is served already.

        At the start, and with the bucket away, it is the last one that this machine has seen.
        """
        try:
            newest = self._warehouse.catalog()
            # To look for every volume each time would be dear; only what was lost may be back.
            if newest is None or (
                self._whole is not None and self._whole.document.commit == newest.document.commit
            ):
                return None, None
            return newest, newest.intact()
        except ConnectionError:
            seen = self._warehouse.last_seen() if self._current is None else None
            if seen is None:
                raise
            return seen, seen

    def _open(self, catalog: Catalog) -> Snapshot:
        check_open_files(len(catalog.volumes), _FILES)
        current = self._current
        with ExitStack() as undo:
            lease = undo.enter_context(ExitStack())
            lease.enter_context(catalog.files.hold(catalog.document.attachable()))
            paths: list[Path] = []

            def attach(path: Path) -> str:
                alias = self._pool.attach(path)
                undo.callback(self._pool.release, path)
                paths.append(path)
                return alias

            files = {one.key: attach(catalog.files.path(one.file)) for one in catalog.volumes}
            captures = catalog.document.captures
            spam = attach(catalog.files.path(captures)) if captures is not None else None
            if current is not None:  # what cannot be read is found before it is served
                fresh = {*files.values()} - {*current.files.values()}
                self._pool.give(self._pool.take(fresh))
            held = self._segments(catalog, lease)
            lookups = {files[key]: of for key, of in self._held.lookups(catalog).items()}
            snapshot = Snapshot(catalog, files, tuple(paths), lease, lookups, held, captures=spam)
            snapshot.kept = self._held.folder
            if current is not None:
                kept = {*files.values()}
                known = [*current.tables.items()]  # requests add to them
                snapshot.tables = {at: table for at, table in known if at[0] in kept}
            with self._pool.session() as session:
                snapshot.newest = _newest(session, snapshot)
                if self._prepare is not None:
                    self._prepare(Reading(snapshot, session), self._current)
            undo.pop_all()
            return snapshot

    def _segments(self, catalog: Catalog, lease: ExitStack) -> Mapping[str, SegmentList] | None:
        """The segments; without its records a generation answers queries all the same."""
        with suppress(FileNotFoundError, IntegrityError):
            lease.enter_context(catalog.files.hold(catalog.document.records()))
            return self._held.segments(catalog)
        return None


def _newest(session: Session, snapshot: Snapshot) -> Block | None:
    blocks = snapshot.history("blocks")
    if not blocks:
        return None
    sql = (
        "select height, epoch_us(vega_time) * 1000, hash "  # noqa: S608 - our own name
        f"from {blocks[-1].source} order by height desc limit 1"
    )
    return next((Block(*row) for row in session.rows(sql)), None)
