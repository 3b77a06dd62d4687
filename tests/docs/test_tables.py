"""docs/tables: never stale, and right about real tables."""

from __future__ import annotations

import duckdb

from pipelines.site.site import Site
from tests.docs.tables import FOLDER, pages
from transforms.tables.reference import schema_reference


def test_the_pages_are_those_that_make_docs_writes() -> None:
    stored = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}
    stale = sorted(name for name, text in pages().items() if stored.get(name) != text)
    assert not stale, "run `make docs`"
    assert set(stored) == set(pages())


def test_every_link_of_a_page_leads_to_a_page() -> None:
    texts = pages()
    for name, text in texts.items():
        for part in text.split("](")[1:]:
            link = part.partition(")")[0]
            assert link in texts or (FOLDER / link).exists(), f"{name}: {link}"


def test_the_types_are_those_of_the_typed_views(sample_site: Site) -> None:
    reference = schema_reference()
    with duckdb.connect(sample_site.warehouse.current, read_only=True) as con:
        rows = con.execute(
            "select table_name, column_name, data_type from duckdb_columns() "
            "where schema_name = 'main' and not starts_with(column_name, '_')"
        ).fetchall()
    found = {(table, column): kind for table, column, kind in rows if table in reference}
    said = {
        (table.name, column.name): column.type.replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
        for table in reference.values()
        for column in table.columns
    }
    assert len(found) > 400
    known = {place: kind for place, kind in found.items() if place in said}
    assert known == {place: said[place] for place in known}
    labels = {
        (table.name, f"{column.name}_name")
        for table in reference.values()
        for column in table.columns
        if column.values and (table.name, column.name) in found
    }
    assert len(labels) > 20
    assert labels <= set(found)
