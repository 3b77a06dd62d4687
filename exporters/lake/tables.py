"""One table of the lake: what lies in its folder, its newest version, and commits upon that.

A commit is one file, which is created for the very version that it follows, so that of two
publishers one is refused, reads again and plans again: nothing is in a table twice, whatever each
had planned. The first one makes the table, and any may add columns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from exporters.archive.archive import won_race
from exporters.archive.lake_place import LOG
from exporters.lake.lake_report import LakeReport
from exporters.lake.log.log_files import (
    COMMITS,
    HINT,
    KEPT_HOURS,
    checkpoint_bytes,
    checkpoint_name,
    commit_actions,
    commit_bytes,
    commit_name,
    delta_field,
    delta_type,
    last_commit,
    outdated,
    parsed_files,
    read_log,
)
from exporters.lake.log.table_version import Action, ActiveFile, TableVersion, new_name
from transforms.block_range import BlockRange
from transforms.errors import ConflictError, IntegrityError
from transforms.files import new_file
from transforms.objects import ObjectInfo
from transforms.sealed import seal, unseal
from transforms.stores.store import LostRaceError, Store, content_size
from transforms.tables.file_columns import FileColumn
from transforms.tables.registry import fold_case

_PARQUET, _JSON = "application/vnd.apache.parquet", "application/json"
# The log says for twice as long as files stay when they were removed.
_TOLD_SECONDS = 2 * KEPT_HOURS * 3600
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A finished file that is to be put into a table, with its SHA-256.

    `columns` are those of the newest CSV in it; see `new_name` for `csv`.
    """

    path: Path
    blocks: BlockRange
    sha256: str
    columns: Sequence[FileColumn] = ()
    csv: str = ""


def listed(store: Store, folder: str) -> Iterator[ObjectInfo]:
    """List what lies in a folder of a store; nothing where there is no archive yet."""
    path = store.path(folder)
    if path is None or path.is_dir():
        yield from store.list(f"{folder}/")


