"""One live connection to one server: its era, its raw tool list, its calls, and when it ends.

Knows both protocol eras from the client's side; never knows callers, policies or what an index is.
Results stay raw: the SDK's typed path raises after a tool has run when a list or a result is not perfect.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, cast

import anyio
import anyio.abc
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib import __version__
from toolcrib.base.errors import ConnectionLost, DownstreamError
from toolcrib.base.json_decoding import carried
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.downstream.announcements import Listening, News, capabilities_of, hold_updates
from toolcrib.downstream.failures import advice_on, is_closed, is_end, is_undelivered, wants_login
from toolcrib.downstream.relays import Line, Relays, carried_by
from toolcrib.downstream.tap import Tap
from toolcrib.downstream.transport import Streams
from toolcrib.jsonrpc.sdk import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    CallOptions,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from toolcrib.policy.asking import NOBODY, Asker, Progress, is_at_least, relayed

Era = Literal["legacy", "modern"]

_UNSET_LEVEL = "info"
"""The level at which a session gets log messages that has asked for none, of a server that has to be told one."""

CLIENT_INFO = types.Implementation(name="toolcrib", version=__version__)
_CLIENT_INFO: JsonObject = CLIENT_INFO.model_dump(by_alias=True, exclude_none=True)


class DiedOnProbe(Exception):
    """The server ended when it was probed for the modern era."""


class Outdated(Exception):
    """The server no longer lists the tool as it was decided about; nothing was sent."""


class Undelivered(Exception):
    """The server certainly did nothing: it refused the request, or no longer knew our session."""


class Challenged(Exception):
    """The server did nothing, because it requires a login; ``data`` are those of the error that says so."""

    def __init__(self, reason: str, data: Any) -> None:
        super().__init__(reason)
        self.data = data


class Connection:
    """A connected, negotiated server. Make one with :func:`connect`.

    ``closed`` is set when it has ended, ``retired`` when it is of no more use: it ended, or lost its session.
    ``news`` is what the server says has changed; ``changes_listed`` is how many changes of its tools the list knows of
    that was last taken in. ``declared`` is what a server of the handshake era is told that its clients can do;
    ``relays`` gets what the server asks and tells.
    """

    def __init__(self, streams: Streams, tasks: anyio.abc.TaskGroup, relays: Relays, declared: JsonObject) -> None:
        self._streams = streams
        self._tasks = tasks
        self._channel = Tap(streams.channel, declared, relays.on_request, relays.on_notify)
        self.news = News()
        self.session = ClientSession(dispatcher=self._channel, client_info=CLIENT_INFO, message_handler=self.news.hear)
        self._log_level: str | None = None
        self._ids = count(1)
        self._param_headers: dict[str, dict[tuple[str, ...], str]] = {}
        self._held: dict[str, anyio.CancelScope] = {}
        self.closed, self.retired = self._channel.ended, anyio.Event()
        self.changes_listed = -1  # no list has been taken in yet

    @property
    def is_over(self) -> bool:
        """Whether it accepts no more calls."""
        return self.closed.is_set() or self.retired.is_set()

    @property
    def is_listed(self) -> bool:
        """Whether the last ingested list is the one that the server last announced."""
        return self.news.changes == self.changes_listed

    @property
    def era(self) -> Era:
        """The protocol era that was negotiated."""
        return "modern" if self.session.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    async def explain(self) -> str:
        """Return what the transport knows about a failure; may be empty."""
        return await self._streams.explain()

    async def list_tools(self, *, pages: int) -> list[Any]:
        """Return the raw items of ``tools/list``, all pages, undecoded.

        Raises:
            MCPError: the server refused.
            ValueError: its answer is no list of tools, or does not end within ``pages`` pages.

        """
        tools: list[Any] = []
        async for page in self.list_pages("tools/list", "tools", pages=pages):
            tools += page
        self._remember_param_headers(tools)
        return tools

    async def list_pages(self, method: str, key: str, *, pages: int) -> AsyncGenerator[list[Any]]:
        """Yield the raw items of a list, page by page, undecoded; they stand under ``key`` in each answer.

        Raises:
            MCPError: the server refused.
            ValueError: an answer is no such list, or the list does not end within ``pages`` pages.

        """
        cursor: str | None = None
        for _ in range(pages):
            result = await self._request(method, {} if cursor is None else {"cursor": cursor}, {})
            page = result.pop(key, None)  # out of the message, which the SDK keeps until the next one arrives
            if not isinstance(page, list):
                raise ValueError(f"its answer to {method} has no list '{key}'")
            yield cast("list[Any]", page)
            following = result.get("nextCursor")
            if not following:
                return
            if not isinstance(following, str) or following == cursor:
                break
            cursor = following
        raise ValueError(f"its answer to {method} does not end (page {pages} or a repeated cursor)")

    async def request(
        self, method: str, params: JsonObject, on_progress: Progress | None = None, line: Line | None = None
    ) -> JsonObject:
        """Send a request and return the raw result. The caller bounds the time; leaving early cancels the request.

        ``line`` is that of the caller whom the server may reach meanwhile.

        Raises:
            DownstreamError: the server answered with a JSON-RPC error.
            Undelivered: the request did not reach the server; a new connection may try.
            Challenged: the server wants a login.
            ConnectionLost: the server went away; it may have done what it was asked.

        """
        request_id = f"call-{next(self._ids)}"
        # The SDK would send the cancellation itself, and the caller would wait for that; see below.
        options: CallOptions = {"request_id": request_id, "cancel_on_abandon": False}
        if on_progress is not None:
            options["on_progress"] = on_progress
        try:
            return await self._request(method, params, options, line)
        except MCPError as error:
            if is_undelivered(error):
                raise Undelivered(error.message) from None
            if wants_login(error):
                raise Challenged(error.message, error.error.data) from None
            if is_closed(error):
                raise ConnectionLost("", error.message) from None
            if advice := advice_on(error):
                raise DownstreamError(types.INTERNAL_ERROR, f"{error.message}. {advice}") from None
            raise DownstreamError(error.code, error.message, error.error.data) from None
        except anyio.get_cancelled_exc_class():
            # In a task of the connection, so that a server that reads nothing cannot hold up the caller.
            if not self.closed.is_set():
                self._tasks.start_soon(self._cancel, request_id)
            raise

    async def subscribe(self, uri: str) -> JsonObject:
        """Subscribe to changes of a resource, until :meth:`unsubscribe`. The caller bounds the time.

        Raises:
            DownstreamError, Undelivered, Challenged, ConnectionLost: as for :meth:`request`.

        """
        if self.era == "legacy":
            return await self.request("resources/subscribe", {"uri": uri})
        self._held[uri] = await self._tasks.start(hold_updates, self.session, self.news, uri)
        return {}

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe. Raises as :meth:`subscribe` does."""
        if self.era == "legacy":
            await self.request("resources/unsubscribe", {"uri": uri})
        elif (held := self._held.pop(uri, None)) is not None:
            held.cancel()

    async def want_log(self, level: str) -> None:
        """Have a server of the handshake era tell log messages of this level, if it tells any and did not so far.

        Raises:
            MCPError: it refused.

        """
        has_it = self._log_level is not None and is_at_least(level, self._log_level)
        if self.era == "modern" or has_it or capabilities_of(self.session).logging is None:
            return
        self._log_level = level
        await self._request("logging/setLevel", {"level": level}, {})

    async def tell(self, method: str) -> None:
        """Forward a client's notification to a server of the handshake era."""
        if self.era == "legacy":
            await self._channel.notify(method, None)

    async def _request(
        self, method: str, params: JsonObject, options: CallOptions, line: Line | None = None
    ) -> JsonObject:
        if self.era == "modern":
            params = self._stamped(method, params, options, line.asker if line else NOBODY)
        on_account_of = carried_by.set(line) if self._streams.correlates else None
        if line is not None:
            line.is_sent = True
        try:
            params = carried(params) if self._streams.http else params
            return await self._channel.send_raw_request(method, params, options)
        except MCPError as error:
            if is_undelivered(error) or is_end(error):
                self.retired.set()
            raise
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"Nothing was sent: {error}") from None
        finally:
            if on_account_of is not None:
                carried_by.reset(on_account_of)

    def _stamped(self, method: str, params: JsonObject, options: CallOptions, asker: Asker) -> JsonObject:
        """Return params with what every request of 2026-07-28 has; ``options`` get the routing headers of HTTP."""
        version = self.session.protocol_version or ""
        meta = {
            **params.get("_meta", {}),
            types.PROTOCOL_VERSION_META_KEY: version,
            types.CLIENT_INFO_META_KEY: _CLIENT_INFO,
            types.CLIENT_CAPABILITIES_META_KEY: relayed(asker.capabilities, questions=True, roots=True),
        }
        if level := asker.log_level or (asker.lasting and _UNSET_LEVEL):
            meta[types.LOG_LEVEL_META_KEY] = level
        params = {**params, "_meta": meta}
        if not self._streams.http:
            return params
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        if method == "tools/call" and isinstance(name, str):
            headers |= mcp_param_headers(self._param_headers.get(name, {}), params["arguments"])
        options["headers"] = headers
        return params

    def _remember_param_headers(self, tools: list[Any]) -> None:
        """Remember which arguments the server requires in headers (2026-07-28 streamable HTTP)."""
        if not self._streams.http or self.era != "modern":
            return
        for tool in tools:
            name, schema = as_object(tool).get("name"), as_object(as_object(tool).get("inputSchema"))
            if isinstance(name, str) and not find_invalid_x_mcp_header(schema):
                self._param_headers[name] = x_mcp_header_map(schema)

    async def _cancel(self, request_id: str) -> None:
        await self._channel.notify("notifications/cancelled", {"requestId": request_id})


