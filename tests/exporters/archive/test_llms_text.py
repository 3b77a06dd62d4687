"""`llms.txt`: all that is published is in it, and its queries are those that the cookbook tests."""

from __future__ import annotations

import re
from pathlib import Path

from exporters.archive.archive import Archive
from exporters.archive.llms_text import llms_txt
from exporters.publishing.publication import publish_zips
from tests.archive_kit import CHAIN, segment_requests
from tests.page_kit import Page
from transforms.stores.folder_store import FolderStore
from transforms.tables.reference import schema_reference

ADDRESS = "https://example.org/archive/net-1"
QUERY = re.compile(r"^### (.*?)$[^#]*?^```sql$\n(.*?)^```$", re.S | re.M)
COOKBOOK = Path(__file__).parents[3] / "docs" / "cookbook.md"
TEXT = llms_txt("net-1", ADDRESS).decode()


def test_it_has_every_table_and_each_column_of_the_published_ones() -> None:
    sections = {part.partition("\n")[0]: part for part in TEXT.split("\n### ")}
    for table in schema_reference().values():
        assert table.meaning in TEXT
        if table.exported:
            for column in table.columns:
                (line,) = re.findall(rf"^- {column.name} .*$", sections[table.name], re.M)
                assert column.type in line
                assert column.meaning in line
                assert f"({column.unit}" in line or not column.unit
                assert line.endswith(f"-> {column.target}") or not column.target
        else:
            assert f"\n- {table.name}: {table.meaning}\n" in TEXT


def test_its_ten_queries_are_the_cookbooks() -> None:
    queries = dict(QUERY.findall(TEXT.partition("## Queries")[2]))
    assert len(queries) == 10
    cookbook = dict(QUERY.findall(COOKBOOK.read_text("utf-8")))
    assert queries == {title: cookbook[title] for title in queries}


def test_nothing_in_it_is_escaped_and_a_model_can_take_it_whole() -> None:
    assert not re.findall(r"&(amp|lt|gt|quot|#\d+);", TEXT)
    assert len(TEXT) < 60_000
    assert f"attach '{ADDRESS}/strata.duckdb' as vega (read_only);" in TEXT
    assert "strata fetch https://example.org/archive --chain net-1 --table orders" in TEXT


def test_every_document_that_it_names_is_there(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 1000))
    text = (archive.read("llms.txt") or b"").decode()
    links = re.findall(rf"\]\(https://<host>/archive/{CHAIN}/(.*?)\)", text)
    assert {path for path in links if archive.read(path) is None} == {"revisions.json"}
    assert "llms.txt" in Page(archive.read("index.html") or b"").links
    assert b"  llms.txt\n" in (archive.read("SHA256SUMS") or b"")
