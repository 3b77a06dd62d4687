"""The commands of a chain's page, which people copy: they work as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import httpx2
import pytest

from exporters.archive.archive import Archive
from exporters.archive.sound_documents import sound_address
from pipelines.site.lake_publishing import publish_missing
from pipelines.site.publishing import publish_segments
from pipelines.site.site import Site
from pipelines.site.site_check import verify_site
from tests.api.server_kit import serving, settings
from tests.minisign_kit import PUBLIC_KEY, SECRET_KEY, minisign
from tests.page_kit import Page
from tests.pipelines.kit import load, make_segment, site_settings
from transforms.stores.folder_store import FolderStore


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str, str]]:
    """A site, the URL of the server that shows it, and the id of its chain."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "secret.key").write_text(SECRET_KEY)
    places = replace(site_settings(folder), lake=True, signing_key=folder / "secret.key")
    for number in range(2):
        make_segment(places, number)
    load(Site(places))
    chain_id = Site(places).loaded_catalog().snapshot.chain_id
    with serving(settings(places)) as served:
        site = Site(replace(places, public_url=f"{served.url}/archive"))
        publish_segments(site, site.loaded_catalog().blocks)
        assert not publish_missing(site)
        yield site, served.url, chain_id


def commands(page: bytes, start: str) -> list[str]:
    """The commands of a page that begin so."""
    (block,) = re.findall('<h2 id="commands">.*?<pre>(.*?)</pre>', page.decode(), re.S)
    return [line for line in unescape(block).splitlines() if line.startswith(start)]


def run(command: str, folder: Path) -> str:
    """What a command says, run by a shell as it stands."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def pages(published: tuple[Site, str, str]) -> Iterator[bytes]:
    """The page as it was published, and as the server shows it."""
    _, url, chain_id = published
    for path in (f"archive/{chain_id}/index.html", "archive"):
        answer = httpx2.get(f"{url}/{path}", follow_redirects=True)
        assert answer.status_code == 200
        yield answer.content


def test_the_commands_of_both_pages_have_the_real_address_and_work(
    published: tuple[Site, str, str], tmp_path: Path
) -> None:
    site, url, chain_id = published
    for number, page in enumerate(pages(published)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (fetch,) = commands(page, "strata fetch")
        run(fetch, folder)
        (archive_file,) = (folder / "got").glob("*.zip")
        run(f"sha256sum -c {archive_file.name}.sha256", folder / "got")
        (attach,) = commands(page, "duckdb")
        (database,) = re.findall("attach '(.*?)'", attach)
        assert httpx2.get(database).content == site.archive(chain_id).read("strata.duckdb")
        assert database == f"{url}/archive/{chain_id}/strata.duckdb"
        (documents,) = commands(page, "sha256sum -c SHA256SUMS")
        (shard,) = commands(page, "sha256sum -c index/")
        for check in (documents, shard):
            assert "OK" in run(check, Path(site.settings.archive, chain_id))
        assert Page(page).text.count("1.0795E+21") == 1


def test_the_signature_is_verified_as_the_page_says(
    published: tuple[Site, str, str], tmp_path: Path
) -> None:
    minisign("-v")
    for page in pages(published):
        (verify,) = commands(page, "curl -fO")
        assert "verified" in run(verify.replace("<key>", PUBLIC_KEY), tmp_path)


def test_what_has_the_address_follows_from_what_is_published(
    published: tuple[Site, str, str],
) -> None:
    assert list(verify_site(published[0])) == []


def test_without_a_right_strata_sql_nobody_knows_the_address(
    published: tuple[Site, str, str], tmp_path: Path
) -> None:
    site, url, chain_id = published
    whole = site.archive(chain_id).read("strata.sql") or b""
    archive = Archive(FolderStore(tmp_path / "copy"), chain_id)
    assert sound_address(archive) == ""
    for data, address in ((whole, f"{url}/archive/{chain_id}"), (whole[:-1], "")):
        archive.store.put_if_match(archive.key("strata.sql"), data, version(archive), "")
        assert sound_address(archive) == address


def version(archive: Archive) -> str | None:
    info = archive.store.head(archive.key("strata.sql"))
    return info.version if info else None
