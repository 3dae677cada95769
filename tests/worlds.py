"""A whole toolcrib in memory: the real config, index, fleet, gate and protocol, without a process or a socket.

    async with world(tmp_path, servers={"github": [tool("create_issue")]}) as w, w.client() as client:
        assert await client.found("create issue") == ["github__create_issue"]

Messages pass as JSON text on both sides, as over a pipe, so ``World.said`` is every byte that a client could see.
"""

import json
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import anyio
import jsonschema
import mcp
from mcp import MCPError
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types import Implementation

from fakes.memory import MODERN, Call, JsonObject, MemoryServer, pipe, text
from patience import patience_s
from toolcrib.base.model import Caller
from toolcrib.config.loading import load
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.lifecycle import Downstream
from toolcrib.downstream.states import State
from toolcrib.downstream.transport import Streams
from toolcrib.gateway.composition import Gateway
from toolcrib.gateway.offline import open_offline
from toolcrib.gateway.runtime import Runtime
from toolcrib.gateway.status import Loaded
from toolcrib.jsonrpc.sdk import CallOptions, StreamDispatcher, serve_by_era
from toolcrib.server.builtin.programs import RunProgram
from toolcrib.server.builtin.skills import GetSkills, ListSkills, SearchSkills
from toolcrib.server.builtin.tools import CallReadOnly, CallTool, SearchTools
from toolcrib.server.protocol import RequestHandler
from toolcrib.server.serving import Serving, open_server
from toolcrib.storage.files import private_directory
from waiting import DEADLINE_S, PATIENCE_S, passing, settled, time_passes, until

__all__ = [
    "BUILTINS",
    "DEADLINE_S",
    "ERAS",
    "LISTED",
    "OWN_TOOLS",
    "SCHEMAS",
    "SKILL_TOOLS",
    "Call",
    "Client",
    "Clock",
    "JsonObject",
    "MemoryServer",
    "Servers",
    "World",
    "passing",
    "settled",
    "text",
    "time_passes",
    "until",
    "world",
]

ERAS = ("legacy", MODERN)
"""Modes of a client, one for each protocol era."""

BUILTINS = [SearchTools.name, CallTool.name, CallReadOnly.name]
"""What the default config lists of our own tools, where there are no skills."""

SKILL_TOOLS = [SearchSkills.name, GetSkills.name, ListSkills.name]
"""What follows them where there are skills."""

OWN_TOOLS = [*BUILTINS, *SKILL_TOOLS]

LISTED = [*BUILTINS, RunProgram.name, *SKILL_TOOLS]
"""What the default config lists of our own tools: tests install what programs need."""

TEST_S = patience_s(50)


# -- clients -------------------------------------------------------------------------------------

SCHEMAS: Mapping[str, JsonObject] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[1] / "docs" / "schemas").glob("*.json"))
}
"""What the structured answers of our own tools are valid by, as it is published."""

_VALIDATORS = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


class Client(mcp.Client):
    """The SDK's client; its own methods here return raw JSON. ``heard`` is all that came to it, as text."""

    def __init__(self, transport: Any, heard: list[str], **options: Any) -> None:
        super().__init__(transport, cache=None, **options)
        self.heard = heard

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    @property
    def frames(self) -> list[JsonObject]:
        """All messages that came to it."""
        return [json.loads(line) for line in self.heard]

    @property
    def list_changes(self) -> int:
        """How often it was told that its list has changed."""
        return self.told("tools/list_changed")

    def told(self, notification: str) -> int:
        """How often it got a notification, by its method without ``notifications/``."""
        said = [json.loads(line) for line in self.heard if notification in line]
        return sum(frame.get("method") == f"notifications/{notification}" for frame in said)

    @asynccontextmanager
    async def listening(self, *uris: str) -> AsyncGenerator[None]:
        """Be told of changes of the lists and of these resources, which takes a request in the newer era."""
        if self.protocol_version < MODERN:
            for uri in uris:
                await self.ask("resources/subscribe", {"uri": uri})
            yield
            for uri in uris:
                await self.ask("resources/unsubscribe", {"uri": uri})
            return
        lists = {"tools_list_changed": True, "resources_list_changed": True, "prompts_list_changed": True}
        async with self.listen(**lists, resource_subscriptions=uris):
            yield

    async def ask(self, method: str, params: JsonObject | None = None, **options: Any) -> JsonObject:
        """Send a request, with the envelope of its era, and return the raw result; an error is raised."""
        data: JsonObject = {"method": method, "params": {**(params or {})}}
        sending = CallOptions(**options)
        self.session._stamp(data, sending)
        return await self.session._dispatcher.send_raw_request(method, data["params"], sending)

    async def tools(self) -> list[JsonObject]:
        """Return the definitions of ``tools/list``."""
        return (await self.ask("tools/list"))["tools"]

    async def names(self) -> list[str]:
        """Return the names of ``tools/list``."""
        return [tool["name"] for tool in await self.tools()]

    async def call(self, name: str, arguments: Any = None, **params: Any) -> JsonObject:
        """Call a tool and return the raw result."""
        given = {} if arguments is None else {"arguments": arguments}
        return await self.ask("tools/call", {"name": name, **given, **params})

    async def tried(self, name: str, arguments: Any = None) -> JsonObject | MCPError:
        """Call a tool and return the raw result, or the error that came instead."""
        try:
            return await self.call(name, arguments)
        except MCPError as error:
            return error

    async def skill(self, name: str, /, **arguments: Any) -> JsonObject:
        """Call one of the tools for skills; return its structured answer, valid by its schema."""
        return (await self._answered(f"skill_{name}", arguments))["structuredContent"]

    async def tool_call(self, name: str, arguments: Any = None, **params: Any) -> JsonObject:
        """Call a tool through the built-in ``tool_call``."""
        given = {} if arguments is None else {"arguments": arguments}
        return await self.call("tool_call", {"name": name, **given}, **params)

    async def search(self, query: str, **arguments: Any) -> JsonObject:
        """Return a ``tool_search`` answer, valid by its own schema, and with every hit in its text too."""
        result = await self._answered(SearchTools.name, {"query": query, **arguments})
        answer = result["structuredContent"]
        [block] = result["content"]
        assert all(hit["name"] in block["text"] for hit in answer["tools"])
        return answer

    async def _answered(self, name: str, arguments: JsonObject) -> JsonObject:
        result = await self.call(name, arguments)
        assert not result.get("isError"), result
        _VALIDATORS[name].validate(result["structuredContent"])
        return result

    async def found(self, query: str, **arguments: Any) -> list[str]:
        """Return the names of the hits of a search."""
        return [hit["name"] for hit in (await self.search(query, **arguments))["tools"]]


