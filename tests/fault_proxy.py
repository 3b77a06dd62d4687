"""A proxy before a real HTTP server that does to chosen requests what networks and services do.

It passes bytes on as they are, so signatures stay valid, and `Expect: 100-continue` keeps its
meaning: a server may refuse a request before its body is sent.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

_PIECE = 2**16

PASS = ""
LOSE_THE_ANSWER = "lose the answer"
"""The server does what is asked, and nobody hears of it."""
RESET = "reset"
"""The connection is reset before the server hears of the request."""
STALL = "stall"
"""Nothing is passed on and nothing is answered, until the proxy is stopped or `released`."""
FLIP_THE_ANSWER = "flip a bit"
"""One bit in the middle of the answer's body is another one."""
CUT_THE_ANSWER = "cut the body"
"""The connection ends in the middle of the answer's body."""
WITHOUT_ETAGS = "leave out ETags"
"""Neither the answer's head nor its body has an ETag."""
FLIP_THE_REQUEST = "flip a sent bit"
"""One bit in the middle of the request's body is another one."""
CUT_THE_REQUEST = "cut the sent body"
"""Both connections end in the middle of the request's body."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrives, the `number`th of the proxy (from 0)."""

    number: int
    method: str
    path: str
    query: str
    head: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def header(self, name: str) -> str:
        """A header's value; empty where there is none."""
        return _header(self.head, name)


class FaultProxy:
    """A proxy at `url` before the server at `upstream`, both `http://host:port`.

    `faults` are pairs of a method and an action: the first is taken off and done to the next
    request of that method. `on_request` hears of every request before it is passed on, and may
    return an action for it. An action is one of the constants above, or a status and an error code
    ("503 SlowDown") that are answered in place of the server. While `closed`, all get 503.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "", parts.port or 80)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.faults: list[tuple[str, str]] = []
        self.requests: list[str] = []
        self.on_request: Callable[[Request], object] = lambda _: None
        self.closed = False
        self.released = threading.Event()
        self._count = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def stop(self) -> None:
        """Refuse new connections and end those that are there."""
        self.released.set()
        # A plain close would not wake who waits in `accept`.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # the proxy was stopped
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with self._connected(client), client.makefile("rb") as sent, suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (head := _read_head(sent)) and self._answered(client, sent, head):
                pass

    @contextmanager
    def _connected(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answered(self, client: socket.socket, sent: BinaryIO, head: bytes) -> bool:
        """Have one request answered; False where the connection is not to be used again."""
        request, action = self._chosen(head)
        if action == STALL:
            self.released.wait()
            return False
        if action == RESET:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if action[:3].isdigit():
            return _refuse(client, sent, request, action)
        with ExitStack() as kept:
            server = kept.enter_context(socket.create_connection(self._upstream))
            kept.enter_context(self._connected(server))
            answers = kept.enter_context(server.makefile("rb"))
            return _Exchange(client, sent, server, answers).done(request, action)

    def _chosen(self, head: bytes) -> tuple[Request, str]:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        parts = urlsplit(target)
        with self._lock:
            request = Request(self._count, method, unquote(parts.path), parts.query, head)
            self._count += 1
            self.requests.append(str(request))
            action = PASS
            if self.faults and self.faults[0][0] == method:
                action = self.faults.pop(0)[1]
        chosen = self.on_request(request)
        if isinstance(chosen, str):
            action = chosen
        return request, "503 SlowDown" if self.closed else action


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request passed on, and its answer."""

    client: socket.socket
    sent: BinaryIO
    server: socket.socket
    answers: BinaryIO

    def done(self, request: Request, action: str) -> bool:
        self.server.sendall(request.head)
        answer = b""
        if _expects(request.head):
            answer = _read_head(self.answers)
            if _status(answer) == 100:
                self.client.sendall(answer)
                answer = b""
        if answer:  # it is refused, and nobody knows whether its body comes all the same
            answer = answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        elif self._pass_body(request.head, action):
            answer = _read_head(self.answers)
        else:
            return False
        return self._pass_answer(request, answer, action)

    def _pass_body(self, head: bytes, action: str) -> bool:
        size = int(_header(head, "content-length") or 0)
        upto = size // 2 if action == CUT_THE_REQUEST else size
        flipped = size // 2 if action == FLIP_THE_REQUEST else -1
        heard = True
        for piece in _pieces(self.sent, upto, flipped):
            if heard:
                try:
                    self.server.sendall(piece)
                except OSError:  # it has answered already; the rest of the body is nobody's
                    heard = False
        return action != CUT_THE_REQUEST

    def _pass_answer(self, request: Request, answer: bytes, action: str) -> bool:
        if not answer or action == LOSE_THE_ANSWER:
            return False
        size = _header(answer, "content-length")
        if action == WITHOUT_ETAGS:
            answer = re.sub(rb"\r\netag:[^\r]*", b"", answer, flags=re.IGNORECASE)
        empty = request.method == "HEAD" or _status(answer) in (204, 304)
        # In chunks, or up to the end, or to be changed: passed on whole.
        if not empty and (not size or action == WITHOUT_ETAGS):
            is_chunked = _chunked(answer)
            body = _unchunked(self.answers) if is_chunked else self.answers.read(int(size or -1))
            if action == WITHOUT_ETAGS:
                body = re.sub(rb"<ETag>[^<]*</ETag>", b"", body)
            self.client.sendall(_sized(answer, len(body)) + _changed(body, action))
            return action != CUT_THE_ANSWER and _header(answer, "connection").lower() != "close"
        self.client.sendall(answer)
        length = 0 if empty else int(size)
        upto = length // 2 if action == CUT_THE_ANSWER else length
        flipped = length // 2 if action == FLIP_THE_ANSWER else -1
        for piece in _pieces(self.answers, upto, flipped):
            self.client.sendall(piece)
        return action != CUT_THE_ANSWER and _header(answer, "connection").lower() != "close"


