"""Clients that take nothing, over HTTP and gRPC: one bound for all of a process."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import httpx2
import pytest

from api.core.server_settings import Limits
from tests.api.rpc.kit import SECONDS, client, declared, failed
from tests.api.server_kit import Served, ServerProcess, serving, settings
from tests.api.site_kit import Site
from tests.waiting import wait_until

_MIB = 2**20
_BOUND = 48 * _MIB
_EXPORT = "/api/v2/networkhistory/export?fromBlock=1&toBlock=40&table=TABLE_ORDERS"
# Without it a client makes room for megabytes that nobody has asked for yet.
_SMALL_WINDOW = ("grpc.http2.bdp_probe", 0)
_ALL_FULL = "the server's clients have too much to take: try again"
_OWN_FULL = "this client has too much to take: read the answers before, or end them"
Header = dict[str, str]


@pytest.fixture
def process(wide_site: Site) -> Iterator[ServerProcess]:
    variables = {"UNREAD_BYTES": str(_BOUND), "STOP_SECONDS": "1"}
    with ServerProcess(wide_site.locations, **variables) as found, client(found.grpc_port):
        yield found


def _of(number: int) -> Header:
    """Who a client is: this machine is a proxy that is believed."""
    return {"x-forwarded-for": f"192.0.2.{number}"}


class Unread:
    """Exports over gRPC of which nothing is read, each connection with some of them."""

    def __init__(self, process: ServerProcess | Served, closing: ExitStack) -> None:
        self._process = process
        self._closing = closing
        self.calls: list[Any] = []

    def open(self, calls: int, client: int) -> Counter[str]:
        """Begin calls of one client on one connection; returns how they were answered."""
        address = f"127.0.0.1:{self._process.grpc_port}"
        options = (_SMALL_WINDOW, ("grpc.use_local_subchannel_pool", 1))
        channel = self._closing.enter_context(grpc.insecure_channel(address, options))
        path, asked, _ = declared("ExportNetworkHistory")
        method: Any = channel.unary_stream(path)
        request = asked(from_block=1, to_block=40, table="TABLE_ORDERS").SerializeToString()
        begun = [method(request, SECONDS, metadata=(*_of(client).items(),)) for _ in range(calls)]
        self.calls += begun
        return Counter(map(_beginning, begun))

    def leave(self) -> None:
        """End all of them."""
        for call in self.calls:
            call.cancel()


def _beginning(call: Any) -> str:
    """How a call began: with its headers alone, or with an error."""
    if "content-disposition" in dict(call.initial_metadata()) and not call.done():
        return "open"
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    return failed(caught.value).message


@contextmanager
def _unread(process: ServerProcess | Served) -> Iterator[Unread]:
    with ExitStack() as closing:
        yield Unread(process, closing)


def _get(process: ServerProcess, target: str, client: int) -> httpx2.Response:
    return httpx2.get(process.url + target, headers=_of(client), timeout=SECONDS)


def test_what_sixty_connections_do_not_read_is_bounded_for_the_process(
    process: ServerProcess,
) -> None:
    assert _get(process, _EXPORT, 9).status_code == 200
    before = process.memory()
    with _unread(process) as unread:
        answers: Counter[str] = Counter()
        for number in range(60):
            answers += unread.open(4, number % 3)
        assert answers.keys() <= {"open", _ALL_FULL, _OWN_FULL}
        assert 240 - 20 <= answers[_ALL_FULL] + answers[_OWN_FULL] < 240
        # Each of 240 would keep some megabytes.
        assert process.memory() - before < 3 * _BOUND
        refused = _get(process, _EXPORT, 9)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["message"] == _ALL_FULL
        assert _get(process, "/health", 9).status_code == 200
        assert "strata_refused_total" in _get(process, "/metrics", 9).text
        unread.leave()
    wait_until(lambda: _get(process, _EXPORT, 9).status_code != 503)
    assert len(_get(process, _EXPORT, 9).content) > _MIB


def test_one_client_that_takes_nothing_leaves_room_for_others(process: ServerProcess) -> None:
    with _unread(process) as unread:
        answers = unread.open(20, client=1)
        assert answers.keys() == {"open", _OWN_FULL}
        assert _get(process, _EXPORT, 1).status_code == 429
        assert _get(process, _EXPORT, 2).status_code == 200
        for call in unread.calls:  # it reads the answers before
            if not call.done():
                assert sum(len(message) for message in call) > _MIB
        wait_until(lambda: _get(process, _EXPORT, 1).status_code != 429)
        assert len(_get(process, _EXPORT, 1).content) > _MIB


def test_downloads_over_http_that_are_not_read_count_as_those_over_grpc(wide_site: Site) -> None:
    limits = Limits(unread_bytes=_BOUND)
    # Else the kernel would keep some megabytes for each, which no process knows of.
    with (
        serving(settings(wide_site.locations, limits, grpc=True), send_buffer=65536) as served,
        _unread(served) as unread,
        ExitStack() as closing,
    ):
        statuses = Counter(_status(served, closing, number) for number in range(20))
        assert statuses.keys() == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
        assert unread.open(2, client=40) == {_ALL_FULL: 2}


def _status(served: Served, closing: ExitStack, client: int) -> bytes:
    """The beginning of a download whose client reads no more of it."""
    connection = closing.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(SECONDS)
    connection.connect(("127.0.0.1", served.port))
    head = f"GET {_EXPORT} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.{client}\r\n\r\n"
    connection.sendall(head.encode())
    return connection.recv(12)
