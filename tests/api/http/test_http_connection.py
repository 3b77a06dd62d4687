from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from api.http.answers import client_key, departure
from tests.cases import each_of


@each_of(
    ("host", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("proxy.example", "proxy.example"),
    ],
)
def test_an_ipv6_client_is_its_network(host: str, key: str) -> None:
    assert client_key({"client": (host, 1)}) == key


def test_a_client_without_an_address_is_local() -> None:
    assert client_key({"client": None}) == "local"


@pytest.mark.parametrize("kind", ["http.disconnect", "websocket.disconnect"])
def test_a_client_has_left_when_its_connection_says_so_and_not_before(kind: str) -> None:
    messages: list[Message] = [{"type": "http.request"}, {"type": kind}, {"type": "never read"}]

    async def receive() -> Message:
        return messages.pop(0)

    asyncio.run(departure(receive)())

    assert messages == [{"type": "never read"}]
