"""Spam captures of a warehouse: one file that the log names, replaced by the next one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transforms.errors import ConfigError
from transforms.objects import StoredFile
from transforms.scratch import scratch_folder
from transforms.segments.source import Source
from transforms.spam.capture_tables import (
    CaptureReport,
    RefusedLine,
    capture_rows,
    new_captures,
    write_captures,
)
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_storage import store_file
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.warehouse import Warehouse


def captures_path(backing: Backing, snapshot: Snapshot | None) -> Path | None:
    """The newest file of captures on this machine, None where there were never any."""
    if snapshot is None or snapshot.captures is None:
        return None
    backing.files.bring([snapshot.captures])
    return backing.files.path(snapshot.captures)


def refused_captures(warehouse: Warehouse) -> list[RefusedLine]:
    """The lines of spam captures that are none, by file and line, with their reasons."""
    path = captures_path(warehouse.backing, warehouse.snapshot())
    return [RefusedLine(*row) for row in sorted(capture_rows(path, "refused_lines"))]


def load_captures(warehouse: Warehouse, source: Source) -> CaptureReport:
    """Load the spam captures that are new in a source (spec 4.6; decisions, spam statistics).

    Bad lines are kept aside with their reason. May be killed and run again, beside loads and any
    readers; of two at once the slower one begins anew. Raises `ConfigError` before the first
    segment, which names the chain.
    """
    backing, reader = warehouse.backing, source.reader
    while True:
        snapshot = warehouse.snapshot()
        if snapshot is None or not snapshot.chain_id:
            where = warehouse.describe()
            raise ConfigError(f"{where} holds no segments yet: load them before spam captures")
        current = captures_path(backing, snapshot)
        fresh = new_captures(current, reader)
        if not fresh:
            warehouse.show()  # what was loaded by one that was killed before it did
            return CaptureReport()
        with scratch_folder(backing.scratch) as scratch:
            path = scratch / "captures.duckdb"
            report = write_captures(
                path, current, fresh, reader, snapshot.chain_id, backing.memory_limit
            )
            sha256 = content_sha256(path)
            stored = store_file(backing.store, f"spam/{sha256}.duckdb", sha256, path)
        old = snapshot.captures

        def change(
            newest: Snapshot, old: StoredFile | None = old, new: StoredFile = stored
        ) -> Snapshot:
            return replace(newest, captures=new) if newest.captures == old else newest

        if backing.log.commit(change).captures == stored:
            warehouse.show()
            return report
