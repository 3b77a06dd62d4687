"""The liquidity provision stream, read by real HTTP and WebSocket clients."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from api.core.server_settings import Limits
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import MARKETS, PARTIES, Site
from tests.waiting import wait_until
from transforms.block_range import BlockRange

_PATH = "/api/v2/stream/liquidity-provisions"
Lines = Iterator[Any]


@contextmanager
def _reading(served: Served, query: str = "") -> Iterator[Lines]:
    with served.client() as client, client.stream("GET", f"{_PATH}?{query}") as answer:
        assert answer.status_code == 200
        yield map(json.loads, answer.iter_lines())


@contextmanager
def _socket(served: Served, query: str = "") -> Iterator[ClientConnection]:
    url = f"ws://127.0.0.1:{served.port}{_PATH}?{query}"
    with connect(url, open_timeout=30, max_size=None) as connection:
        yield connection


def _provisions(message: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = message["result"]["liquidityProvisions"]
    return found


def _numbers(*messages: Any) -> list[int]:
    return [int(found["id"], 16) for message in messages for found in _provisions(message)]


class Live:
    """A server over a site that grows."""

    def __init__(self, site: Site, served: Served) -> None:
        self.served = served
        self._site = site
        self._first = 51

    def load(self, *provisions: int) -> None:
        """Load one more segment, in which these provisions change."""
        blocks = BlockRange(self._first, self._first + 9)
        self._site.add_segment(blocks, provisions, orders=1)
        self._site.load()
        self._first += 10


@pytest.fixture(scope="module")
def live(built_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    site = built_site.copied(tmp_path_factory.mktemp("live") / "site")
    with serving(settings(site.locations)) as served:
        yield Live(site, served)


@contextmanager
def _live(site: Site, limits: Limits) -> Iterator[Live]:
    """A server of one's own, whose connections hold next to nothing for slow readers."""
    with serving(settings(site.locations, limits), send_buffer=65536) as served:
        yield Live(site, served)


def test_a_reader_gets_what_is_there_and_then_what_changes(live: Live) -> None:
    with _reading(live.served) as lines:
        first, second = next(lines), next(lines)
        assert (len(_provisions(first)), len(_provisions(second))) == (50, 10)
        assert sorted(_numbers(first, second)) == [*range(60)]
        # Each as it was written last: two of them in the second segment.
        amounts = {
            int(found["id"], 16): found["commitmentAmount"]
            for found in (*_provisions(first), *_provisions(second))
        }
        assert (amounts[0], amounts[1], amounts[2]) == ("21", "21", "1")
        live.load(7, 8)
        assert sorted(_numbers(next(lines))) == [7, 8]
        live.load(8)
        (changed,) = _provisions(next(lines))
        assert changed["commitmentAmount"] == "61"
        assert changed["status"] == "STATUS_ACTIVE"


def test_without_a_snapshot_only_changes_are_sent(live: Live) -> None:
    with _reading(live.served, "snapshot=false") as lines:
        live.load(7)
        assert _numbers(next(lines)) == [7]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"marketId={MARKETS[0]}", [n for n in range(60) if n % 2 == 0]),
        (f"partyId={PARTIES[1].upper()}", [n for n in range(60) if n // 2 % 2]),
        (f"market_id={MARKETS[1]}&party_id={PARTIES[0]}", [*range(1, 60, 4)]),
    ],
)
def test_filters_hold_for_the_snapshot(served: Served, query: str, expected: list[int]) -> None:
    with _reading(served, query) as lines:
        assert sorted(_numbers(next(lines))) == expected


def test_filters_hold_for_changes(live: Live) -> None:
    with _reading(live.served, f"marketId={MARKETS[1]}&snapshot=false") as lines:
        live.load(2, 3, 4, 5)
        assert _numbers(next(lines)) == [3, 5]


def test_more_than_fifty_changes_are_several_messages(live: Live) -> None:
    with _reading(live.served, "snapshot=false") as lines:
        live.load(*range(200, 320))
        messages = [next(lines) for _ in range(3)]
    assert [len(_provisions(message)) for message in messages] == [50, 50, 20]


@pytest.mark.parametrize(
    ("query", "code"), [("marketId=zz", 3), ("partyId=abc", 3), ("snapshot=perhaps", 3)]
)
def test_what_is_no_filter_is_refused_before_the_stream_begins(
    served: Served, query: str, code: int
) -> None:
    with served.client() as client:
        answer = client.get(f"{_PATH}?{query}")
    assert answer.status_code == 400
    body = answer.json()
    assert body.get("error", body)["code"] == code


