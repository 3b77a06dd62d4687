"""The admin socket of a data node, which copies a segment into a file that the node itself writes.

The node speaks JSON-RPC 1.0 over HTTP there. It writes the file with its own rights, on its own
machine, and refuses a path where there is a file already.
"""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

from transforms.errors import NodeError, SegmentError
from transforms.segments.cid import said

_PATH = "/datanode/rpc"
_METHOD = "networkhistory.CopyHistorySegmentToFile"
_SECONDS = 600.0  # without a byte of an answer: a segment of gigabytes takes its time
_MAX_ANSWER_BYTES = 1 << 20


class AdminSocket:
    """The socket at `path`; each copy is a connection of its own."""

    def __init__(self, path: Path, seconds: float = _SECONDS) -> None:
        self.path = path
        self._seconds = seconds

    def copy(self, segment_id: str, target: Path) -> None:
        """Let the node write a segment to the absolute path `target`.

        Raises `SegmentError` where the node refuses, `ConnectionError` where it does not answer,
        and `NodeError` where what answers is no data node.
        """
        answer = self._call(_METHOD, {"HistorySegmentID": segment_id, "OutFile": str(target)})
        result = answer.get("result")
        problem = answer.get("error") or (result.get("Err") if isinstance(result, dict) else None)
        if problem:
            raise SegmentError(f"the node does not copy {segment_id}: {said(problem)}")

    def _call(self, method: str, parameter: dict[str, str]) -> dict[str, Any]:
        body = json.dumps({"method": method, "params": [parameter], "id": 1})
        try:
            with closing(_UnixConnection(self.path, self._seconds)) as connection:
                connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                data = answer.read(_MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(
                f"no answer from the data node's admin socket {self.path} ({error}): see whether "
                "the node runs, whether this is its socket, and whether this user may open it"
            ) from error
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or not document.keys() & {"result", "error"}:
            raise NodeError(
                f"{self.path} does not answer as the admin socket of a data node ({answer.status} "
                f"{said(data.decode(errors='replace').strip())}): name the right one"
            )
        return document


class _UnixConnection(http.client.HTTPConnection):
    """A connection of HTTP over a socket of the file system."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