# -- the world -----------------------------------------------------------------------------------


class Clock:
    """Wall-clock seconds that pass only when they are told to."""

    def __init__(self, now: float) -> None:
        self.now = 1_800_000_000.0 + now

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """One running toolcrib. ``said`` is every message to any client, as text; ``events`` all that happened."""

    settings: Settings
    serving: Serving
    servers: dict[str, MemoryServer]
    clock: Clock
    events: list[JsonObject]
    said: list[list[str]] = field(default_factory=list)

    async def reload(self, toolcrib: JsonObject | None = None, servers: "Servers | None" = None) -> Loaded:
        """Write another config, with the same servers if none are given, and have it take the place of the first."""
        given = self.servers if servers is None else _servers(servers)
        self.servers.update(given)
        return await self.read_again(partial(configured, self.settings.config_path.parent, given, toolcrib or {}))

    async def read_again(self, read: Callable[[], Settings]) -> Loaded:
        """Have the config reloaded that ``read`` returns, or why there is none."""
        return await self.gateway.reload(read)

    def __getitem__(self, server: str) -> MemoryServer:
        return self.servers[server]

    @property
    def gateway(self) -> Gateway:
        """What is served, whatever the protocol."""
        return self.serving.gateway

    @property
    def handler(self) -> RequestHandler:
        """What answers requests just now."""
        return self.serving.handler

    def happened(self, event: str) -> list[JsonObject]:
        """Return the events of one name."""
        return [record for record in self.events if record["event"] == event]

    @property
    def catalog_file(self) -> Path:
        return self.settings.tool_cache_dir / "tool_cache.db"

    async def listed(self) -> None:
        """Wait until every server has been listed for the first time, and sleeps again if nobody uses it."""
        fleet = self.gateway.fleet
        with anyio.fail_after(PATIENCE_S):
            await fleet.first_listing(fleet.listing_first)
            await until(lambda: not any(self._is_being_read(fleet[key]) for key in self.settings.servers))
            await settled()

    def _is_being_read(self, server: Downstream) -> bool:
        if server.status.state is not State.READY:
            return False
        return not server.offers.first.is_set() or (server._start is not None and not server._start.wanted)

    async def scanned(self) -> None:
        """Have the skills, if there are any, scanned for the first time as if somebody asked, and wait for it."""
        overviews = self.handler.instructions._overviews
        if overviews:
            overviews._use_cases._is_wanted.set()
            with anyio.fail_after(PATIENCE_S):
                await overviews._use_cases._is_loaded.wait()
                await settled()

    async def change(self, server: str, *tools: JsonObject) -> None:
        """Have a server list other tools, and wait until that is known here and everybody has been told.

        A client's own connection to the server announces the change too, and a list may still be read that was
        announced before.
        """
        connection = await self.gateway.fleet[server].connection()
        await settled()
        before = connection.announcements.changes
        await self[server].change(*tools)
        await until(lambda: connection.changes_listed > before)
        await settled()

    @asynccontextmanager
    async def client(
        self, mode: str = "legacy", caller: Caller | None = None, name: str = "mcp", **options: Any
    ) -> AsyncGenerator[Client]:
        """Connect a client: a session of its own, as over stdio. ``caller`` is who its token stands for.

        ``name`` is the one that the client gives itself.
        """
        options = {"mode": mode, "client_info": Implementation(name=name, version="1"), **options}
        with _ungrouped(), anyio.fail_after(TEST_S):
            async with pipe() as ends, anyio.create_task_group() as tasks:
                self.said.append(ends.to_near)
                tasks.start_soon(self._serve, ends.far, caller)
                async with Client(_Transport(ends.near), ends.to_near, **options) as client:
                    yield client
                tasks.cancel_scope.cancel()

    async def _serve(self, end: tuple[Any, Any], caller: Caller | None) -> None:
        if caller is not None:
            facts = {key: getattr(caller, key) for key in ("tenant_id", "project_id", "profile")}
            token = AccessToken(
                token="t", client_id="c", scopes=[], subject=caller.principal, claims={"iss": "i", **facts}
            )
            auth_context_var.set(AuthenticatedUser(token))
        server = self.serving.server
        async with server.lifespan(server) as slot:
            await serve_by_era(server, StreamDispatcher(*end), slot)


