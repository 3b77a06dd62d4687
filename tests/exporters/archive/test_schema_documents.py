"""schema.json and schema.html: whole, valid by the standard, and linked to each other."""

from __future__ import annotations

import json

import pytest

from exporters.archive.json_text import proven_text
from exporters.archive.schema_documents import schema_json, schema_page
from tests.page_kit import Page
from transforms.tables.reference import schema_reference
from transforms.tables.registry import HISTORY_TABLES


def test_the_page_has_every_table_and_its_links_lead_somewhere() -> None:
    page = Page(schema_page("a-chain"))
    assert {value for name, value in page.attributes if name == "id"} == set(schema_reference())
    inside = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert inside == set(schema_reference())
    assert {"index.html", "schema.json"} <= set(page.links)


def test_the_document_has_every_column_and_names_only_what_lies_below_it() -> None:
    document = schema_json("a-chain")
    package = json.loads(document)
    assert proven_text(document, "schema.json") != document  # it is sealed
    assert {one["name"] for one in package["resources"]} == set(schema_reference())
    for resource in package["resources"]:
        columns = schema_reference()[resource["name"]].columns
        assert [field["name"] for field in resource["schema"]["fields"]] == [
            column.name for column in columns
        ]
        assert all(field["description"] for field in resource["schema"]["fields"])
        if resource["name"] in HISTORY_TABLES:
            assert resource["path"] == f"{resource['name']}/"
        else:
            assert resource["data"] == []


@pytest.mark.parametrize(
    ("chain_id", "name"), [("vega-mainnet-0011", "vega-mainnet-0011"), ("Ä b/C", "-b-c")]
)
def test_a_name_has_only_what_the_standard_allows(chain_id: str, name: str) -> None:
    package = json.loads(schema_json(chain_id))
    assert (package["name"], package["title"]) == (name, f"Network history of {chain_id}")
