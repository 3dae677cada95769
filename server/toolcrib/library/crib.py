"""toolcrib in a program: the gateway that a server serves, opened as a block, without a process or a socket."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp

from toolcrib.auth.keyring import SystemKeyring
from toolcrib.base.errors import BadRequest, ToolcribError, innermost
from toolcrib.base.json_values import DEPTH_MAX, copied
from toolcrib.base.model import Caller, JsonObject
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.config.findings import near_keys
from toolcrib.config.loading import Given, load
from toolcrib.config.settings import MemoryTarget, Settings
from toolcrib.gateway.composition import Gateway
from toolcrib.gateway.runtime import Runtime
from toolcrib.jsonrpc.sdk import ServerObject, low_level_server, open_object
from toolcrib.library.arguments import SearchKind, list_of, mapping_of, search_of, text_of, type_of
from toolcrib.library.deferred import Api, answer, deferred_tools
from toolcrib.library.function_server import function_target
from toolcrib.library.hits import Reasons, ToolHit, confidences, part_with, tool_hit
from toolcrib.library.results import CallResult, SearchResult, ToolInfo
from toolcrib.library.skills import CribSkills
from toolcrib.policy.requests import Progress, Request
from toolcrib.policy.sessions import RunActivations, Session, local_caller
from toolcrib.server.serving import PROGRAM, Serving, open_server

Config = str | os.PathLike[str] | Mapping[str, Any]
"""A config file, or what would stand in one."""

OnEvent = Callable[[Mapping[str, Any]], None]
"""Gets each event (docs/events.md), at once: it must not wait."""

LOCAL = "local"
"""The name of the server that has the functions of ``tools``."""

_KEYS = ("mcpServers", "toolcrib")
_ENTRY = 'such as {"command": "uvx", "args": ["…"]} or {"url": "https://…"}'


def open(  # noqa: A001 - toolcrib.open, as Path.open and gzip.open
    config: Config | None = None,
    *,
    servers: Mapping[str, object] | None = None,
    tools: Iterable[Callable[..., Any]] = (),
    cache: str | os.PathLike[str] | None = None,
    on_event: OnEvent | None = None,
) -> "Opening":
    """Open the servers of a config, and objects and functions of this program, as one; use it by ``async with``.

    ``config`` is the path of a config file, or what would stand in one; nothing is looked for that is not named.
    ``servers`` are further servers by name: entries of ``mcpServers``, server objects of the SDK or FastMCP, or lists
    of functions. ``tools`` are functions, which become tools of the server ``local``. All of them are searched, decided
    about, checked, confirmed and bounded as the servers of a config are.

    ``cache``: None keeps everything in memory and writes nothing to disk. ``"user"`` shares what the command line has
    stored for the same config file: known lists, decisions and logins. A path is a folder to store it in. Logins to
    servers, and skills of servers, need one of the latter two.

    ``on_event`` gets each event as it happens.

    It runs under asyncio, and under trio as far as no server is started by a command.

    Raises:
        BadRequest: a function cannot be a tool, a server is none, or a parameter is something else than it has to be.
        ConfigError: from the block's beginning: the config cannot be used; it has everything that is wrong.

    >>> async def main():
    ...     def add(a: int, b: int) -> int:
    ...         '''Add two numbers.'''
    ...         return a + b
    ...     async with open(tools=[add]) as crib:
    ...         [hit, *_] = await crib.search("sum of two numbers, add them")
    ...         return hit.name, await crib.call(hit.name, {"a": 1, "b": 2})
    >>> anyio.run(main)
    ('local__add', CallResult('3'))

    """
    entries: JsonObject = {}
    objects: dict[str, MemoryTarget] = {}
    for name, server in mapping_of({} if servers is None else servers, "servers", "a dict of servers by name").items():
        if isinstance(server, Mapping):
            entries[name] = _plain(cast("Mapping[str, Any]", server), f"servers[{name!r}]")
        else:
            objects[name] = _target_of(name, server)
    if functions := list_of(tools, "tools"):
        if LOCAL in objects or LOCAL in entries:
            raise BadRequest(f"'{LOCAL}' is the server that has the functions of tools=: name yours otherwise.")
        objects[LOCAL] = function_target(functions)
    if cache == "user" and not isinstance(config, str | os.PathLike):
        raise BadRequest("cache='user' shares what is stored for a config file, so it needs the path of one.")
    if not isinstance(stored := cast("object", cache), str | os.PathLike | None):
        raise BadRequest(f"'cache' is {type_of(stored)}; it has to be None, 'user' or the path of a folder.")
    folder = None if cache is None or cache == "user" else Path(cache)
    if on_event is not None and not callable(on_event):
        raise BadRequest(f"'on_event' is {type_of(on_event)}; it has to be a function, which gets each event.")
    document = {} if config is None or isinstance(config, str | os.PathLike) else _document(config)
    given = Given(document, entries, objects, in_memory=cache is None, folder=folder and folder.absolute())
    path = Path(config) if isinstance(config, str | os.PathLike) else None
    return Opening(path, given, on_event)


def _document(config: object) -> JsonObject:
    """Return what would stand in a file; a program that names no key of ours has not meant to open nothing."""
    document = _plain(mapping_of(config, "config", "the path of a config file, or a dict in its place"), "config")
    if near := near_keys(document, [key for key in _KEYS if key not in document], {}):
        raise BadRequest(f"'config' has keys that toolcrib does not know: {near}")
    if document and not document.keys() & {*_KEYS, "$schema"}:
        raise BadRequest("'config' has neither 'mcpServers' nor 'toolcrib': write servers by name below 'mcpServers'.")
    return document


def _containers_in(value: dict[Any, Any] | list[Any]) -> Iterator[dict[Any, Any] | list[Any]]:
    items: Iterable[Any] = value.values() if isinstance(value, dict) else value
    yield from (item for item in items if isinstance(item, dict | list))


def _plain(given: Mapping[str, Any], name: str) -> JsonObject:
    """Return what could be parsed from a file: keys are texts, and there is an end to it."""
    value = dict(given)
    level: list[dict[Any, Any] | list[Any]] = [value]
    for _ in range(DEPTH_MAX):
        for each in level:
            for key in each if isinstance(each, dict) else ():
                if not isinstance(key, str):
                    raise BadRequest(f"'{name}' has a key that is {type_of(key)}; keys have to be texts, as in JSON.")
        # Each once: an object that holds itself twice would double with every level.
        level = [*{id(item): item for each in level for item in _containers_in(each)}.values()]
        if not level:
            return value
    raise BadRequest(f"'{name}' is nested more than {DEPTH_MAX} deep.")


def _target_of(name: str, server: object) -> MemoryTarget:
    """Return the target of a server that is not an entry."""
    if low_level_server(server) is not None:
        # What its list is made of is not known before it runs, so it is never that of an earlier run.
        return MemoryTarget(partial(open_object, server), token_hex())
    if isinstance(server, Sequence) and not isinstance(server, str | bytes):
        return function_target(cast("Sequence[Any]", server))
    raise BadRequest(
        f"The server {name!r} is a {type(server).__name__}: give an entry of mcpServers, {_ENTRY}, a server object of "
        "the SDK or FastMCP, or a list of functions."
    )


class Opening:
    """What :func:`open` returns: enter it by ``async with``, once."""

    def __init__(self, path: Path | None, given: Given, on_event: OnEvent | None) -> None:
        self._path, self._given, self._on_event = path, given, on_event
        self._served = self._serve()
        self._block: _Block | None = None
        self._is_entered = False

    async def __aenter__(self) -> "Crib":
        """Open everything, and list the servers in the background; functions and objects are listed at once."""
        if self._is_entered:
            raise BadRequest("This has been entered before: call toolcrib.open again for another block.")
        self._is_entered = True
        try:
            serving = await self._served.__aenter__()
        except BaseExceptionGroup as group:
            if isinstance(failure := innermost(group), ToolcribError):
                raise failure from None
            raise
        self._block = _Block(serving)
        return Crib(self._block)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close everything: no process, task or file is left."""
        if self._block is not None:
            self._block.is_open = False  # before anything is closed: nothing begins that could not end
        try:
            await self._served.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            # The block's own error comes out as it was raised, not in the groups of tasks that are ours.
            if innermost(group) is not error:
                raise
        finally:
            # An exit stack makes an error its own context where a loop is ended by SystemExit, and the next one around
            # it follows the contexts to their end without one (contextlib, Python 3.11 to 3.13).
            failure = sys.exception()
            if failure is not None and failure.__context__ is failure:
                failure.__context__ = None

    @asynccontextmanager
    async def _serve(self) -> AsyncGenerator[Serving]:
        settings = await anyio.to_thread.run_sync(self._settings)
        runtime = Runtime(mirror=self._mirror if self._on_event else None)
        async with open_server(settings, PROGRAM, runtime) as serving:
            with anyio.move_on_after(settings.toolcrib.limits.first_index_wait_s):
                await serving.gateway.fleet.first_listing(self._given.objects)
            yield serving

    def _settings(self) -> Settings:
        return load(self._path, dict(os.environ), Path.cwd(), SystemKeyring().get, given=self._given)

    def _mirror(self, line: str) -> None:
        assert self._on_event is not None
        self._on_event(json.loads(line))