class _Transport:
    """An SDK transport over streams that are open already."""

    def __init__(self, streams: tuple[Any, Any]) -> None:
        self._streams = streams

    async def __aenter__(self) -> tuple[Any, Any]:
        return self._streams

    async def __aexit__(self, *_exc: object) -> None:
        await self._streams[1].aclose()


Servers = Mapping[str, Sequence[JsonObject] | MemoryServer]


@asynccontextmanager
async def world(
    folder: Path,
    servers: Servers | None = None,
    toolcrib: JsonObject | None = None,
    *,
    listing: str | None = None,
    transport: str = "stdio",
    wait: bool = True,
    now: float = 0,
    environ: Mapping[str, str] | None = None,
    **runtime: Any,
) -> AsyncGenerator[World]:
    """Run a toolcrib whose config and cache are in ``folder``: a second world there is a restart.

    A server is its tools, or a :class:`MemoryServer`. ``toolcrib`` is the section of the config, without skills and
    without programs where it names none; ``listing`` is its ``gate.listing``. ``wait`` until all is listed and scanned.
    ``now`` is how many seconds later than usual it is. A first world finds empty databases. ``runtime`` takes the place
    of parts of ``Runtime``.
    """
    known = _servers(servers or {})
    clock, events = Clock(now), []
    settings = configured(folder, known, toolcrib or {}, listing, environ)
    _give_databases(settings)
    around = {
        "connector": connector(known),
        "wall_clock": clock,
        "lasting_clock": clock,
        "clock": lambda: 0.0,  # no check of arguments and no pattern ever runs out of time
        "jitter": lambda: 0.5,
        "mirror": lambda line: events.append(json.loads(line)),
    }
    with _ungrouped():
        async with open_server(settings, transport, Runtime(**{**around, **runtime})) as serving:
            running = World(settings, serving, known, clock, events)
            if wait:
                await running.listed()
                await running.scanned()
            yield running


def _give_databases(settings: Settings) -> None:
    """Give a world that has none the databases of one without servers: to make them takes as long as a short test."""
    for path, content in zip((settings.tool_cache, settings.state_file), _empty_databases(), strict=True):
        if not path.parent.exists():
            private_directory(path.parent)
            path.write_bytes(content)


@cache
def _empty_databases() -> Sequence[bytes]:
    with TemporaryDirectory() as folder:
        settings = configured(Path(folder), {}, {}, environ={"XDG_DATA_HOME": folder})
        with open_offline(settings, Runtime()):
            pass
        return settings.tool_cache.read_bytes(), settings.state_file.read_bytes()


def _servers(servers: "Servers") -> dict[str, MemoryServer]:
    return {
        key: given if isinstance(given, MemoryServer) else MemoryServer(list(given)) for key, given in servers.items()
    }


@contextmanager
def _ungrouped() -> Generator[None]:
    """Let a lone failure out of the groups that it was wrapped in, so that a test shows what failed."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure: BaseException = group
        while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
            failure = failure.exceptions[0]
        raise failure from None


def connector(servers: Mapping[str, MemoryServer]) -> Callable[..., AbstractAsyncContextManager[Streams]]:
    """Return what reaches the servers by their key."""

    def connect(server: ServerSettings, _limits: LimitsSection) -> AbstractAsyncContextManager[Streams]:
        return servers[server.key].streams()

    return connect


def configured(
    folder: Path,
    servers: Mapping[str, MemoryServer],
    toolcrib: JsonObject,
    listing: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Write a config file and load it, as the command line does in ``project``; the home directory is ``home``."""
    gate = {**toolcrib.get("gate", {}), **({} if listing is None else {"listing": listing})}
    # The list of an installation without the extra; tests of programs turn them on.
    off = {"skills": {"enabled": False}, "programs": {"enabled": "off"}}
    section = {"cache_dir": "cache", **off, **toolcrib, "gate": gate}
    document = {"mcpServers": {key: server.entry for key, server in servers.items()}, "toolcrib": section}
    file = folder / "toolcrib.json"
    file.write_text(json.dumps(document))
    return load(file, {"HOME": str(folder / "home"), **(environ or {})}, folder / "project")
