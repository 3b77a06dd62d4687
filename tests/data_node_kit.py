"""A data node as a collector meets it: a list over HTTP, and an admin socket that copies segments.

It speaks the protocol of the network's nodes over the files of a folder, and misbehaves where a
test asks for that. It is not one of them.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from tests.cid_kit import cid_of
from tests.segments_kit import build_segment
from transforms.segments.segment_name import SegmentName

_PIECE_BYTES = 32 * 1024
_DROP_SECONDS = 0.1
DRIPPING_ANSWERS = {
    "status": (b"HTTP/1.1 20", b"0"),
    "headers": (b"HTTP/1.1 200 OK\r\nX-Header: ", b"x"),
    "many headers": (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n"),
    "informational": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", b" "),
    "body without length": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "chunked body": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "refusal": (b"HTTP/1.1 503 Busy\r\nContent-Length: 200\r\n\r\n", b" "),
}
"""Answers for `dripping_server`: how each begins, and what comes again and again."""


@dataclass
class DataNode:
    """A node with the segments `files`, by id. `rows` is what it lists, newest first.

    `instead` has the bytes that it hands over for an id in place of the right ones, and `refusals`
    what it answers instead of a copy. `copies` are the ids that were asked for. `before_copy` is
    called with the number of each copy, from 1 on, before a byte is written; where it is False, the
    socket goes away in the middle of the file.
    """

    files: dict[str, Path]
    rows: list[dict[str, Any]]
    socket: Path
    url: str = ""
    list_answer: tuple[int, bytes] | None = None
    rpc_answer: tuple[int, bytes] | None = None
    instead: dict[str, bytes] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    before_copy: Callable[[int], bool] = lambda _number: True
    writes: bool = True

    def id_of(self, number: int) -> str:
        """The id of a segment, of which 0 is the oldest."""
        return str(self.rows[-1 - number]["historySegmentId"])

    def listing(self) -> tuple[int, bytes]:
        """The answer to who asks for the list."""
        return self.list_answer or (HTTPStatus.OK, json.dumps({"segments": self.rows}).encode())

    def call(self, body: bytes) -> tuple[int, bytes] | None:
        """Copy a segment; None where the socket goes away meanwhile."""
        if self.rpc_answer:
            return self.rpc_answer
        call = json.loads(body)
        assert call["method"] == "networkhistory.CopyHistorySegmentToFile", call
        (parameter,) = call["params"]
        segment_id, target = parameter["HistorySegmentID"], Path(parameter["OutFile"])
        assert target.is_absolute(), target
        self.copies.append(segment_id)
        if problem := self._problem(segment_id, target):
            answer = {"result": None, "error": problem, "id": call["id"]}
            return HTTPStatus.BAD_REQUEST, json.dumps(answer).encode()
        stays = self.before_copy(len(self.copies))
        if self.writes and not self._write(segment_id, target, whole=stays):
            return None
        reply = {"Reply": f"copied history segment {segment_id} to file {target}", "Err": None}
        answer = {"result": reply, "error": None, "id": call["id"]}
        return HTTPStatus.OK, json.dumps(answer).encode()

    def _problem(self, segment_id: str, target: Path) -> str:
        if segment_id in self.refusals:
            return self.refusals[segment_id]
        if segment_id not in self.files:
            return f"failed to get ipfs file: {segment_id}: not found"
        return f"failed to write: path already exists: {target}" if target.exists() else ""

    def _write(self, segment_id: str, target: Path, *, whole: bool) -> bool:
        data = self.instead.get(segment_id, self.files[segment_id].read_bytes())
        data = data if whole else data[: len(data) // 2]
        # Who had asked may be gone, and its folder removed.
        with suppress(FileNotFoundError), target.open("xb") as file:
            for start in range(0, len(data), _PIECE_BYTES):
                file.write(data[start : start + _PIECE_BYTES])
                file.flush()
        return whole


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, node: DataNode, *arguments: Any) -> None:
        self._node = node
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.path == "/api/v2/networkhistory/segments":
            self._answer(self._node.listing())
        else:
            self._answer((HTTPStatus.NOT_FOUND, b'{"code":5,"message":"Not Found"}'))

    def do_POST(self) -> None:
        assert self.path == "/datanode/rpc"
        assert self.headers["Content-Type"] == "application/json"
        body = self.rfile.read(size := int(self.headers["Content-Length"]))
        if len(body) < size:
            self.close_connection = True  # who asks is gone
        elif (answer := self._node.call(body)) is None:
            self.close_connection = True
            self.server.shutdown()
            self.server.server_close()
            self._node.socket.unlink(missing_ok=True)
        else:
            self._answer(answer)

    def _answer(self, answer: tuple[int, bytes]) -> None:
        status, body = answer
        with suppress(ConnectionError):  # who had asked is gone
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Patient(socketserver.ThreadingMixIn):
    """Who asks may be killed at any moment."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[misc]


class _RestServer(_Patient, HTTPServer):
    """The public interface."""


class _UnixServer(_Patient, socketserver.UnixStreamServer):
    """The admin socket."""


@contextmanager
def data_node(segments: Path) -> Iterator[DataNode]:
    """Run a node with all the segments of a folder."""
    paths = {path: SegmentName.parse(path.name) for path in segments.glob("*.zip")}
    newest_first = sorted(paths.items(), key=lambda item: item[1].blocks, reverse=True)
    files = {cid_of(path): path for path, _ in newest_first}
    rows = [
        row(name, segment_id) for segment_id, (_, name) in zip(files, newest_first, strict=True)
    ]
    # Not in a test's own folder: the path of a socket may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="node-") as home:
        node = DataNode(files, rows, Path(home) / "node.sock")
        with _running(node):
            yield node


@contextmanager
def _running(node: DataNode) -> Iterator[None]:
    handler = partial(_Handler, node)
    rest = _RestServer(("127.0.0.1", 0), handler)
    node.url = f"http://127.0.0.1:{rest.server_address[1]}"
    servers = (rest, _UnixServer(str(node.socket), handler))
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


@contextmanager
def dripping_server(door: socket.socket, head: bytes, drop: bytes) -> Iterator[None]:
    """Answer the first connection to a listening socket with `head`, then drop by drop.

    The answer ends after 100 drops, so that a client who waits for it does not hang.
    """
    done = threading.Event()

    def drip() -> None:
        connection, _ = door.accept()
        with connection, suppress(ConnectionError):
            connection.recv(_PIECE_BYTES)
            connection.sendall(head)
            for _ in range(100):
                if done.wait(_DROP_SECONDS):
                    break
                connection.sendall(drop)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def row(name: SegmentName, segment_id: str) -> dict[str, Any]:
    """A segment as a node lists it: 64-bit numbers are text in its JSON."""
    return {
        "fromHeight": str(name.blocks.first),
        "toHeight": str(name.blocks.last),
        "historySegmentId": segment_id,
        "previousHistorySegmentId": "",
        "databaseVersion": str(name.version),
        "chainId": name.chain_id,
    }


def node_history(folder: Path, count: int = 6, **kit: Any) -> list[Path]:
    """Segments of ten blocks as a node makes them, each of which names the id of the one before."""
    paths: list[Path] = []
    for number in range(count):
        previous = cid_of(paths[-1]) if paths else ""
        first = number * 10 + 1
        path = build_segment(folder, first=first, last=first + 9, previous_id=previous, **kit)
        paths.append(path)
    return paths
