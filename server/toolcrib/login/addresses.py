"""Which addresses may be fetched or opened on behalf of a server that has named them.

Knows schemes, hosts and networks; never knows what is fetched there. Anything that cannot be told is refused.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

import httpx2

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOCAL = "localhost"
_URL_MAX = 8192
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that stand for those of IPv4, in their last four bytes (RFC 6052)."""


def why_not_fetched(url: str) -> str:
    """Return why ``url`` is not fetched, whoever names it, as the end of a sentence; empty where it may be.

    Only https, and http on this machine; no name and password in it.
    """
    parts = _parts(url)
    if parts is None:
        return "is no address of the web"
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "is neither https nor on this machine"
    if "@" in parts.netloc:
        return "has a name or a password in it"
    return ""


def is_shown(url: str) -> bool:
    """Return whether ``url`` may be given to a person's browser: only http and https, printable, and not too long."""
    return _parts(url) is not None


def is_loopback(host: str) -> bool:
    """Return whether a host, as it is written, is this machine, whatever a name server says."""
    if host.lower().rstrip(".") == _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(text: str) -> bool:
    """Return whether an address of the network is one that not everybody can reach; also where it is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    return any(not each.is_global or each.is_multicast for each in _meanings(address))


def why_not_connected(addresses: Sequence[str], *, allows_private: bool) -> str:
    """Return why no connection is made to a host with these addresses; one that is private spoils all of them."""
    if not addresses:
        return "has no address"
    if not allows_private and any(map(is_private, addresses)):
        return "is in a private network, and the server itself is not"
    return ""


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return what two addresses of one web server have in common (RFC 6454)."""
    return url.scheme, url.host, url.port


def _parts(url: str) -> SplitResult | None:
    if len(url) > _URL_MAX or not url.isascii() or not url.isprintable() or any(mark in url for mark in ' "<>\\^`{|}'):
        return None
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname and port_is_fine else None


def _meanings(address: IpAddress) -> list[IpAddress]:
    """Return an address, and those of IPv4 that it stands for."""
    found: list[IpAddress] = [address]
    if isinstance(address, ipaddress.IPv4Address):
        return found
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.ipv4_mapped:
        found.clear()  # it is no address of its own
    found.extend(each for each in inner if each is not None)
    return found
