"""schema.json and schema.html: whole, and linked to each other."""

from __future__ import annotations

import json

from exporters.archive.json_text import check_document
from exporters.archive.schema_documents import schema_json, schema_page
from tests.page_kit import Page
from transforms.tables.reference import schema_reference


def test_the_page_has_every_table_and_its_links_lead_somewhere() -> None:
    page = Page(schema_page("a-chain"))
    assert {value for name, value in page.attributes if name == "id"} == set(schema_reference())
    inside = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert inside == set(schema_reference())
    assert {"index.html", "schema.json"} <= set(page.links)


def test_the_document_has_every_column_and_its_meaning() -> None:
    document = schema_json("a-chain")
    check_document(document, "schema.json")
    tables = json.loads(document)["tables"]
    assert {table["name"] for table in tables} == set(schema_reference())
    for table in tables:
        columns = schema_reference()[table["name"]].columns
        told = [(column["name"], column["meaning"]) for column in table["columns"]]
        assert told == [(column.name, column.meaning) for column in columns]
