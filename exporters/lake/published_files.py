"""The files of one table of a lake for who only reads it, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import Lake
from exporters.lake.log.log_files import named_files, parsed_files
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import Version
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
    """The files of a table's log, read by their names, as web servers give no lists.

    Raises `IntegrityError` where one is damaged.
    """
    with _naming_damage(lake, table):
        return named_files(lake.archive.store, lake.key(table, LOG))


def log_version(lake: Lake, table: str, files: Mapping[str, bytes]) -> Version | None:
    """The version of a table that the files of its log say; None without any. See `log_files`."""
    with _naming_damage(lake, table):
        content = parsed_files(files)
        return Version(lake, table, content) if content else None


@contextmanager
def _naming_damage(lake: Lake, table: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        place, remedy = lake.place(table, LOG), "its keeper should run strata verify"
        raise IntegrityError(f"{place} is damaged: {remedy}; {error}") from error


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
    def files(self) -> tuple[ActiveFile, ...]:
        """Its files, ascending by block; none where there is no table.

        Raises `IntegrityError` where its log is damaged, or names what Strata does not write.
        """
        version = log_version(self.lake, self.table, log_files(self.lake, self.table))
        files = version.files if version else ()
        return tuple(file for file in files if not file.csv)

    def copies(self, blocks: BlockRange) -> list[Path]:
        """Copies of the files with any of these blocks, ascending, until others are asked for.

        Each hashes to what its name says. Raises `IntegrityError`, `ConnectionError`.
        """
        due = {file.name: file for file in self.files if file.blocks.overlaps(blocks)}
        for name, path in [*self._copies.items()]:
            if name not in due or not path.exists():  # it became a data file
                path.unlink(missing_ok=True)
                del self._copies[name]
        return [self._copies.get(name) or self._fetch(file) for name, file in due.items()]

    def _fetch(self, file: ActiveFile) -> Path:
        path = self.folder / f"{self.table}-{file.name}"
        retried(partial(self.lake.fetch, self.table, file, path))
        self._copies[file.name] = path
        self.advance(file.bytes)
        return path
