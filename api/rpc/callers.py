"""Who calls: the address of a client, also behind a proxy that is believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import unquote

_LOCAL = "local"


class Callers:
    """Finds the client of a call. Of `proxies`, addresses or networks, `*` is any."""

    def __init__(self, proxies: Collection[str]) -> None:
        self._all = "*" in proxies
        found = map(_network, proxies)
        self._networks = [network for network in found if network is not None]

    def address(self, peer: str, forwarded: str) -> str:
        """The client's address, from gRPC's name of the peer and the `x-forwarded-for` it sent."""
        host = peer_host(peer)
        if not forwarded or not self._believes(host):
            return host
        hops = [hop.strip() for hop in forwarded.split(",")]
        # From the nearest hop on: the first that is no proxy of ours is as far as we can know.
        for hop in reversed(hops):
            if not self._believes(hop):
                return hop
        return hops[0]

    def _believes(self, host: str) -> bool:
        if self._all:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def peer_host(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return _LOCAL
    return unquote(rest).rpartition(":")[0].strip("[]")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None
