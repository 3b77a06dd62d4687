"""The pages: what they say, that they escape, that their links lead somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import pytest
from jinja2 import UndefinedError

from exporters.archive.archive import Archive
from exporters.archive.documents import refresh
from exporters.archive.entries import Entry
from exporters.archive.index import ArchiveIndex, ShardSummary
from exporters.archive.page import chain_page, home_page, shard_page
from exporters.archive.revisions import Revision, record
from exporters.archive.shards import Shard
from exporters.archive.sums import TableSums
from exporters.archive.templating import render
from exporters.publishing.publication import publish_zips
from exporters.signing_keys import Signer
from tests.archive_kit import CHAIN, THREE, contents, copied_archive, segment_requests, shard_file
from tests.minisign_kit import SECRET_KEY
from tests.page_kit import HOSTILE, Page
from transforms.block_range import BlockRange
from transforms.stores.folder_store import FolderStore
from transforms.tables.registry import HISTORY_TABLES

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    archive = Archive(FolderStore(folder / "store"), CHAIN)
    publish_zips(archive, segment_requests(folder, 1, 1000))
    publish_zips(archive, segment_requests(folder, 1001, 1087, THREE))
    publish_zips(archive, segment_requests(folder, 20001, 21000))
    return folder / "store"


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    return copied_archive(model, tmp_path)


def page(archive: Archive, path: str) -> Page:
    return Page(archive.read(path) or b"")


def test_every_link_leads_to_something_that_is_there(archive: Archive) -> None:
    record(archive, Revision("orders/net-1-orders-1-1000.zip", "aa", "bb", "why", NOON))
    refresh(archive, [0])
    held = contents(archive.store)
    folders = {str(folder) for key in held for folder in Path(key).parents}
    assert b"revisions.json" in held[f"{CHAIN}/index.html"]
    pages = [key for key in held if key.endswith(".html")]
    assert len(pages) == 5
    for key in pages:
        parsed = Page(held[key])
        assert len(parsed.links) > 0
        for link in parsed.links:
            path, _, fragment = link.partition("#")
            assert not path.startswith(("/", "http")), link
            target = Path(key).parent / unquote(path) if path else Path(key)
            resolved = Path("/", target).resolve().relative_to("/").as_posix()
            assert resolved in (folders if path.endswith("/") else held), (key, link)
            assert not fragment or f'id="{fragment}"'.encode() in held[resolved]


def test_links_lead_to_every_file_without_a_list_of_a_folder(
    archive: Archive, tmp_path: Path
) -> None:
    record(archive, Revision("orders/net-1-orders-1-1000.zip", "aa", "bb", "why", NOON))
    (tmp_path / "key").write_text(SECRET_KEY)
    signed = replace(archive, signer=Signer(tmp_path / "key"))
    for publisher in (signed, archive):  # whoever has the key or not
        refresh(publisher, [0, 1])
        held, found = contents(archive.store), {"index.html"}
        pages = ["index.html"]
        while pages:
            key = pages.pop()
            links = [link.partition("#")[0] for link in Page(held[key]).links]
            files = {link for link in links if link and not link.endswith("/")}
            new = {os.path.normpath(Path(key).parent / unquote(link)) for link in files} - found
            found |= new
            pages += [path for path in new if path.endswith(".html")]
        assert f"{CHAIN}/SHA256SUMS.minisig" in found
        assert found == {*held}


def test_no_page_needs_a_script_or_anything_from_elsewhere(archive: Archive) -> None:
    for key, data in contents(archive.store).items():
        if key.endswith(".html"):
            assert not {"script", "iframe", "img", "link"} & set(Page(data).elements)
            assert b"url(" not in data
            assert b'name="viewport"' in data


def test_on_a_telephone_every_table_has_a_line_for_each_cell(archive: Archive) -> None:
    for key, data in contents(archive.store).items():
        if key.endswith(".html"):
            assert data.count(b"<table") == data.count(b'<table class="stacked"'), key


def test_the_chain_page_says_how_far_it_goes_and_what_is_missing(archive: Archive) -> None:
    text = page(archive, "index.html").text
    assert "Complete until block1,000" in text
    assert "1 to 21,000" in text
    assert "At least one table is missing for blocks 1,001 to 20,000." in text
    assert f"{archive.index().shards[1].sha256}" in text


def test_a_shard_page_lists_every_zip_with_its_hash(archive: Archive) -> None:
    parsed = page(archive, "index/000000000.html")
    for entry in archive.shard(0).entries:
        assert f"../{entry.path}" in parsed.links
        assert f"../{entry.path}.sha256" in parsed.links
        assert entry.sha256 in parsed.text


def test_where_files_are_it_is_said_how_a_spreadsheet_keeps_their_digits(archive: Archive) -> None:
    for path in ("index.html", "index/000000000.html"):
        text = page(archive, path).text
        assert text.count("1.0795E+21") == text.count("with Text as the type of all columns") == 1


def test_a_long_history_lists_its_newest_shards_and_links_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporters.archive.page._NEWEST", 1)
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 1000, THREE))
    publish_zips(archive, segment_requests(tmp_path, 980_001, 981_000, THREE))
    top = page(archive, "index.html")
    older, newer = shard_file(archive), shard_file(archive, 49)
    assert {newer, "index/000980000.html", "index/000000000.html"} <= {*top.links}
    assert {older, "index/000000000.sha256", "index/000980000.sha256"} <= {*top.links}


def test_a_list_of_revisions_that_cannot_be_read_is_no_reason_to_write_no_page(
    archive: Archive,
) -> None:
    archive.store.put_if_match(f"{CHAIN}/revisions.json", b"{", None, "")
    refresh(archive, [0])
    assert "is damaged and cannot be shown" in page(archive, "index.html").text


def test_the_home_page_lists_the_chains(archive: Archive) -> None:
    parsed = Page(archive.store.read("index.html"))
    assert parsed.links == [f"{CHAIN}/index.html", "index.html", "chains.json", f"{CHAIN}/"]
    assert "1,000" in parsed.text


@pytest.mark.parametrize(
    ("segments", "sentence"),
    [
        ([], "Nothing is published yet."),
        ([(1, 9)], "there are no gaps."),
        ([(1, 9), (20, 29)], "What is missing after it is listed below."),
    ],
)
def test_the_page_puts_completeness_into_words(
    tmp_path: Path, segments: list[tuple[int, int]], sentence: str
) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    for blocks in segments:
        publish_zips(archive, segment_requests(tmp_path, *blocks))
    assert sentence in Page(chain_page(archive.index(), ())).text


def test_a_first_block_without_all_tables_is_said_to_be_incomplete(tmp_path: Path) -> None:
    archive = Archive(FolderStore(tmp_path / "store"), CHAIN)
    publish_zips(archive, segment_requests(tmp_path, 1, 9, THREE))
    text = page(archive, "index.html").text
    assert "Complete until blocknot yet" in text
    assert "The first blocks are not complete yet" in text


def test_everything_is_escaped(archive: Archive) -> None:
    entry = archive.shard(0).entries[0]
    hostile: Entry = replace(entry, table=HOSTILE, path=f"{HOSTILE}/x.zip", sha256=HOSTILE)
    shard = Shard(HOSTILE, 0, (hostile,))
    index = ArchiveIndex(HOSTILE).including([ShardSummary.of(shard, b"")])
    replaced = Revision(f"{HOSTILE}/x.zip", HOSTILE, HOSTILE, HOSTILE, NOON)
    for data in (home_page([index]), chain_page(index, [replaced]), shard_page(shard)):
        parsed = Page(data)
        assert "script" not in parsed.elements
        assert HOSTILE in parsed.text


def test_thousands_of_gaps_make_a_page_that_still_loads() -> None:
    runs = tuple(BlockRange(start, start + 4) for start in range(0, 100_000, 10))
    sums = {"orders": TableSums(zips=9, covered=runs)}
    index = ArchiveIndex(CHAIN, {**ArchiveIndex(CHAIN).tables, **sums})
    data = chain_page(index, ())
    assert len(data) < 200_000
    assert Page(data).elements.count("rect") < 2_000


def test_of_many_gaps_the_first_are_listed_and_the_rest_counted() -> None:
    runs = tuple(BlockRange(start, start + 4) for start in range(10, 3_010, 10))
    sums = dict.fromkeys(HISTORY_TABLES, TableSums(covered=runs))
    text = Page(chain_page(ArchiveIndex(CHAIN, sums), ())).text
    assert "missing for blocks 15 to 19, 25 to 29, " in text
    assert "2,005 to 2,009 and 99 more: see index.json." in text


def test_one_missing_block_in_millions_can_be_seen() -> None:
    runs = (BlockRange(1, 5_000_000), BlockRange(5_000_002, 9_000_000))
    sums = {"orders": TableSums(covered=runs)}
    index = ArchiveIndex(CHAIN, {**ArchiveIndex(CHAIN).tables, **sums})
    assert b'<rect class="gap" x="555" width="3" height="10">' in chain_page(index, ())


def test_text_is_escaped_in_attributes_and_in_addresses_too(archive: Archive) -> None:
    entry = replace(archive.shard(0).entries[0], table=HOSTILE, path=f"{HOSTILE}.zip")
    parsed = Page(shard_page(Shard(CHAIN, 0, (entry,))))
    assert ("id", HOSTILE) in parsed.attributes
    assert f"../{HOSTILE}.zip" in map(unquote, parsed.links)
    assert not {'"', "'", "<", "&"} & set("".join(parsed.links))


def test_the_same_index_gives_the_same_bytes_in_every_process(archive: Archive) -> None:
    code = (
        "import sys; from exporters.archive.index import parse_index; "
        "from exporters.archive.page import chain_page; "
        "sys.stdout.buffer.write(chain_page(parse_index(sys.stdin.buffer.read(), 'stdin'), ()))"
    )
    for seed in ("1", "2"):
        again = subprocess.run(
            [sys.executable, "-c", code],
            input=archive.read("index.json"),
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC+{seed}"},
            capture_output=True,
            check=True,
        )
        assert again.stdout == archive.read("index.html")


def test_a_template_that_names_what_it_was_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'chains' is undefined"):
        render("exporters.archive", "home.html")
