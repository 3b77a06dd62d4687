"""Whose call it is, also behind a proxy."""

from __future__ import annotations

from uvicorn.middleware.proxy_headers import _TrustedHosts as Addresses

from api.rpc.call import caller, peer_host
from tests.cases import each_of


@each_of(
    ("peer", "host"),
    [
        ("ipv4:192.0.2.1:5000", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:5000", "2001:db8::1"),
        ("ipv6:[::1]:5000", "::1"),
        ("", ""),
    ],
)
def test_the_peer_of_a_connection_is_named_by_its_address(peer: str, host: str) -> None:
    assert peer_host(peer) == host


@each_of(
    ("proxies", "forwarded", "found"),
    [
        (("127.0.0.1",), "", "127.0.0.1"),
        (("127.0.0.1",), "192.0.2.9", "192.0.2.9"),
        (("127.0.0.1",), "203.0.113.5, 192.0.2.9", "192.0.2.9"),
        (("127.0.0.1", "192.0.2.0/24"), "203.0.113.5, 192.0.2.9", "203.0.113.5"),
        (("127.0.0.1", "203.0.113.5"), "203.0.113.5", "203.0.113.5"),
        (("*",), "203.0.113.5, 192.0.2.9", "203.0.113.5"),
        ((), "192.0.2.9", "127.0.0.1"),
        (("10.0.0.1", "no address"), "192.0.2.9", "127.0.0.1"),
    ],
)
def test_only_a_believed_proxy_says_who_calls(
    proxies: tuple[str, ...], forwarded: str, found: str
) -> None:
    assert caller("ipv4:127.0.0.1:5000", forwarded, Addresses([*proxies])) == found
