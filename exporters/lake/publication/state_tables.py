"""The lake's current-state tables: the newest copy of each, which replaces the one before.

The warehouse's manifest of the state comes last, in a table of its own: once the other tables have
the rows of its receipts, a warehouse can be given the state. Nothing here imports DuckDB.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from exporters.archive.lake_place import STATE_MANIFEST
from exporters.lake.lake_files import Lake
from exporters.lake.log.table_version import new_name
from exporters.lake.tables import LakeTable
from transforms.errors import IntegrityError
from transforms.files import link
from transforms.scratch import scratch_folder
from transforms.stores.store import content_sha256
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.manifests.manifest import manifest_receipts
from transforms.warehouse.manifests.shapes import Volume


def is_state_due(lake: Lake, states: Sequence[Volume], seconds: float) -> bool:
    """Whether the lake lacks the newest of these current states, and got none within `seconds`.

    Dozens of tables change with each segment, and each is written anew whole.
    """
    if not states:
        return False
    try:
        version = lake.table(STATE_MANIFEST).version()
    except IntegrityError:  # who publishes names what is damaged
        return True
    if not version.files:
        return True
    # Only how often: whichever clock is wrong, none is lost.
    is_recent = abs(time.time() - version.files[0].time / 1000) < seconds
    return version.files[0].blocks.last < states[-1].blocks.last and not is_recent


def publish_state(lake: Lake, backing: Backing, state: Volume, scratch: Path) -> dict[str, str]:
    """Put a copy of every table of a current state there, unless a newer or an equal one is.

    Each replaces the one before in one version of its table. Returns why tables could not. Raises
    `IntegrityError` where the state cannot be read.
    """
    # Whoever only asks whether it is due need not wait until DuckDB is imported.
    from transforms.lake.parquet_rows import write_file
    from transforms.warehouse.manifests.data_files import rows_sql

    manifest, database = map(backing.files.path, (state.file, state.database))
    turn = Lock()

    def put(table: LakeTable) -> None:
        """Put a table there, unless it has these rows, perhaps of an earlier segment, or newer."""
        receipt = receipts.get(table.name)
        csv = (receipt or state.file).sha256
        there = [file for file in table.files if file.name in table.infos]
        if any(file.csv == csv or file.blocks.last >= state.blocks.last for file in there):
            return
        with scratch_folder(scratch) as folder:
            path = folder / "file.parquet"
            if receipt is None:
                link(manifest, path)
            else:
                rows = rows_sql(receipt.table, receipt.schema.columns, [database])
                # One at a time: each may take as much memory as a load.
                with turn, backing.working(state.size) as (con, _):
                    write_file(con, rows, receipt, path)
            sha256 = content_sha256(path)
            new = path.rename(folder / new_name(state.blocks, sha256, csv))
            old = [file for file in table.files if file.name != new.name]
            table.put(table.version(), [(new, sha256)], old)

    # The manifest's bytes are hashed before they are published; rows are held against its receipts.
    with backing.files.hold([state.database]), backing.files.hold([state.file], recheck=True):
        receipts = {receipt.table: receipt for receipt in manifest_receipts([manifest])}
        refused = lake.refusals(put, sorted(receipts))
        return refused or lake.refusals(put, [STATE_MANIFEST])
