"""The files of one table of a lake for who only reads it, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from exporters.archive.lake_place import LOG
from exporters.lake.lake_files import Lake
from exporters.lake.log.log_files import parsed_files, read_log
from exporters.lake.log.table_version import ActiveFile
from transforms.errors import IntegrityError


@dataclass
class PublishedTable:
    """The newest version of a table, which is read once, by the names of its log's files.

    What reads it raises `IntegrityError` where its log is damaged, or others wrote to it.
    """

    lake: Lake
    name: str

    @cached_property
    def _read(self) -> tuple[Mapping[str, bytes], tuple[ActiveFile, ...]]:
        try:
            log = read_log(self.lake.archive.store, self.lake.key(self.name, LOG))
            version = parsed_files(log)
        except IntegrityError as error:
            place, remedy = self.lake.place(self.name, LOG), "its keeper should run strata verify"
            raise IntegrityError(f"{place} is damaged: {remedy}; {error}") from error
        return log, version.files if version else ()

    @property
    def log(self) -> Mapping[str, bytes]:
        """The files of its log; none where there is no table."""
        return self._read[0]

    @property
    def files(self) -> tuple[ActiveFile, ...]:
        """Its files, ascending by block; none where there is no table."""
        return self._read[1]

    @property
    def history(self) -> list[ActiveFile]:
        """Those of history."""
        return [file for file in self.files if not file.csv]

    def fetched(
        self, files: Iterable[ActiveFile], folder: Path, advance: Callable[[int], object]
    ) -> list[Path]:
        """Copies in a folder of some of its files, each of which hashes to what its name says.

        `advance` gets their bytes. Raises `IntegrityError`, `ConnectionError`.
        """
        paths = []
        for file in files:
            path = folder / f"{self.name}-{file.name}"
            self.lake.fetch(self.name, file, path)
            advance(file.bytes)
            paths.append(path)
        return paths
