"""A downstream MCP server in memory, of both protocol eras; and the pipe between it, or a client, and toolcrib.

Messages pass as JSON text, as they would over a real pipe: nothing is shared, and what was said can be read.
"""

import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from toolcrib.downstream.transport import Streams
from toolcrib.jsonrpc.dispatcher import encode
from toolcrib.jsonrpc.sdk import StreamDispatcher

JsonObject = dict[str, Any]
MODERN = "2026-07-28"

_META = "io.modelcontextprotocol/"
_ROOTS_MAY_CHANGE = ("notifications/initialized", "notifications/roots/list_changed")
_CHANGES: dict[str, Callable[[list[str], str], None]] = {
    "resources/subscribe": list.append,
    "resources/unsubscribe": list.remove,
}


class _Sender:
    """The sending end of a pipe: what goes in comes out as if it had been JSON text in between."""

    def __init__(self, stream: Any, seen: list[str]) -> None:
        self._stream, self._seen = stream, seen

    async def send(self, item: SessionMessage) -> None:
        text = encode(item.message.model_dump(by_alias=True, exclude_unset=True)).removesuffix(b"\n")
        self._seen.append(text.decode())
        await self._stream.send(SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False)))

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()


@dataclass
class Pipe:
    """Two ends, each (what it reads, what it writes); and what went to the near end, as text."""

    near: tuple[Any, Any]
    far: tuple[Any, Any]
    to_near: list[str]


@asynccontextmanager
async def pipe() -> AsyncGenerator[Pipe]:
    to_near, at_near = anyio.create_memory_object_stream[Any](math.inf)
    to_far, at_far = anyio.create_memory_object_stream[Any](math.inf)
    seen: list[str] = []
    async with to_near, at_near, to_far, at_far:
        yield Pipe((at_near, _Sender(to_far, [])), (at_far, _Sender(to_near, seen)), seen)


@dataclass(frozen=True)
class Call:
    """A ``tools/call`` as a server got it; ``report`` sends progress to whoever asked for it.

    ``ask`` asks the client something, by method and params, and returns its answer or raises its error; ``tell`` sends
    it a notification.
    """

    params: JsonObject
    report: Callable[..., Awaitable[None]]
    ask: Callable[..., Awaitable[JsonObject]]
    tell: Callable[[str, JsonObject], Awaitable[None]]

    @property
    def arguments(self) -> JsonObject:
        return self.params["arguments"]


Answer = JsonObject | Exception | Callable[[Call], Awaitable[JsonObject]]


