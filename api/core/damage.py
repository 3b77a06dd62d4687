"""Files of the warehouse that are lost or damaged: which they are, and what clients are told."""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from transforms.errors import IntegrityError
from transforms.files import path_version
from transforms.objects import StoredFile
from transforms.stores.store import Store
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.files.local_files import REMEDY
from transforms.warehouse.log.log import snapshot_key
from transforms.warehouse.log.losses import LostRowsError
from transforms.warehouse.manifests.file_names import MISSING, absent_files
from transforms.warehouse.warehouse import Warehouse

_DAMAGED = "is damaged: it has other bytes than when it was written"
_UNREADABLE = "cannot be read"
_RIGHTS = "give the server's user the right to read it, or see what its disk lacks"


_OF_FILE = (errno.EACCES, errno.EPERM, errno.EIO, errno.EISDIR, errno.ESTALE)


def is_of_file(error: Exception) -> bool:
    """Whether an error may be that of a file which an answer is made of."""
    is_named = isinstance(error, OSError) and error.errno in _OF_FILE
    return is_named or isinstance(error, (IntegrityError, FileNotFoundError))


@dataclass(frozen=True, slots=True)
class Damage:
    """Why no rows are served: a sentence that names no folder of the server, and how many files."""

    sentence: str
    files: int = 1


class LostFilesError(IntegrityError):
    """Files are missing or damaged; the message says what is wrong with one, and what to do."""

    def __init__(self, store: Store, losses: Mapping[StoredFile, str]) -> None:
        first, *others = sorted(losses)
        self.count = len(losses)
        more = f" (and {len(others)} more files are lost)" if others else ""
        remedy = _RIGHTS if losses[first].startswith(_UNREADABLE) else REMEDY
        super().__init__(f"{store.describe(first.key)} {losses[first]}{more}: {remedy}")


class LostFiles:
    """Finds the lost files of snapshots.

    Data files are too large to be hashed for nothing: a file is, once, when it was written to since
    it was seen first, or where reading it failed; a manifest when it is seen first.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._store = warehouse.backing.store
        self._log = warehouse.backing.log
        self._sound: dict[str, str] = {}

    def check(self, catalog: Catalog, suspects: Collection[Path] = ()) -> None:
        """Raise `LostFilesError` where files of a snapshot are lost, `LostRowsError` for rows.

        `suspects` are files of which reading failed. Damaged copies of a bucket's are replaced.
        """
        files = files_of(catalog)
        lost = absent_files(self._store, files) | self._damaged_snapshot(catalog)
        doubtful = self._doubtful(catalog, [file for file in files if file not in lost], suspects)
        for file in doubtful.values():
            try:
                catalog.files.bring([file], recheck=True)
            except FileNotFoundError:
                lost[file] = MISSING
            except IntegrityError:
                lost[file] = _DAMAGED
            except OSError as error:
                if not is_of_file(error):
                    raise
                lost[file] = f"{_UNREADABLE} ({error.strerror})"
        # What is lost is hashed again each time: a file may come back with its old time.
        self._sound |= {
            place: "" if file in lost else path_version(place) for place, file in doubtful.items()
        }
        if lost:
            raise LostFilesError(self._store, lost)
        if losses := catalog.snapshot.losses:
            raise LostRowsError(self._store.describe(), losses)

    def _doubtful(
        self, catalog: Catalog, files: Collection[StoredFile], suspects: Collection[Path]
    ) -> Mapping[str, StoredFile]:
        """The files that have to be hashed, by where they lie."""
        places = {*map(str, suspects)}
        manifests = {volume.file for volume in catalog.snapshot.history}
        doubtful, before, self._sound = dict[str, StoredFile](), self._sound, {}
        for file in files:
            place = catalog.files.place(file)
            now = path_version(place)
            sound = self._sound[place] = before.get(place, "" if file in manifests else now)
            if place in places or now not in ("", sound):
                doubtful[place] = file
        return doubtful

    def _damaged_snapshot(self, catalog: Catalog) -> dict[StoredFile, str]:
        """The snapshot's own file in the log, if it is not what was read once."""
        try:
            self._log.read(catalog.snapshot.number)
        except IntegrityError:
            return {StoredFile(snapshot_key(catalog.snapshot.number), 0, ""): _DAMAGED}
        except FileNotFoundError:  # it was followed, and removed after a while
            pass
        return {}

    def damage(self, error: IntegrityError) -> Damage:
        """What clients are told of an error."""
        place = self._store.describe()
        sentence = str(error).replace(f"{place}/", "").replace(place, "the warehouse")
        return Damage(sentence, error.count if isinstance(error, LostFilesError) else 1)


def files_of(catalog: Catalog) -> list[StoredFile]:
    """The files that answers are made of."""
    return [*catalog.snapshot.readable(), *catalog.snapshot.indexes()]