def _refuse(client: socket.socket, sent: BinaryIO, request: Request, action: str) -> bool:
    status, _, code = action.partition(" ")
    expects = _expects(request.head)
    if not expects:
        for _ in _pieces(sent, int(request.header("content-length") or 0), -1):
            pass
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\n"
    head += f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if expects else "")
    client.sendall(f"{head}\r\n".encode() + (b"" if request.method == "HEAD" else body))
    return not expects


def _read_head(lines: BinaryIO) -> bytes:
    """A start line and headers, with the empty line at their end; nothing at the end."""
    head = b""
    while line := lines.readline():
        head += line
        if line == b"\r\n":
            return head
    return b""


def _header(head: bytes, name: str) -> str:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.decode("latin-1").partition(":")
        if key.lower() == name.lower():
            return value.strip()
    return ""


def _status(head: bytes) -> int:
    return int(head.split(b" ", 2)[1]) if head else 0


def _expects(head: bytes) -> bool:
    return _header(head, "expect").lower() == "100-continue"


def _chunked(head: bytes) -> bool:
    return "chunked" in _header(head, "transfer-encoding").lower()


def _unchunked(lines: BinaryIO) -> bytes:
    body = b""
    while size := int(lines.readline().split(b";")[0], 16):
        body += lines.read(size)
        lines.readline()
    _read_head(lines)
    return body


def _sized(head: bytes, size: int) -> bytes:
    """The same head for a body of another size, or one that is not in chunks."""
    lines = [
        line
        for line in head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        if not line.lower().startswith((b"transfer-encoding:", b"content-length:"))
    ]
    return b"\r\n".join([*lines, f"Content-Length: {size}".encode(), b"", b""])


def _changed(body: bytes, action: str) -> bytes:
    half = len(body) // 2
    if action == CUT_THE_ANSWER:
        return body[:half]
    if action == FLIP_THE_ANSWER and body:
        return body[:half] + bytes([body[half] ^ 1]) + body[half + 1 :]
    return body


def _pieces(stream: BinaryIO, size: int, flipped: int) -> Iterator[bytes]:
    """`size` bytes in bounded pieces, the lowest bit of the byte at `flipped` turned over."""
    at = 0
    while at < size:
        piece = stream.read(min(_PIECE, size - at))
        if not piece:
            raise ConnectionError("the other side has hung up")
        if at <= flipped < at + len(piece):
            inside = flipped - at
            piece = piece[:inside] + bytes([piece[inside] ^ 1]) + piece[inside + 1 :]
        yield piece
        at += len(piece)
