"""Collecting segments: each is copied by the node, proven against its id, and put into the source.

The source gets a file whole and under its right name, or not at all, and once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from transforms.collecting.admin_socket import AdminSocket
from transforms.collecting.node_list import ListedSegment
from transforms.errors import ConflictError, IntegrityError, NodeError, SegmentError
from transforms.segments.metadata import stated_name
from transforms.segments.prepare import zip_digests
from transforms.stores.store import Store


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
    name = stated_name(path)
    if name != segment.name:
        raise SegmentError(
            f"the node lies: it lists {segment.segment_id} as {segment.name.file_name}, and the "
            f"file says that it is {name.file_name}; get the segment from another node"
        )
    return sha256
