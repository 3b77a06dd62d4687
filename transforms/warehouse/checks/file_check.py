"""Holding one file of a warehouse against what names it, wherever its bytes lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from transforms.errors import ConfigError, IntegrityError
from transforms.objects import StoredFile
from transforms.stores.store import content_sha256, object_sha256
from transforms.verifying.findings import (
    REPAIR_AND_LOAD,
    Finding,
    Problem,
    Remedy,
    move_away,
    remove,
    unreadable,
)
from transforms.verifying.proofs import Proof
from transforms.warehouse.files.backing import Backing

NOT_READ = (Problem.MISSING, Problem.UNREADABLE)
"""What is found of a file that could not be read to its end."""

NOT_THERE = "the log names it, and it is not there"


def file_findings(backing: Backing, file: StoredFile, remedy: Remedy) -> Iterator[Finding]:
    """Hash a file that a snapshot names; of a bucket's, also the copy in this machine's cache.

    Where the cache has no copy of a volume, the file is downloaded into it, which hashes it.
    """
    place = backing.store.describe(file.key)
    copy = None
    if backing.store.path(file.key) is None:
        with suppress(ConfigError):  # the cache keeps no copies of that kind
            copy = backing.files.path(file)
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


def proof_of(backing: Backing, file: StoredFile, recorded: str) -> Proof:
    """That a file, as it is now, is what was recorded: for who has read it, or asks who did."""
    info = backing.store.head(file.key)
    return Proof(backing.store.describe(file.key), info.version if info else "", recorded)


def replacement(place: str) -> Remedy:
    """What to do about a file that is whole, and not what its records say."""
    away = move_away(place).commands
    return Remedy((*away, *REPAIR_AND_LOAD.commands), REPAIR_AND_LOAD.note)
