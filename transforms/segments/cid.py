"""The network's own id of a segment: the IPFS CID, version 0, of its ZIP's bytes.

As `ipfs add` makes it with its defaults: UnixFS leaves of 262,144 bytes below dag-pb nodes of at
most 174 links each, hashed with SHA-256, written in base58.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_CHUNK = 262_144
_LINKS = 174
_MULTIHASH = b"\x12\x20"  # SHA-256, 32 bytes
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_CID = re.compile(f"Qm[{_ALPHABET}]{{44}}")
_MOST_SAID = 100


def said(value: object) -> str:
    """An id, or another short value, as somebody else's JSON has it; "" for none.

    The text can be stored and shown; at most 100 characters of it are kept.
    """
    text = "" if value is None else str(value)[:_MOST_SAID]
    # JSON may hold halves of surrogate pairs, which are no characters.
    return text.encode("utf-8", "backslashreplace").decode()


def is_cid(text: str) -> bool:
    """Whether a text has the form of a CID of version 0: what a data node calls a segment."""
    return _CID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the graph: its SHA-256, the size of it and all below it, the file bytes below."""

    sha256: bytes
    size: int
    file_bytes: int


class CidHasher:
    """Computes a CID from bytes that come in pieces of any length.

    Memory is bounded by a chunk and, for each level of the graph, one node's links.
    """

    def __init__(self) -> None:
        self._chunk = bytearray()
        # From the leaves up: nodes that have no parent yet, never more than one parent's.
        self._levels: list[list[_Node]] = []

    def update(self, data: bytes) -> None:
        """Take the next bytes."""
        offset, view = 0, memoryview(data)
        while offset < len(data):
            # A whole chunk waits for the byte after it: the last one may be the root.
            if len(self._chunk) == _CHUNK:
                self._add(0, _leaf(bytes(self._chunk)))
                self._chunk.clear()
            piece = view[offset : offset + _CHUNK - len(self._chunk)]
            self._chunk += piece
            offset += len(piece)

    def cid(self) -> str:
        """The id of all bytes so far; no more can follow."""
        last = _leaf(bytes(self._chunk))
        for level in self._levels:
            last = _parent([*level, last])
        return _base58(_MULTIHASH + last.sha256)

    def _add(self, level: int, node: _Node) -> None:
        """Add a node that is not the last one of its level."""
        if level == len(self._levels):
            self._levels.append([])
        nodes = self._levels[level]
        nodes.append(node)
        if len(nodes) == _LINKS:
            self._levels[level] = []
            self._add(level + 1, _parent(nodes))


def _leaf(chunk: bytes) -> _Node:
    content = b"\x12" + _varint(len(chunk)) + chunk if chunk else b""
    message = b"\x08\x02" + content + b"\x18" + _varint(len(chunk))
    return _node(b"\x0a" + _varint(len(message)) + message, 0, len(chunk))


def _parent(children: list[_Node]) -> _Node:
    links = b"".join(map(_link, children))
    below = sum(child.file_bytes for child in children)
    sizes = b"".join(b"\x20" + _varint(child.file_bytes) for child in children)
    message = b"\x08\x02\x18" + _varint(below) + sizes
    own = links + b"\x0a" + _varint(len(message)) + message
    return _node(own, sum(child.size for child in children), below)


def _node(own: bytes, size_below: int, file_bytes: int) -> _Node:
    return _Node(hashlib.sha256(own).digest(), len(own) + size_below, file_bytes)


def _link(child: _Node) -> bytes:
    fields = b"\x0a\x22" + _MULTIHASH + child.sha256 + b"\x12\x00\x18" + _varint(child.size)
    return b"\x12" + _varint(len(fields)) + fields


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _base58(data: bytes) -> str:
    # No leading zero bytes here, for which base58 has a rule of its own.
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
