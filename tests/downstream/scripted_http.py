"""An MCP server on loopback HTTP that answers each request as a script says: right, wrong, or not at all."""

import json
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.stapled import MultiListener

JsonObject = dict[str, Any]
SESSION = "mcp-session-id"


@dataclass(frozen=True)
class Request:
    """One HTTP request; ``message`` is its JSON body, empty if it had none."""

    verb: str
    headers: dict[str, str]
    message: JsonObject

    @property
    def method(self) -> str:
        return self.message.get("method", self.verb)


@dataclass(frozen=True)
class Answer:
    """What goes back; a ``body`` that is not bytes is sent as JSON, ``events`` as a stream of server-sent events."""

    status: int
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    events: AsyncIterable[bytes] | None = None

    async def send(self, stream: SocketStream) -> None:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        kind = {"content-type": "application/json", "content-length": len(body)}
        if self.events is not None:
            kind = {"content-type": "text/event-stream"}
        headers = {**kind, "connection": "close", **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await stream.send(f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n{lines}\r\n".encode() + body)
        if self.events is not None:
            async for event in self.events:
                await stream.send(event)


def event(message: JsonObject | str, name: str = "message") -> bytes:
    """Return one server-sent event."""
    data = message if isinstance(message, str) else json.dumps(message)
    return f"event: {name}\ndata: {data}\n\n".encode()


Script = Callable[[Request], Awaitable[Answer | None]]


@dataclass
class Scripted:
    """A running server. Its ``script`` may be changed at any time; one that returns nothing breaks the connection."""

    url: str
    script: Script
    requests: list[Request] = field(default_factory=list)
    _listening: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _stopped: anyio.Event = field(default_factory=anyio.Event)

    async def stop(self) -> None:
        """Listen no more: whoever connects from now on is refused."""
        self._listening.cancel()
        await self._stopped.wait()

    async def _listen(self, listener: MultiListener[SocketStream]) -> None:
        async with listener:
            with self._listening:
                await listener.serve(self._serve)
        self._stopped.set()

    def calls(self) -> list[Request]:
        return [request for request in self.requests if request.method == "tools/call"]

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            try:
                request = await _received(stream)
                self.requests.append(request)
                if (answer := await self.script(request)) is not None:
                    await answer.send(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass


async def _received(stream: SocketStream) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Request(first.split()[0], headers, json.loads(body) if body else {})


@asynccontextmanager
async def scripted(script: Script) -> AsyncGenerator[Scripted]:
    """Serve on loopback until left."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        host, port = listener.extra(anyio.abc.SocketAttribute.local_address)[:2]
        server = Scripted(f"http://{host}:{port}/mcp", script)
        tasks.start_soon(server._listen, listener)
        yield server
        tasks.cancel_scope.cancel()


def result(request: Request, value: JsonObject, **headers: str) -> Answer:
    return Answer(200, {"jsonrpc": "2.0", "id": request.message["id"], "result": value}, headers)


def error(request: Request, code: int, message: str, status: int = 200, **more: JsonObject) -> Answer:
    body = {"jsonrpc": "2.0", "id": request.message.get("id"), "error": {"code": code, "message": message, **more}}
    return Answer(status, body)


async def healthy(request: Request) -> Answer:
    """Answer as a legacy server with sessions and one tool does."""
    match request.method:
        case "server/discover":
            return error(request, -32601, "Method not found")
        case "initialize":
            info = {"name": "scripted", "version": "1"}
            facts = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            return result(request, facts, **{SESSION: "first"})
        case "tools/list":
            return result(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            text = json.dumps(request.message["params"]["arguments"])
            return result(request, {"content": [{"type": "text", "text": text}]})
        case "ping":
            return result(request, {})
        case verb:
            return Answer(405 if verb == "GET" else 202)
