from __future__ import annotations

import json
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.cid_kit import cid_of
from tests.data_node_kit import DRIPPING_ANSWERS, DataNode, dripping_server
from tests.ports import free_ports
from transforms.collecting.node_list import MAX_LIST_BYTES, ask_node, read_list
from transforms.errors import NodeError

_ID = "QmReLZTKojmVKS8mHtPTDzzrvmEGEuVKst1MdmYMfjji1J"


def _row(**changes: Any) -> dict[str, Any]:
    return {
        "fromHeight": "1",
        "toHeight": "10",
        "historySegmentId": _ID,
        "databaseVersion": "1",
        "chainId": "some-chain",
        **changes,
    }


def _list(*rows: object) -> bytes:
    return json.dumps({"segments": rows}).encode()


def test_a_list_is_read_oldest_first_with_names_and_ids(node: DataNode, history: Path) -> None:
    listed = ask_node(f"{node.url}/")

    names = [f"kit-chain-1-{first}-{first + 9}.zip" for first in range(1, 60, 10)]
    assert [segment.name.file_name for segment in listed.segments] == names
    for segment in listed.segments:
        assert segment.segment_id == cid_of(history / segment.name.file_name)


def test_an_empty_list_is_one(node: DataNode) -> None:
    node.rows.clear()

    assert ask_node(node.url).segments == ()


def test_numbers_may_be_numbers() -> None:
    (segment,) = read_list(
        "node", _list(_row(fromHeight=1, toHeight=10, databaseVersion=1))
    ).segments

    assert segment.name.file_name == "some-chain-1-1-10.zip"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"segments":{"a":1}}',
        _list("text"),
        _list({}),
        _list(_row(historySegmentId="bafy")),
        _list(_row(historySegmentId=None)),
        _list(_row(chainId="../../etc")),
        _list(_row(chainId="")),
        _list(_row(chainId=["x" * 10_000])),
        _list(_row(fromHeight="11")),
        _list(_row(fromHeight="-1")),
        _list(_row(toHeight="1e3")),
        _list(_row(databaseVersion=True)),
        b"[" * 100_000,
    ],
)
def test_what_is_no_list_of_segments_is_refused_with_the_node(data: bytes) -> None:
    with pytest.raises(NodeError, match=r"^http://node does not answer with a list") as caught:
        read_list("http://node", data)
    assert len(str(caught.value)) < 300


def test_a_list_is_of_one_chain() -> None:
    with pytest.raises(NodeError, match="several chains: a, b"):
        read_list(
            "node", _list(_row(chainId="a"), _row(chainId="b", fromHeight="11", toHeight="20"))
        )


def test_a_list_without_end_is_not_read_to_its_end(node: DataNode) -> None:
    node.list_answer = (HTTPStatus.OK, b" " * (MAX_LIST_BYTES + 1))

    with pytest.raises(NodeError, match=f"longer than {MAX_LIST_BYTES} bytes"):
        ask_node(node.url)


@pytest.mark.parametrize("status", [404, 429, 500, 503])
def test_another_answer_is_told_with_its_status(node: DataNode, status: int) -> None:
    node.list_answer = (status, b'{"code":5,"message":"Not Found"}')

    with pytest.raises(ConnectionError, match=rf"no list of segments from {node.url}.*\({status} "):
        ask_node(node.url)


def _nobody() -> socket.socket:
    return socket.socket()


def _silent() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.mark.parametrize("listening", [_nobody, _silent])
def test_nobody_who_answers_is_a_lost_connection(
    listening: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.collecting.node_list._SECONDS", 0.2)
    with listening() as door:
        port = door.getsockname()[1] if listening is _silent else free_ports(1)[0]
        with pytest.raises(ConnectionError, match="see whether the node runs there"):
            ask_node(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("part", DRIPPING_ANSWERS)
def test_a_list_must_be_whole_in_time_though_bytes_keep_coming(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.collecting.node_list._SECONDS", 0.5)
    with _silent() as door, dripping_server(door, *DRIPPING_ANSWERS[part]):
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=rf"no list of segments from {url}.*timed out"):
            ask_node(url)
