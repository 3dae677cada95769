"""A whole toolcrib on loopback HTTP, in this process, with servers that are objects.

async with online(tmp_path, {"zoo": [tool("feed")]}) as it, it.client("legacy") as client:
    assert await client.names() == [*BUILTINS, "zoo__feed"]
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client

from patience import patience_s
from toolcrib.server.http import TokenTable, bind, http_app, serve_http, url_of
from worlds import Client, JsonObject, Servers, World, world

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
TEST_S = patience_s(60)
META = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{META}protocolVersion": MODERN,
    f"{META}clientInfo": {"name": "test", "version": "1"},
    f"{META}clientCapabilities": {},
}


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def modern_headers(method: str, name: str | None = None, **more: str) -> dict[str, str]:
    named = {} if name is None else {"mcp-name": name}
    return {"mcp-protocol-version": MODERN, "mcp-method": method, **named, **more}


def request(method: str, params: JsonObject | None = None, key: Any = 1) -> JsonObject:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}}


def events(answer: httpx2.Response) -> list[JsonObject]:
    """Return the messages of an answer in the order in which they came, whether it is JSON or a stream."""
    if answer.headers["content-type"].startswith("application/json"):
        return [answer.json()]
    return [message for line in answer.text.splitlines() for message in _messages(line)]


def _messages(line: str) -> list[JsonObject]:
    return [json.loads(line[6:])] if line.startswith("data: {") else []


@dataclass
class Online:
    """A running toolcrib. ``http`` is a plain HTTP client for its address; ``stop`` ends it."""

    world: World
    url: str
    http: httpx2.AsyncClient
    stop: anyio.Event

    @asynccontextmanager
    async def client(
        self, mode: str = "auto", token: str | None = None, headers: dict[str, str] | None = None, **options: Any
    ) -> AsyncGenerator[Client]:
        """Connect the SDK's client."""
        async with httpx2.AsyncClient(
            headers={**bearer(token), **(headers or {})}, timeout=TEST_S, verify=False
        ) as http:
            streams = streamable_http_client(self.url, http_client=http)
            async with Client(streams, [], mode=mode, **options) as client:
                yield client

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        """Post one message as it is."""
        return await self.post_text(json.dumps(message), **headers)

    async def post_text(self, body: str, **headers: str) -> httpx2.Response:
        """Post a body that may be no JSON."""
        about = {**ACCEPT, "Content-Type": "application/json", **_dashed(headers)}
        return await self.http.post(self.url, content=body, headers=about)

    async def modern(self, method: str, params: JsonObject | None = None, **headers: str) -> httpx2.Response:
        """Post a request of the sessionless era."""
        params = {"_meta": ENVELOPE, **(params or {})}
        return await self.post(request(method, params), **modern_headers(method, params.get("name"), **headers))

    async def session(self, token: str | None = None, **headers: str) -> "HttpSession":
        """Shake hands, by hand, and return the session."""
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        mine = {**bearer(token), **headers}
        answer = await self.post(request("initialize", hello), **mine)
        assert answer.status_code == 200, answer.text
        session = HttpSession(self, answer.headers["mcp-session-id"], mine)
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(told, **session.headers)).status_code == 202
        return session


class HttpSession:
    """A session of the handshake era, with every stream of it in view."""

    def __init__(self, server: Online, session_id: str, headers: dict[str, str]) -> None:
        self._server, self._keys = server, count(1)
        self.headers = {**headers, "mcp-session-id": session_id, "mcp-protocol-version": LEGACY}

    async def ask(self, method: str, params: JsonObject | None = None) -> list[JsonObject]:
        """Return everything that came on the stream of one request, in order."""
        return events(await self._server.post(request(method, params, next(self._keys)), **self.headers))

    async def call(self, name: str, arguments: JsonObject | None = None) -> list[JsonObject]:
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}})

    async def names(self) -> list[str]:
        return [tool["name"] for tool in (await self.ask("tools/list"))[-1]["result"]["tools"]]

    async def end(self) -> None:
        assert (await self._server.http.delete(self._server.url, headers=self.headers)).status_code == 200

    @asynccontextmanager
    async def own_stream(self) -> AsyncGenerator[list[JsonObject]]:
        """Hold the session's own stream open; what comes on it is added to the list."""
        heard: list[JsonObject] = []
        headers = {**self.headers, "accept": "text/event-stream"}
        async with (
            anyio.create_task_group() as tasks,
            self._server.http.stream("GET", self._server.url, headers=headers, timeout=None) as answer,
        ):
            assert answer.status_code == 200

            async def listen() -> None:
                async for line in answer.aiter_lines():
                    heard.extend(_messages(line))

            tasks.start_soon(listen)
            yield heard
            tasks.cancel_scope.cancel()


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def online(
    folder: Path,
    servers: Servers | None = None,
    toolcrib: JsonObject | None = None,
    **options: Any,
) -> AsyncGenerator[Online]:
    """Serve until the block ends. The config is as for :func:`worlds.world`; the port is any free one."""
    section = toolcrib or {}
    section = {**section, "http": {"port": 0, **section.get("http", {})}}
    async with world(folder, servers, section, transport="http", **options) as running:
        http = running.settings.toolcrib.http
        app = http_app(running.serving, http, running.settings.toolcrib.limits, TokenTable(http.tokens))
        stop = anyio.Event()
        with bind(http) as listener, anyio.fail_after(TEST_S):
            async with anyio.create_task_group() as tasks, httpx2.AsyncClient(timeout=TEST_S, verify=False) as client:
                tasks.start_soon(serve_http, app, http, listener, stop)
                yield Online(running, url_of(listener, http), client, stop)
                stop.set()
