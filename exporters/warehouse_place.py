"""The warehouse at a site's locations; its log is compared with what the archive recorded of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from exporters.locations import Locations
from transforms.errors import StrataError
from transforms.stores.store_address import open_store
from transforms.warehouse.log.seen import SeenSnapshot
from transforms.warehouse.warehouse import Warehouse
from transforms.warehouse.warehouse_address import open_warehouse


def site_warehouse(locations: Locations) -> Warehouse:
    """The warehouse; see `open_warehouse`."""
    return open_warehouse(
        locations.warehouse,
        locations.cache,
        cache_bytes=locations.cache_bytes,
        memory_mb=locations.memory_mb,
        options=locations.store_options,
        published=partial(_recorded, locations),
    )


def _recorded(locations: Locations, chain_id: str) -> tuple[SeenSnapshot, ...]:
    """What publishers recorded of their warehouses; nothing if it cannot be read."""
    # Warehouses without segments ask for nothing.
    from exporters.archive.archive import Archive

    with suppress(StrataError, OSError):
        store = open_store(locations.archive, locations.store_options)
        return Archive(store, chain_id).index().warehouses
    return ()
