r"""Half a character (``\ud83d``) in a result comes over HTTP as U+FFFD, and what cannot come is told of."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from e2e.crib import served_over_http, write_config
from fakes.menu import FakeServer, tool
from online import ACCEPT, ENVELOPE, LEGACY, MODERN, events, modern_headers, request

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

DEEP: Any = json.loads("[" * 300 + "]" * 300)
SAID: dict[str, Any] = {
    "cut": {
        "content": [{"type": "text", "text": "cut \ud83d here"}],
        "structuredContent": {"a\ud83d": ["\udc4d", 1.0]},
    },
    "deep": {"content": [], "structuredContent": {"a": DEEP}},
    "fine": {"content": [], "structuredContent": {"a": "👍"}},
}
WHOLE = {"content": [{"type": "text", "text": "cut \ufffd here"}], "structuredContent": {"a\ufffd": ["\ufffd", 1.0]}}


async def session(http: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """Shake hands and return the headers of the session."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    greeted = await http.post(url, json=request("initialize", hello), headers=ACCEPT)
    headers = {**ACCEPT, "mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
    await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_an_answer_always_comes_over_http(tmp_path: Path, era: str):
    fake = FakeServer(tmp_path, "zoo", tools=[tool(name) for name in SAID], results=SAID)
    config = write_config(tmp_path, {"zoo": fake.entry()})
    async with served_over_http(config, "--listing", "stable") as url, httpx2.AsyncClient(timeout=30) as http:
        headers = await session(http, url) if era == LEGACY else {}

        async def call(name: str) -> dict[str, Any]:
            params = {"name": f"zoo__{name}", "arguments": {}}
            if era == MODERN:
                headers.update(ACCEPT | modern_headers("tools/call", params["name"]))
                params |= {"_meta": ENVELOPE}
            return events(await http.post(url, json=request("tools/call", params), headers=headers))[-1]

        cut, deep, fine = [await call(name) for name in SAID]
    assert {key: cut["result"][key] for key in WHOLE} == WHOLE
    assert "The request was processed, but its answer cannot be sent: it is nested" in deep["error"]["message"]
    assert fine["result"]["structuredContent"] == {"a": "👍"}