class _Block:
    """What the cribs of one block use, as long as it is open."""

    def __init__(self, serving: Serving) -> None:
        self.opened, self.is_open = serving, True

    @property
    def serving(self) -> Serving:
        """What is served.

        Raises:
            BadRequest: the block has ended.

        """
        if not self.is_open:
            raise BadRequest("This crib is closed: use it inside its `async with` block, which has ended.")
        return self.opened

    def gateway(self) -> Gateway:
        """Return the gateway of what is served; raises as that does."""
        return self.serving.gateway


class Crib:
    """The tools and skills of all servers, for one caller. Made by :func:`toolcrib.open`, and good for its block.

    All of its methods may be called at the same time, in any task of the block. After it they raise ``BadRequest``.
    """

    def __init__(self, block: _Block, caller: Caller | None = None) -> None:
        """Use what a block has opened for a caller; None: the person at this machine."""
        self._block, self._caller = block, caller
        settings = block.gateway().settings
        whom = caller or local_caller(settings)
        self._session = Session(f"{whom.principal}-program", whom, RunActivations(), growing=False)

    def __repr__(self) -> str:
        """Return which servers it has, and for whom."""
        return f"Crib({', '.join(self._block.opened.gateway.settings.servers)}; for {self._session.caller.principal})"

    async def search(
        self,
        query: str,
        *,
        limit: int = 8,
        search_type: SearchKind = "fts",
        server: str | None = None,
    ) -> SearchResult:
        """Find the tools that fit a request, in any words, at most ``limit`` (1 to 50), the best first.

        Only those are found that may be called.

        ``search_type`` ``regex`` takes the query as a pattern (RE2), ``exact`` as a name. ``server``: only its tools.

        Raises:
            BadRequest: a blank query, a wrong limit, or a pattern that cannot be used.

        """
        asked = search_of(query, search_type, limit)
        of_server = None if server is None else text_of(server, "server")
        wanted = SearchRequest(*asked, include_always=True, server=of_server)
        gateway = self._block.gateway()
        with gateway.generation.held():
            tools = gateway.tools
            answer = await tools.search_tools(self._session, wanted, "signature")
            view = tools.finder.view(self._session, tools.indexer.current())
            rows = [found.tool.row for found in answer.hits]
            described, fields = await anyio.to_thread.run_sync(lambda: (view.described(rows), view.words(rows)))
        reasons = Reasons(answer.query)
        # Others were removed meanwhile.
        found = [each for each in answer.hits if each.tool.row in described and each.tool.row in fields]
        hits: list[ToolHit] = []
        for each, confidence in zip(found, confidences(answer.confidence), strict=False):
            definition, _ = described[each.tool.row]
            why = reasons.of(each.match_type, part_with(fields[each.tool.row].texts))
            hits.append(tool_hit(each.tool, each.shown, each.score, confidence, why, definition, None))
        return SearchResult(tuple(hits), answer.confidence, answer.note or "")

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        read_only: bool = False,
        on_progress: Progress | None = None,
    ) -> CallResult:
        """Call a tool by its name, and return its result; one that has failed says so by ``is_error``.

        The arguments are read as its schema asks for them, and checked first. ``read_only`` refuses what its server
        does not declare read-only. ``on_progress`` is awaited with each report: progress, total and message. Cancelling
        the call cancels it at its server.

        Raises:
            UnknownTool: there is none of this name that this caller may use.
            BadRequest: the arguments do not fit; the text says how they should be.
            NotConfirmed: a person has to confirm it first, and nothing ran. Ask them, and :meth:`allow` it.
            Unavailable: its server gave no answer; the text says whether it may have run.
            DownstreamError: its server answered with an error of the protocol.

        """
        gateway = self._block.gateway()
        text_of(name, "name")
        given = {} if arguments is None else {**mapping_of(arguments, "arguments", "a dict of values by parameter")}
        request = Request(self._session, "tools/call", {"name": name, "arguments": given}, on_progress)
        with gateway.generation.held():
            return CallResult.of(await gateway.tools.call(request, name, given, read_only=read_only))

    async def allow(self, name: str) -> None:
        """Let a tool that needs a person's yes run for this caller from now on: call it once the person said yes.

        It holds until the tool changes, and as long as what is stored (``cache``).

        Raises:
            UnknownTool: there is none of this name that this caller may use.

        """
        gateway = self._block.gateway()
        with gateway.generation.held():
            await gateway.tools.allow(self._session, text_of(name, "name"))

    async def tools(self) -> tuple[ToolInfo, ...]:
        """Return all tools that the caller may use; waits for servers that are listed for the first time."""
        gateway = self._block.gateway()
        with gateway.generation.held():
            every, _search = await gateway.tools.survey(self._session)
        return tuple(
            ToolInfo(
                tool.public_name,
                tool.server,
                card.description,
                tool.read_only,
                {**copied(definition), "name": tool.public_name},
            )
            for tool, definition, card in every
        )

    async def as_deferred_tools(self, api: Api, *, hosted_search: bool = False) -> list[Any]:
        """Return the parameter ``tools`` for a model API that searches for tools: ``"anthropic"`` or ``"openai"``.

        The model calls tools by the names that they have here. It finds them by a search, which :meth:`answer` makes,
        or, with ``hosted_search``, the API itself. The definitions are those of :meth:`tools`; for a search of ours
        OpenAI needs none of them.

        Raises:
            BadRequest: another API.

        """
        return deferred_tools(api, await self.tools(), hosted_search=hosted_search)

    async def answer(self, block: object) -> Any:
        """Do what a block of a model's message asks for, and return the block that answers it in the same API.

        ``block`` is Anthropic's ``tool_use``, OpenAI's ``function_call`` or its ``tool_search_call`` that the client is
        to execute; an object of their SDKs, or a dict. What goes wrong is told to the model, as a failed call is.

        Raises:
            BadRequest: any other block.

        >>> async def main():
        ...     def noon() -> str:
        ...         '''Tell what time it is.'''
        ...         return "12:00"
        ...     async with open(tools=[noon]) as crib:
        ...         used = {"type": "tool_use", "id": "1", "name": "local__noon", "input": {}}
        ...         return (await crib.answer(used))["content"]
        >>> anyio.run(main)
        [{'type': 'text', 'text': '12:00'}]

        """
        self._block.gateway()  # what is closed is told to the program, not to the model
        return await answer(self, block)

    @property
    def skills(self) -> CribSkills:
        """The skills of the config, and those of servers where they are stored."""
        return CribSkills(self._block.gateway, self._session)

    # -- for others ------------------------------------------------------------------------------

    def as_(
        self,
        principal: str,
        *,
        tenant_id: str | None = None,
        project_id: str | None = None,
        profile: str | None = None,
    ) -> "Crib":
        """Return the same crib for another caller: what ``policy.visibility`` shows them, with their decisions alone.

        Two callers share no process of a server that may keep anything of them (``isolation``).
        """
        return Crib(self._block, Caller(text_of(principal, "principal"), tenant_id, project_id, profile))

    @property
    def server(self) -> ServerObject:
        """What ``toolcrib serve`` serves, as an ``MCPServer`` of the SDK: for its client, FastMCP and frameworks.

        It is good for the block, and serves every number of clients.
        """
        serving = self._block.serving
        return ServerObject(serving.server if self._caller is None else serving.server_for(self._caller))

    def client(self, **options: Any) -> mcp.Client:
        """Return the SDK's client of :attr:`server`, in memory; ``options`` are its own. Use it by ``async with``."""
        return mcp.Client(self.server, **options)

    def asgi(self) -> Callable[..., Awaitable[None]]:
        """Return an ASGI application that serves this crib over streamable HTTP, to be mounted in Starlette or FastAPI.

        It answers at any path under which it is mounted, checks ``http.tokens`` of the config, and accepts the hosts of
        this machine and of ``http.allowed_hosts``. Its sessions end with the block, which therefore has to be around
        the application's: open the crib in its lifespan.

        Raises:
            StartRefused: the config would not be safe over HTTP without tokens.

        """
        from toolcrib.server.http import MountedApp  # noqa: PLC0415 - most programs serve nothing over HTTP

        return MountedApp(self._block.serving, self._caller)
