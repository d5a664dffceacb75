"""Which addresses webhooks may go to: those of the public internet, and what the operator lists.

Whoever may subscribe an address makes this machine send requests, so what is inside the operator's network must be out
of reach: databases, metadata services, routers. A name is no protection, since its owner decides what it resolves to;
so what counts is the address after resolving, and the connection goes to that very address (posting.py). What is not
surely public is refused: for IPv6 all outside 2000::/3, and inside it what carries an IPv4 address or is set apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from onward.errors import InvalidInput

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_INSIDE_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")
_INSIDE_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo and other protocols
        "2001:db8::/32", "3fff::/20",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
    )
)  # fmt: skip


def is_public(address: Address) -> bool:
    """Is this surely an address of the public internet?"""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        return address in _PUBLIC_6 and not any(address in network for network in _INSIDE_6)
    return not any(address in network for network in _INSIDE_4)


@dataclass(frozen=True)
class Targets:
    """What is allowed beside the public internet: names, and ports of names (None: any port); networks."""

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[Network, ...] = field(default=())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Targets:
        return cls.parse(environment.get("ONWARD_HTTP_TARGETS") or "")

    @classmethod
    def parse(cls, text: str) -> Targets:
        """`hooks.internal, hooks.internal:8080, 10.1.0.0/16, [::1]:9000`."""
        names: set[tuple[str, int | None]] = set()
        networks: list[Network] = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            try:
                networks.append(ip_network(item, strict=False))
            except ValueError:
                names.add(_name(item))
        return cls(frozenset(names), tuple(networks))

    def allows(self, host: str, port: int, address: str) -> bool:
        """May a request for this host and port go to this address, which the host resolved to?"""
        name = host.lower().rstrip(".")
        if (name, None) in self.names or (name, port) in self.names:
            return True
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
        return any(at in network for at in (found, mapped) if at is not None for network in self.networks) or is_public(
            found
        )


def _name(item: str) -> tuple[str, int | None]:
    host, colon, port = item.rpartition(":")
    if not colon or item.endswith("]"):
        host, port = item, ""
    host = host.removeprefix("[").removesuffix("]").lower().rstrip(".")
    if not host or "/" in host or " " in host or (colon and not item.endswith("]") and not port.isdecimal()):
        raise InvalidInput(
            f"ONWARD_HTTP_TARGETS lists hosts, host:port and networks such as 10.1.0.0/16, with commas; got {item!r}"
        )
    return host, int(port) if port else None
