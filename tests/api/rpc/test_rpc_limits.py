"""What gRPC clients that send too much, half of it or nothing cost a real server."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.api.rpc.kit import SECONDS, FailedCallError, client, outcome
from tests.api.server_kit import ServerProcess
from tests.api.site_kit import Site

_MEGABYTE = 2**20
_DATA, _HEADERS, _SETTINGS, _CONTINUATION = 0, 1, 4, 9
_END_STREAM, _END_HEADERS = 1, 4
# The only member of the dynamic table of HPACK, which a header goes into that is remembered.
_REMEMBERED, _AGAIN = b"\x40", b"\xbe"
_FORGOTTEN = b"\x00"
# How many bytes a header counts beside its name and its value.
_COUNTED = 32


def _frame(kind: int, stream: int, payload: bytes, flags: int = 0) -> bytes:
    """A frame of HTTP/2."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def _header(name: bytes, value: bytes, kind: bytes = _FORGOTTEN) -> bytes:
    """A header as HPACK has it, in plain letters."""
    rest = len(value) - 127
    size = bytes([len(value)] if rest < 0 else [127, rest % 128 | 128, rest // 128])
    return kind + bytes([len(name)]) + name + size + value


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, b"")
_ACKNOWLEDGED = _frame(_SETTINGS, 0, b"", 1)
_A_HEADER = _header(b"x", b"y")
_PING = {
    b":method": b"POST",
    b":scheme": b"http",
    b":authority": b"x",
    b":path": b"/datanode.api.v2.TradingDataService/Ping",
    b"content-type": b"application/grpc",
    b"te": b"trailers",
}
_PING_HEAD = b"".join(_header(name, value) for name, value in _PING.items())
_OBSERVE = b"/datanode.api.v2.TradingDataService/ObserveLiquidityProvisions"
_OBSERVE_HEAD = b"".join(_header(*each) for each in {**_PING, b":path": _OBSERVE}.items())
_PING_BODY = _frame(_DATA, 1, bytes(5), _END_STREAM)


@pytest.fixture(scope="module")
def strict(built_site: Site) -> Iterator[ServerProcess]:
    """A server whose clients must be quick, with room for eight."""
    with ServerProcess(
        built_site.locations,
        REQUEST_SECONDS="0.3",
        IDLE_SECONDS="0.5",
        CONNECTIONS="8",
    ) as process:
        with client(process.grpc_port) as rpc:
            rpc.ask("Ping")
        yield process


@contextmanager
def _connected(process: ServerProcess, sent: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", process.grpc_port), SECONDS) as connection:
        connection.sendall(sent)
        yield connection


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server closes a connection within the time of a test."""
    try:
        while connection.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def _is_open(connection: socket.socket) -> bool:
    """Whether a connection has no end in what came until now."""
    connection.setblocking(False)
    try:
        while connection.recv(2**16):
            pass
    except BlockingIOError:
        return True
    return False


def _is_greeted(connection: socket.socket) -> bool:
    """Whether the server takes a connection."""
    try:
        return bool(connection.recv(9))
    except ConnectionResetError:
        return False


@pytest.mark.parametrize("sent", [b"", _PREFACE[:10], _PREFACE])
def test_connections_that_say_nothing_half_of_it_or_ask_for_nothing_are_closed(
    strict: ServerProcess, sent: bytes
) -> None:
    with _connected(strict, sent) as connection:
        assert _is_closed(connection)


def test_a_stream_outlives_idle_connections(strict: ServerProcess) -> None:
    with client(strict.grpc_port) as rpc:
        stream = rpc.stream("ObserveLiquidityProvisions")
        stream.initial_metadata()
        for _ in range(2):
            with _connected(strict, _PREFACE) as idle:
                assert _is_closed(idle)
        assert stream.is_active()


def test_a_client_whose_idle_connection_was_closed_goes_on(strict: ServerProcess) -> None:
    with client(strict.grpc_port) as rpc:
        rpc.ask("Ping")
        for _ in range(2):
            with _connected(strict, _PREFACE) as idle:
                assert _is_closed(idle)
        assert rpc.ask("GetVegaTime").message.timestamp


def test_no_more_connections_than_there_is_room_for(strict: ServerProcess) -> None:
    with ExitStack() as held:
        rpc = held.enter_context(client(strict.grpc_port))
        stream = rpc.stream("ObserveLiquidityProvisions")
        stream.initial_metadata()
        many = [held.enter_context(_connected(strict, _PREFACE)) for _ in range(20)]
        assert 0 < sum(_is_greeted(connection) for connection in many) < 8
        assert stream.is_active()
    with client(strict.grpc_port) as rpc:
        assert rpc.ask("GetVegaTime").message.timestamp


def _status(connection: socket.socket) -> int:
    """The status that the only call of a connection ends with."""
    got = b""
    while not (found := re.search(rb"grpc-status(.)(\d+)", got)):
        block = connection.recv(2**16)
        assert block, "the server closed the connection"
        got += block
    assert found[1] == bytes([len(found[2])])
    return int(found[2])


@pytest.fixture(scope="module")
def roomy(built_site: Site) -> Iterator[ServerProcess]:
    """A server of gRPC with the default limits."""
    with ServerProcess(built_site.locations, "--no-http") as process:
        with client(process.grpc_port) as rpc:
            rpc.ask("GetVegaTime")
        yield process


def test_metadata_is_taken_to_the_byte_that_the_documentation_names(roomy: ServerProcess) -> None:
    most = 16 * 2**10
    counted = sum(len(name) + len(value) + _COUNTED for name, value in _PING.items())
    for size, status in ((most - 1, 0), (most, 8)):
        long = _header(b"x-long", b"x" * (size - counted - len(b"x-long") - _COUNTED))
        with _connected(roomy, _PREFACE + _ACKNOWLEDGED) as connection:
            connection.sendall(_frame(_HEADERS, 1, _PING_HEAD + long, _END_HEADERS) + _PING_BODY)
            assert _status(connection) == status


def test_who_ignores_the_limit_of_metadata_is_refused_as_well(roomy: ServerProcess) -> None:
    long = _header(b"x-long", b"x" * 9000)
    for times, status in ((1, 0), (3, 8), (300, 8)):
        sent = _frame(_HEADERS, 1, _PING_HEAD) + _frame(_CONTINUATION, 1, long) * times
        sent += _frame(_CONTINUATION, 1, b"", _END_HEADERS) + _PING_BODY
        with _connected(roomy, _PREFACE + sent) as connection:
            assert _status(connection) == status


def test_who_never_acknowledges_the_limits_is_closed_in_the_middle_of_a_stream(
    strict: ServerProcess,
) -> None:
    sent = _frame(_HEADERS, 1, _OBSERVE_HEAD, _END_HEADERS) + _PING_BODY
    with (
        _connected(strict, _PREFACE + sent) as connection,
        _connected(strict, _PREFACE + _ACKNOWLEDGED + sent) as polite,
    ):
        assert _is_greeted(polite)
        assert _is_closed(connection)
        assert _is_open(polite)


def test_a_client_is_told_that_its_metadata_is_too_long(roomy: ServerProcess) -> None:
    with client(roomy.grpc_port) as rpc:
        for length in (9_000, 12_000, 15_000):
            for _ in range(10):
                rpc.ask("Ping", metadata={"x-long": "x" * length})
        for length in (16_000, 20_000, 1_000_000):
            refused = outcome(lambda n=length: rpc.ask("Ping", metadata={"x-long": "x" * n}))  # type: ignore[misc]
            assert isinstance(refused, FailedCallError)
            assert refused.code == 8
            assert "metadata size exceeds" in refused.message
        assert rpc.ask("GetVegaTime").message.timestamp


def test_messages_that_are_too_long_are_refused(roomy: ServerProcess) -> None:
    with client(roomy.grpc_port) as rpc:
        refused = outcome(lambda: rpc.ask("GetWithdrawal", id="x" * 300_000))
        assert isinstance(refused, FailedCallError)
        assert refused.code == 8
        assert rpc.ask("GetVegaTime").message.timestamp


def test_metadata_that_never_ends_costs_little(roomy: ServerProcess) -> None:
    more = _frame(_CONTINUATION, 1, _A_HEADER * 3000)
    before = roomy.memory()
    with _connected(roomy, _PREFACE + _frame(_HEADERS, 1, _A_HEADER)) as connection:
        for _ in range(30 * _MEGABYTE // len(more)):
            connection.sendall(more)
        # Kept, they would be hundreds.
        assert roomy.memory() - before < 60 * _MEGABYTE
    with client(roomy.grpc_port) as rpc:
        assert rpc.ask("GetVegaTime").message.timestamp


def test_metadata_that_expands_to_gigabytes_costs_little_and_is_refused(
    roomy: ServerProcess,
) -> None:
    begin = _PING_HEAD + _header(b"x", b"y" * 4000, _REMEMBERED)
    more = _frame(_CONTINUATION, 1, _AGAIN * 16_000)  # 64 MB
    end = _frame(_CONTINUATION, 1, _AGAIN, _END_HEADERS)
    before = roomy.memory()
    with _connected(roomy, _PREFACE + _frame(_HEADERS, 1, begin, _END_STREAM)) as connection:
        connection.sendall(more * 50 + end)
        assert _status(connection) == 8
        assert roomy.memory() - before < 30 * _MEGABYTE
    with client(roomy.grpc_port) as rpc:
        assert rpc.ask("GetVegaTime").message.timestamp
