"""A downstream MCP server on loopback HTTP, made with the SDK: streamable HTTP of both eras, or the older SSE."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from waiting import until

TOOLS = [
    types.Tool(
        name="echo",
        description="Answers with its arguments.",
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}},
    ),
    types.Tool(
        name="sleep",
        description="Answers after so many seconds.",
        input_schema={"type": "object", "properties": {"seconds": {"type": "number"}}},
    ),
    types.Tool(
        name="progress",
        description="Reports each of its steps.",
        input_schema={"type": "object", "properties": {"steps": {"type": "integer"}}},
    ),
]


@dataclass
class HttpServer:
    """A running fake: where it is, which headers each HTTP request to it had, and which tools were called."""

    url: str
    port: int
    headers: list[dict[str, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    async def reached(self, tool: str) -> None:
        """Wait until it has received a call of a tool."""
        await until(lambda: tool in self.calls)


@contextmanager
def http_server(*, sse: bool = False, json_response: bool = False, port: int = 0) -> Iterator[HttpServer]:
    """Serve on loopback until the block ends. ``port`` 0 takes a free one; a given one allows a restart in place."""
    running = HttpServer("", 0)
    server = _server(running.calls)
    app = _sse_app(server) if sse else server.streamable_http_app(json_response=json_response)
    with serving(_recording(app, running), port) as address:
        running.url, running.port = f"{address}/{'sse' if sse else 'mcp'}", int(address.rpartition(":")[2])
        yield running


@contextmanager
def serving(app: ASGIApp, port: int = 0, *, bound: socket.socket | None = None) -> Iterator[str]:
    """Serve an ASGI application on loopback, in a thread, until the block ends; yield ``http://HOST:PORT``.

    ``bound`` is a listener that is closed at the end, of whoever has to know the port before.
    """
    with bound or socket.create_server(("127.0.0.1", port)) as listener:
        config = uvicorn.Config(app, log_config=None, log_level="critical", timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            _wait_until_started(server)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)


def _wait_until_started(server: uvicorn.Server) -> None:
    deadline = monotonic() + 30
    while not server.started:
        if monotonic() > deadline:
            raise TimeoutError("the fake HTTP server did not start")
        sleep(0.01)


def _recording(app: ASGIApp, running: HttpServer) -> ASGIApp:
    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            running.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    return recorded


def _server(calls: list[str] | None = None) -> Server[Any]:
    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if calls is not None:
            calls.append(params.name)
        return await _call_tool(ctx, params)

    return Server("fake-http", version="1.0.0", on_list_tools=_list_tools, on_call_tool=call_tool)


def _sse_app(server: Server[Any]) -> Starlette:
    transport = SseServerTransport("/messages/")

    async def connect(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
        return Response()

    return Starlette(routes=[Route("/sse", connect), Mount("/messages/", transport.handle_post_message)])


async def _list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def _call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return _text(json.dumps(arguments), arguments)
        case "sleep":
            await anyio.sleep(arguments.get("seconds", 1))
            return _text("slept")
        case "progress":
            steps = arguments.get("steps", 3)
            for step in range(1, steps + 1):
                await ctx.session.report_progress(step, steps, f"step {step}")
            return _text(f"{steps} steps")
        case unknown:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {unknown}")


def _text(text: str, structured: dict[str, Any] | None = None) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)
