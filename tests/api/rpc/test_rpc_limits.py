"""What gRPC clients that send too much, half of it or nothing cost a real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.api.rpc.kit import SECONDS, FailedCallError, client, outcome
from tests.api.server_kit import ServerProcess
from tests.api.site_kit import Site

_MEGABYTE = 2**20
_HEADERS, _SETTINGS, _CONTINUATION = 1, 4, 9
_A_HEADER = b"\x00\x01x\x01y"  # of HPACK: not indexed, "x: y"


def _frame(kind: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 without flags."""
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, b"")


@pytest.fixture(scope="module")
def strict(built_site: Site) -> Iterator[ServerProcess]:
    """A server whose clients must be quick, with room for eight."""
    with ServerProcess(
        built_site.locations,
        REQUEST_SECONDS="0.3",
        IDLE_SECONDS="0.5",
        CONNECTIONS="8",
        BODY_BYTES="10000",
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


def test_metadata_and_messages_that_are_too_long_are_refused(built_site: Site) -> None:
    with (
        ServerProcess(built_site.locations, "--no-http", BODY_BYTES="10000") as process,
        client(process.grpc_port) as rpc,
    ):
        for length in (20_000, 1_000_000):
            refused = outcome(lambda n=length: rpc.ask("Ping", metadata={"x-long": "x" * n}))  # type: ignore[misc]
            assert isinstance(refused, FailedCallError)
            assert refused.code == 8
        refused = outcome(lambda: rpc.ask("GetWithdrawal", id="x" * 20_000))
        assert isinstance(refused, FailedCallError)
        assert refused.code == 8
        assert rpc.ask("GetVegaTime").message.timestamp


def test_metadata_that_never_ends_costs_little(built_site: Site) -> None:
    more = _frame(_CONTINUATION, 1, _A_HEADER * 3000)
    with (
        ServerProcess(built_site.locations, "--no-http") as process,
        client(process.grpc_port) as rpc,
    ):
        rpc.ask("GetVegaTime")
        before = process.memory()
        with _connected(process, _PREFACE + _frame(_HEADERS, 1, _A_HEADER)) as connection:
            for _ in range(30 * _MEGABYTE // len(more)):
                connection.sendall(more)
            # Kept, they would be hundreds.
            assert process.memory() - before < 60 * _MEGABYTE
        assert rpc.ask("GetVegaTime").message.timestamp
