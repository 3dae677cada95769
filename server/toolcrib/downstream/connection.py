"""A live connection to a server: negotiated, its requests, its tool list, and the changes that the server announces."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.abc
import anyio.lowlevel
import mcp_types as types
from mcp import ClientSession, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib import __version__
from toolcrib.base.errors import ConnectionLost, DownstreamError, StartFailed, StoreError
from toolcrib.base.json_decoding import collector_paused, without_lone_surrogates
from toolcrib.base.json_values import as_object, compact
from toolcrib.base.model import JsonObject, OfferKind
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.failures import (
    advice_on,
    is_closed,
    is_end,
    is_forgotten,
    is_undelivered,
    reason_of,
    wants_login,
)
from toolcrib.downstream.http import ClientFault
from toolcrib.downstream.isolation import TASKS, relayable
from toolcrib.downstream.lists import ListBounds, read_list
from toolcrib.downstream.relays import Call, Relays, current_call
from toolcrib.downstream.sessions import PING_S, SESSION_NOT_FOUND, Renewal, names_lost_session
from toolcrib.downstream.states import RawList
from toolcrib.downstream.transport import Streams
from toolcrib.jsonrpc.sdk import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    CallOptions,
    Channel,
    DispatchContext,
    IncomingMessage,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionLost,
    ToolsListChanged,
    TransportContext,
    encode_header_value,
    find_invalid_x_mcp_header,
    listen,
    mcp_param_headers,
    x_mcp_header_map,
)
from toolcrib.policy.requests import OWN_REQUEST, Progress, is_at_least

AnswerRequest = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Answers a request of the server; raises MCPError with the error to answer instead."""

TakeNotification = Callable[[str, JsonObject], Awaitable[bool]]
"""Gets a notification of the server; returns false for one that the SDK is to have."""

Params = Mapping[str, Any] | None


class InterceptingChannel:
    """A channel like ``channel``. ``declared`` takes the place of what the SDK would declare that its client can do."""

    def __init__(
        self, channel: Channel, declared: JsonObject, on_request: AnswerRequest, on_notify: TakeNotification
    ) -> None:
        self._channel, self._declared = channel, declared
        self._on_request, self._on_notify = on_request, on_notify

    async def send_raw_request(self, method: str, params: Params, opts: CallOptions | None = None) -> JsonObject:
        """Send a request and return the raw result."""
        if method == "initialize":
            params = {**(params or {}), "capabilities": self._declared}
        return await self._channel.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Params, opts: CallOptions | None = None) -> None:
        """Send a notification."""
        await self._channel.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,  # noqa: ARG002 - the SDK's, which nothing is left for
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take in messages until the channel ends."""

        async def answer(_context: DispatchContext[TransportContext], method: str, params: Params) -> JsonObject:
            return await self._on_request(method, {**(params or {})})

        async def take(context: DispatchContext[TransportContext], method: str, params: Params) -> None:
            if not await self._on_notify(method, {**(params or {})}):
                await on_notify(context, method, params)

        await self._channel.run(answer, take, on_notify_intercept, task_status=task_status)


_LISTEN_AGAIN_S = 1.0

_DEBOUNCE_S = 0.05
_REST = 4
"""After a reading, the next one waits so many times as long as it took: no server can keep us reading."""


def rest_s(took_s: float = 0.0) -> float:
    """Return how many seconds to wait before what has been announced is read, after a reading that took so long."""
    return max(_DEBOUNCE_S, _REST * took_s)


class Announcements:
    """The changes that one server has announced.

    ``changes`` counts those of its tools, ``list_changed`` is set by each. ``offers_changed`` is set by one of another
    list. ``on_updated`` gets the URI of each resource that has changed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.list_changed = anyio.Event()
        self.offers_changed = anyio.Event()
        self.on_updated: Callable[[str], None] = _ignore
        self._kinds: set[OfferKind] = set()

    def take(self) -> frozenset[OfferKind]:
        """Return the lists besides tools that have changed, and reset."""
        kinds, self._kinds, self.offers_changed = frozenset(self._kinds), set(), anyio.Event()
        return kinds

    async def receive(self, message: IncomingMessage) -> None:
        """Record a notification of the sessionful era."""
        match message:
            case types.ToolListChangedNotification():
                self.note_tools()
            case types.ResourceListChangedNotification():
                self.note("resource", "template")
            case types.PromptListChangedNotification():
                self.note("prompt")
            case types.ResourceUpdatedNotification():
                self.on_updated(str(message.params.uri))
            case _:
                pass

    def receive_event(self, event: ServerEvent) -> None:
        """Record an event of a subscription."""
        match event:
            case ToolsListChanged():
                self.note_tools()
            case ResourcesListChanged():
                self.note("resource", "template")
            case PromptsListChanged():
                self.note("prompt")
            case ResourceUpdated():
                self.on_updated(event.uri)

    def note_tools(self) -> None:
        """Record that the list of tools has changed."""
        self.changes += 1
        self.list_changed.set()

    def note(self, *kinds: OfferKind) -> None:
        """Record that these lists have changed."""
        self._kinds.update(kinds)
        self.offers_changed.set()