@dataclass(eq=False)
class MemoryServer:
    """A downstream server that is only this object. Change it at any time; what it got and how often is kept.

    ``answers`` say by tool what a call gets: a result, an MCPError to raise, or what an async function returns;
    any other tool says that it ran. ``start_error`` is raised when it is started. It never answers ``hangs_at``:
    ``start``, or a method. ``entry`` is its entry in ``mcpServers``. ``offers`` has what it lists besides tools, by the
    key of the list (``resources``, ``resourceTemplates``, ``prompts``): a list that is missing it does not know of.
    ``pages`` takes the place of the answer to a list, by method. What it gives of a resource, prompt or completion is
    in ``given``, by URI or name, like ``answers``; ``others`` answer any other method. ``logs``: it tells log messages.
    ``instructions`` are for a model. Tools in ``only_for`` it lists to clients that declared the capability.
    ``on_initialized``, where it is given, gets what each client with a session answers to ``asks_first``: asked at the
    handshake, and at each change of roots.
    """

    tools: list[Any] = field(default_factory=list)
    eras: Sequence[str] = ("legacy", "modern")
    answers: dict[str, Answer] = field(default_factory=dict)
    start_error: Exception | None = None
    hangs_at: str | None = None
    entry: JsonObject = field(default_factory=lambda: {"command": "in-memory"})
    offers: dict[str, list[Any]] = field(default_factory=dict)
    pages: dict[str, Callable[[JsonObject], JsonObject]] = field(default_factory=dict)
    given: dict[str, Answer] = field(default_factory=dict)
    others: dict[str, Callable[[Call], Awaitable[JsonObject]]] = field(default_factory=dict)
    subscribed: list[str] = field(default_factory=list)
    logs: bool = False
    instructions: str = ""
    only_for: dict[str, list[Any]] = field(default_factory=dict)
    on_initialized: list[JsonObject] | None = None
    asks_first: tuple[str, JsonObject | None] = ("roots/list", None)
    starts: int = 0
    received: list[JsonObject] = field(default_factory=list)
    _talks: set["_Talk"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tools = list(self.tools)

    def calls(self, name: str | None = None) -> list[JsonObject]:
        """Return the params of the calls that it got, those of one tool if one is named."""
        every = [message["params"] for message in self.received if message.get("method") == "tools/call"]
        return [params for params in every if name in (None, params["name"])]

    def declared(self) -> list[JsonObject]:
        """Return what clients that shook hands have declared that they can do, in order."""
        hellos = [message for message in self.received if message.get("method") == "initialize"]
        return [message["params"]["capabilities"] for message in hellos]

    def methods(self) -> list[str]:
        """Return what it was asked and told, in order."""
        return [message["method"] for message in self.received if "method" in message]

    async def change(self, *tools: JsonObject) -> None:
        """List other tools from now on, and say so to everyone connected."""
        self.tools = list(tools)
        for talk in list(self._talks):
            await talk.announce()

    async def change_offers(self, key: str, *items: Any) -> None:
        """List other resources, templates or prompts from now on, and say so to everyone connected."""
        self.offers[key] = list(items)
        kind = "prompts" if key == "prompts" else "resources"
        for talk in list(self._talks):
            await talk.announce(kind)

    async def update(self, uri: str) -> None:
        """Say that a resource has changed, to everyone who has subscribed to it or to what it is part of."""
        for talk in list(self._talks):
            await talk.update(uri)

    @property
    def capabilities(self) -> JsonObject:
        """What it says it can do."""
        told: JsonObject = {"tools": {"listChanged": True}}
        if "resources" in self.offers or "resourceTemplates" in self.offers:
            told["resources"] = {"subscribe": True, "listChanged": True}
        if "prompts" in self.offers:
            told["prompts"] = {"listChanged": True}
        if self.logs:
            told["logging"] = {}
        return told | ({"completions": {}} if "completions" in self.offers else {})

    async def hang_up(self) -> None:
        """Close all connections, as a crash would."""
        for talk in list(self._talks):
            await talk.close()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        """Start it, as a connector does."""
        self.starts += 1
        if self.start_error is not None:
            raise self.start_error
        if self.hangs_at == "start":
            await anyio.sleep_forever()
        async with pipe() as ends, anyio.create_task_group() as tasks:
            talk = _Talk(self, ends.far, tasks)
            self._talks.add(talk)
            tasks.start_soon(talk.run)
            try:
                yield Streams(StreamDispatcher(*ends.near), http=False, explain=_nothing)
            finally:
                self._talks.discard(talk)
                tasks.cancel_scope.cancel()


async def _nothing() -> str:
    return ""


class _Talk:
    """One connection to a :class:`MemoryServer`."""

    def __init__(self, server: MemoryServer, end: tuple[Any, Any], tasks: Any) -> None:
        self._server, self._tasks = server, tasks
        self._read, self._write = end
        self._running: dict[Any, anyio.CancelScope] = {}
        self._listeners: dict[Any, JsonObject] = {}
        self._asked: dict[str, tuple[anyio.Event, list[JsonObject]]] = {}
        self._legacy = False
        self._declared: JsonObject = {}

    async def run(self) -> None:
        async for item in self._read:
            message = item.message.model_dump(by_alias=True, exclude_unset=True)
            self._server.received.append(message)
            if "method" not in message:
                self._take_answer(message)
            elif message["method"] in _ROOTS_MAY_CHANGE and self._server.on_initialized is not None:
                self._tasks.start_soon(self._learn, self._server.on_initialized)
            elif message["method"] == "notifications/cancelled":
                if scope := self._running.get(message["params"]["requestId"]):
                    scope.cancel()
            elif "id" in message:
                self._tasks.start_soon(self._answer, message)
        await self.close()

    @property
    def _tools(self) -> Any:
        """What it lists to this client, which is no list where a test wants none."""
        declared = self._declared.keys() & self._server.only_for.keys()
        more = chain.from_iterable(self._server.only_for[each] for each in sorted(declared))
        return [*self._server.tools, *more] if declared else self._server.tools

    async def close(self) -> None:
        await self._write.aclose()

    async def ask(self, method: str, params: JsonObject | None = None) -> JsonObject:
        """Ask the client something, and give it up when cancelled."""
        key = f"ask-{len(self._server.received)}-{len(self._asked)}"
        come, answers = self._asked[key] = anyio.Event(), []
        given = {} if params is None else {"params": params}
        await self._send({"jsonrpc": "2.0", "id": key, "method": method, **given})
        try:
            await come.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._notify("cancelled", {"requestId": key})
            raise
        if "error" in answers[0]:
            raise MCPError(**answers[0]["error"])
        return answers[0]["result"]

    async def _learn(self, known: list[JsonObject]) -> None:
        with suppress(MCPError):
            known.append(await self.ask(*self._server.asks_first))

    def _take_answer(self, message: JsonObject) -> None:
        come, answers = self._asked[message["id"]]
        answers.append(message)
        come.set()

    async def announce(self, kind: str = "tools") -> None:
        if self._legacy:
            await self._notify(f"{kind}/list_changed", {})
        for key, wanted in list(self._listeners.items()):
            if wanted.get(f"{kind}ListChanged"):
                await self._notify(f"{kind}/list_changed", {"_meta": {f"{_META}subscriptionId": key}})

    async def update(self, uri: str) -> None:
        if self._legacy and any(uri.startswith(each) for each in self._server.subscribed):
            await self._notify("resources/updated", {"uri": uri})
        for key, wanted in list(self._listeners.items()):
            if any(uri.startswith(each) for each in wanted.get("resourceSubscriptions", ())):
                await self._notify("resources/updated", {"uri": uri, "_meta": {f"{_META}subscriptionId": key}})

    async def _answer(self, message: JsonObject) -> None:
        head = {"jsonrpc": "2.0", "id": message["id"]}
        with anyio.CancelScope() as self._running[message["id"]]:
            try:
                if self._server.hangs_at == message["method"]:
                    await anyio.sleep_forever()
                result = await self._result(message["method"], message.get("params") or {}, message["id"])
            except MCPError as error:
                await self._send({**head, "error": error.error.model_dump(exclude_none=True)})
            else:
                if result is not None:
                    await self._send({**head, "result": result})
        if self._listeners.pop(message["id"], None) is not None:
            self._server.subscribed = [uri for each in self._listeners.values() for uri in _uris(each)]

    async def _result(self, method: str, params: JsonObject, key: Any) -> JsonObject | None:
        modern = f"{_META}protocolVersion" in params.get("_meta", {})
        if ("modern" if modern else "legacy") not in self._server.eras:
            raise MCPError(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": ""})
        about: JsonObject = {"capabilities": self._server.capabilities}
        about |= {"instructions": self._server.instructions} if self._server.instructions else {}
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
        match method:
            case "initialize":
                self._legacy = True
                self._declared = params.get("capabilities", {})
                return {"protocolVersion": "2025-11-25", "serverInfo": {"name": "memory", "version": "1"}, **about}
            case "server/discover":
                return {**more, "supportedVersions": [MODERN], **about}
            case "logging/setLevel" if self._server.logs:
                return {}
            case "tools/list" if method not in self._server.pages:
                return {**more, "tools": self._tools}
            case "tools/call":
                return ({"resultType": "complete"} if modern else {}) | await self._call(params)
            case "subscriptions/listen":
                wanted = self._listeners[key] = params["notifications"]
                self._server.subscribed += _uris(wanted)
                meta = {f"{_META}subscriptionId": key}
                await self._notify("subscriptions/acknowledged", {"_meta": meta, "notifications": wanted})
                await anyio.sleep_forever()
        other = self._server.others.get(method)
        call = Call(params, self._reporter(params), self.ask, self._notify)
        return more | (await other(call) if other else await self._offer(method, params))

    async def _offer(self, method: str, params: JsonObject) -> JsonObject:
        lists = {
            "resources/list": "resources",
            "resources/templates/list": "resourceTemplates",
            "prompts/list": "prompts",
        }
        offers = self._server.offers
        if method in self._server.pages:
            return self._server.pages[method](params)
        if (key := lists.get(method)) in offers:
            return {key: offers[key]}
        subscribed = self._server.subscribed
        if "resources" in offers and (change := _CHANGES.get(method)):
            change(subscribed, params["uri"])
            return {}
        match method:
            case "resources/read":
                return await self._give(params["uri"], params, {"contents": [{"uri": params["uri"], "text": "text"}]})
            case "prompts/get":
                content = {"type": "text", "text": json.dumps(params.get("arguments"))}
                return await self._give(params["name"], params, {"messages": [{"role": "user", "content": content}]})
            case "completion/complete" if "completions" in offers:
                return {"completion": {"values": [json.dumps(params["ref"]), params["argument"]["value"]]}}
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found")

    async def _give(self, name: str, params: JsonObject, otherwise: JsonObject) -> JsonObject:
        known = [item.get("uri", item.get("name")) for each in self._server.offers.values() for item in each if item]
        if name not in self._server.given and name not in known:
            raise MCPError(-32002, f"There is no {name}")
        answer = self._server.given.get(name, otherwise)
        if isinstance(answer, Exception):
            raise answer
        return (
            dict(answer)
            if isinstance(answer, dict)
            else await answer(Call(params, self._reporter(params), self.ask, self._notify))
        )

    async def _call(self, params: JsonObject) -> JsonObject:
        name, arguments = params["name"], params["arguments"]
        if name not in [tool["name"] for tool in self._tools if isinstance(tool, dict)]:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
        answer = self._server.answers.get(name, text(f"ran {name} {json.dumps(arguments)}"))
        if isinstance(answer, Exception):
            raise answer
        return (
            dict(answer)
            if isinstance(answer, dict)
            else await answer(Call(params, self._reporter(params), self.ask, self._notify))
        )

    def _reporter(self, params: JsonObject) -> Callable[..., Awaitable[None]]:
        token = params.get("_meta", {}).get("progressToken")

        async def report(progress: float, total: float | None = None, message: str | None = None) -> None:
            facts = {"progressToken": token, "progress": progress, "total": total, "message": message}
            if token is not None:
                await self._notify("progress", {key: value for key, value in facts.items() if value is not None})

        return report

    async def _notify(self, method: str, params: JsonObject) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it may just have been hung up
            await self._send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})

    async def _send(self, message: JsonObject) -> None:
        await self._write.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))


def text(*parts: str, **more: Any) -> JsonObject:
    """Return a tool result of text."""
    return {"content": [{"type": "text", "text": part} for part in parts], **more}


def _uris(wanted: JsonObject) -> list[str]:
    return list(wanted.get("resourceSubscriptions", ()))
