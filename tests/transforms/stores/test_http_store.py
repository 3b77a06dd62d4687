"""A folder behind a web server, read as a store, while the web server and its network fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.fault_proxy import CUT_THE_ANSWER, RESET, FaultProxy, Request
from tests.ports import free_ports
from tests.web_kit import web_server
from transforms.errors import ConfigError
from transforms.machine_errors import sentence
from transforms.stores.http import HttpStore
from transforms.stores.store import S3Options
from transforms.stores.store_address import open_reader, open_store

CONTENT = bytes(range(256)) * 4000


_opened: list[HttpStore] = []


def opened(url: str) -> HttpStore:
    _opened.append(HttpStore(url))
    return _opened[-1]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores that soon give up, and that are closed in the end."""
    for name, value in (("SILENT_SECONDS", 5), ("RETRIES", 2)):
        monkeypatch.setattr(f"transforms.stores.http._{name}", value)
    yield
    while _opened:
        _opened.pop().close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "an object.zip").write_bytes(CONTENT)
    return tmp_path


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    with web_server(folder, ranges=request.param) as url:
        yield url


@pytest.fixture
def door(folder: Path) -> Iterator[FaultProxy]:
    """A proxy before a server with ranges."""
    with web_server(folder) as url:
        proxy = FaultProxy(url)
        yield proxy
        proxy.stop()


KEY = "below/an object.zip"


