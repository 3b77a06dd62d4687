"""Collecting segments: each is copied by the node, proven against its id, and put into the source.

The source gets a file whole, under the name that the node lists, or not at all, and once. That the
name is right is checked by a load.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transforms.collecting.node_list import ListedSegment
from transforms.collecting.whole_answer import WholeAnswer
from transforms.errors import ConflictError, IntegrityError, NodeError, SegmentError
from transforms.segments.cid import said
from transforms.segments.prepare import zip_digests
from transforms.stores.store import Store

_PATH = "/datanode/rpc"
_METHOD = "networkhistory.CopyHistorySegmentToFile"
_SECONDS = 600.0  # for a whole answer: a segment of gigabytes takes its time
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

    response_class = WholeAnswer

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(frozen=True, slots=True)
class CollectedSegment:
    """A segment that the source has now: the bytes of its file, or the reason why it has not."""

    segment: ListedSegment
    bytes: int = 0
    refusal: str = ""


def collect(
    segments: Iterable[ListedSegment], admin: AdminSocket, source: Store, folder: Path
) -> Iterator[CollectedSegment]:
    """Collect segments one by one, in their order; what is wrong with one stops no other.

    The node writes into `folder`, an absolute path. Raises `ConnectionError` where it goes away,
    and `NodeError` where it writes elsewhere; errors of disk and store pass through.
    """
    for segment in segments:
        try:
            yield CollectedSegment(segment, _collect(segment, admin, source, folder))
        except (SegmentError, ConflictError, IntegrityError) as error:
            yield CollectedSegment(segment, refusal=str(error))


def _collect(segment: ListedSegment, admin: AdminSocket, source: Store, folder: Path) -> int:
    """Collect one segment; returns the bytes of its file."""
    path = folder / segment.name.file_name
    try:
        admin.copy(segment.segment_id, path)
        if not path.is_file():
            raise NodeError(
                f"the data node says that it has written {path}, and it is not there: let the node "
                "and this program see the same files under the same paths"
            )
        sha256 = _proven(segment, path)
        size = path.stat().st_size
        # Not moved: the file is the node's, with its rights, and the copy is hashed once more.
        source.put_if_absent(
            segment.name.file_name,
            path,
            content_type="application/zip",
            sha256=sha256,
            immutable=False,
        )
        return size
    finally:
        path.unlink(missing_ok=True)


def _proven(segment: ListedSegment, path: Path) -> str:
    """The SHA-256 of a file that is the segment. Raises `SegmentError` where it is another one."""
    sha256, segment_id = zip_digests(path)
    if segment_id != segment.segment_id:
        raise SegmentError(
            f"the node lies, or its disk is damaged: its file for {segment.segment_id} has the id "
            f"{segment_id}; get the segment from another node"
        )
    return sha256