def _ignore(_uri: str) -> None:
    """Ignore an update of a resource without a subscription."""


def capabilities_of(session: ClientSession) -> types.ServerCapabilities:
    """Return the capabilities of a server."""
    return session.server_capabilities or types.ServerCapabilities()


def offered_by(session: ClientSession) -> frozenset[OfferKind]:
    """Return the kinds of offers besides tools that a server declares."""
    declared = capabilities_of(session)
    resources: tuple[OfferKind, ...] = ("resource", "template") if declared.resources else ()
    prompts: tuple[OfferKind, ...] = ("prompt",) if declared.prompts else ()
    return frozenset(resources + prompts)


class Listening:
    """The 2026-07-28 subscription to changes of all lists whose changes the server declares to announce."""

    def __init__(self, session: ClientSession, announcements: Announcements, closed: anyio.Event) -> None:
        self._session, self._announcements, self._closed = session, announcements, closed
        declared = capabilities_of(session)
        self._tools = bool(declared.tools and declared.tools.list_changed)
        self._resources = bool(declared.resources and declared.resources.list_changed)
        self._prompts = bool(declared.prompts and declared.prompts.list_changed)

    @property
    def is_promised(self) -> bool:
        """Whether the server announces changes of any list."""
        return self._tools or self._resources or self._prompts

    async def hold(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Hold it for as long as the connection lives.

        Held before the first list is fetched, because a change between the two would not be announced again.
        """
        if not await self._subscribe(task_status.started):
            task_status.started()
            return
        while not self._closed.is_set():
            await anyio.sleep(_LISTEN_AGAIN_S)
            # Changes meanwhile were not announced.
            await self._subscribe(self._note_everything)

    def _note_everything(self) -> None:
        self._announcements.note_tools()
        self._announcements.note(*offered_by(self._session))

    async def _subscribe(self, on_held: Callable[[], None]) -> bool:
        """Hold one subscription until it ends; return whether it was granted at all."""
        held = False
        with suppress(MCPError, SubscriptionLost):
            async with listen(
                self._session,
                tools_list_changed=self._tools,
                resources_list_changed=self._resources,
                prompts_list_changed=self._prompts,
            ) as subscription:
                held = True
                on_held()
                async for event in subscription:
                    self._announcements.receive_event(event)
        return held


async def hold_updates(
    session: ClientSession,
    announcements: Announcements,
    uri: str,
    *,
    task_status: anyio.abc.TaskStatus[anyio.CancelScope],
) -> None:
    """Hold a 2026-07-28 subscription to one resource, taken again when it is lost; cancel the scope to end it.

    Raises:
        DownstreamError: the server did not grant it.

    """
    with anyio.CancelScope() as scope:
        await _hold_once(session, announcements, uri, lambda: task_status.started(scope))
        while True:
            await anyio.sleep(_LISTEN_AGAIN_S)
            with suppress(DownstreamError):
                # Changes meanwhile were not announced.
                await _hold_once(session, announcements, uri, lambda: announcements.on_updated(uri))


async def _hold_once(
    session: ClientSession, announcements: Announcements, uri: str, on_held: Callable[[], None]
) -> None:
    held = False
    try:
        async with listen(session, resource_subscriptions=[uri]) as subscription:
            held = bool(subscription.honored.resource_subscriptions)
            if held:
                on_held()
                async for event in subscription:
                    announcements.receive_event(event)
    except (MCPError, SubscriptionLost) as error:
        if not held:
            code = error.code if isinstance(error, MCPError) else types.INTERNAL_ERROR
            raise DownstreamError(code, str(error)) from None
    if not held:
        raise DownstreamError(types.INVALID_PARAMS, "The server does not notify changes of this resource.")


Era = Literal["legacy", "modern"]

_UNSET_LEVEL = "info"
"""The level of log messages for a session that has set none, if the server sends none without a level."""

CLIENT_INFO = types.Implementation(name="toolcrib", version=__version__)
_CLIENT_INFO: JsonObject = CLIENT_INFO.model_dump(by_alias=True, exclude_none=True)


_CANCEL_S = 10.0
"""How long a server may take to answer that a task is cancelled, which nobody waits for."""
_RUN_AS_TASKS = ("optional", "required")


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

    ``closed`` is set when it has ended, ``retired`` when it takes no more calls. One that ``is_lost`` has only lost its
    session: calls under way in it may still end. ``renewal`` says when a session may be given up that is in doubt.
    ``announcements`` is what the server says has changed; ``changes_listed`` is how many changes of its tools the list
    knows of that was last taken in. ``declared`` are the client capabilities declared to a server of the handshake era;
    ``relays`` gets its requests and notifications. ``makes_tasks``: a call of some tool may become a task;
    ``task_tools`` has those that say so, each with its ``taskSupport`` (2025-11-25).
    """

    def __init__(
        self, streams: Streams, tasks: anyio.abc.TaskGroup, relays: Relays, declared: JsonObject, renewal: Renewal
    ) -> None:
        self._streams = streams
        self._tasks, self._renewal = tasks, renewal
        self._channel = streams.channel
        self.announcements = Announcements()
        self.session = ClientSession(
            dispatcher=InterceptingChannel(streams.channel, declared, relays.on_request, relays.on_notify),
            client_info=CLIENT_INFO,
            message_handler=self.announcements.receive,
        )
        self._log_level: str | None = None
        self._ids = relays.request_ids
        self._param_headers: dict[str, dict[tuple[str, ...], str]] = {}
        self._held: dict[str, anyio.CancelScope] = {}
        self._lists_read: set[str] = set()
        self.task_tools: dict[str, str] = {}
        self.makes_tasks = False
        self.closed, self.retired = self._channel.ended, anyio.Event()
        self.is_lost = False
        self._under_way, self._unused = 0, anyio.Event()
        self.changes_listed = -1  # no list has been taken in yet

    @property
    def is_over(self) -> bool:
        """Whether it accepts no more calls."""
        return self.closed.is_set() or self.retired.is_set()

    @property
    def is_used(self) -> bool:
        """Whether a call is under way."""
        return self._under_way > 0

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Have the block count as a call under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._unused.set()

    async def wait_until_unused(self) -> None:
        """Wait until no call is under way."""
        while self._under_way:
            self._unused = anyio.Event()
            await self._unused.wait()

    @property
    def is_listed(self) -> bool:
        """Whether the last ingested list is the one that the server last announced."""
        return self.announcements.changes == self.changes_listed

    @property
    def era(self) -> Era:
        """The protocol era that was negotiated."""
        return "modern" if self.session.protocol_version in MODERN_PROTOCOL_VERSIONS else "legacy"

    @property
    def greeting(self) -> "Greeting":
        """What the server said when it was connected."""
        extensions = _passed_on(self.session)
        if self.makes_tasks:
            extensions[TASKS] = {}
        return Greeting(self.era, self.session.instructions or "", self._streams.program, extensions)

    async def explain(self) -> str:
        """Return what the transport knows about a failure; may be empty."""
        return await self._streams.explain()

    async def list_tools(self, *, pages: int) -> RawList:
        """Return the raw items of ``tools/list``, of at most so many pages, undecoded.

        Raises:
            MCPError, ValueError: as for :meth:`read_list`.

        """
        tools = await self.read_list("tools/list", "tools", ListBounds(pages))
        self._remember_param_headers(tools.items)
        self._remember_tasks(tools.items)
        return tools

    async def read_list(self, method: str, key: str, bounds: ListBounds) -> RawList:
        """Return the raw items of a list, undecoded; they stand under ``key`` in each answer.

        Where a later page cannot be read, the first reading keeps those before it; another one would lose what the
        last has found.

        Raises:
            MCPError, ValueError: it cannot be read, or not again.

        """

        async def ask(method: str, params: JsonObject) -> JsonObject:
            return await self._request(method, params, {})

        found = await read_list(
            ask, method, key, bounds, keeps=lambda: not self.is_over and method not in self._lists_read
        )
        if not found.is_passing:
            self._lists_read.add(method)
        return found

    async def request(
        self, method: str, params: JsonObject, on_progress: Progress | None = None, call: Call | None = None
    ) -> JsonObject:
        """Send a request and return the raw result. The caller bounds the time; leaving early cancels the request.

        ``call`` is the one it is sent for, whose caller the server may reach meanwhile.

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
        if call is not None and not call.task_id:
            call.progress_token = request_id
        try:
            return await self._request(method, params, options, call)
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

    def cancel_task(self, task_id: str, call: Call) -> None:
        """Have a task of the server cancelled, in the background, if the server can do that and is still there."""
        declared = capabilities_of(self.session).tasks
        if not self.is_over and (self.era == "modern" or (declared and declared.cancel is not None)):
            self._tasks.start_soon(self._cancel_task, task_id, call)

    async def _cancel_task(self, task_id: str, call: Call) -> None:
        with anyio.move_on_after(_CANCEL_S), suppress(DownstreamError, ConnectionLost, Undelivered, Challenged):
            await self.request("tasks/cancel", {"taskId": task_id}, call=call)

    async def subscribe(self, uri: str) -> JsonObject:
        """Subscribe to changes of a resource, until :meth:`unsubscribe`. The caller bounds the time.

        Raises:
            DownstreamError, Undelivered, Challenged, ConnectionLost: as for :meth:`request`.

        """
        if self.era == "legacy":
            return await self.request("resources/subscribe", {"uri": uri})
        self._held[uri] = await self._tasks.start(hold_updates, self.session, self.announcements, uri)
        return {}

    async def unsubscribe(self, uri: str) -> None:
        """Unsubscribe. Raises as :meth:`subscribe` does."""
        if self.era == "legacy":
            await self.request("resources/unsubscribe", {"uri": uri})
        elif (held := self._held.pop(uri, None)) is not None:
            held.cancel()

    async def want_log(self, level: str) -> None:
        """Let a server of the handshake era send log messages of this level, if it sends any and does not so far.

        Raises:
            MCPError: it refused.

        """
        has_it = self._log_level is not None and is_at_least(level, self._log_level)
        if self.era == "modern" or has_it or capabilities_of(self.session).logging is None:
            return
        self._log_level = level
        await self._request("logging/setLevel", {"level": level}, {})

    async def notify(self, method: str) -> None:
        """Forward a client's notification to a server of the handshake era."""
        if self.era == "legacy":
            await self._channel.notify(method, None)

    async def _request(
        self, method: str, params: JsonObject, options: CallOptions, call: Call | None = None
    ) -> JsonObject:
        if self.era == "modern":
            params = self._stamped(method, params, options, call)
        token = current_call.set(call) if self._streams.correlates else None
        if call is not None:
            call.is_sent = True
        try:
            params = without_lone_surrogates(params) if self._streams.http else params
            return await self._channel.send_raw_request(method, params, options)
        except MCPError as error:
            raise await self._judged(error, call) from None
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"Nothing was sent: {error}") from None
        finally:
            if token is not None:
                current_call.reset(token)

    async def _judged(self, error: MCPError, call: Call | None) -> MCPError:
        """Return the error to raise for one; if it says that the connection or its session is gone, retire it."""
        if is_end(error):
            self.retired.set()
        # A start is told, and tried again, as such; and what is retired already is not lost once more.
        is_in_use = self.changes_listed >= 0 and not self.retired.is_set()
        if is_in_use and (is_forgotten(error) or await self._may_be_lost(error)):
            return self._lost_by(error, call)
        if is_undelivered(error):
            self.lose()
        return error

    async def _may_be_lost(self, error: MCPError) -> bool:
        """Return whether an answer says that our session is gone, or seems to and a ping gets the same."""
        if isinstance(error, ClientFault):
            return error.is_session_in_doubt
        if not self._streams.http or self.era == "modern" or not names_lost_session(error.message):
            return False
        # By any other code a server may speak of sessions that its tools have.
        return error.code == SESSION_NOT_FOUND or await self._ping_fails_alike(error)

    async def _ping_fails_alike(self, error: MCPError) -> bool:
        with anyio.move_on_after(PING_S):
            try:
                await self._channel.send_raw_request("ping", None, {"cancel_on_abandon": False})
            except MCPError as other:
                return other.code == error.code and names_lost_session(other.message)
        return False

    def _lost_by(self, error: MCPError, call: Call | None) -> MCPError:
        """Give up the session, unless another was given up just now, and return what is to be raised."""
        if self.retired.is_set():  # while the ping was under way
            return error
        if (pause_s := self._renewal.pause_s) <= 0:
            self._renewal.note()
            self.lose()
            if is_forgotten(error):
                return error
        not_repeated = "nothing ran" if is_forgotten(error) else "this call was not repeated"
        told = [] if call is None else [not_repeated]
        told.append(
            f"a new session can begin in {math.ceil(pause_s)} s" if pause_s > 0 else "the next call begins a new one"
        )
        text = f"{error.message}; the server seems to have forgotten our session: {', and '.join(told)}"
        # No longer a fault of ours: neither sent again, nor with advice about headers.
        return MCPError(types.INTERNAL_ERROR if isinstance(error, ClientFault) else error.code, text, error.error.data)

    def lose(self) -> None:
        """Take no more calls, and let those under way end: the session is lost, or wants another login."""
        if not self.retired.is_set():
            self.is_lost = True
            self.retired.set()
            # The next session subscribes to the same, and what changes is told once.
            self.announcements.on_updated = _ignore

    def _stamped(self, method: str, params: JsonObject, options: CallOptions, call: Call | None) -> JsonObject:
        """Return params with what every request of 2026-07-28 has; ``options`` get the routing headers of HTTP."""
        version, request = self.session.protocol_version or "", call.request if call else OWN_REQUEST
        declared = relayable(request.session.capabilities, questions=True, roots=True)
        if call and call.declares_tasks:
            declared["extensions"] = {**declared.get("extensions", {}), TASKS: {}}
        meta = {
            **params.get("_meta", {}),
            types.PROTOCOL_VERSION_META_KEY: version,
            types.CLIENT_INFO_META_KEY: _CLIENT_INFO,
            types.CLIENT_CAPABILITIES_META_KEY: declared,
        }
        if level := request.log_level or (request.lasting and _UNSET_LEVEL):
            meta[types.LOG_LEVEL_META_KEY] = level
        params = {**params, "_meta": meta}
        if not self._streams.http:
            return params
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        # The SDK's table has the protocol's own methods; those of tasks are routed by task (SEP-2663).
        name = params.get("taskId" if method.startswith("tasks/") else NAME_BEARING_METHODS.get(method, ""))
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

    def _remember_tasks(self, tools: list[Any]) -> None:
        """Remember which tools run as tasks; in 2026-07-28 no tool says so, and the server decides at each call."""
        declared = capabilities_of(self.session)
        if self.era == "modern":
            self.makes_tasks = TASKS in (declared.extensions or {})
            return
        requests = declared.tasks and declared.tasks.requests
        if requests and requests.tools and requests.tools.call is not None:
            known = ((tool.get("name"), as_object(tool.get("execution"))) for tool in map(as_object, tools))
            supports = {str(name): execution.get("taskSupport") for name, execution in known}
            self.task_tools = {name: each for name, each in supports.items() if each in _RUN_AS_TASKS}
        self.makes_tasks = bool(self.task_tools)

    async def _cancel(self, request_id: str) -> None:
        await self._channel.notify("notifications/cancelled", {"requestId": request_id})


