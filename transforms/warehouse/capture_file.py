"""Spam captures of a warehouse: one file that the log names, replaced by the next one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transforms.errors import ConfigError
from transforms.objects import ObjectReader
from transforms.scratch import scratch_folder
from transforms.segments.source import Source
from transforms.spam.capture_tables import RefusedLine, capture_rows, new_captures, write_captures
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.load.volume_files import store_file
from transforms.warehouse.log.snapshot import Snapshot
from transforms.warehouse.warehouse import Warehouse


def captures_path(backing: Backing, snapshot: Snapshot) -> Path | None:
    """The newest file of captures on this machine, None where there were never any."""
    return backing.files.bring([snapshot.captures])[0] if snapshot.captures else None


def load_captures(warehouse: Warehouse, source: Source) -> list[RefusedLine]:
    """Load the spam captures that are new in a source (spec 4.6; decisions, spam statistics).

    Returns the lines of all captures that are none, by file and line, which are kept aside. May be
    killed and run again, beside loads and any readers; of two at once the slower one begins anew.
    Raises `ConfigError` before the first segment, which names the chain.
    """
    backing, snapshot = warehouse.backing, warehouse.snapshot()
    if not snapshot.chain_id:
        where = warehouse.describe()
        raise ConfigError(f"{where} holds no segments yet: load them before spam captures")
    snapshot = _with_captures(backing, snapshot, source.reader)
    warehouse.show()  # also what was loaded by one that was killed before it did
    rows = capture_rows(captures_path(backing, snapshot), "refused_lines")
    return [RefusedLine(*row) for row in sorted(rows)]


def _with_captures(backing: Backing, snapshot: Snapshot, reader: ObjectReader) -> Snapshot:
    """Write and name a file with the captures that are new; returns the newest snapshot.

    Where another process names one meanwhile, it begins anew.
    """
    current = captures_path(backing, snapshot)
    fresh = new_captures(current, reader)
    if not fresh:
        return snapshot
    with scratch_folder(backing.scratch) as scratch:
        path = scratch / "captures.duckdb"
        write_captures(path, current, fresh, reader, snapshot.chain_id, backing.memory_limit)
        sha256 = content_sha256(path)
        stored = store_file(backing.store, f"spam/{sha256}.duckdb", sha256, path)

    def change(newest: Snapshot) -> Snapshot:
        return replace(newest, captures=stored) if newest.captures == snapshot.captures else newest

    newest = backing.log.commit(change)
    # Once they are named, what came since waits for the next load: it may never end.
    return newest if newest.captures == stored else _with_captures(backing, newest, reader)
