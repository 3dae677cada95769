"""Sessions of clients in both eras, their requests as these are handed on, and requests that wait for their caller."""

import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError, ServerSession
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from toolcrib.base.cache import Recent, RecentOfEach
from toolcrib.base.handles import NewHandle, new_handle
from toolcrib.base.json_decoding import without_lone_surrogates
from toolcrib.base.json_values import as_object
from toolcrib.base.model import Caller, JsonObject
from toolcrib.base.text import one_line, truncate
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import Settings, needs_scopes
from toolcrib.downstream.isolation import TASKS
from toolcrib.downstream.suspended import ANSWERS, SuspendableWork, SuspendedCall, SuspendedCalls, refused, same_request
from toolcrib.gateway.composition import Gateway
from toolcrib.jsonrpc.sdk import CallOptions, Connection, Context, Outbound, channel_of, connection_of, envelope_of
from toolcrib.policy.client_profiles import ClientProfiles
from toolcrib.policy.confirmations import InputRequired
from toolcrib.policy.requests import Request, is_at_least, is_level, params_for_next_hop
from toolcrib.policy.sessions import (
    Activations,
    ActiveSkills,
    NoActivations,
    RunActivations,
    SentSkills,
    Session,
    SessionHistory,
    StoredActivations,
    local_caller,
    no_confirmations,
    no_refusals,
)
from toolcrib.policy.state import Approval

STATE, KEY = "state", "toolcrib.client"
"""The keys under which the scope of a request stores its client."""