@asynccontextmanager
async def connect(
    streams: Streams, eras: Sequence[Era], relays: Relays, declared: JsonObject
) -> AsyncGenerator[Connection]:
    """Negotiate over open streams and yield the connection. ``eras`` are those to try, the likelier one first.

    ``relays`` and ``declared`` are as for :class:`Connection`.

    Raises:
        DiedOnProbe: the server ended at the modern probe; a fresh one should be addressed the old way.
        MCPError: the server refused.

    """
    async with anyio.create_task_group() as tasks:
        connection = Connection(streams, tasks, relays, declared)
        async with connection.session:
            await _negotiate(connection, eras)
            listening = Listening(connection.session, connection.news, connection.closed)
            if connection.era == "modern" and listening.is_promised:
                await tasks.start(listening.hold)
            yield connection
            tasks.cancel_scope.cancel()


async def _negotiate(connection: Connection, eras: Sequence[Era]) -> None:
    """Find the era: the first that the server speaks."""
    if eras[0] == "modern" and await _is_modern(connection, may_be_legacy="legacy" in eras):
        return
    try:
        await connection.session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION or "modern" not in eras:
            raise
        # It has become modern since, or took so long to start that it took the late probe for the opening.
        await connection.session.discover()


async def _is_modern(connection: Connection, *, may_be_legacy: bool) -> bool:
    """Probe the server; false if only the handshake can tell."""
    try:
        await connection.session.discover()
    except (MCPError, ValueError, RuntimeError) as error:
        if not may_be_legacy:
            raise
        if isinstance(error, MCPError):
            if is_undelivered(error) or wants_login(error):
                raise
            if connection.closed.is_set() or is_closed(error):
                # Some older servers end when anything but initialize comes first.
                raise DiedOnProbe from error
        return False
    return True


def known_era(name: str | None) -> Era | None:
    """Return a remembered era, if it is one."""
    return name if name in ("legacy", "modern") else None
