"""Which URLs may be fetched or opened on behalf of the server that named them.

Knows schemes, hosts and networks; never knows what is fetched there. Anything unclear is refused.
"""

import ipaddress
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

import httpx2

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LOCAL = "localhost"
_URL_MAX = 8192
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that embed IPv4 addresses in their last four bytes (RFC 6052)."""


def why_not_fetched(url: str) -> str:
    """Return why ``url`` must not be fetched, as the end of a sentence; empty if it may be.

    Only https, and http on this machine, without credentials in the URL.
    """
    parts = _parts(url)
    if parts is None:
        return "is not a web URL"
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return "is neither https nor on this machine"
    if "@" in parts.netloc:
        return "contains a user name or password"
    return ""


def is_shown(url: str) -> bool:
    """Return whether ``url`` may be opened in a person's browser: only http and https, printable, and not too long."""
    return _parts(url) is not None


def is_loopback(host: str) -> bool:
    """Return whether a host, as written, is this machine, regardless of name resolution."""
    if host.lower().rstrip(".") == _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_private(text: str) -> bool:
    """Return whether a network address is not publicly reachable; also if it is invalid."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    return any(not each.is_global or each.is_multicast for each in _meanings(address))


def why_not_connected(addresses: Sequence[str], *, allows_private: bool) -> str:
    """Return why no connection is made to a host with these addresses; a single private one is enough."""
    if not addresses:
        return "has no address"
    if not allows_private and any(map(is_private, addresses)):
        return "is in a private network, and the server itself is not"
    return ""


def origin_of(url: httpx2.URL) -> tuple[str, str, int | None]:
    """Return the origin of a URL (RFC 6454)."""
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
    """Return an address, and the IPv4 addresses that it embeds."""
    found: list[IpAddress] = [address]
    if isinstance(address, ipaddress.IPv4Address):
        return found
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.ipv4_mapped:
        found.clear()  # it is not an address of its own
    found.extend(each for each in inner if each is not None)
    return found
