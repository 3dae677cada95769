"""A request to a server over HTTP with the token of a login, beside one with a fixed header: CPU time.

The client is the product's; the server answers in this process, at once, so that what is measured is what differs.
"""

import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2

from measuring import Finding, Target, interleaved_async, median, options, show
from toolcrib.auth.bearers import Bearer
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
from toolcrib.config.schema import ServerSection
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.downstream.http import BodyBounds, HttpClient
from toolcrib.jsonrpc.sdk_oauth import OAuthToken

URL = "https://mcp.example.com/mcp"
TOKEN = "a-token-of-the-usual-length-0123456789abcdef"
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "as long as a usual argument is"}},
}
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "done"}]}}
MOST_MS = 0.1


async def answered(_request: httpx2.Request) -> httpx2.Response:
    """Answer a call."""
    return httpx2.Response(200, json=ANSWER)


def client_of(login: Bearer | None, headers: dict[str, str]) -> HttpClient:
    """Return the product's client for the server."""
    transport = httpx2.MockTransport(answered)
    return HttpClient(URL, BodyBounds(2**20, 10_000), "mark", login=login, headers=headers, transport=transport)


async def logged_in(folder: Path) -> Bearer:
    """Return what puts the token of a login on requests."""
    entry = TokenStore(folder / "tokens", NoKeyring()).entry(URL, "web")
    await entry.set_tokens(OAuthToken(access_token=TOKEN, expires_in=3600, refresh_token="r"))
    bearer = Bearer(ServerSettings("web", HttpTarget(URL, {}), ServerSection(), "fingerprint"), entry)
    await bearer.load()
    return bearer


def batch(client: HttpClient, calls: int) -> Callable[[], Awaitable[float]]:
    """Return what sends so many calls, and measures the CPU time of one, in milliseconds."""
    body, kind = json.dumps(CALL).encode(), {"content-type": "application/json"}

    async def measured() -> float:
        began = time.process_time()
        for _ in range(calls):
            response = await client.post(URL, content=body, headers=kind)
            await response.aread()
        return (time.process_time() - began) * 1000 / calls

    return measured


async def measure(repeat: int, calls: int) -> dict[str, list[float]]:
    """Return the milliseconds of CPU time of a call, each way, round by round."""
    with tempfile.TemporaryDirectory() as folder:
        bearer = await logged_in(Path(folder))
        async with client_of(None, {"authorization": f"Bearer {TOKEN}"}) as fixed, client_of(bearer, {}) as login:
            ways = {"header": batch(fixed, calls), "login": batch(login, calls)}
            for warm in ways.values():
                await warm()
            return await interleaved_async(repeat, ways)


def main() -> None:
    parser = options(__doc__, repeat=21)
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="calls a round (default: 200)")
    given: Any = parser.parse_args()
    took = anyio.run(measure, given.repeat, given.calls)
    found = Finding(
        "CPU time of a call with a login",
        "ms",
        median(took["login"]),
        median(took["header"]),
        "with a fixed header",
        Target(MOST_MS, "difference"),
    )
    show([found], as_json=given.json)


if __name__ == "__main__":
    main()
