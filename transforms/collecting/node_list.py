"""The list of the segments that a data node has, by its public REST interface."""

from __future__ import annotations

import http.client
import json
import urllib.error
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import build_opener

from transforms.block_range import BlockRange
from transforms.collecting.whole_answer import WholeAnswerHandler
from transforms.errors import ConfigError, NodeError, SegmentError
from transforms.segments.cid import is_cid, said
from transforms.segments.segment_name import SegmentName

MAX_LIST_BYTES = 64 * 2**20
"""The bound on a list: 64 MiB, three times that of 75,000 segments."""

_SECONDS = 60.0  # for the whole list
_PATH = "/api/v2/networkhistory/segments"
_MAX_REASON_BYTES = 1000


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """A segment as a node lists it: the name of its file, and its id."""

    name: SegmentName
    segment_id: str

    @property
    def blocks(self) -> BlockRange:
        """The blocks that the segment covers."""
        return self.name.blocks


@dataclass(frozen=True, slots=True)
class NodeList:
    """All segments that the node at the address `node` has, oldest first, of one chain."""

    node: str
    segments: tuple[ListedSegment, ...]


def ask_node(node: str) -> NodeList:
    """Ask a data node for its list.

    Raises `ConnectionError` where nobody answers, and `NodeError` for an answer that is no list of
    segments.
    """
    address = node.rstrip("/") + _PATH
    try:
        answer, data = _answer(address)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(
            f"no list of segments from {address} ({reason}): see whether the node runs there"
        ) from error
    if isinstance(answer, urllib.error.HTTPError):
        reason = said(data[:_MAX_REASON_BYTES].decode(errors="replace").strip())
        raise ConnectionError(
            f"no list of segments from {address} ({answer.code} {answer.reason}: {reason}): see "
            "whether a data node answers there, and try again later"
        )
    if len(data) > MAX_LIST_BYTES:
        raise NodeError(
            f"the list at {address} is longer than {MAX_LIST_BYTES} bytes, which no history is: "
            "name a data node"
        )
    return read_list(node, data)


def _answer(address: str) -> tuple[http.client.HTTPResponse | urllib.error.HTTPError, bytes]:
    """The answer of an address, which may be a refusal, and its body."""
    try:
        answer = build_opener(WholeAnswerHandler).open(address, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        return answer, answer.read(MAX_LIST_BYTES + 1)


def read_list(node: str, data: bytes) -> NodeList:
    """Read what a node answers. Raises `NodeError`."""
    try:
        listed = sorted(_segments(json.loads(data)["segments"]), key=lambda s: s.blocks)
    except (ValueError, KeyError, TypeError, RecursionError, SegmentError) as error:
        raise NodeError(
            f"{node} does not answer with a list of segments ({said(error)}): name a data node"
        ) from error
    if len(chains := {segment.name.chain_id for segment in listed}) > 1:
        raise NodeError(f"{node} lists segments of several chains: {', '.join(sorted(chains))}")
    return NodeList(node, tuple(listed))


def _segments(rows: list[dict[str, Any]]) -> Iterator[ListedSegment]:
    for row in rows:
        segment_id = said(row["historySegmentId"])
        if not is_cid(segment_id):
            raise SegmentError(f"{segment_id!r} is not the id of a segment")
        facts = (row["chainId"], row["databaseVersion"], row["fromHeight"], row["toHeight"])
        yield ListedSegment(SegmentName.stated(*facts), segment_id)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The segments of a node's list that a source lacks, oldest first.

    `retention` is the number of blocks for which the node keeps a segment after its last one.
    """

    listed: NodeList
    segments: tuple[ListedSegment, ...]
    retention: int

    @property
    def blocks_left(self) -> int | None:
        """How many more blocks the oldest of the segments stays; None where there is none."""
        if not self.segments:
            return None
        newest = max(segment.blocks.last for segment in self.listed.segments)
        return max(self.segments[0].blocks.last + self.retention - newest, 0)


def backlog(listed: NodeList, keys: Iterable[str], retention: int) -> Backlog:
    """Hold a node's list against the keys of a source.

    Raises `ConfigError` where the source has segments, and all of them are of other chains.
    """
    names = set(_names(keys))
    chains = {name.chain_id for name in names}
    mine = {segment.name.chain_id for segment in listed.segments}
    if chains and mine and not chains & mine:
        raise ConfigError(
            f"the source has segments of {', '.join(sorted(chains))}, and {listed.node} has those "
            f"of {', '.join(mine)}: name another source (STRATA_SOURCE) for them"
        )
    return Backlog(
        listed,
        tuple(segment for segment in listed.segments if segment.name not in names),
        retention,
    )


def _names(keys: Iterable[str]) -> Iterator[SegmentName]:
    """The names of segments among keys; a source may have other files, too."""
    for key in keys:
        try:
            yield SegmentName.parse(key)
        except SegmentError:
            continue
