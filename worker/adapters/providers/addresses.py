"""Address resolution of hosts, and the check that a worker may connect to them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_UNICAST = ipaddress.IPv6Network("2000::/3")
# Metadata services of Azure and Oracle; not all versions of Python treat the second as special.
_PLATFORMS = [ipaddress.IPv4Network("168.63.129.16"), ipaddress.IPv4Network("192.0.0.0/24")]


def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host's addresses, in the order in which to try them.

    Raises:
        OSError: the host has no address.
    """
    address_records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in address_records))


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local, multicast or a tunnel.

    >>> is_public("93.184.215.14"), is_public("169.254.169.254"), is_public("::ffff:127.0.0.1"), is_public("64:ff9b::1")
    (True, False, False, False)

    Raises:
        ValueError: not an address.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        # An address that embeds another one (IPv4 in IPv6, NAT64, 6to4, Teredo) would lead there.
        return ip in _UNICAST and ip.is_global and ip.sixtofour is None and ip.teredo is None
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _PLATFORMS)


def is_allowed(host: str, address: str, allowed_names: Collection[str]) -> bool:
    """Return whether a worker may connect to this address of a host.

    Args:
        host: the name, in lower case.
        address: one of its addresses.
        allowed_names: hosts, addresses and networks that are allowed although they are private.

    Raises:
        ValueError: not an address.
    """
    ip = ipaddress.ip_address(address)
    return is_public(address) or host in allowed_names or any(ip in network for network in _networks(allowed_names))


def _networks(allowed_names: Collection[str]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Yield the names that are addresses or networks; the others are hosts."""
    for name in allowed_names:
        with contextlib.suppress(ValueError):
            yield ipaddress.ip_network(name, strict=False)
