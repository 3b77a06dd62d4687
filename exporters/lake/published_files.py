"""The files of one table of a lake for who only reads it, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import FileName, Lake
from exporters.lake.log.stored_log import StoredLog, newest_files, parse_log
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.proving import fetched
from exporters.lake.tables import HeldFile
from transforms.block_range import BlockRange
from transforms.errors import IntegrityError

_ATTEMPTS = 3


def retried(fetch: Callable[[], None]) -> None:
    """Fetch a file, and again where the connection ended, or other bytes arrived."""
    for retries in reversed(range(_ATTEMPTS)):
        try:
            fetch()
            break
        except (ConnectionError, IntegrityError):
            if not retries:
                raise


def log_files(lake: Lake, table: str) -> dict[str, bytes]:
    """The files of a table's log; see `newest_files`."""
    return newest_files(lake.archive.store, lake.key(table, LOG))


def log_place(lake: Lake, table: str) -> str:
    """Where a table's log lies, for a person."""
    return lake.place(table, LOG)


def named_files(lake: Lake, table: str, log: StoredLog) -> Iterator[HeldFile]:
    """The files that a log names. Raises `IntegrityError` for such as Strata does not write."""
    for name, size in log.sizes.items():
        parts = FileName.parse(name)
        if parts is None or name in log.cut:
            raise IntegrityError(
                f"{lake.place(table)} names {name} as Strata does not: its keeper should run "
                "strata lake verify"
            )
        yield HeldFile(ActiveFile(name, size, 0), parts)


@dataclass
class PublishedFiles:
    """The newest version of a table, read once, and copies in `folder` of files asked for last.

    `advance` gets the bytes of files that were just fetched.
    """

    lake: Lake
    table: str
    folder: Path
    advance: Callable[[int], object] = lambda _bytes: None
    _copies: dict[str, Path] = field(default_factory=dict, init=False)

    @cached_property
    def files(self) -> tuple[HeldFile, ...]:
        """Its files, ascending by block; none where there is no table.

        Raises `IntegrityError` where its log is damaged, or names what Strata does not write.
        """
        log = parse_log(log_files(self.lake, self.table), log_place(self.lake, self.table))
        history = (file for file in named_files(self.lake, self.table, log) if not file.name.csv)
        return tuple(sorted(history, key=lambda file: file.blocks))

    def copies(self, blocks: BlockRange) -> list[Path]:
        """Copies of the files with any of these blocks, ascending, until others are asked for.

        Each hashes to what its name says. Raises `IntegrityError`, `ConnectionError`.
        """
        due = {file.file.name: file for file in self.files if file.blocks.overlaps(blocks)}
        for name, path in [*self._copies.items()]:
            if name not in due or not path.exists():  # it became a data file
                path.unlink(missing_ok=True)
                del self._copies[name]
        return [self._copies.get(name) or self._fetch(file) for name, file in due.items()]

    def _fetch(self, file: HeldFile) -> Path:
        path = self.folder / f"{self.table}-{file.file.name}"
        retried(partial(fetched, self.lake, self.table, file, path))
        self._copies[file.file.name] = path
        self.advance(file.size)
        return path
