from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.data_node_kit import DRIPPING_ANSWERS, DataNode, dripping_server
from transforms.collecting.collection import AdminSocket
from transforms.errors import NodeError, SegmentError


def test_the_node_writes_the_file(node: DataNode, tmp_path: Path) -> None:
    segment_id = node.id_of(0)

    AdminSocket(node.socket).copy(segment_id, tmp_path / "copy.zip")

    assert (tmp_path / "copy.zip").read_bytes() == node.files[segment_id].read_bytes()


def test_what_the_node_refuses_is_told_in_its_words(node: DataNode, tmp_path: Path) -> None:
    target = tmp_path / "copy.zip"
    target.write_bytes(b"there")
    admin = AdminSocket(node.socket)

    with pytest.raises(
        SegmentError, match=r"does not copy .*: failed to write: path already exists"
    ):
        admin.copy(node.id_of(0), target)
    with pytest.raises(SegmentError, match="not found"):
        admin.copy("Qm1", tmp_path / "other.zip")
    assert target.read_bytes() == b"there"


def test_an_error_inside_a_result_is_one(node: DataNode, tmp_path: Path) -> None:
    result = {"result": {"Reply": "", "Err": {"code": 1}}, "error": None, "id": 1}
    node.rpc_answer = (HTTPStatus.OK, json.dumps(result).encode())

    with pytest.raises(SegmentError, match="'code': 1"):
        AdminSocket(node.socket).copy(node.id_of(0), tmp_path / "copy.zip")


@pytest.mark.parametrize("body", [b"", b"rpc: unrecognized Content-Type", b"[]", b"{}", b"\xff"])
def test_what_is_no_node_is_named(node: DataNode, tmp_path: Path, body: bytes) -> None:
    node.rpc_answer = (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, body)

    with pytest.raises(NodeError, match=r"sock does not answer as the admin socket .*415"):
        AdminSocket(node.socket).copy(node.id_of(0), tmp_path / "copy.zip")


def test_a_socket_that_is_not_there_is_a_lost_connection(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sock", tmp_path / ("long" * 50)):
        with pytest.raises(ConnectionError, match="no answer from the data node's admin socket"):
            AdminSocket(path).copy("Qm1", tmp_path / "copy.zip")


def test_a_socket_that_goes_away_is_a_lost_connection(node: DataNode, tmp_path: Path) -> None:
    node.before_copy = lambda _number: False
    admin = AdminSocket(node.socket)

    for _ in range(2):  # in the middle of a copy, and from then on
        with pytest.raises(ConnectionError, match="see whether the node runs"):
            admin.copy(node.id_of(0), tmp_path / "copy.zip")


@pytest.fixture
def door(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(tmp_path / "node.sock"))
        door.listen()
        yield door


def test_a_socket_that_says_nothing_is_not_waited_for_for_ever(
    door: socket.socket, tmp_path: Path
) -> None:
    with pytest.raises(ConnectionError, match="timed out"):
        AdminSocket(Path(door.getsockname()), seconds=0.2).copy("Qm1", tmp_path / "copy.zip")


@pytest.mark.parametrize("part", DRIPPING_ANSWERS)
def test_an_answer_must_be_whole_in_time_though_bytes_keep_coming(
    door: socket.socket, tmp_path: Path, part: str
) -> None:
    admin = AdminSocket(Path(door.getsockname()), seconds=0.5)
    drips = dripping_server(door, *DRIPPING_ANSWERS[part])
    with drips, pytest.raises(ConnectionError, match=r"no answer from .* \(timed out\)"):
        admin.copy("Qm1", tmp_path / "copy.zip")
