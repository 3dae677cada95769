"""The HTTP client for what a login needs: metadata, registration, tokens; addresses that a server has named.

No cookies, no proxies, no automatic redirects.
Each connection goes to the address that was checked, so DNS rebinding gains nothing.
"""

import ipaddress
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from urllib.parse import SplitResult, urlsplit

import anyio
import anyio.to_thread
import httpx2

from toolcrib.base.errors import LoginFailed
from toolcrib.base.text import truncate

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
    # Not resolved: whoever controls the resolver could make any name local.
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


BYTES_MAX = 1024 * 1024
"""Maximum size of one response: metadata and tokens take a few thousand bytes."""

FETCH_S = 15.0
"""Deadline of one request, in seconds, from name resolution to the last byte."""

_ADDRESSES_TRIED = 4
_SHOWN_MAX = 200


Fetch = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Returns the complete response to a request, if its URL is permitted; see :func:`open_fetcher`."""


class _Guarded(httpx2.AsyncBaseTransport):
    """Connects to permitted addresses only, and reads at most :data:`BYTES_MAX`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, allows_private: bool) -> None:
        self._inner, self._allows_private = inner, allows_private

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        shown, url = _shown(request.url), request.url
        if reason := why_not_fetched(str(url)):
            raise LoginFailed(f"{shown} is not fetched: it {reason}")
        addresses = await addresses_of(url)
        if reason := why_not_connected(addresses, allows_private=self._allows_private):
            raise LoginFailed(f"{shown} is not fetched: it {reason}")
        # Connected by address, not by name: the name could resolve differently a second time.
        response = await self._sent(request, addresses[:_ADDRESSES_TRIED])
        try:
            return await _whole(response, shown)
        finally:
            await response.aclose()

    async def _sent(self, request: httpx2.Request, addresses: list[str]) -> httpx2.Response:
        """Send a request to the first of some addresses that accepts a connection."""
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for address in addresses:
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # with the host's name
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},  # the name in the certificate
            )
            try:
                return await self._inner.handle_async_request(there)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def open_fetcher(*, allows_private: bool) -> AsyncGenerator[Fetch]:
    """Open what fetches permitted URLs; ``allows_private``: the server it fetches for is in a private network itself.

    A redirect is returned with the request to follow it. A call raises LoginFailed where the URL is refused, or gave
    no usable response; the text names it.
    """
    # In a thread, because it loads the system's certificates.
    client = await anyio.to_thread.run_sync(_client, allows_private)

    async def fetch(request: httpx2.Request) -> httpx2.Response:
        shown = _shown(request.url)
        request.headers["accept-encoding"] = "identity"  # a small compressed body may expand to a huge one
        try:
            with anyio.fail_after(FETCH_S):
                return await client.send(request, follow_redirects=False)
        except TimeoutError:
            raise LoginFailed(f"{shown} did not answer within {FETCH_S:g} s") from None
        except (httpx2.TransportError, httpx2.StreamError, httpx2.InvalidURL) as error:
            raise LoginFailed(f"{shown} cannot be reached: {str(error) or type(error).__name__}") from None

    async with client:
        yield fetch


def _client(allows_private: bool) -> httpx2.AsyncClient:  # noqa: FBT001 - called by position, through a thread
    # No connection is kept: each is to an address that was checked for its own request.
    limits = httpx2.Limits(max_connections=4, max_keepalive_connections=0)
    inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)
    transport = _Guarded(inner, allows_private=allows_private)
    return httpx2.AsyncClient(transport=transport, timeout=FETCH_S, trust_env=False)


async def is_in_private_network(url: str, peer: str) -> bool:
    """Return whether the host of ``url`` is in a private network, by the address of a connection to it.

    ``peer`` must be one of the host's own addresses: behind a proxy of the environment it is the proxy's.
    """
    if not peer or not is_private(peer):
        return False
    with anyio.move_on_after(FETCH_S), suppress(httpx2.ConnectError):  # if only the proxy can resolve the name
        return peer in await addresses_of(httpx2.URL(url))
    return False


async def addresses_of(url: httpx2.URL) -> list[str]:
    """Return the addresses of a host from the system's resolver.

    Raises:
        httpx2.ConnectError: there are none.

    """
    try:
        look = partial(socket.getaddrinfo, url.host, url.port, type=socket.SOCK_STREAM)
        found = await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(str(error)) from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _whole(response: httpx2.Response, shown: str) -> httpx2.Response:
    """Return a response with its complete body."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise LoginFailed(f"{shown} gave an encoded answer, although toolcrib asked for none")
    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    async for chunk in response.stream:
        body += chunk
        if len(body) > BYTES_MAX:
            raise LoginFailed(f"{shown} gave an answer of more than {BYTES_MAX} bytes")
    headers = [(name, value) for name, value in response.headers.multi_items() if name != "transfer-encoding"]
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body))


def _shown(url: httpx2.URL) -> str:
    """Return a URL without its potentially secret parts."""
    return truncate(str(url.copy_with(userinfo=b"", query=None, fragment=None)), _SHOWN_MAX)
