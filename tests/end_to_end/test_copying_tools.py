"""Programs that copy a whole archive by the links of its pages, and know nothing of Strata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import httpx2
import pytest

from pipelines.site.site import Site
from tests.api.server_kit import serving, settings
from tests.page_kit import Page
from tests.rclone_kit import rclone_copy
from tests.shared_folders import published_sample
from tests.web_kit import web_server
from transforms.stores.store import SCRATCH


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return published_sample(tmp_path_factory.mktemp("site"))


@pytest.fixture(params=["a web server that lists folders", "strata serve"])
def address(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the archive is served."""
    if request.param == "strata serve":
        with serving(settings(site.settings)) as served:
            yield f"{served.url}/archive/"
    else:
        with web_server(Path(site.settings.archive), ranges=False) as url:
            yield f"{url}/"


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path): (folder / path).read_bytes() for path in paths if path.parts[0] != SCRATCH}


def test_rclone_copies_every_file(site: Site, address: str, tmp_path: Path) -> None:
    rclone_copy(address, tmp_path)

    assert _files(tmp_path) == _files(Path(site.settings.archive))


def test_links_to_files_lead_to_every_file(site: Site, address: str) -> None:
    """As `wget --mirror --reject-regex '/$'` follows them."""
    pending, found = [f"{address}index.html"], dict[str, bytes]()
    with httpx2.Client() as client:
        while pending:
            url = pending.pop()
            answer = client.get(url)
            assert answer.status_code == 200, url
            found[url.removeprefix(address)] = answer.content
            if url.endswith(".html"):
                links = {urljoin(url, urldefrag(link)[0]) for link in Page(answer.content).links}
                new = {link for link in links if not link.endswith("/")}
                known = {*found, *(link.removeprefix(address) for link in pending)}
                pending += [link for link in new if link.removeprefix(address) not in known]

    assert found == _files(Path(site.settings.archive))
