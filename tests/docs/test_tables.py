"""docs/tables and the Data Package: never stale, and right about real tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from exporters.archive.schema_documents import schema_json
from pipelines.site.site import Site
from tests.docs.tables import FOLDER, pages
from transforms.tables.reference import schema_reference
from transforms.tables.registry import HISTORY_TABLES

_FRICTIONLESS = Path(sys.prefix) / "frictionless"
_VALIDATE = """
import json, sys
from frictionless import Package, Resource, Schema, system
package = Package(sys.argv[1])
answers = {"fields": {one.name: one.schema.field_names for one in package.resources}}
for path, table in json.loads(sys.argv[2]).items():
    with system.use_context(trusted=True):
        report = Resource(path=path, schema=package.get_resource(table).schema).validate()
    answers[path] = {"errors": report.flatten(["fieldName", "note"])[:5]}
print(json.dumps(answers))
"""


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
        (table.name, column.label)
        for table in reference.values()
        for column in table.columns
        if column.label and (table.name, column.name) in found
    }
    assert len(labels) > 20
    assert labels <= set(found)


def test_the_data_package_reads_the_published_csvs(sample_site: Site, tmp_path: Path) -> None:
    """Of both schema versions of the sample, with a program that knows the standard."""
    members: dict[str, str] = {}
    for table in HISTORY_TABLES:
        export = sample_site.export(table, 1, 7000, pytest.fail)
        export.layout.write(tmp_path / "export.zip")
        with zipfile.ZipFile(tmp_path / "export.zip") as archive:
            archive.extractall(tmp_path)
            members |= dict.fromkeys(archive.namelist(), table)
    assert len(members) > len(HISTORY_TABLES)  # where columns differ, each version has a CSV
    answers = _frictionless(tmp_path, members)
    for table, reference in schema_reference().items():
        assert answers["fields"][table] == [column.name for column in reference.columns]
    assert {name: answers[name]["errors"] for name in members} == {name: [] for name in members}


def _frictionless(folder: Path, members: dict[str, str]) -> Any:
    if not _FRICTIONLESS.exists():
        pytest.fail(f"{_FRICTIONLESS} is not there: make unit installs it")
    (folder / "schema.json").write_bytes(schema_json("sample-chain-001"))
    run = subprocess.run(
        [sys.executable, "-c", _VALIDATE, "schema.json", json.dumps(members)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_FRICTIONLESS)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)