@pytest.mark.parametrize("query", ["", "snapshot=false"])
def test_a_stream_ends_with_the_deadline_that_its_client_set(served: Served, query: str) -> None:
    deadline = {"Grpc-Timeout": "300m"}
    with served.client() as client:
        lines = client.get(f"{_PATH}?{query}", headers=deadline).text.splitlines()
        malformed = client.get(_PATH, headers={"Grpc-Timeout": "abc"})
    assert json.loads(lines[-1])["error"]["code"] == 4
    assert (malformed.status_code, malformed.json()["code"]) == (400, 3)


def test_a_websocket_gets_a_frame_where_http_gets_a_line(live: Live) -> None:
    query = f"partyId={PARTIES[0]}"
    with _reading(live.served, query) as lines, _socket(live.served, query) as connection:
        assert json.loads(connection.recv(timeout=30)) == next(lines)
        live.load(4)
        frame = connection.recv(timeout=30)
        while 4 not in _numbers(json.loads(frame)):
            assert json.loads(frame) == next(lines)
            frame = connection.recv(timeout=30)
        assert isinstance(frame, str)
        assert not frame.endswith("\n")


def test_a_websocket_is_told_what_is_wrong_in_a_frame(served: Served) -> None:
    with _socket(served, "marketId=zz") as connection:
        assert json.loads(connection.recv(timeout=30))["error"]["code"] == 3
        with pytest.raises(Exception, match="1008"):
            connection.recv(timeout=30)


def test_a_reader_that_comes_back_gets_the_state_anew(live: Live) -> None:
    query = f"marketId={MARKETS[0]}&partyId={PARTIES[1]}"
    with _reading(live.served, query) as lines:
        before = set(_numbers(next(lines)))
    live.load(1002)
    # The new snapshot may need a moment; the stream then tells of it as a change.
    with _reading(live.served, query) as lines:
        seen = set(_numbers(next(lines)))
        while 1002 not in seen:
            seen |= set(_numbers(next(lines)))
    assert seen == before | {1002}


class _SlowReader:
    """A client that takes nothing until it is told to."""

    def __init__(self, served: Served) -> None:
        self._connection = socket.socket()
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._connection.settimeout(30)
        self._connection.connect(("127.0.0.1", served.port))
        request = f"GET {_PATH}?snapshot=false HTTP/1.1\r\nHost: x\r\n\r\n"
        self._connection.sendall(request.encode())
        assert self._connection.recv(12) == b"HTTP/1.1 200"

    def __enter__(self) -> _SlowReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> bytes:
        """Everything up to the end of the stream."""
        got = bytearray()
        while not got.endswith(b"0\r\n\r\n"):
            block = self._connection.recv(65536)
            assert block, "the connection was cut"
            got += block
        return bytes(got)


def test_a_slow_reader_is_dropped_with_an_error_line_and_the_others_go_on(site: Site) -> None:
    with (
        _live(site, Limits(stream_buffer=5000)) as live,
        _SlowReader(live.served) as slow,
        _reading(live.served, "snapshot=false") as fast,
        _socket(live.served, "snapshot=false") as connection,
    ):
        for count in (1000, 50, 50):  # the first is more than a connection holds
            live.load(*range(count))
            for _ in range(count // 50):
                assert json.loads(connection.recv(timeout=30)) == next(fast)
        *_, last = (line for line in slow.read().split(b"\r\n") if line.startswith(b"{"))
        error = json.loads(last)["error"]
        assert (error["code"], error["details"][0]["code"]) == (13, 10010)
        metrics = httpx2.get(f"{live.served.url}/metrics").text
        assert "strata_streams_dropped_total 1.0" in metrics


def test_a_reader_that_takes_nothing_is_cut_off(site: Site) -> None:
    with _live(site, Limits(stall_seconds=0.2)) as live, _SlowReader(live.served) as slow:
        live.load(*range(1000))
        url = f"{live.served.url}/metrics"
        wait_until(lambda: "strata_streams_closed_total 1.0" in httpx2.get(url).text)
        with pytest.raises((AssertionError, ConnectionError), match=r"cut|reset"):
            slow.read()


def test_streams_end_with_a_reason_when_the_server_stops(built_site: Site) -> None:
    with (
        serving(settings(built_site.locations)) as served,
        _reading(served, "snapshot=false") as lines,
        _socket(served, "snapshot=false") as connection,
    ):
        served.stop_streams()
        assert next(lines)["error"]["code"] == 14
        assert list(lines) == []
        assert json.loads(connection.recv(timeout=30))["error"]["code"] == 14