class Client:
    """The client of one session. ``absence_s``: seconds that it may be absent before its calls are cancelled."""

    def __init__(self, absence_s: float) -> None:
        self._absence_s = absence_s
        self._requests = 0
        self._left_at = -math.inf
        self._calls = dict[anyio.CancelScope, TaskGroup]()
        self._is_watched = False

    def note(self, change: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._requests += change
        if not self._requests:
            self._left_at = anyio.current_time()
            self._watch()

    @contextmanager
    def awaiting(self, tasks: TaskGroup) -> Generator[None]:
        """Cancel the block when the client has been absent for too long; ``tasks`` own the watching task."""
        with anyio.CancelScope() as call:
            self._calls[call] = tasks
            if not self._requests:  # it left before the call began
                self._watch()
            try:
                yield
            finally:
                del self._calls[call]

    def _watch(self) -> None:
        """Watch the calls of an absent client; no task runs while it is present."""
        if self._calls and not self._is_watched:
            self._is_watched = True
            # In the tasks of a call, which outlive the request whose end begins the watch.
            next(iter(self._calls.values())).start_soon(self._cancel_when_gone)

    async def _cancel_when_gone(self) -> None:
        try:
            while not self._requests and (left_s := self._left_at + self._absence_s - anyio.current_time()) > 0:
                await anyio.sleep(left_s)
            # It may have come back during the sleep.
            if not self._requests:
                for call in self._calls:
                    call.cancel()
        finally:
            self._is_watched = False


def client_of(request: Any) -> Client | None:
    """Return the client that sent an HTTP request; None without a session, and on other transports."""
    return None if request is None else request.scope.get(STATE, {}).get(KEY)


_ALWAYS = nullcontext()


def ended_without(client: Client | None, tasks: TaskGroup) -> AbstractContextManager[None]:
    """Cancel the block when the client has gone, if that can happen; ``tasks`` own the watching task."""
    return _ALWAYS if client is None else client.awaiting(tasks)


SESSION_HEADER = "x-toolcrib-session"
"""The header by which an HTTP client names a stable session of its own."""

_SESSION_ID_MAX = 256
"""Maximum length of such an id: every id of a principal is stored, also on disk."""

_PER_CONNECTION = 64
"""Maximum number of (caller, session id) pairs per connection or, without connections, per principal; beyond it the
oldest is discarded.
"""

_LABELS_MAX = 1000
"""Number of sessionless clients per principal whose label is remembered, so that all of their events carry the same
one.
"""

_CLIENT_MAX, _CLIENT_SHOWN = 200, 40
"""Length of a client's name, for identification and in a label."""

_Related = tuple[Caller, str | None]
"""What requests have in common that are of one session as far as anybody can tell: the caller, and the session id."""


@dataclass(slots=True, eq=False)
class Connected:
    """A session with the channel on which its client can be notified that its list has changed."""

    session: Session
    channel: ServerSession

    async def notify(self, notification: types.ServerNotification) -> None:
        """Send the client a notification, such as that its list has changed; dropped if the client is gone."""
        await self.channel.send_notification(notification)


@dataclass(frozen=True, slots=True)
class _Sessionless:
    """The state of a caller without sessions that is kept from one request to the next."""

    label: str
    caller: Caller
    client: str
    activations: Activations
    history: SessionHistory


def is_modern(context: Context) -> bool:
    """Return whether the request is of the sessionless era."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


class Sessions:
    """All open sessions. A session lives as long as the SDK keeps the connection it was created for."""

    def __init__(self, gateway: Gateway, profiles: ClientProfiles) -> None:
        self._settings, self._profiles = gateway.settings, profiles
        self._activations, self._fleet, self._changed = gateway.activations, gateway.fleet, gateway.changed
        self._end_session = gateway.end_session
        self._clock, self._pid = gateway.runtime.wall_clock, gateway.runtime.pid
        self.scopes, self._whole_lists = gateway.scopes, gateway.whole_lists
        self._local = local_caller(gateway.settings)
        self._by_connection: dict[Connection, dict[tuple[Caller, str | None], Connected]] = {}
        self._sessionless = RecentOfEach[str, tuple[Caller, str | None, str], _Sessionless](_LABELS_MAX)
        self._sent = RecentOfEach[str, _Related, SentSkills](_PER_CONNECTION)
        self._confirmed = RecentOfEach[str, _Related, Recent[Approval, None]](_PER_CONNECTION)
        self._refused = RecentOfEach[str, _Related, Recent[bytes, None]](_PER_CONNECTION)
        self._count = 0

    def change(self, settings: Settings, profiles: ClientProfiles) -> None:
        """Switch to another config. Sessions persist, with what they have activated.

        Whether their lists grow was settled when they began.
        """
        self._settings, self._profiles = settings, profiles
        for connected in self.open():
            connected.session.client_profile = profiles.profile(connected.session.client)

    async def resolve(self, context: Context) -> Session:
        """Return the session of a request; a request without one gets a session that stores nothing.

        Waits only if a session id has to be read from disk.
        """
        caller, session_id = self._caller(), self._session_id(context)
        kept = None
        if session_id is not None:
            kept = await self._activations.resolve(caller.principal, _kept_id(caller, session_id))
        find = self._sessionless_of if is_modern(context) else self._session_of
        session = find(context, caller, session_id, kept)
        if self._settings.toolcrib.gate.pass_through_tokens:
            await self._whole_lists.settle(session)
        session.history.active, session.history.scope = self._clock(), session.skills
        return session

    async def request(self, context: Context) -> Request:
        """Return a request as it is handed on: with its session, and how its client is reached meanwhile."""
        session = await self.resolve(context)
        return _SessionlessRequest(context, session) if is_modern(context) else _SessionRequest(context, session)

    def _sessionless_of(
        self, context: Context, caller: Caller, session_id: str | None, kept: StoredActivations | None
    ) -> Session:
        client, related = _client_of(context), self._related(caller, context)
        known = self._sessionless[caller.principal].get(
            (caller, session_id, client), lambda: self._known_sessionless(caller, client, kept)
        )
        return Session(
            known.label,
            caller,
            kept or known.activations,
            growing=False,
            client=client,
            client_profile=self._profiles.profile(client),
            is_modern=True,
            capabilities=as_object(envelope_of(context.params).get(types.CLIENT_CAPABILITIES_META_KEY)),
            sent_skills=self._sent[caller.principal].get(related, SentSkills) if related else SentSkills(),
            history=known.history,
            skills=kept.skills if kept else self._skills_of(related),
            confirmed=self._confirmed_by(related),
            refused=self._refused[caller.principal].get(related, no_refusals) if related else None,
        )

    def _session_of(
        self, context: Context, caller: Caller, session_id: str | None, kept: StoredActivations | None
    ) -> Session:
        open_here = self._of_connection(context.session)
        connected = open_here.get((caller, session_id))
        if connected is None:
            client = _client_of(context)
            label, activations = self._label(caller, client), kept or RunActivations()
            served = self._profiles.profile(client)
            growing = served.listing != "stable"
            session = Session(
                label,
                caller,
                activations,
                growing,
                client,
                served,
                lasting=True,
                capabilities=_declared(context),
                history=self._history(),
                refused=no_refusals(),
            )
            # Under a stable id confirmations outlive the connection, as activations do.
            is_named = session_id is not None
            session.confirmed = self._confirmed_by(self._related(caller, context)) if is_named else no_confirmations()
            if kept is not None:
                session.skills = kept.skills
            self._fleet.expect(session)
            connected = open_here[caller, session_id] = Connected(session, context.session)
            # A client may name any number of ids.
            if len(open_here) > _PER_CONNECTION:
                self._end_session(open_here.pop(next(iter(open_here))).session)
        return connected.session

    def _known_sessionless(self, caller: Caller, client: str, kept: StoredActivations | None) -> _Sessionless:
        return _Sessionless(self._label(caller, client), caller, client, kept or NoActivations(), self._history())

    def _history(self) -> SessionHistory:
        return SessionHistory(began=self._clock())

    def _related(self, caller: Caller, context: Context) -> _Related | None:
        """Return what a request without a session has in common with others of the same caller, if that can be told.

        It can for the only client of a process, and over HTTP for a token with a session id.
        """
        named = self._named(context)
        return (caller, named) if self._profiles.has_one_client or named else None

    def _skills_of(self, related: _Related | None) -> ActiveSkills:
        """Return the active skills of related requests; of others none.

        If tools depend on skills, the active skills of others get a handle.
        """
        if related is not None:
            return self.scopes.named(*related)
        return self.scopes.temporary() if needs_scopes(self._settings.toolcrib) else ActiveSkills()

    def _confirmed_by(self, related: _Related | None) -> Recent[Approval, None] | None:
        """Return the earlier confirmations of related requests; None of others."""
        return self._confirmed[related[0].principal].get(related, no_confirmations) if related else None

    def keeping_nothing(self) -> Session:
        """Return a sessionless session for the current caller, which stores nothing."""
        caller = self._caller()
        return Session(caller.principal, caller, NoActivations(), growing=False)

    def open(self) -> Iterable[Connected]:
        """Return the sessions that can be notified of a change."""
        return [connected for known in self._by_connection.values() for connected in known.values()]

    def seen(self) -> Iterator[Session]:
        """Yield the sessions of all connected callers, and of sessionless ones that are still remembered."""
        yield from (connected.session for connected in self.open())
        for known in self._sessionless.values():
            yield Session(
                known.label,
                known.caller,
                known.activations,
                growing=False,
                client=known.client,
                client_profile=self._profiles.profile(known.client),
                history=known.history,
                skills=known.history.scope,
            )

    def _of_connection(self, channel: ServerSession) -> dict[tuple[Caller, str | None], Connected]:
        """Return the sessions of one connection, which are discarded when the SDK closes it."""
        connection = connection_of(channel)
        if connection not in self._by_connection:
            self._by_connection[connection] = {}
            connection.exit_stack.callback(self._forget, connection)
        return self._by_connection[connection]

    def _forget(self, connection: Connection) -> None:
        for connected in self._by_connection.pop(connection).values():
            self._end_session(connected.session)
        self._changed.event.set()

    def _label(self, caller: Caller, client: str) -> str:
        """Return the label of a new session for events: principal, process id, number, and client name if any.

        Several processes write into one file of events.
        """
        self._count += 1
        return f"{caller.principal}-{self._pid}.{self._count}" + (
            f" ({truncate(client, _CLIENT_SHOWN)})" if client else ""
        )

    def _session_id(self, context: Context) -> str | None:
        """Return the id under which activations outlive the connection, if that is configured and there is one."""
        if self._settings.toolcrib.tool_search.activation_scope != "session":
            return None
        return self._named(context)

    def _named(self, context: Context) -> str | None:
        """Return the session id given by the config or, over HTTP, by the holder of a token."""
        if context.request is None:
            return self._settings.session_id
        # Without a token anybody could give another's id.
        named = context.request.headers.get(SESSION_HEADER) if get_access_token() else None
        if named and len(named) > _SESSION_ID_MAX:
            raise MCPError(types.INVALID_REQUEST, f"{SESSION_HEADER} has more than {_SESSION_ID_MAX} characters.")
        return named or None

    def _caller(self) -> Caller:
        """Return the caller: the token's subject, or the person at this machine."""
        token = get_access_token()
        if token is None:
            return self._local
        claims = token.claims or {}
        if token.subject is None:
            raise MCPError(code=types.INVALID_REQUEST, message="This token identifies no caller.")
        return Caller(token.subject, claims.get("tenant_id"), claims.get("project_id"), claims.get("profile"))


def _kept_id(caller: Caller, session_id: str) -> str:
    """Return the id under which a session is stored: tokens of one subject may be of several tenants and projects."""
    return json.dumps([caller.tenant_id, caller.project_id, caller.profile, session_id])


def _client_of(context: Context) -> str:
    """Return the client's name; empty if it gives none, as the sessionless era allows."""
    known = context.session.client_params
    # While `initialize` is being answered the connection does not have its parameters yet.
    info = {"name": known.client_info.name} if known else as_object((context.params or {}).get("clientInfo"))
    return client_name(info)


def _declared(context: Context) -> JsonObject:
    """Return the capabilities that a client has declared in the handshake."""
    known = context.session.client_params
    if known is None:  # while the handshake is under way
        return as_object((context.params or {}).get("capabilities"))
    return known.capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


def client_name(info: JsonObject) -> str:
    """Return the name in ``clientInfo``; empty if there is none."""
    name = info.get("name")
    return one_line(name[:_CLIENT_MAX]) if isinstance(name, str) else ""


_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class _ClientRequest(Request):
    """A request of a client."""

    __slots__ = ("_context",)

    def __init__(self, context: Context, session: Session) -> None:
        params = params_for_next_hop(as_object(context.params))
        super().__init__(session, context.method, params, context.session.report_progress)
        self._context = context

    def _sent(self, params: JsonObject) -> JsonObject:
        """Return params in a form that the transport of the request can send."""
        return params if self._context.request is None else without_lone_surrogates(params)

    async def notify_tools_changed(self) -> None:
        # On the request's own channel: over HTTP a client need not keep the standalone stream open.
        await self._context.session.send_notification(
            types.ToolListChangedNotification(), related_request_id=self._context.request_id
        )


class _SessionRequest(_ClientRequest):
    """A request of a session, whose client can be sent requests while it is under way, and notifications after it."""

    __slots__ = ()

    lasting = can_ask_now = True

    @property
    def log_level(self) -> str | None:
        """The level set by ``logging/setLevel``."""
        return self.session.log_level

    def wants_log(self, level: str) -> bool:
        """Return whether the client is sent log messages of this level: all, unless it has set a level."""
        return self.log_level is None or is_at_least(level, self.log_level)

    async def end_stream(self) -> None:
        """End the stream of the request; only where the client's revision can resume it is there a way to."""
        if self._context.close_sse_stream is not None:
            await self._context.close_sse_stream()

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Send the client a request and return the raw result; cancelling this call cancels the request.

        Raises:
            MCPError: the client's own error, or its connection is closed.

        """
        try:
            return await self._channel().send_raw_request(method, self._sent(params) or None, CallOptions())
        except _GONE:
            raise MCPError(types.CONNECTION_CLOSED, "The client is gone.") from None
        except ValueError as error:
            raise MCPError(types.INVALID_PARAMS, f"Nothing was sent: {error}") from None

    @property
    def takes_task(self) -> bool:
        """Whether the client asks for a task: in this era it does so call by call."""
        return self.task_ttl_ms is not None

    @property
    def task_ttl_ms(self) -> int | None:
        """The ``ttl`` of the task that the client asks for; 0 if it names none."""
        task = self.params.get("task")
        if not isinstance(task, dict) or self._context.protocol_version != LATEST_HANDSHAKE_VERSION:
            return None
        ttl = as_object(task).get("ttl")
        return ttl if isinstance(ttl, int) and ttl > 0 else 0

    async def tell(self, method: str, params: JsonObject) -> None:
        """Send the client a notification outside of any request; dropped if its connection is closed."""
        with suppress(*_GONE):
            await connection_of(self._context.session).outbound.notify(method, self._sent(params))

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send the client a notification; dropped if its connection is closed."""
        await self._channel().notify(method, self._sent(params))

    def _channel(self) -> Outbound:
        """Return the channel of the request while it is open: over HTTP a client need not open a standalone stream."""
        own = channel_of(self._context.session)
        return own if own.can_send_request else connection_of(self._context.session).outbound


class _SessionlessRequest(_ClientRequest):
    """A request of 2026-07-28: input is requested by its result, and notifications only precede that."""

    __slots__ = ()

    @property
    def takes_task(self) -> bool:
        """Whether the client declares the extension for tasks: then it takes one whenever a server makes one."""
        return TASKS in as_object(self.session.capabilities.get("extensions"))

    @property
    def log_level(self) -> str | None:
        """The level in the request's envelope."""
        level = envelope_of(self._context.params).get(types.LOG_LEVEL_META_KEY)
        return level if is_level(level) else None

    def wants_log(self, level: str) -> bool:
        """Return whether the client is sent log messages of this level: none, unless it asked for them."""
        least = self.log_level
        return least is not None and is_at_least(level, least)

    async def ask(self, method: str, _params: JsonObject, /) -> JsonObject:
        """Raise: this protocol revision has no requests from servers."""
        raise MCPError(types.METHOD_NOT_FOUND, "The client cannot be asked at once.", method)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send the client a notification on the stream of its request, if the protocol allows its kind."""
        # Of what a server may send, 2026-07-28 allows only log messages here; progress has its own way.
        if method == "notifications/message":
            await channel_of(self._context.session).notify(method, self._sent(params))


class ResumableRequests:
    """Restarts a request that needs input from its caller in its own task; the client's retry resumes it there."""

    def __init__(self, limits: LimitsSection, tasks: TaskGroup, new_handle: NewHandle = new_handle) -> None:
        self._work = SuspendableWork(SuspendedCalls(limits, new_handle), tasks)

    async def run(self, request: Request, work: Callable[[Request], Awaitable[JsonObject]]) -> JsonObject:
        """Return the result of ``work``, or the input that has to be requested from its caller first.

        Raises:
            DownstreamError: the request answers a question that was never asked, or has expired.

        """
        identity = partial(same_request, "", request.method, request.params)
        if not request.lasting and self._work.resumes(request):
            return await self._work.resume(request, identity())
        try:
            return await work(request)
        except InputRequired:
            if not request.params.keys().isdisjoint(ANSWERS):
                raise refused() from None  # a second request for input could run it twice
        suspended = SuspendedCall(request, identity, lasting=True)
        return await self._work.begin(suspended, partial(work, suspended))


@asynccontextmanager
async def open_resumable(limits: LimitsSection, new_handle: NewHandle) -> AsyncGenerator[ResumableRequests]:
    """Carry requests until the block ends; requests that still wait for input are then abandoned."""
    async with anyio.create_task_group() as tasks:
        try:
            yield ResumableRequests(limits, tasks, new_handle)
        finally:
            tasks.cancel_scope.cancel()
