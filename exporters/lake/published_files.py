"""The files of one table of a lake for who only reads it, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import Lake
from exporters.lake.log.log_files import named_files, parsed_files
from exporters.lake.log.table_version import ActiveFile
from exporters.lake.tables import Version
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
class PublishedTable:
    """The newest version of a table, which is read once."""

    lake: Lake
    table: str

    @cached_property
    def files(self) -> tuple[ActiveFile, ...]:
        """Its files, ascending by block; none where there is no table.

        Raises `IntegrityError` where its log is damaged, or names what Strata does not write.
        """
        version = log_version(self.lake, self.table, log_files(self.lake, self.table))
        return version.files if version else ()

    @property
    def history(self) -> list[ActiveFile]:
        """Those of history; see `files`."""
        return [file for file in self.files if not file.csv]

    def fetched(
        self, files: Iterable[ActiveFile], folder: Path, advance: Callable[[int], object]
    ) -> list[Path]:
        """Copies in a folder of some of its files, each of which hashes to what its name says.

        `advance` gets their bytes. Raises `IntegrityError`, `ConnectionError`.
        """
        paths = []
        for file in files:
            path = folder / f"{self.table}-{file.name}"
            retried(partial(self.lake.fetch, self.table, file, path))
            advance(file.bytes)
            paths.append(path)
        return paths
