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

from api.settings import Limits
from tests.api.server_kit import Served, serving, settings
from tests.api.site_kit import MARKETS, PARTIES, Site
from transforms.segments import BlockRange

_PATH = "/api/v2/stream/liquidity-provisions"
_FOURTH, _FIFTH = BlockRange(51, 60), BlockRange(61, 70)
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


def _load(site: Site, blocks: BlockRange, *provisions: int) -> None:
    site.add_segment(blocks, provisions, orders=1)
    site.load()


def test_a_reader_gets_what_is_there_and_then_what_changes(site: Site) -> None:
    with serving(settings(site.places)) as served, _reading(served) as lines:
        first, second = next(lines), next(lines)
        assert (len(_provisions(first)), len(_provisions(second))) == (50, 10)
        assert sorted(_numbers(first, second)) == [*range(60)]
        # Each as it was written last: two of them in the second segment.
        amounts = {
            int(found["id"], 16): found["commitmentAmount"]
            for found in (*_provisions(first), *_provisions(second))
        }
        assert (amounts[0], amounts[1], amounts[2]) == ("21", "21", "1")
        _load(site, _FOURTH, 7, 100)
        assert sorted(_numbers(next(lines))) == [7, 100]
        _load(site, _FIFTH, 100)
        (changed,) = _provisions(next(lines))
        assert changed["commitmentAmount"] == "61"
        assert changed["status"] == "STATUS_ACTIVE"


def test_without_a_snapshot_only_changes_are_told(site: Site) -> None:
    with serving(settings(site.places)) as served, _reading(served, "snapshot=false") as lines:
        _load(site, _FOURTH, 7)
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


def test_filters_hold_for_changes(site: Site) -> None:
    query = f"marketId={MARKETS[1]}&snapshot=false"
    with serving(settings(site.places)) as served, _reading(served, query) as lines:
        _load(site, _FOURTH, 2, 3, 4, 5)
        assert _numbers(next(lines)) == [3, 5]


def test_more_than_fifty_changes_are_several_messages(site: Site) -> None:
    with serving(settings(site.places)) as served, _reading(served, "snapshot=false") as lines:
        _load(site, _FOURTH, *range(200, 320))
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


def test_a_websocket_gets_a_frame_where_http_gets_a_line(site: Site) -> None:
    with (
        serving(settings(site.places)) as served,
        _reading(served) as lines,
        _socket(served) as connection,
    ):
        for _ in range(2):
            assert json.loads(connection.recv(timeout=30)) == next(lines)
        _load(site, _FOURTH, 7)
        frame = connection.recv(timeout=30)
        assert isinstance(frame, str)
        assert not frame.endswith("\n")
        assert json.loads(frame) == next(lines)


def test_a_websocket_is_told_what_is_wrong_in_a_frame(served: Served) -> None:
    with _socket(served, "marketId=zz") as connection:
        assert json.loads(connection.recv(timeout=30))["error"]["code"] == 3
        with pytest.raises(Exception, match="1013"):
            connection.recv(timeout=30)


def test_a_reader_that_comes_back_gets_the_state_anew(site: Site) -> None:
    with serving(settings(site.places)) as served:
        with _reading(served, f"marketId={MARKETS[0]}") as lines:
            assert len(_numbers(next(lines))) == 30
        _load(site, _FOURTH, 1000)
        # The new generation may need a moment; the stream then tells of it as a change.
        with _reading(served, f"marketId={MARKETS[0]}") as lines:
            seen = set(_numbers(next(lines)))
            while 1000 not in seen:
                seen |= set(_numbers(next(lines)))
        assert len(seen) == 31


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
    many = 20_000  # more than the buffers of a connection hold
    with (
        serving(settings(site.places, Limits(stream_buffer=5000))) as served,
        _SlowReader(served) as slow,
        _reading(served, "snapshot=false") as fast,
        _socket(served, "snapshot=false") as connection,
    ):
        for blocks, count in ((_FOURTH, many), (_FIFTH, 50), (BlockRange(71, 80), 50)):
            _load(site, blocks, *range(count))
            for _ in range(count // 50):
                assert json.loads(connection.recv(timeout=30)) == next(fast)
        *_, last = (line for line in slow.read().split(b"\r\n") if line.startswith(b"{"))
        error = json.loads(last)["error"]
        assert (error["code"], error["details"][0]["code"]) == (13, 10010)
        assert "strata_streams_dropped_total 1.0" in httpx2.get(f"{served.url}/metrics").text


def test_a_reader_that_takes_nothing_is_cut_off(site: Site) -> None:
    with (
        serving(settings(site.places, Limits(stall_seconds=0.2))) as served,
        _SlowReader(served) as slow,
    ):
        _load(site, _FOURTH, *range(20_000))
        while "strata_streams_closed_total 1.0" not in httpx2.get(f"{served.url}/metrics").text:
            pass
        with pytest.raises((AssertionError, ConnectionError), match=r"cut|reset"):
            slow.read()


def test_streams_end_with_a_reason_when_the_server_stops(site: Site) -> None:
    with (
        serving(settings(site.places)) as served,
        _reading(served, "snapshot=false") as lines,
        _socket(served, "snapshot=false") as connection,
    ):
        served.stop_streams()
        assert next(lines)["error"]["code"] == 14
        assert list(lines) == []
        assert json.loads(connection.recv(timeout=30))["error"]["code"] == 14
