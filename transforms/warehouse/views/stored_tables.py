"""The tables of history with the columns of their CSVs: for checks, which need no other views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from transforms.block_range import BlockRange
from transforms.duck import Connection, working_connection
from transforms.open_files import check_open_files, naming_open_files
from transforms.scratch import scratch_folder
from transforms.warehouse.files.backing import Backing
from transforms.warehouse.files.catalog import Catalog
from transforms.warehouse.views.catalog_views import create_stored_views


@contextmanager
def stored_tables(backing: Backing, catalog: Catalog, blocks: BlockRange) -> Iterator[Connection]:
    """Open `main.<table>` over the volumes that hold any of these blocks.

    Costs what these volumes cost, and a hundredth of a second: views with comments for all tables
    take nearly one. What does not fit in memory is spilled. Raises `FileNotFoundError` where a
    volume is missing.
    """
    volumes = list(catalog.volumes_over(blocks))
    check_open_files(len(volumes))
    with (
        naming_open_files(len(volumes)),
        backing.files.hold([file for volume in volumes for file in volume.data.values()]),
        scratch_folder(backing.scratch) as scratch,
        working_connection(scratch, memory_limit=backing.memory_limit) as con,
    ):
        create_stored_views(con, volumes, backing.files.path)
        yield con
