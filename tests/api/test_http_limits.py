"""What clients that send too much, too slowly or nothing cost a real server, and are answered."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx2
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.api.server_kit import ServerProcess
from tests.api.site_kit import Site
from tests.cases import each_of

_HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"
_HEALTH = _HEAD + b"\r\n"
_LAST = _HEAD + b"Connection: close\r\n\r\n"
_STREAM = "/api/v2/stream/liquidity-provisions"
_STREAM_HEAD = f"GET {_STREAM} HTTP/1.1\r\nHost: x\r\n".encode()
_STREAMED = _STREAM_HEAD + b"\r\n"
_FORM = (
    b"POST /api/v2/withdrawals HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)
_MEGABYTE = 2**20


@pytest.fixture(scope="module")
def roomy(built_site: Site) -> Iterator[ServerProcess]:
    """A server with the default limits."""
    with ServerProcess(built_site.locations, "--no-grpc") as process:
        for path in ("/health", "/nope", "/api/v2/withdrawals"):  # what it holds at rest
            httpx2.get(process.url + path)
        yield process


@pytest.fixture(scope="module")
def strict(built_site: Site) -> Iterator[ServerProcess]:
    """A server whose clients must be quick."""
    with ServerProcess(
        built_site.locations, "--no-grpc", REQUEST_SECONDS="0.3", IDLE_SECONDS="0.3"
    ) as process:
        yield process


@pytest.fixture(scope="module")
def narrow(built_site: Site) -> Iterator[ServerProcess]:
    """A server with room for four connections."""
    with ServerProcess(built_site.locations, "--no-grpc", CONNECTIONS="4") as process:
        yield process


@contextmanager
def _connected(process: ServerProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", process.port), 30) as connection:
        yield connection


def _rest(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    got = bytearray()
    try:
        while block := connection.recv(2**16):
            got += block
    except ConnectionResetError:
        pass
    return bytes(got)


def _answered(process: ServerProcess, sent: bytes) -> bytes:
    """What a server answers on one connection before it closes that."""
    with _connected(process) as connection:
        connection.sendall(sent)
        return _rest(connection)


def _flood(connection: socket.socket, block: bytes, times: int) -> bool:
    """Send a block again and again; whether the server took it all."""
    try:
        for _ in range(times):
            connection.sendall(block)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _refusal(answer: bytes) -> tuple[int, int]:
    """The status and the code of an answer that refuses, in the form of all errors."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    assert b"\r\ncontent-type: application/json" in head
    assert b"\r\ncontent-length: %d" % len(body) in head
    error = json.loads(body)
    assert set(error) == {"code", "message", "details"}
    return int(head.split()[1]), error["code"]


def _is_alive(connection: socket.socket) -> bool:
    """Whether a connection still answers."""
    try:
        connection.sendall(_HEALTH)
        got = b""
        while not got.endswith(b"\r\n\r\nok") and (block := connection.recv(1000)):
            got += block
    except ConnectionResetError:
        return False
    return got.startswith(b"HTTP/1.1 200")


# Headers


def test_headers_that_never_end_are_refused_and_cost_little(roomy: ServerProcess) -> None:
    before = roomy.memory()
    with _connected(roomy) as connection:
        connection.sendall(_HEAD + b"X-Long: ")
        _flood(connection, b"x" * _MEGABYTE, 38)
        answer = _rest(connection)
    with _connected(roomy) as connection:
        connection.sendall(_HEAD)
        _flood(connection, b"X-More: more\r\n" * 75_000, 38)
        _rest(connection)
    assert roomy.memory() - before < 20 * _MEGABYTE
    assert not answer or _refusal(answer) == (431, 8)


def test_many_connections_with_unfinished_headers_cost_little(roomy: ServerProcess) -> None:
    before = roomy.memory()
    with ExitStack() as held:
        for _ in range(200):
            connection = held.enter_context(_connected(roomy))
            connection.sendall(_HEAD + b"X-Many: x\r\n" * 80 + b"X-Long: " + b"x" * 31_000)
        assert _refusal(_answered(roomy, _HEAD + b"A: b\r\n" * 200))[0] == 431
        assert roomy.memory() - before < 40 * _MEGABYTE


@each_of(
    ("request_", "wanted"),
    [
        (_HEAD + b"X-Long: " + b"x" * 33_000 + b"\r\n\r\n", (431, 8)),
        (_HEAD + b"X-Long: " + b"x" * 80_000, (431, 8)),
        (_HEAD + b"".join(b"X-%d: x\r\n" % n for n in range(100)) + b"\r\n", (431, 8)),
        (_HEAD + b"X: y\r\n" * 101, (431, 8)),
        (b"GET /" + b"x" * 33_000 + b" HTTP/1.1\r\n\r\n", (431, 8)),
        (b"GET /" + b"x" * 80_000, (431, 8)),
        (b"no HTTP\r\n\r\n", (400, 3)),
        (b"GET /health HTTP/1.1\r\n\r\n", (400, 3)),
        (b"POST /health HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", (400, 3)),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", (400, 3)),
        (b"GET /health HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", (400, 3)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 3)),
        (b"\x16\x03\x01\x02\x00\x01\x00", (400, 3)),
    ],
)
def test_a_head_that_is_too_long_or_none_is_refused_in_the_form_of_all_errors(
    strict: ServerProcess, request_: bytes, wanted: tuple[int, int]
) -> None:
    assert _refusal(_answered(strict, request_)) == wanted


