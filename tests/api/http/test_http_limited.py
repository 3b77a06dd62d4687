"""The rate limit beyond the calls: downloads, streams, pages; and what stays outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from api.core.server_settings import Access
from tests.api.rpc.kit import Client, FailedCallError, client_of, messages
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import CHAIN, Site
from tests.cases import each_of

_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=20&table=5"
_STREAM = "/api/v2/stream/liquidity-provisions"
_BURST = 2


@pytest.fixture(scope="module")
def limited(built_site: Site) -> Iterator[Served]:
    """A server where a client may ask twice; who a client is its `X-Forwarded-For` says."""
    access = Access(rate=0.001, burst=_BURST)
    with serving(settings(built_site.locations, access=access, grpc=True)) as served:
        yield served


def _address(*parts: str) -> str:
    """An address of one's own for a case."""
    number = sum(map(ord, "".join(parts)))
    return f"192.0.{number // 256}.{number % 256}"


@each_of("path", [_EXPORT, "/", "/archive", "/archive/", "/docs", "/openapi.json"])
@each_of("method", ["GET", "HEAD"])
def test_downloads_and_pages_take_from_the_clients_bucket(
    limited: Served, path: str, method: str
) -> None:
    headers = {"X-Forwarded-For": _address(path, method)}
    with limited.client() as client:
        passed = [client.request(method, path, headers=headers) for _ in range(_BURST)]
        refused = client.request(method, path, headers=headers)
    assert [answer.status_code for answer in passed] == [200, 200]
    assert [answer.headers["ratelimit-remaining"] for answer in passed] == ["1", "0"]
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    if method == "GET":
        error = refused.json().get("error", refused.json())
        assert (error["code"], error["message"]) == (8, "api request rate limit exceeded")


def test_a_stream_counts_when_it_begins_whatever_its_protocol(limited: Served) -> None:
    headers = {"X-Forwarded-For": "198.51.100.1"}
    url = f"ws://127.0.0.1:{limited.port}{_STREAM}"
    with limited.client() as client:
        with client.stream("GET", _STREAM, headers=headers) as answer:
            assert answer.headers["ratelimit-remaining"] == "1"
        with connect(url, additional_headers=headers, open_timeout=30) as connection:
            assert connection.recv(timeout=30)
        assert client.get(_STREAM, headers=headers).json()["error"]["code"] == 8
    with (
        pytest.raises(InvalidStatus, match="429"),
        connect(url, additional_headers=headers, open_timeout=30),
    ):
        pass


def test_streams_of_grpc_take_from_the_same_bucket(limited: Served) -> None:
    told = {"x-forwarded-for": "198.51.100.2"}

    def export(client: Client) -> int:
        call = client.stream(
            "ExportNetworkHistory", metadata=told, from_block=1, to_block=20, table=5
        )
        return sum(len(message.data) for message in messages(call))

    with client_of(limited) as client:
        assert export(client) > 0
        call = client.stream("ObserveLiquidityProvisions", metadata=told)
        assert dict(call.initial_metadata())["ratelimit-remaining"] == "0"
        call.cancel()
        with pytest.raises(FailedCallError) as raised:
            export(client)
    assert (raised.value.code, raised.value.message) == (8, "api request rate limit exceeded")


def test_files_of_the_archive_styles_and_health_are_outside_of_it(limited: Served) -> None:
    headers = {"X-Forwarded-For": "198.51.100.3"}
    zipped = f"/archive/{CHAIN}/orders/{CHAIN}-orders-1-20.zip"
    with limited.client() as client:
        styles = re.findall(r'(?:href|src)="\./(static/[^"]+)"', client.get("/docs").text)
        assert styles
        paths = [zipped, f"{zipped}.sha256", "/health", "/metrics", *(f"/{s}" for s in styles)]
        for path in paths:
            for _ in range(_BURST + 1):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 200, path
                assert "ratelimit-limit" not in answer.headers


def test_a_page_with_all_that_it_shows_is_never_refused_by_the_default(built_site: Site) -> None:
    access = Access()
    with (
        serving(settings(built_site.locations, access=access)) as served,
        served.client() as client,
    ):
        for _ in range(20):  # somebody who reloads it as fast as they can
            page = client.get("/").text
            for name in re.findall(r'(?:href|src)="\./(static/[^"]+)"', page):
                assert client.get(f"/{name}").status_code == 200
            assert client.get("/openapi.json").status_code == 200
