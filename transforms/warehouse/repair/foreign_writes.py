"""What other programs wrote to files of this machine that only we write: found, and removed."""

from __future__ import annotations

from collections.abc import Iterator

from transforms.duck_files import FOREIGN_LOG, remove_log
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.repair.examination import RepairFinding
from transforms.warehouse.views.catalog_file import CatalogFile, read_record

_FOLDERS = ("state", "spam")


def remove_foreign_writes(backing: Backing, *, dry_run: bool) -> Iterator[RepairFinding]:
    """Remove the logs beside volumes, and a file of views that is not as it was made."""
    for name in _FOLDERS:
        folder = backing.store.path(name) or backing.cache / name
        for log in sorted(folder.glob("*.duckdb.wal")):
            if not dry_run:
                remove_log(log.with_suffix(""))
            yield RepairFinding(f"{name}/{log.name}", FOREIGN_LOG, "the log is removed")
    path = CatalogFile.of(backing).path()
    if path.is_file() and (difference := read_record(path).difference(path)):
        if not dry_run:
            path.unlink()
            remove_log(path)
        yield RepairFinding(path.name, difference, "removed: the next command makes it anew")