def test_a_head_within_the_limits_is_answered(strict: ServerProcess) -> None:
    long = b"X-Long: " + b"x" * (32 * 2**10 - len(_LAST) - 10) + b"\r\n"
    many = b"".join(b"X-%d: x\r\n" % n for n in range(98))
    for headers in (long, many):
        answer = _answered(strict, _LAST.replace(b"Host", headers + b"Host"))
        assert answer.startswith(b"HTTP/1.1 200")
    for head in (b"GET /health HTTP/1.0\r\n\r\n", _LAST.replace(b"Host: x", b"Host:")):
        assert _answered(strict, head).startswith(b"HTTP/1.1 200")


def test_headers_after_a_body_are_bounded_too(strict: ServerProcess) -> None:
    chunked = _FORM + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    assert _refusal(_answered(strict, chunked + b"X: y\r\n" * 100)) == (431, 8)
    assert _refusal(_answered(strict, chunked + b"X: " + b"y" * 300_000)) == (413, 8)


def test_a_websocket_is_refused_for_its_headers_as_well(roomy: ServerProcess) -> None:
    headers = (
        b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    begin = f"GET {_STREAM}?".encode()
    # The second and third are within the limits of HTTP, and beyond those of the library.
    for query, more in (
        (b"x" * 40_000, b""),
        (b"x" * 10_000, b""),
        (b"x", b"X-Long: " + b"x" * 10_000 + b"\r\n"),
    ):
        asked = begin + query + b" HTTP/1.1\r\n" + headers + more + b"\r\n"
        assert _refusal(_answered(roomy, asked)) == (431, 8)


def test_a_websocket_takes_no_long_messages(roomy: ServerProcess) -> None:
    with connect(f"ws://127.0.0.1:{roomy.port}{_STREAM}?snapshot=false") as frames:
        frames.send("x" * 100_000)
        with pytest.raises(ConnectionClosedError, match="frame exceeds limit"):
            frames.recv(30)


_PING, _PONG, _TEXT, _BEGIN, _CONTINUE = (
    bytes([first, 0x80, 0, 0, 0, 0]) for first in (0x89, 0x8A, 0x81, 0x01, 0x00)
)
"""Frames without a payload; the last two are the first piece of a message, and a further one."""


@each_of(
    "frames",
    [
        _PING * 100_000,
        _PONG * 100_000,
        _TEXT * 100_000,
        _BEGIN + _CONTINUE * 100_000,
        (b"\x89\xfd\0\0\0\0" + b"x" * 125) * 30_000,
        # Few enough, but for the pieces of one message.
        _BEGIN + _CONTINUE * 150,
    ],
)
def test_a_websocket_of_many_frames_is_cut_off_at_once(roomy: ServerProcess, frames: bytes) -> None:
    with connect(f"ws://127.0.0.1:{roomy.port}{_STREAM}?snapshot=false") as stream:
        before, began = roomy.memory(), roomy.processor_seconds()
        with suppress(OSError):  # the reader may have closed the socket already
            stream.socket.sendall(frames)
        with pytest.raises(ConnectionClosedError):
            stream.recv(30)
    assert roomy.processor_seconds() - began < 0.5
    assert roomy.memory() - before < 5 * _MEGABYTE


def test_a_websocket_may_ping_and_send_messages_in_pieces(roomy: ServerProcess) -> None:
    with connect(f"ws://127.0.0.1:{roomy.port}{_STREAM}?snapshot=false") as stream:
        for _ in range(50):
            stream.send(["x"] * 2)
        for _ in range(10):
            assert stream.ping().wait(30)
        with pytest.raises(TimeoutError):
            stream.recv(0.05)


# Bodies


def test_a_form_that_is_too_long_is_refused(strict: ServerProcess) -> None:
    head = _FORM + b"Content-Length: 10000000\r\n\r\n"
    answer = _answered(strict, head + b"x" * 66_000)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"http: request body too large" in answer
    # In pieces of one byte the application waits for more, of what is long enough already.
    small = b"1\r\nx\r\n" * 50_000
    chunked = _FORM + b"Transfer-Encoding: chunked\r\n\r\n"
    assert _refusal(_answered(strict, chunked + small)) == (413, 8)


def test_a_body_that_nobody_reads_ends_the_connection_after_the_answer(
    roomy: ServerProcess,
) -> None:
    before = roomy.memory()
    with _connected(roomy) as connection:
        connection.sendall(_HEAD + b"Content-Length: 1000000000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        while _flood(connection, b"x" * _MEGABYTE, 1):
            pass
    assert roomy.memory() - before < 20 * _MEGABYTE


# Requests sent ahead


def test_requests_sent_ahead_without_end_cost_little(roomy: ServerProcess) -> None:
    before = roomy.memory()
    with _connected(roomy) as connection:
        _flood(connection, b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n" * 50_000, 20)
        answers = _rest(connection)
    assert roomy.memory() - before < 20 * _MEGABYTE
    assert answers.count(b"HTTP/1.1 ") <= 1


def test_the_last_answer_before_something_malformed_says_that_it_is_the_last(
    strict: ServerProcess,
) -> None:
    for more in (b"no HTTP\r\n\r\n", _HEALTH):  # or before one that was sent ahead
        answer = _answered(strict, _HEALTH + more)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        assert answer.endswith(b"\r\n\r\nok")


def test_requests_behind_a_stream_do_not_hide_that_its_reader_left(strict: ServerProcess) -> None:
    with _connected(strict) as connection:
        connection.sendall(_STREAMED + _HEALTH * 100)
        assert connection.recv(10).startswith(b"HTTP/1.1")
    while True:
        text = httpx2.get(f"{strict.url}/metrics").text
        opened, closed = (
            float(re.search(rf"^strata_streams_{what}_total (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]
            for what in ("opened", "closed")
        )
        if opened and opened == closed:
            return


# Time


def test_who_sends_nothing_or_half_a_request_is_closed(strict: ServerProcess) -> None:
    with ExitStack() as held:
        silent = [held.enter_context(_connected(strict)) for _ in range(20)]
        blank = held.enter_context(_connected(strict))
        blank.sendall(b"\r\n")
        again = held.enter_context(_connected(strict))
        assert _is_alive(again)
        again.sendall(b"\r\n")
        half = [held.enter_context(_connected(strict)) for _ in range(20)]
        for connection in half:
            connection.sendall(_HEAD)
        idle = held.enter_context(_connected(strict))
        assert _is_alive(idle)
        assert {_rest(connection) for connection in [*silent, idle]} == {b""}
        assert {_refusal(_rest(connection)) for connection in [*half, blank, again]} == {(408, 4)}


def test_a_request_that_comes_slowly_has_no_more_time_than_another(strict: ServerProcess) -> None:
    with _connected(strict) as connection:
        connection.settimeout(0.01)
        connection.sendall(_HEAD + b"X-Slow: ")
        answer = b""
        while not answer:
            with suppress(TimeoutError):
                answer = connection.recv(1000)
            connection.sendall(b"x")
        assert _refusal(answer) == (408, 4)


def test_a_form_that_does_not_come_whole_is_refused(strict: ServerProcess) -> None:
    half = _FORM + b"Content-Length: 100\r\n\r\npagination"
    assert _refusal(_answered(strict, half)) == (408, 4)


def test_a_body_that_does_not_come_whole_leaves_an_answer_alone(strict: ServerProcess) -> None:
    with _connected(strict) as connection:
        connection.sendall(_STREAM_HEAD + b"Content-Length: 9\r\n\r\n")
        got = connection.recv(1000)
        with _connected(strict) as other:
            other.sendall(_HEAD)
            assert _refusal(_rest(other)) == (408, 4)
        connection.setblocking(False)
        assert got.startswith(b"HTTP/1.1 200")
        try:
            while got := connection.recv(2**16):
                pass
        except BlockingIOError:
            return
        pytest.fail("the stream ended")


def test_streams_outlive_all_limits_of_time(strict: ServerProcess) -> None:
    address = f"127.0.0.1:{strict.port}{_STREAM}?snapshot=false"
    with connect(f"ws://{address}") as frames, _connected(strict) as lines:
        lines.sendall(f"GET {_STREAM}?snapshot=false HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert lines.recv(1000).startswith(b"HTTP/1.1 200")
        for _ in range(3):  # one after the other, each as long as a client may be silent
            with _connected(strict) as silent:
                assert _rest(silent) == b""
        lines.setblocking(False)
        with pytest.raises(BlockingIOError):
            lines.recv(1)
        frames.ping().wait(30)


# Room


def test_who_comes_when_all_is_full_is_told_so(narrow: ServerProcess) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(connect(f"ws://127.0.0.1:{narrow.port}{_STREAM}"))
        with _connected(narrow) as fifth:
            assert _refusal(_rest(fifth)) == (503, 14)


def test_idle_connections_take_no_files_that_a_server_needs(built_site: Site) -> None:
    with (
        ServerProcess(built_site.locations, "--no-grpc", files="256") as process,
        httpx2.Client(base_url=process.url) as client,
        ExitStack() as all_,
    ):
        for path in ("/api/v2/vega/time", "/api/v2/withdrawals"):
            assert client.get(path).status_code == 200
            for _ in range(300):
                all_.enter_context(_connected(process))
            assert client.get(path).status_code == 200
