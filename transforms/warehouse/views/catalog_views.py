"""The views of `current.duckdb`, which name files by absolute path: it opens from any directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from transforms.duck import quote_text
from transforms.objects import StoredFile
from transforms.quoting import file_pattern
from transforms.warehouse.files.catalog import SPAM_CAPTURES, Catalog
from transforms.warehouse.manifests.data_files import ALL_TABLES
from transforms.warehouse.manifests.shapes import Shape, Volume
from transforms.warehouse.views.table_views import ViewedTable, Views, absent_names


def catalog_views(catalog: Catalog) -> Views:
    """All views of a snapshot, whose files are on this machine."""

    @cache
    def pattern(file: StoredFile) -> str:
        return file_pattern(catalog.files.path(file))

    by_name, tables = _volumes(catalog), []
    for name, volumes in by_name.items():
        data = (
            (volume, volume.data.get(name) or volume.data.get(ALL_TABLES)) for volume in volumes
        )
        files = [(pattern(file), volume.shapes[name].columns) for volume, file in data if file]
        as_of = volumes[-1].blocks if volumes[-1].kind == "state" else None
        tables.append(ViewedTable(name, _merged(name, volumes), files, as_of))
    manifests = [pattern(volume.file) for volume in catalog.history()]
    views = Views.of(tables, manifests, absent_names(by_name))
    snapshot = catalog.snapshot
    views.states.append(
        "create or replace table strata.snapshot as select "
        f"{quote_text(catalog.chain_id)} as chain_id, {snapshot.number}::bigint as snapshot, "
        f"{quote_text(catalog.files.folder)} as warehouse"
    )
    if captures := snapshot.captures:
        views.fixed += _capture_views(views.listed([pattern(captures)]))
    return views


def view_names(catalog: Catalog) -> list[str]:
    """The names of the views in `main`, sorted."""
    tables = _volumes(catalog)
    captures = () if catalog.snapshot.captures is None else (SPAM_CAPTURES,)
    return sorted({*tables, *absent_names(tables), *captures})


def table_shapes(catalog: Catalog) -> dict[str, Shape]:
    """The shapes of all tables, by name."""
    return {name: _merged(name, volumes) for name, volumes in _volumes(catalog).items()}


def _volumes(catalog: Catalog) -> dict[str, list[Volume]]:
    """The volumes that have the rows of each table, ascending, by its name.

    A table that a later schema version turned into history keeps its last whole copy, which has the
    rows from before; otherwise only the newest copy counts.
    """
    history, states = catalog.history(), catalog.states()
    tables: dict[str, list[Volume]] = {}
    for name in sorted({table for volume in (*history, *states) for table in volume.shapes}):
        parts = [volume for volume in history if name in volume.shapes]
        copies = [volume for volume in states if name in volume.shapes]
        older = [copy for copy in copies if not parts or copy.version < parts[-1].version]
        tables[name] = [*older[-1:], *parts]
    return tables


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


def _capture_views(file: str) -> Iterator[str]:
    for view, table, text in (
        (
            f"main.{SPAM_CAPTURES}",
            "captures",
            "What a core node said of each party's spam counters, newest.",
        ),
        ("strata.refused_captures", "refused_lines", "Lines that are no captures, and why."),
    ):
        yield (
            f"create view {view} as from read_duckdb({file}, "
            f"hive_partitioning = false, table_name = '{table}')"
        )
        yield f"comment on view {view} is {quote_text(text)}"