class LakeTable:
    """A table of a lake, as it was when it was looked at, and after one's own commits."""

    def __init__(self, store: Store, key: str, cache: Path | None = None) -> None:
        """`cache` is the folder where this machine keeps the version that it knows.

        To read a log takes a dozen requests, and says nothing new as long as a listing ends with
        the commit of that version.
        """
        self.name = key.rpartition("/")[2]
        self.place = store.describe(key)
        self._store = store
        self._key = key
        self._log = f"{key}/{LOG}"
        self._cache = cache / f"{self.name}.json" if cache else None
        self._infos: Mapping[str, ObjectInfo] | None = None
        self._version: TableVersion | None = None

    def look(self, infos: Iterable[ObjectInfo] | None = None) -> None:
        """Forget how it was; `infos` are what lies in its folder now, if that is listed already."""
        self._version = self._infos = None
        if infos is not None:
            self._infos = {info.key.removeprefix(f"{self._key}/"): info for info in infos}

    @property
    def infos(self) -> Mapping[str, ObjectInfo]:
        """What lies in its folder, by the path below that; it is listed once."""
        if self._infos is None:
            self.look(listed(self._store, self._key))
        return self._infos or {}

    def version(self) -> TableVersion | None:
        """The newest version, which is read once; None where there is no table.

        Raises `IntegrityError` where its log is damaged, or others wrote to it.
        """
        if self._version is None:
            self._version = self._read()
        return self._version

    def _read(self) -> TableVersion | None:
        names = [path.removeprefix(f"{LOG}/") for path in self.infos if path.startswith(LOG)]
        if not names:
            return None
        last = last_commit(names)
        newest = self.infos.get(f"{LOG}/{commit_name(last)}")
        if newest and (kept := self._kept(last, newest.version)):
            return kept
        try:
            version = parsed_files(read_log(self._store, self._log, last))
        except IntegrityError as error:
            raise IntegrityError(
                f"the log of {self.place} is damaged: put its folder {LOG} back from a backup, or "
                f"remove it, and strata publish makes it anew; {error}"
            ) from error
        if newest and version and version.number == last:
            self._keep(version, newest.version)
        return version

    def _kept(self, number: int, state: str) -> TableVersion | None:
        """The version that this machine keeps, if its commit is that one, in that state."""
        if self._cache is not None:
            with suppress(OSError, IntegrityError, LookupError, TypeError, ValueError):
                row = unseal(self._cache.read_bytes(), str(self._cache))
                version = TableVersion(**row["version"])
                return version if (version.number, row["state"]) == (number, state) else None
        return None

    def _keep(self, version: TableVersion, state: str) -> None:
        """Keep a version, with the store's own version of the file of its commit."""
        if self._cache is not None:  # a loss of power may lose it: then the log is read again
            with new_file(self._cache, durable=False) as file:
                file.write(seal({"version": asdict(version), "state": state}))

    def worked(self, work: Callable[[], LakeReport]) -> LakeReport:
        """What came of work on the table, which is done again if it loses a race.

        Why it cannot be done is in the report. Errors of the machine pass through.
        """
        try:
            return won_race(work, self.place)
        except (ConflictError, IntegrityError) as error:
            return LakeReport(refused={self.name: str(error)})

    def put(
        self,
        base: TableVersion | None,
        new: Iterable[NewFile],
        removed: Sequence[ActiveFile] = (),
    ) -> LakeReport:
        """Put files there, and name them, and others no longer, in one version after `base`.

        Without `base` that makes the table. Raises `ConflictError` where a column has another type
        or spelling than the table's, or other bytes lie under a file's name, and what `commit`
        does.
        """
        fields: Sequence[Action] = base.fields if base else ()
        known = {fold_case(field["name"]): field for field in fields}
        columns: list[Action] = []
        added = []
        for file in new:
            metadata = pq.read_metadata(file.path)
            own = metadata.schema.to_arrow_schema()
            columns += self._new_columns(file.columns, own, known)
            name, size = new_name(file.blocks, file.sha256, file.csv), content_size(file.path)
            self._store.put_if_absent(
                f"{self._key}/{name}",
                file.path,
                content_type=_PARQUET,
                sha256=file.sha256,
                immutable=True,
                take=True,
            )
            added.append(ActiveFile(name, size, metadata.num_rows, tuple(own.names)))
        self.commit(base, added, removed, columns)
        return LakeReport(len(added), sum(file.bytes for file in added))

    def _new_columns(
        self, newest: Sequence[FileColumn], own: pa.Schema, known: dict[str, Action]
    ) -> Iterator[Action]:
        """The columns of a file that are not known yet by name in lower case, which then they are.

        They are those of the newest CSV in it, then its own. Raises `ConflictError` for one that
        is known otherwise.
        """
        kinds: dict[str, object] = {field.name: delta_type(field.type) for field in own}
        for name, kind in (*((column.name, column.type) for column in newest), *kinds.items()):
            field = delta_field(name, kind)
            there = known.setdefault(fold_case(name), field)
            if there is field:
                yield field
            elif (there["name"], there["type"]) != (name, kind):
                raise ConflictError(
                    f"{self.place}: column {there['name']} is {there['type']} there, and "
                    f"{name} is {kind} in what is to be added: nothing is added to "
                    "this table, as its readers would see other values; publish to another place, "
                    "or without the lake (STRATA_LAKE=0)"
                )

    def commit(
        self,
        base: TableVersion | None,
        added: Sequence[ActiveFile],
        removed: Sequence[ActiveFile] = (),
        columns: Sequence[Action] = (),
    ) -> None:
        """Name files that are there, and others no longer, in one version after `base`.

        Raises `LostRaceError` where somebody else committed since `base` was read.
        """
        base = base or TableVersion()
        # The store's clock says later how long ago a file was removed.
        now = int((self._store.now() if removed else time.time()) * 1000)
        actions = [*commit_actions(self.name, base, added, removed, columns, now)]
        version = base.following(base.number + 1, actions)
        key = f"{self._log}/{commit_name(version.number)}"
        try:
            state = self._store.put_if_match(key, commit_bytes(now, actions), None, _JSON)
        except LostRaceError as error:
            self.look()
            raise LostRaceError(f"{self.place} was changed by another writer: {error}") from error
        # Not all tables at once: a run should cost what the one before did.
        if version.number and (version.number + crc32(self.name.encode())) % COMMITS == 0:
            version = self._sum_up(version)
        self._version = version
        self._keep(version, state)

    def _sum_up(self, version: TableVersion) -> TableVersion:
        """Write a checkpoint of a version, and forget what is older than a week; what is left.

        Without it all is right as well.
        """
        now = self._store.now()
        told = (now - _TOLD_SECONDS) * 1000
        removed = version.removed.items()
        recent = {name: old for name, old in removed if (old.get("deletionTimestamp") or 0) >= told}
        version = replace(version, removed=recent)
        data, hint = checkpoint_bytes(version)
        files = ((checkpoint_name(version.number), data, _PARQUET), (HINT, hint, _JSON))
        try:
            infos = {
                info.key.rpartition("/")[2]: info for info in self._store.list(f"{self._log}/")
            }
            for name, content, kind in files:
                before = infos[name].version if name in infos else None
                self._store.put_if_match(f"{self._log}/{name}", content, before, kind)
            times = {name: info.modified for name, info in infos.items()}
            for name in outdated(times, now - KEPT_HOURS * 3600):
                self._store.delete(f"{self._log}/{name}")
        except (LostRaceError, OSError) as error:
            _logger.info("the log of %s was not summed up: %s", self.place, error)
        return version
