"""The versions of a lake's tables as this machine last left them: its next commits follow these.

To read a Delta log takes a dozen requests. Who committed last knows what a reading would say, as
long as the log still ends there: one request tells whether the file of that version is the same,
and the commit itself, which is conditional, whether another one came after it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from exporters.lake.log.table_version import TableVersion
from transforms.errors import IntegrityError
from transforms.files import new_file
from transforms.sealed import seal, unseal

# A log forgets commits after a week, and whoever tidies it up may be killed between two of them:
# of a version that is younger than this, what came after it is there.
_USABLE_SECONDS = 84 * 3600


@dataclass(frozen=True, slots=True)
class CachedVersion:
    """A version of a table; `state` is the store's own version of the file of its commit."""

    version: TableVersion
    state: str


@dataclass(frozen=True, slots=True)
class VersionCache:
    """The versions of the tables of one lake, a file each below `folder`."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, place: str) -> VersionCache:
        """The cache of the lake at `place` below a machine's folder."""
        return cls(folder / sha256(place.encode()).hexdigest()[:16])

    def read(self, table: str) -> CachedVersion | None:
        """The version of a table; None where nothing sound is there, or it is days old."""
        path = self._path(table)
        with suppress(OSError, IntegrityError, LookupError, TypeError, ValueError):
            row = unseal(path.read_bytes(), str(path))
            version = TableVersion(**row["version"])
            if 0 <= time.time() - row["time"] < _USABLE_SECONDS:
                return CachedVersion(version, row["state"])
        return None

    def write(self, table: str, version: TableVersion, state: str) -> None:
        """Keep a version, which is the newest now.

        A loss of power may lose it: then the log is read again.
        """
        row = {"version": asdict(version), "state": state, "time": time.time()}
        with new_file(self._path(table), durable=False) as file:
            file.write(seal(row))

    def forget(self, table: str) -> None:
        """Keep nothing of a table."""
        self._path(table).unlink(missing_ok=True)

    def _path(self, table: str) -> Path:
        return self.folder / f"{table}.json"
