"""The views of `current.duckdb`, which name files by absolute path: it opens from any directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from transforms.duck import quote_text
from transforms.objects import StoredFile
from transforms.quoting import file_pattern
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.manifests.data_files import ALL_TABLES
from transforms.warehouse.manifests.shapes import Shape, Volume
from transforms.warehouse.views.table_views import ViewedTable, Views, absent_names

_CAPTURES_MEANING = "What a core node said of each party's spam counters, newest."


def catalog_views(catalog: Catalog) -> Views:
    """All views of a snapshot, whose files are on this machine."""
    tables, snapshot = catalog_tables(catalog), catalog.snapshot
    views = Views.of(tables, manifests(catalog), absent_names(table.name for table in tables))
    views.states.append(
        "create or replace table strata.snapshot as select "
        f"{quote_text(snapshot.chain_id)} as chain_id, {snapshot.number}::bigint as snapshot, "
        f"{quote_text(catalog.files.folder)} as warehouse"
    )
    views.fixed += capture_tables(catalog, views.listed, "view")
    return views


def view_names(catalog: Catalog) -> list[str]:
    """The names of the views in `main`, sorted."""
    tables = {name for volume in catalog.snapshot.volumes for name in volume.shapes}
    captures = () if catalog.snapshot.captures is None else (SPAM_CAPTURES,)
    return sorted({*tables, *absent_names(tables), *captures})


def manifests(catalog: Catalog) -> list[str]:
    """The patterns of the manifests of history."""
    return [_pattern(catalog, volume.file) for volume in catalog.snapshot.history]


def catalog_tables(catalog: Catalog) -> list[ViewedTable]:
    """The tables of a snapshot, by name.

    One that a later schema version turned into history keeps its last whole copy, which has the
    rows from before; otherwise only the newest copy counts.
    """
    history, states = catalog.snapshot.history, catalog.snapshot.states
    tables = []
    for name in sorted({table for volume in catalog.snapshot.volumes for table in volume.shapes}):
        parts = [volume for volume in history if name in volume.shapes]
        copies = [volume for volume in states if name in volume.shapes]
        older = [copy for copy in copies if not parts or copy.version < parts[-1].version]
        volumes = [*older[-1:], *parts]
        data = (
            (volume, volume.data.get(name) or volume.data.get(ALL_TABLES)) for volume in volumes
        )
        files = [
            (_pattern(catalog, file), volume.shapes[name].columns) for volume, file in data if file
        ]
        as_of = None if parts else volumes[-1].blocks
        tables.append(ViewedTable(name, _merged(name, volumes), files, as_of))
    return tables


def _pattern(catalog: Catalog, file: StoredFile) -> str:
    return file_pattern(catalog.files.place(file))


def _merged(name: str, volumes: Sequence[Volume]) -> Shape:
    shape = Shape()
    columns: dict[str, str] | None = None
    for volume_shape in (volume.shapes[name] for volume in volumes):
        if volume_shape.columns is columns:  # as in most volumes of a snapshot
            shape.raw |= volume_shape.raw
        else:
            shape.merge(volume_shape)
            columns = volume_shape.columns
    return shape


def capture_tables(
    catalog: Catalog, listed: Callable[[Sequence[str]], str], kind: str
) -> Iterator[str]:
    """What makes a view of captures, or a table, where there are any; see `ViewedTable.source`."""
    if catalog.snapshot.captures is None:
        return
    file = listed([_pattern(catalog, catalog.snapshot.captures)])
    name = f"main.{SPAM_CAPTURES}"
    yield (
        f"create {kind} {name} as from read_duckdb({file}, hive_partitioning = false, "
        "table_name = 'captures')"
    )
    yield f"comment on {kind} {name} is {quote_text(_CAPTURES_MEANING)}"
