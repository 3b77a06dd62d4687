"""Who calls: the address of a client, also behind a proxy that is believed."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from api.core.addresses import Addresses

_LOCAL = "local"


class Callers:
    """Finds the client of a call. Of `proxies`, addresses or networks, `*` is any."""

    def __init__(self, proxies: Collection[str]) -> None:
        self._proxies = Addresses(proxies)

    def address(self, peer: str, forwarded: str) -> str:
        """The client's address, from gRPC's name of the peer and the `x-forwarded-for` it sent."""
        host = peer_host(peer)
        if not forwarded or host not in self._proxies:
            return host
        hops = [hop.strip() for hop in forwarded.split(",")]
        # From the nearest hop on: the first that is no proxy of ours is as far as we can know.
        for hop in reversed(hops):
            if hop not in self._proxies:
                return hop
        return hops[0]


def peer_host(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return _LOCAL
    return unquote(rest).rpartition(":")[0].strip("[]")