def test_an_object_and_parts_of_it_are_read_whether_or_not_the_server_knows_ranges(
    url: str, tmp_path: Path
) -> None:
    store = opened(url)
    assert store.read(KEY) == CONTENT
    assert store.read(KEY, 1000, 10) == CONTENT[1000:1010]
    assert store.read(KEY, len(CONTENT) - 5) == CONTENT[-5:]
    assert store.read(KEY, len(CONTENT)) == store.read(KEY, 5, 0) == b""
    body = store.open(KEY, 5)
    assert b"".join(body.pieces) == CONTENT[body.start :]
    assert body.size == len(CONTENT)
    store.fetch(KEY, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT
    store.close()


def test_what_is_not_there_is_that(url: str) -> None:
    store = opened(url)
    with pytest.raises(FileNotFoundError, match="There is no such object"):
        store.read("below/nothing")


def test_a_web_server_is_not_written_to_nor_listed(url: str) -> None:
    store = open_reader(url)
    with pytest.raises(ConfigError, match="is only read"):
        store.put_if_match("x", b"", None, "text/plain")
    with pytest.raises(ConfigError, match="is only read"):
        store.delete("x")
    with pytest.raises(ConfigError, match="cannot be listed"):
        next(iter(store.list()))


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("http://", "names no web server"),
        ("ftp://host/", "names no web server"),
        ("http://host/archive?key=1", r"has a \? or # in it"),
    ],
)
def test_an_address_that_is_none_is_said_to_be_none(address: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        opened(address)


def test_what_fails_for_now_is_asked_for_again(door: FaultProxy) -> None:
    door.faults = [("GET", "503 Busy"), ("GET", RESET)]
    assert opened(door.url).read(KEY) == CONTENT
    assert len(door.requests) == 3
    door.faults = [("GET", CUT_THE_ANSWER)]
    with pytest.raises(ConnectionError, match=r"no whole answer .* run it again"):
        opened(door.url).read(KEY)


@pytest.mark.parametrize(
    ("status", "error", "what"),
    [
        ("503 Busy", ConnectionError, "is not answered for now .503 Busy.: try again later"),
        ("429 Slow", ConnectionError, "try again later"),
        ("403 No", ConfigError, "is refused .403 No."),
        ("401 No", ConfigError, "is refused .401 No."),
        ("410 Gone", FileNotFoundError, "no such object"),
        ("418 Teapot", OSError, "is answered with 418 Teapot"),
        ("203 Changed", OSError, "203 Changed: a proxy has changed"),
        ("304 Unasked", OSError, "304 Unasked: a cache"),
        ("400 Bad", OSError, "400 Bad: see whether http or https"),
        ("407 Who", ConfigError, "the proxy for http://.* HTTP_PROXY=http://<user>:<password>@"),
    ],
)
def test_every_refusal_is_a_sentence(
    door: FaultProxy, status: str, error: type[Exception], what: str
) -> None:
    def refuse(_: Request) -> str:
        return status

    door.on_request = refuse
    with pytest.raises(error, match=what) as caught:
        opened(door.url).read(KEY)
    if isinstance(caught.value, OSError):
        assert "disk" not in sentence(caught.value)


@pytest.mark.parametrize(
    "later", ["2.5", "soon", "-3", "9" * 5000, "Wed, 21 Oct 99999 07:28:00 GMT"]
)
def test_a_retry_after_without_a_meaning_is_ignored(folder: Path, later: str) -> None:
    with web_server(folder) as to, _answering([], 503, b"", later=later, then=to) as url:
        assert opened(url).read(KEY) == CONTENT


def test_nobody_at_the_address_is_a_sentence() -> None:
    (port,) = free_ports(1)
    with pytest.raises(ConnectionError, match=r"no whole answer for http://127\.0\.0\.1"):
        opened(f"http://127.0.0.1:{port}").read(KEY)


def test_a_server_without_tls_is_no_https(url: str) -> None:
    with pytest.raises(ConfigError, match="certificate or its TLS is not accepted"):
        opened(url.replace("http:", "https:")).read(KEY)


def test_a_proxy_of_the_environment_is_asked(
    door: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    with _answering(heard, 200, b"by way of it") as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        assert opened("http://archive.test").read("x/y") == b"by way of it"
        assert heard == ["GET http://archive.test/x/y"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert opened(door.url).read(KEY) == CONTENT


@pytest.mark.parametrize("account", ["ann:s%20ecret@", ""])
def test_a_proxy_gets_its_password_and_asks_for_it_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    monkeypatch.setenv("no_proxy", "")
    heard: list[str] = []
    basic = " Basic YW5uOnMgZWNyZXQ=" if account else ""
    with _answering(heard, 407, b"") as url:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", url.replace("://", f"://{account}"))
            with pytest.raises(
                ConfigError, match=f"the proxy .* {scheme.upper()}_PROXY="
            ) as caught:
                opened(f"{scheme}://archive.test").read("x")
            assert "ecret" not in str(caught.value)
    assert heard == [f"GET http://archive.test/x{basic}", f"CONNECT archive.test:443{basic}"]


@pytest.mark.parametrize(
    "proxy", ["socks5://a:secret@h:1", "gopher://h", "a:secret@h:99999", "http://h:x", "http://"]
)
def test_a_variable_that_names_no_proxy_is_named(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("no_proxy", "none.test")
    monkeypatch.setenv("https_proxy", proxy)
    for opens in (opened, lambda url: open_store("s3://bucket/x", S3Options(endpoint=url))):
        with pytest.raises(ConfigError, match="HTTPS_PROXY names no proxy") as caught:
            opens("https://archive.test")
        assert "secret" not in str(caught.value)
        opens("http://archive.test")


def test_who_asks_is_said_to_the_server_and_to_nobody_else() -> None:
    heard: list[str] = []
    with _answering(heard, 200, b"here") as url:
        store = opened(url.replace("://", "://ann:s%20ecret@"))
        assert store.read("x") == b"here"
        assert heard == ["GET /x Basic YW5uOnMgZWNyZXQ="]
        assert store.describe("x") == f"{url}/x"


def test_redirects_are_followed_but_not_for_ever(folder: Path) -> None:
    with web_server(folder) as url, _answering([], 302, b"", f"{url}/below/an%20object.zip") as to:
        assert opened(to).read("x") == CONTENT
    with (
        _answering([], 302, b"", "/x") as url,
        pytest.raises(ConnectionError, match="no whole answer"),
    ):
        opened(url).read("x")


PAGES = (
    b"<html></html>",
    b" \r\n\t<!DOCTYPE html>",
    b"\xef\xbb\xbf<html>",
    b"<?xml version='1.0'?>",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_in_place_of_a_file_means_that_it_is_missing(page: bytes) -> None:
    with _answering([], 200, page) as url:
        store = opened(url)
        for start in (0, 3):  # this server gives no ranges
            with pytest.raises(FileNotFoundError, match="There is no such object"):
                store.read("folder/x.json", start)
        with _answering([], 302, b"", f"{url}/app") as to, pytest.raises(FileNotFoundError):
            opened(to).read("x")
        assert store.read("folder/index.html") == page


@pytest.mark.parametrize("content", [b"", b" ", b"{}", b"PK\x03\x04<html>", b"a <"])
def test_whatever_does_not_begin_like_a_page_is_a_file(content: bytes) -> None:
    with _answering([], 200, content) as url:
        assert opened(url).read("x") == content


@contextmanager
def _answering(
    heard: list[str], status: int, body: bytes, place: str = "", later: str = "", then: str = ""
) -> Iterator[str]:
    """A server with one answer to everything, which notes what it is asked.

    After the first answer it redirects to the server `then`, if one is given.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            account = self.headers.get("Authorization", self.headers.get("Proxy-Authorization", ""))
            redirects = then and heard
            heard.append(f"{self.command} {self.path} {account}".strip())
            self.send_response(302 if redirects else status)
            if place or redirects:
                self.send_header("Location", place or f"{then}{self.path}")
            if later and not redirects:
                self.send_header("Retry-After", later)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_CONNECT = do_GET  # noqa: N815 - as the server calls it

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
