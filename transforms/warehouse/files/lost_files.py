"""Files that a snapshot of the warehouse names and that are missing or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from transforms.errors import ConfigError, IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import Store, asked_together, object_sha256
from transforms.warehouse.files.local_files import REMEDY, LocalFiles

MISSING = "is missing"
DAMAGED = "is damaged: it has other bytes than when it was written"


class LostFilesError(IntegrityError):
    """Files are missing or damaged; the message says what is wrong with one, and what to do."""

    def __init__(self, store: Store, losses: Mapping[StoredFile, str]) -> None:
        first, *others = sorted(losses)
        self.count = len(losses)
        more = f" (and {len(others)} more files are lost)" if others else ""
        super().__init__(f"{store.describe(first.key)} {losses[first]}{more}: {REMEDY}")


def absent_files(store: Store, files: Iterable[StoredFile]) -> dict[StoredFile, str]:
    """The files that are not there, or not with all their bytes, with what is wrong.

    A listing is not believed: what it lacks is asked for by name. A store that cannot be reached
    raises, and nothing counts as lost.
    """
    targets = tuple(files)
    sizes: dict[str, int] = {}
    folders = sorted({file.key.partition("/")[0] for file in targets})
    with suppress(ConfigError):  # the folder itself is not there
        for infos in asked_together(store, lambda folder: [*store.list(f"{folder}/")], folders):
            sizes |= {info.key: info.size for info in infos}
    pairs = ((file, _absence(store, file)) for file in targets if sizes.get(file.key) != file.size)
    return {file: problem for file, problem in pairs if problem}


def _absence(store: Store, file: StoredFile) -> str:
    info = store.head(file.key)
    if info is None:
        return MISSING
    return "" if info.size == file.size else f"has {info.size} bytes, not {file.size}"


def damage(
    store: Store, file: StoredFile, advance: Callable[[int], None] = lambda _bytes: None
) -> str:
    """What is wrong with a file, which is read to its end; "" if nothing."""
    try:
        digest = object_sha256(store, file.key, advance)
    except FileNotFoundError:
        return MISSING
    return "" if digest == file.sha256 else f"is damaged: it hashes to {digest}, not {file.sha256}"


def unreadable_files(
    store: Store, local: LocalFiles, files: Iterable[StoredFile]
) -> dict[StoredFile, str]:
    """The files that cannot be had with the right bytes, with what is wrong; see `LocalFiles`."""
    problems: dict[StoredFile, str] = {}
    for file in files:
        try:
            local.bring([file], recheck=True)
        except FileNotFoundError:
            problems[file] = MISSING
        except IntegrityError:
            # The same words as `absent_files` has for it, whichever notices it first.
            problems[file] = _absence(store, file) or DAMAGED
    return problems
