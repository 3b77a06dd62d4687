"""The network's own ids, against what data nodes recorded and a second, plain computation."""

from __future__ import annotations

import hashlib
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import each_of
from tests.cid_kit import cid_of
from tests.segments_kit import all_shared_segments
from transforms.segments import cid as module
from transforms.segments.cid import CidHasher, is_cid

_CHUNK = 262_144

_PATTERNS = {
    0: "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH",
    _CHUNK: "QmST7dgog87n3RYz743DBMy6Z38VVF1432NLrwvqA4NJsE",
    2 * _CHUNK: "QmZ63CUmxwNSpqCDFL3x3EKXvbHhxdbfRLtW4Xonc53VbW",
    174 * _CHUNK: "QmYF6BNvuvMXVnBY9ofeyTgC39qXcBufyzWek6BYEFnode",
    174 * _CHUNK + 1: "QmZXcrPgxjJduiNd6Rx4oUXLiqBmpgKxLGSZpyPXuegcib",
    175 * _CHUNK: "QmVd5Gt58w8T6ophZpyvvCqoNdwQoWmnrYD7veh2hMyLr9",
    348 * _CHUNK + 5: "QmdQ9XfRY2oLSMFpvcd5WCWgfhFsDvS7iePWo4ipx92eVv",
}

_RECORDED = {
    ("upgrade", "1-1000"): "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji1J",
    ("upgrade", "1001-2000"): "Qmd4vt1L7wJtvK1waqvYVbXbBHFGTiTGJYyvdEHPwQBP9B",
    ("upgrade", "2001-2500"): "QmWLggxH4BWBbUvZkjb8Na2EdRa4SpFaXtgth9KeH2Jqtg",
    ("upgrade", "2501-3000"): "QmPHuH6nHaMA5TAwJSD1MCTinabhs6NXkfBoCejFZECX59",
    ("upgrade", "3001-4000"): "QmTE3kNdx8dHJZTihak1Tv5eHEZ5EsRZyQiixTAJ64yW4C",
    ("upgrade", "4001-5000"): "QmWN3u2uZMmEsGJRLExq3g7jnm25b1N9qC3G5kxea16akJ",
    ("short", "1-1000"): "QmPfFqP67fvxbHwfVrmzsYezwzC1KpCxH3XeGocJ9ZnbRa",
    ("short", "1001-1087"): "QmbwpQHErqaGnU1MhLVSQYfEngoUPTxVTfyLzwrmamDXUZ",
}


@each_of("size", _PATTERNS)
def test_the_id_of_repeated_bytes_is_that_of_another_implementation(size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    hasher = CidHasher()
    for start in range(0, size, 1 << 20):
        hasher.update(data[start : start + (1 << 20)])
    assert hasher.cid() == _PATTERNS[size]


def test_the_ids_of_recorded_segments_are_those_of_the_data_nodes() -> None:
    found = {
        (folder.name, path.stem.split("-", 3)[3]): cid_of(path)
        for folder in all_shared_segments()
        if folder.parent.name == "real"
        for path in folder.glob("*.zip")
    }
    assert found == _RECORDED


def _plain(data: bytes, chunk: int, links: int) -> str:
    """The id by the words of the description, all in memory."""

    def varint(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + varint(value // 128)

    def field(number: int, content: bytes) -> bytes:
        return bytes([number * 8 + 2]) + varint(len(content)) + content

    nodes: list[tuple[bytes, int, int]] = []
    for start in range(0, len(data), chunk) if data else (0,):
        piece = data[start : start + chunk]
        unixfs = b"\x08\x02" + (field(2, piece) if piece else b"") + b"\x18" + varint(len(piece))
        node = field(1, unixfs)
        nodes.append((hashlib.sha256(node).digest(), len(node), len(piece)))
    while len(nodes) > 1:
        rest, nodes = iter(nodes), []
        while group := list(islice(rest, links)):
            unixfs = b"\x08\x02\x18" + varint(sum(size for _, _, size in group))
            unixfs += b"".join(b"\x20" + varint(size) for _, _, size in group)
            node = b"".join(
                field(2, field(1, b"\x12\x20" + digest) + field(2, b"") + b"\x18" + varint(total))
                for digest, total, _ in group
            ) + field(1, unixfs)
            total = len(node) + sum(total for _, total, _ in group)
            size = sum(size for _, _, size in group)
            nodes.append((hashlib.sha256(node).digest(), total, size))
    number, text = int.from_bytes(b"\x12\x20" + nodes[0][0], "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + text
    return text


@settings(max_examples=200)
@given(
    data=st.binary(max_size=300),
    chunk=st.integers(1, 9),
    links=st.integers(2, 5),
    pieces=st.lists(st.integers(0, 40)),
)
def test_pieces_of_any_length_give_the_id_of_a_plain_computation(
    data: bytes, chunk: int, links: int, pieces: list[int]
) -> None:
    """With small chunks and nodes, so that graphs of many levels come up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        patch.setattr(module, "_LINKS", links)
        hasher, rest = CidHasher(), data
        for size in pieces:
            hasher.update(rest[:size])
            rest = rest[size:]
        hasher.update(rest)
        assert hasher.cid() == _plain(data, chunk, links)


def test_the_id_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    data = bytes(range(251)) * 3000
    (tmp_path / "file").write_bytes(data)
    assert cid_of(tmp_path / "file") == _plain(data, _CHUNK, 174)


@each_of(
    "text",
    [
        "",
        "Qm1",
        "fake-cid-0001",
        "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji1",
        "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji1J ",
        "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji1\n",
        "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji0J",
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
    ],
)
def test_what_is_no_cid_is_none(text: str) -> None:
    assert not is_cid(text)


@given(st.binary(min_size=32, max_size=32))
def test_every_multihash_of_sha256_is_a_cid(digest: bytes) -> None:
    assert is_cid(module._base58(b"\x12\x20" + digest))