@asynccontextmanager
async def connect(
    streams: Streams, eras: Sequence[Era], relays: Relays, declared: JsonObject, renewal: Renewal
) -> AsyncGenerator[Connection]:
    """Negotiate over open streams and yield the connection. ``eras`` are those to try, the likelier one first.

    ``relays``, ``declared`` and ``renewal`` are as for :class:`Connection`.

    Raises:
        DiedOnProbe: the server ended at the modern probe; a fresh one should be addressed the old way.
        MCPError: the server refused.

    """
    async with anyio.create_task_group() as tasks:
        connection = Connection(streams, tasks, relays, declared, renewal)
        async with connection.session:
            await _negotiate(connection, eras)
            listening = Listening(connection.session, connection.announcements, connection.closed)
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
        lost = connection.closed.is_set() or is_closed(error) or is_undelivered(error)
        if lost or wants_login(error) or "modern" not in eras:
            raise
        try:
            await connection.session.discover()
        except (MCPError, ValueError, RuntimeError):
            raise error from None


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


_RELIST_SHARE = 2
"""How many times as long as one list may take a call waits for a server that keeps announcing new ones."""

LiveTools = Mapping[str, str]
"""The tools of a live connection's own list: name to fingerprint of the record made of it."""


_PASSED_ON = ("io.modelcontextprotocol/ui",)
"""The extensions of a server that work through toolcrib without toolcrib taking part: MCP Apps."""

