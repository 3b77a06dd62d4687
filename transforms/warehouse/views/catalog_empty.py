"""Empty views of documented tables that no segment of a chain has, so that every query runs.

What their columns mean is not said in them: two thousand comments would take longer to write than
all other views of a small chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from transforms.duck import quote_name, quote_text
from transforms.tables.dialect import select_list
from transforms.tables.reference import TableReference, schema_reference
from transforms.tables.registry import fold_case
from transforms.warehouse.manifests.shapes import Shape
from transforms.warehouse.views.catalog_columns import typed_columns

_NOTE = "Empty: no segment that is shown here has this table."


def empty_views(there: Iterable[str]) -> Iterator[str]:
    """What makes `main.<table>` of each documented table that is not there."""
    for name in empty_names(there):
        yield from _views(name, schema_reference()[name])


def empty_names(there: Iterable[str]) -> list[str]:
    """The documented tables that are not there."""
    folded = set(map(fold_case, there))
    return [name for name in schema_reference() if fold_case(name) not in folded]


def _views(name: str, table: TableReference) -> Iterator[str]:
    typed = typed_columns(
        name, Shape({column.name: column.source_type for column in table.columns})
    )
    values = select_list([(f"null::{column.type}", column.name) for column in typed])
    view = f"main.{quote_name(name)}"
    yield f"create view {view} as select {values} where false"
    yield f"comment on view {view} is {quote_text(f'{table.meaning} {_NOTE}')}"
