"""Files that a snapshot of the warehouse names and that are missing or cut short."""

from __future__ import annotations

from collections.abc import Iterable

from transforms.objects import StoredFile
from transforms.stores.store import Store
from transforms.warehouse.files.local_files import MISSING
from transforms.warehouse.manifests.file_names import listed


def absent_files(store: Store, files: Iterable[StoredFile]) -> dict[StoredFile, str]:
    """The files that are not there, or not with all their bytes, with what is wrong.

    A listing is not believed: what it lacks is asked for by name. A store that cannot be reached
    raises, and nothing counts as lost.
    """
    targets = tuple(files)
    listing = listed(store, sorted({file.key.partition("/")[0] for file in targets}))
    sizes = {info.key: info.size for infos in listing.values() for info in infos}
    pairs = ((file, _absence(store, file)) for file in targets if sizes.get(file.key) != file.size)
    return {file: problem for file, problem in pairs if problem}


def _absence(store: Store, file: StoredFile) -> str:
    info = store.head(file.key)
    if info is None:
        return MISSING
    return "" if info.size == file.size else f"has {info.size} bytes, not {file.size}"