_SETTINGS_MAX = 1000
"""Maximum length of the settings of an extension, as JSON: they are part of the first answer to every client."""


def _passed_on(session: ClientSession) -> JsonObject:
    declared = capabilities_of(session).extensions or {}
    extensions = {name: declared[name] for name in _PASSED_ON if name in declared}
    return {name: each for name, each in extensions.items() if len(compact(each)) <= _SETTINGS_MAX}


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server said when it was connected: its era, and its instructions for a model, in its own words.

    ``program`` is the mark of the program that was started for it (:class:`Streams`). ``extensions`` are those that it
    declares and toolcrib can pass on, with their settings; that for tasks if it has these in either form.
    """

    era: Era
    instructions: str = ""
    program: str | None = None
    extensions: JsonObject = field(default_factory=dict[str, Any])


IngestList = Callable[[ServerSettings, RawList, Greeting], Awaitable[LiveTools]]
"""Gets a server's raw tool list, and what it said on connecting."""


class LiveList:
    """What a server offers, by its own last list. ``pages`` bounds a list.

    ``tools`` are those of the last list, empty before there was one. ``era`` is what the server spoke then.
    ``announced`` is called once a list was read that the server had announced, whoever wanted it read.
    """

    def __init__(
        self, settings: ServerSettings, ingest: IngestList, pages: int, era: Era | None, announced: Callable[[], None]
    ) -> None:
        self.tools: LiveTools = {}
        self.era: Era | None = era
        self._settings, self._ingest, self._pages, self._announced = settings, ingest, pages, announced
        self._clean = settings.redactor.clean
        self._reading, self._catching_up = anyio.Lock(), anyio.Lock()

    async def read(self, connection: Connection) -> None:
        """Read the list and have it taken in. The caller bounds the time."""
        async with self._reading:
            # Counted before the list is asked for: a change announced meanwhile makes it outdated.
            changes = connection.announcements.changes
            with collector_paused():
                # The list gets no name here: it should be gone when the pause ends.
                self.tools = await self._ingest(self._settings, await self._listed(connection), connection.greeting)
            is_announced = changes > max(connection.changes_listed, 0)
            connection.changes_listed = changes
            self.era = connection.era
        # At once: clients whose own list differs by it are just being told, and hear of one change once.
        if is_announced:
            self._announced()

    async def _listed(self, connection: Connection) -> RawList:
        tools = await connection.list_tools(pages=self._pages)
        if connection.is_lost:
            # The next session may have been listed meanwhile, and this one is older.
            raise ValueError("its session was given up meanwhile")
        return tools

    async def read_again(self, connection: Connection) -> None:
        """Read the list once more, within the time that a start may take.

        Raises:
            StartFailed: the server went away, or its list cannot be read.

        """
        key, timeout_s = self._settings.key, self._settings.options.connect_timeout_s
        try:
            with anyio.fail_after(timeout_s):
                await self.read(connection)
        except TimeoutError:
            raise StartFailed(key, f"The tools of {key!r} cannot be read: no answer within {timeout_s:g} s") from None
        except (MCPError, StoreError, ValueError) as error:
            # Where all ends at once, a connection may be closed before its caller: that one is told of no error.
            await anyio.lowlevel.checkpoint_if_cancelled()
            reason = self._clean(reason_of(error))
            raise StartFailed(key, f"The tools of {key!r} cannot be read: {reason}") from None

    async def catch_up(self, connection: Connection) -> None:
        """Have ``tools`` be the list that the server last announced, so that what runs is what was listed.

        Raises:
            StartFailed: the new list cannot be read, or the server announces others without end.

        """
        key, timeout_s = self._settings.key, self._settings.options.connect_timeout_s
        with anyio.move_on_after(_RELIST_SHARE * timeout_s):
            while not connection.is_listed:
                # Calls that wait together share one reading, hence the second look inside.
                async with self._catching_up:
                    if not connection.is_listed:
                        await self._read_for_call(connection)
            return
        raise StartFailed(key, f"The tools of {key!r} change faster than they can be read; nothing ran. Try again.")

    async def _read_for_call(self, connection: Connection) -> None:
        try:
            await self.read_again(connection)
        except StartFailed as error:
            raise StartFailed(error.server, f"{error}. It has announced that they changed, so nothing ran.") from None
