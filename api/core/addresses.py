"""Addresses and networks of the settings, such as those of proxies that are believed."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


class Addresses:
    """Addresses and networks; `*` is every one."""

    def __init__(self, addresses: Collection[str]) -> None:
        self._all = "*" in addresses
        self._networks = []
        for each in addresses:
            try:
                self._networks.append(ipaddress.ip_network(each))
            except ValueError:
                continue

    def __contains__(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return self._all
        return self._all or any(address in network for network in self._networks)
