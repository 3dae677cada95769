"""What a server names is fetched within bounds, and the address that is connected to is the one that was looked at."""

import socket
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fakes.http_server import serving
from toolcrib.auth import fetching
from toolcrib.auth.fetching import BYTES_MAX, is_in_private_network, open_fetcher
from toolcrib.base.errors import LoginFailed

pytestmark = pytest.mark.anyio

_CHUNK = 65_536


async def _host(request: Request) -> Response:
    return PlainTextResponse(request.headers["host"])


async def _zipped(_request: Request) -> Response:
    return Response(b"\x1f\x8b", headers={"content-encoding": "gzip"})


async def _endless(_request: Request) -> Response:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(4 * BYTES_MAX // _CHUNK):  # it ends, because nobody tells the server's thread to
            yield b"x" * _CHUNK

    return StreamingResponse(chunks())


async def _slow(_request: Request) -> Response:
    await anyio.sleep(30)
    return Response()


@pytest.fixture
def site() -> Iterator[str]:
    routes = [Route(f"/{each.__name__[1:]}", each) for each in (_host, _zipped, _endless, _slow)]
    with serving(Starlette(routes=routes)) as address:
        yield address


async def fetched(url: str, *, allows_private: bool = True) -> httpx2.Response:
    async with open_fetcher(allows_private=allows_private) as fetch:
        return await fetch(httpx2.Request("GET", url))


async def refusal(url: str, *, allows_private: bool = True) -> str:
    with pytest.raises(LoginFailed) as caught:
        await fetched(url, allows_private=allows_private)
    return str(caught.value)


async def test_what_is_fetched_knows_the_host_by_its_name(site: str):
    port = site.rpartition(":")[2]
    assert (await fetched(f"http://localhost:{port}/host")).text == f"localhost:{port}"


async def test_an_address_on_this_machine_is_private(site: str):
    assert "is in a private network, and the server itself is not" in await refusal(
        f"{site}/host", allows_private=False
    )


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::a00:1"]],
)
async def test_a_name_that_means_a_private_address_is_not_connected_to(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
):
    def looked_up(_host: str, port: int | None, **_options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port or 443)) for each in addresses]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", looked_up)
    said = await refusal("https://metadata.example/x?code=s3cr3t", allows_private=False)
    assert said == (
        "https://metadata.example/x is not fetched: it is in a private network, and the server itself is not"
    )


async def test_a_name_is_looked_up_once_and_that_address_is_used(site: str, monkeypatch: pytest.MonkeyPatch):
    looked_up = list[str]()
    first = socket.getaddrinfo

    def once(host: str, port: int | None, **options: Any) -> list[Any]:
        looked_up.append(host)
        return first("127.0.0.1", port, **options)

    monkeypatch.setattr(fetching.socket, "getaddrinfo", once)
    port = site.rpartition(":")[2]
    assert (await fetched(f"http://localhost:{port}/host")).text == f"localhost:{port}"
    assert looked_up == ["localhost"]


@pytest.mark.parametrize(
    ("path", "said"),
    [("zipped", "gave an encoded answer"), ("endless", f"gave an answer of more than {BYTES_MAX} bytes")],
)
async def test_an_answer_that_is_too_large_or_could_become_so_is_not_read(site: str, path: str, said: str):
    assert await refusal(f"{site}/{path}") == f"{site}/{path} {said}" + (
        ", although toolcrib asked for none" if path == "zipped" else ""
    )


async def test_an_answer_that_does_not_come_is_not_waited_for(site: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetching, "FETCH_S", 0.2)
    assert await refusal(f"{site}/slow?code=s3cr3t") == f"{site}/slow did not answer within 0.2 s"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9/x", "http://127.0.0.1:9/x cannot be reached: All connection attempts failed"),
        ("https://no-such-host.invalid/x", "https://no-such-host.invalid/x cannot be reached: "),
        ("http://192.168.0.1/x", "http://192.168.0.1/x is not fetched: it is neither https nor on this machine"),
    ],
)
async def test_what_cannot_be_fetched_is_named(url: str, said: str):
    assert (await refusal(url)).startswith(said)


@pytest.mark.parametrize(
    ("peer", "addresses", "is_it"),
    [
        ("10.0.0.1", ["10.0.0.1", "10.0.0.2"], True),
        ("127.0.0.1", ["93.184.216.34"], False),  # a proxy on this machine
        ("10.0.0.1", [], False),  # a proxy of the company, which alone knows the name
        ("93.184.216.34", ["93.184.216.34"], False),
        ("", ["10.0.0.1"], False),
    ],
)
async def test_a_server_is_in_a_private_network_by_an_address_of_its_own(
    peer: str, addresses: list[str], monkeypatch: pytest.MonkeyPatch, *, is_it: bool
):
    def looked_up(_host: str, _port: int | None, **_options: Any) -> list[Any]:
        if not addresses:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in addresses]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", looked_up)
    assert await is_in_private_network("https://mcp.example/mcp", peer) is is_it
