"""Holding one file of a warehouse against what names it, wherever its bytes lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from transforms.duck_files import FOREIGN_LOG, log_beside
from transforms.errors import ConfigError, IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import content_sha256, object_sha256
from transforms.verifying.findings import REPAIR, Finding, Problem, Remedy, remove, unreadable
from transforms.warehouse.files.backing import Backing

NOT_READ = (Problem.MISSING, Problem.UNREADABLE)
"""What is found of a file that could not be read to its end."""

NOT_THERE = "the log names it, and it is not there"


def file_findings(backing: Backing, file: StoredFile, remedy: Remedy) -> Iterator[Finding]:
    """Hash a file that a snapshot names; of a bucket's, also the copy in this machine's cache.

    Where the cache has no copy of a volume, the file is downloaded into it, which hashes it.
    """
    place = backing.store.describe(file.key)
    local = backing.store.path(file.key)
    with suppress(ConfigError):  # the cache keeps no copies of that kind
        local = local or backing.files.path(file)
    copy = None if backing.store.path(file.key) else local
    if local and (log := log_beside(local)):
        yield Finding(Problem.DAMAGED, str(log), FOREIGN_LOG, REPAIR)
    try:
        if copy is not None and not copy.exists():
            backing.files.bring([file])
            return
        digest = object_sha256(backing.store, file.key)
        if digest != file.sha256:
            what = f"it hashes to SHA-256 {digest}, not {file.sha256} as when it was written"
            yield Finding(Problem.DAMAGED, place, what, remedy)
    except FileNotFoundError:
        yield Finding(Problem.MISSING, place, NOT_THERE, remedy)
    except IntegrityError as error:
        yield Finding(Problem.DAMAGED, place, str(error), remedy)
    except OSError as error:
        yield Finding(Problem.UNREADABLE, place, unreadable(error, place), remedy)
    if copy is not None and copy.exists() and content_sha256(copy) != file.sha256:
        what = f"this copy of {place} does not hash to {file.sha256}"
        yield Finding(Problem.DAMAGED, str(copy), what, remove(str(copy)))
