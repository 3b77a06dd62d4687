"""Web servers that show a folder: Python's own, and one that knows ranges and tags.

Both answer 404 for a missing file. `PAGE` and `REDIRECT` are other habits of public hosts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = "page"
"""A page is answered in place of a missing file."""
REDIRECT = "redirect"
"""The address of a missing file leads to a page."""


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Ranges(_Quiet):
    """Answers `Range: bytes=<from>-[<to>]` and `If-Match` as RFC 9110 says."""

    missing = "404"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self._answer_missing()
            return
        data = path.read_bytes()
        tag = f'"{path.stat().st_mtime_ns:x}-{len(data):x}"'
        if self.headers.get("If-Match", tag) != tag:
            self._answer(HTTPStatus.PRECONDITION_FAILED, b"", {})
            return
        asked = self.headers.get("Range")
        if asked is None:
            self._answer(HTTPStatus.OK, data, {"ETag": tag})
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        if int(first) >= len(data):
            size = {"Content-Range": f"bytes */{len(data)}"}
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"", size)
            return
        part = data[int(first) : int(last) + 1 if last else None]
        span = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self._answer(HTTPStatus.PARTIAL_CONTENT, part, {"ETag": tag, "Content-Range": span})

    def _answer_missing(self) -> None:
        if self.missing.isdigit():
            self.send_error(int(self.missing))
        elif self.missing == REDIRECT and self.path != "/app":
            self._answer(HTTPStatus.FOUND, b"", {"Location": "/app"})
        else:
            page = b"\n<!doctype html><title>App</title>"
            self._answer(HTTPStatus.OK, page, {"Content-Type": "text/html"})

    def _answer(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def web_server(folder: Path, *, ranges: bool = True, missing: str = "404") -> Iterator[str]:
    """Serve a folder for the length of a block; gives the server's address.

    `missing` is the answer of a server with ranges for a missing file: a status or a habit.
    """
    kind = type("Handler", (_Ranges if ranges else _Quiet,), {"missing": missing})
    handler: Any = partial(kind, directory=os.fspath(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
