"""The published archive over HTTP: its files as they lie, and its page."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode, urljoin

import httpx2
import pytest

from exporters.locations import Locations
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN, FIRST, SECOND, THIRD, Site
from tests.s3_kit import bucket_server
from transforms.block_range import BlockRange
from transforms.stores.s3 import S3Store
from transforms.stores.store import content_sha256

_ORDERS = f"/archive/{CHAIN}/orders"

_ODD = [
    "nope",
    CHAIN,
    f"{CHAIN}/orders",
    f"{CHAIN}/nothing/",
    f"{CHAIN}/index.json/",
    ".strata-scratch/lock",
    "..%2F..%2Fetc%2Fpasswd",
    f"{CHAIN}/..%2Fchains.json",
    f"{CHAIN}//index.json",
    "%00",
    "a%00b",
    "a" * 256,
    "%C3%A9" * 200,
    f"{CHAIN}/{'a' * 300}/orders.zip",
    "/".join(["a" * 200] * 30),
    "a" * 5000,
    "a%0Ab",
    "%5C",
    "%3F",
    "%FF%FE",
    "+",
    "*",
    "~",
    "%2e%2e/%2e%2e/etc/passwd",
    f"{CHAIN}/%2e/index.json",
]
"""What of an archive is no file."""


@pytest.fixture
def client(served: Served) -> Iterator[httpx2.Client]:
    with served.client() as found:
        yield found


def test_every_published_file_is_served_as_it_lies(
    client: httpx2.Client, built_site: Site, tmp_path: Path
) -> None:
    types = {
        ".zip": "application/zip",
        ".json": "application/json",
        ".html": "text/html; charset=utf-8",
        ".sha256": "text/plain; charset=utf-8",
    }
    root = built_site.root / "archive"
    paths = [path for path in root.rglob("*.*") if path.suffix in types]
    assert len(paths) > 60
    for path in paths:
        answer = client.get(f"/archive/{path.relative_to(root)}")
        assert answer.status_code == 200
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == types[path.suffix]
        copy = tmp_path / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(answer.content)
    for sums in tmp_path.glob("*/orders/*.sha256"):
        subprocess.run(["sha256sum", "-c", sums.name], cwd=sums.parent, check=True)


def test_files_have_tags_and_ranges(client: httpx2.Client) -> None:
    path = f"{_ORDERS}/{CHAIN}-orders-1-20.zip"
    whole = client.get(path)
    tag = whole.headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304
    part = client.get(path, headers={"Range": "bytes=10-19", "If-Range": tag})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


def test_a_published_zip_and_the_download_of_its_range_are_equal(client: httpx2.Client) -> None:
    export = "/api/v2/networkhistory/export?fromBlock=1&toBlock=20&table=TABLE_ORDERS"
    published = client.get(f"{_ORDERS}/{CHAIN}-orders-1-20.zip")
    assert published.content == client.get(export).content


@pytest.mark.parametrize("path", _ODD)
def test_what_is_no_file_of_the_archive_is_not_found(client: httpx2.Client, path: str) -> None:
    answer = client.get(f"/archive/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, 5)


def _guard(answer: httpx2.Response) -> tuple[str, str]:
    headers = answer.headers
    return headers["content-security-policy"], headers["x-content-type-options"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        f"{CHAIN}/orders/{CHAIN}-orders-1-20.zip",
        f"{CHAIN}/orders/{CHAIN}-orders-1-20.zip.sha256",
        f"{CHAIN}/index.json",
        f"{CHAIN}/index.html",
        f"{CHAIN}/",
        "nope",
    ],
)
def test_nothing_of_the_archive_runs_or_is_taken_for_what_it_is_not(
    client: httpx2.Client, path: str, method: str
) -> None:
    answer = client.request(method, f"/archive/{path}")
    policy, sniffing = _guard(answer)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert sniffing == "nosniff"
    if "etag" in answer.headers:
        known = {"If-None-Match": answer.headers["etag"]}
        again = client.request(method, f"/archive/{path}", headers=known)
        assert (again.status_code, _guard(again)) == (304, (policy, sniffing))


def test_the_archives_pages_need_nothing_that_their_policy_forbids(built_site: Site) -> None:
    pages = [*(built_site.root / "archive").rglob("*.html")]
    assert pages
    for path in pages:
        text = path.read_text()
        assert not re.search(r"<script|<iframe|<form|<object|<base|\son\w+=|url\(", text), path


def test_links_are_followed_inside_the_archive_and_never_out_of_it(
    site: Site, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "index.html").write_text("secret")
    root = site.root / "archive"
    (root / "out.json").symlink_to(secret / "index.html")
    (root / "outside").symlink_to(secret)
    (root / "twice.json").symlink_to("out.json")
    (root / "gone.json").symlink_to("nothing")
    (root / "in.json").symlink_to(f"{CHAIN}/index.json")
    (root / "inside").symlink_to(CHAIN)
    elsewhere = tmp_path / "archive"  # a link to the archive itself is how it is named
    elsewhere.symlink_to(root)
    locations = replace(site.locations, archive=str(elsewhere))
    with serving(settings(locations)) as served, served.client() as client:
        for path in ("out.json", "outside/index.html", "outside/", "twice.json", "gone.json"):
            assert client.get(f"/archive/{path}").status_code == 404, path
        index = (root / CHAIN / "index.json").read_bytes()
        for path in ("in.json", "inside/index.json", f"{CHAIN}/index.json"):
            assert client.get(f"/archive/{path}").content == index, path


def test_names_with_a_dot_in_front_are_none_of_the_archive(site: Site) -> None:
    root = site.root / "archive"
    (root / CHAIN / ".git").mkdir()
    for path in (".env", f"{CHAIN}/.htpasswd", f"{CHAIN}/.git/config", f"{CHAIN}/.git/index.html"):
        (root / path).write_text("secret")
    with serving(settings(site.locations)) as served, served.client() as client:
        for path in (".env", f"{CHAIN}/.htpasswd", f"{CHAIN}/.git/config", f"{CHAIN}/.git/"):
            assert client.get(f"/archive/{path}").status_code == 404, path


def test_a_folder_shows_its_page(client: httpx2.Client) -> None:
    page = client.get(f"/archive/{CHAIN}/")
    assert page.content == client.get(f"/archive/{CHAIN}/index.html").content


def test_a_folder_without_a_page_is_listed_up_to_a_bound(site: Site) -> None:
    folder = site.root / "archive" / CHAIN / "orders"
    (folder / ".hidden").write_text("secret")
    (folder / "more").mkdir()
    (folder / "more" / "a b&c.txt").write_text("text")
    names = {path.name for path in folder.glob("*.*")} - {".hidden"}
    with serving(settings(site.locations)) as served, served.client() as client:
        assert _Page(client.get(f"/archive/{CHAIN}/orders/")).links == {*names, "more/"}
        below = _Page(client.get(f"/archive/{CHAIN}/orders/more/"))
        assert (below.links, "a b&c.txt" in below.text) == ({"a%20b%26c.txt"}, True)
        for number in range(10_000):
            (folder / "more" / str(number)).touch()
        for path in ("orders/more/", "orders/"):
            assert client.get(f"/archive/{CHAIN}/{path}").status_code == 404


def test_an_archive_in_a_bucket_is_served_alike(
    built_site: Site, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = built_site.root / "archive"
    with bucket_server() as server, server.store() as store:
        for path in folder.rglob("*.*"):
            if path.is_file() and ".strata-scratch" not in path.parts:
                _upload(store, path, str(path.relative_to(folder)))
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        locations = Locations(
            source="", warehouse=str(built_site.warehouse.cache), archive=store.describe()
        )
        with serving(settings(locations)) as served, served.client() as bucket:
            published = f"{_ORDERS}/{CHAIN}-orders-1-20.zip"
            export = "/api/v2/networkhistory/export?fromBlock=1&toBlock=50&table=5"
            for asked in (published, export, f"/archive/{CHAIN}/index.json"):
                assert bucket.get(asked).content == client.get(asked).content, asked
            # A page names the server's own address.
            here, there = (each.base_url.netloc.decode() for each in (client, bucket))
            assert bucket.get("/").text.replace(there, here) == client.get("/").text
            part = bucket.get(published, headers={"Range": "bytes=5-9"})
            assert part.content == client.get(published).content[5:10]
            for odd in _ODD:
                answer = bucket.get(f"/archive/{odd}")
                assert (answer.status_code, answer.json()["code"]) == (404, 5), odd
            served.service.store.close()  # type: ignore[attr-defined]


def _upload(store: S3Store, path: Path, key: str) -> None:
    kind = "application/octet-stream"
    store.put_if_absent(key, path, content_type=kind, sha256=content_sha256(path), immutable=False)


# The page


class _Page(HTMLParser):
    """What of a page a test looks at."""

    def __init__(self, answer: httpx2.Response) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, *names: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag in names]

    @property
    def links(self) -> set[str]:
        links = self.all("a", "link", "script")
        return {item.get("href") or item.get("src", "") for item in links}


@pytest.mark.parametrize(
    "path", ["/", "/archive", "/archive/", "/docs", f"/archive/{CHAIN}/index.html"]
)
def test_every_link_of_a_page_leads_somewhere(client: httpx2.Client, path: str) -> None:
    links = {link for link in _Page(client.get(path)).links if not link.startswith("#")}
    assert links
    for link in links:
        assert client.get(urljoin(path, link)).status_code == 200, link


def test_the_page_loads_nothing_from_elsewhere(client: httpx2.Client) -> None:
    for path in ("/", "/docs"):
        answer = client.get(path)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "http" not in "".join(_Page(answer).links)
        for attributes in _Page(answer).all("script", "style"):
            assert attributes.get("src", "").startswith("./static/")


def test_the_form_alone_downloads_a_range(client: httpx2.Client) -> None:
    page = _Page(client.get("/"))
    action = page.all("form")[0]["action"]
    fields = {item["name"]: item["value"] for item in page.all("input") if item.get("list")}
    assert fields == {"fromBlock": "41", "toBlock": "50"}
    tables = [item["value"] for item in page.all("option") if "TABLE" in item["value"]]
    assert len(tables) == 15
    answer = client.get(f"/{action}?{urlencode({'table': tables[0], **fields})}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    choices = [item["value"] for item in page.all("option") if "TABLE" not in item["value"]]
    assert choices == ["41", "21", "1", "50", "40", "20"]


def test_the_page_is_the_published_one_with_what_is_loaded_only(
    client: httpx2.Client, built_site: Site
) -> None:
    page, published = _Page(client.get("/")), _Page(client.get(f"/archive/{CHAIN}/index.html"))
    links = {urljoin("/", link) for link in page.links}
    theirs = {urljoin(f"/archive/{CHAIN}/index.html", link) for link in published.links}
    assert theirs <= links
    words = published.text[published.text.index("Complete until") : published.text.index("Tables")]
    assert words in page.text
    assert f"are loaded, blocks {FIRST.first} to {THIRD.last}." in page.text
    assert f"not published yet: {THIRD.first} to {THIRD.last}." in page.text
    assert page.text.count(f"{THIRD.first} to {THIRD.last}") == 2
    assert "loaded only" in page.text
    assert "loaded only" not in published.text
    assert "No segment holds" not in page.text


def test_the_page_shows_what_is_missing(site: Site) -> None:
    site.add_segment(BlockRange(61, 70), orders=1)
    site.load()
    with serving(settings(site.locations)) as served, served.client() as client:
        answer = client.get("/")
    assert "No segment holds blocks 51 to 60." in _Page(answer).text
    assert 'class="gap"' in answer.text


def test_of_many_segments_the_newest_are_listed_and_offered(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for first in range(1, 301, 10):
        site.add_segment(BlockRange(first, first + 9), orders=1)
    site.load()
    with serving(settings(site.locations)) as served, served.client() as client:
        page = _Page(client.get("/"))
        assert "30 segments are loaded, blocks 1 to 300." in page.text
        assert re.findall(r"^(\d+) to \d+1", page.text, re.MULTILINE) == [
            str(first) for first in range(291, 50, -10)
        ]
        offered = [item["value"] for item in page.all("option") if "TABLE" not in item["value"]]
        assert offered[:25] == [str(first) for first in range(291, 50, -10)]
        for link in page.links:
            assert client.get(urljoin("/", link)).status_code == 200, link


def test_a_static_file_is_not_sent_twice(client: httpx2.Client) -> None:
    first = client.get("/static/site.css")
    again = client.get("/static/site.css", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert client.get("/static/nope.css").status_code == 404


def test_the_index_is_json_that_names_every_file(client: httpx2.Client) -> None:
    index = client.get(f"/archive/{CHAIN}/index.json")
    assert index.json()["complete_until"] == SECOND.last
    shard = json.loads(client.get(f"/archive/{CHAIN}/{index.json()['shards'][0]['path']}").content)
    for entry in shard["zips"]:
        found = client.get(f"/archive/{CHAIN}/{entry['path']}")
        assert hashlib.sha256(found.content).hexdigest() == entry["sha256"]
