"""What transports serve: the handler of requests under the config currently in use."""

import logging
import secrets
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib import __version__
from toolcrib.base.errors import (
    BadRequest,
    Busy,
    DownstreamError,
    NotConfirmed,
    ToolcribError,
    Unavailable,
    UnknownPrompt,
    UnknownResource,
    UnknownSkill,
    UnknownTool,
)
from toolcrib.base.json_values import as_object, weight
from toolcrib.base.model import JsonObject
from toolcrib.base.signals import ChangeSignal
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.isolation import RELATED_TASK
from toolcrib.gateway.composition import Generation
from toolcrib.gateway.results import failure
from toolcrib.jsonrpc.sdk import CallNext, Context, HandlerResult, ProtocolServer, ServerMiddleware
from toolcrib.policy.client_profiles import ClientProfiles
from toolcrib.policy.requests import meta_for_next_hop
from toolcrib.policy.sessions import Session
from toolcrib.server.builtin.registry import Builtins
from toolcrib.server.envelopes import MODERN_ONLY, enveloped, list_result
from toolcrib.server.handshake_cache import HandshakeCache
from toolcrib.server.instructions import Instructions
from toolcrib.server.lists import ListChanges, Listing
from toolcrib.server.methods import methods_offered
from toolcrib.server.sessions import (
    ResumableRequests,
    Sessions,
    client_of,
    ended_without,
    is_modern,
)
from toolcrib.server.subscriptions import ResourceUpdates


@dataclass(slots=True, eq=False)
class _Load:
    """What one owner has under way; it is one of ``loads`` while that is more than nothing."""

    owner: str
    loads: dict[str, "_Load"]
    calls: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Bound:
    """The limits for one kind of owner, and each owner's load; ``keys`` are the config keys of the limits."""

    whose: str
    calls: int
    size: int
    keys: tuple[str, str]
    loads: dict[str, _Load] = field(default_factory=dict[str, _Load])

    def load(self, owner: str, size: int) -> _Load:
        """Return the load of an owner who may have another call of this size under way.

        Raises:
            Busy: the owner has too much under way.

        """
        load = self.loads.get(owner)
        if load is None:  # a single one is bounded by limits.request_max_bytes
            return _Load(owner, self.loads)
        calls_key, size_key = self.keys
        if load.calls >= self.calls:
            raise Busy(
                f"toolcrib is busy: {self.whose} has {load.calls} calls under way (limits.{calls_key}). Nothing ran. "
                "Wait for some of them to end, then repeat the call."
            )
        if load.size + size > self.size:
            raise Busy(
                f"toolcrib is busy: the calls that {self.whose} has under way take {load.size} bytes, and this one "
                f"{size} more (limits.{size_key}). Nothing ran. Wait for some of them to end, then repeat the call."
            )
        return load


class CountedCall:
    """One call, counted during the block. A class rather than a generator, because every call passes here."""

    __slots__ = ("_loads", "_size")

    def __init__(self, loads: Sequence[_Load], size: int) -> None:
        self._loads, self._size = loads, size

    def __enter__(self) -> None:
        for load in self._loads:
            load.calls, load.size = load.calls + 1, load.size + self._size
            load.loads[load.owner] = load

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for load in self._loads:
            load.calls, load.size = load.calls - 1, load.size - self._size
            if not load.calls:
                # Callers come and go without end; only those with calls under way are remembered.
                del load.loads[load.owner]


class PendingCalls:
    """Counts the calls under way; refuses calls that are too many or too large in total."""

    def __init__(self, limits: LimitsSection) -> None:
        self._most = max(limits.pending_bytes, limits.pending_bytes_per_principal)
        self._of_session = _Bound(
            "this session", limits.pending_calls, limits.pending_bytes, ("pending_calls", "pending_bytes")
        )
        self._of_principal = _Bound(
            "this caller",
            limits.pending_calls_per_principal,
            limits.pending_bytes_per_principal,
            ("pending_calls_per_principal", "pending_bytes_per_principal"),
        )

    def counted(self, session: Session, arguments: JsonObject) -> CountedCall:
        """Return a context manager that counts one call while it is under way; it is entered at once.

        Raises:
            Busy: its session or its principal has too much under way; nothing ran.

        """
        size = weight(arguments, self._most)
        of_session, of_principal = self._of_session, self._of_principal
        return CountedCall(
            (of_session.load(session.label, size), of_principal.load(session.caller.principal, size)), size
        )


_log = logging.getLogger(__name__)
_GONE = "The client has gone before there was a result."
_GONE_RESULT = failure(_GONE)
_GREETINGS = ("initialize", "server/discover")
_LISTEN = "subscriptions/listen"

IDENTITY = types.Implementation(name="toolcrib", version=__version__, title="toolcrib")
"""The server information sent to clients."""


class RequestHandler:
    """Answers the requests of clients from one generation of the gateway.

    ``listing`` and ``instructions`` are what a client sees first. ``handshake_cache``, if set (on stdio), answers
    ``initialize``. ``under_way`` counts requests, except subscriptions. ``updates`` and ``tasks``, which own work that
    goes on after a request, outlive the generation; ``changed`` is signalled after each request.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        sessions: Sessions,
        profiles: ClientProfiles,
        updates: ResourceUpdates,
        resumable: ResumableRequests,
        tasks: TaskGroup,
        changed: ChangeSignal,
    ) -> None:
        tools, offers, skills = generation.tools, generation.offers, generation.skills
        self._tool_use_cases, self._sessions, self._profiles = tools, sessions, profiles
        self._tasks, self._changed, self._resumable = tasks, changed, resumable
        self._builtins = Builtins(generation, sessions.scopes)
        self._pending = PendingCalls(generation.settings.toolcrib.limits)
        self.instructions = Instructions(generation, self._builtins)
        self.listing = Listing(tools, self._builtins, generation.offline.events)
        self.handshake_cache: HandshakeCache | None = None
        self.under_way = 0
        self.changes = ListChanges(tools.gate, offers, updates, sessions, tasks)
        self.server = ProtocolServer(
            IDENTITY,
            self._counted,
            input_schema=self._listed_schema,
            listen=self.changes.listen,
            set_log_level=self._set_log_level if generation.settings.servers else None,  # only servers send logs
        )
        methods = methods_offered(generation, sessions, resumable)
        for each in (*methods, *((updates,) if offers.may_subscribe else ())):
            each.register(self.server)
        tools.indexer.subscribe(self.changes.on_catalog_change)
        offers.indexer.subscribe(self.changes.on_offers_change)
        if skills is not None and generation.settings.toolcrib.skills.serve_resources:
            skills.dependencies.catalog.subscribe(self.changes.on_skills_change)

    def lists(self) -> dict[Session, tuple[object, ...]]:
        """Return the current lists of all clients that can be notified of changes."""
        lists = self.changes.lists(self._tool_use_cases.indexer.current())
        return {
            session: ((self._builtins.shown_to(session), tools), *rest) for session, (tools, *rest) in lists.items()
        }

    def take_over(self, before: "RequestHandler", lists: Mapping[Session, tuple[object, ...]]) -> None:
        """Serve the sessions under another config; notify those whose lists differ from ``lists``."""
        if before.handshake_cache:
            before.handshake_cache.retire()
        self.changes.take_over(before.changes)
        self.changes.tell_changed(lists, self.lists())

    async def _counted(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request and count it while it runs; a notification has no answer."""
        if context.request_id is None:
            return await self._take_note(context, call_next)
        # A subscription lasts as long as its client: counted, it would keep a replaced generation open.
        if context.method == _LISTEN:
            return await self._answer(context, call_next)
        self.under_way += 1
        try:
            return await self._answer(context, call_next)
        finally:
            self.under_way -= 1
            self._changed.event.set()

    async def _answer(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request, with errors that disclose nothing internal."""
        try:
            return await self._result(context, call_next)
        # The SDK answers it with the protocol's error for invalid params.
        except ValidationError:
            raise
        except MCPError:
            raise
        except UnknownResource as error:
            raise _not_found(error, context.params) from None
        except (UnknownTool, UnknownPrompt, BadRequest) as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
        except DownstreamError as error:
            raise MCPError(code=error.code, message=str(error), data=error.data) from None
        except NotConfirmed as error:
            raise MCPError(code=types.INVALID_REQUEST, message=str(error)) from None
        except (Busy, Unavailable) as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from None
        except Exception as error:  # barrier: a request; no exception text of ours ever reaches a client
            raise _internal(error, context.method) from None

    async def _result(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Answer methods that involve servers, bypassing the SDK's validation of results; leave the rest to the SDK."""
        # Another process may have listed a server since. Checked beside this request, which does not wait for it.
        self._tool_use_cases.indexer.schedule_reload()
        if _is_open(context):
            if context.method == "tools/list":
                return await self._list_tools(context)
            if context.method == "tools/call":
                return await self._call_tool(context)
            if (verbatim := self.server.verbatim(context)) is not None:
                own_meta = RELATED_TASK if context.method == "tasks/result" else ""
                return enveloped(await self._asked(context, verbatim), self._server_info(context), own_meta)
        if context.method in _GREETINGS:
            return await self._with_instructions(context, as_object(await call_next(context)))
        return await call_next(context)

    async def _take_note(self, context: Context, call_next: CallNext) -> HandlerResult:
        """Forward a client's notification, which has no answer."""
        if context.method == "notifications/roots/list_changed" and _is_open(context):
            await self._tool_use_cases.fleet.notify(await self._sessions.resolve(context), context.method)
        return await call_next(context)

    async def _set_log_level(self, context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Send a session log messages of servers from this level on."""
        (await self._sessions.resolve(context)).log_level = params.level
        return types.EmptyResult()

    async def _with_instructions(self, context: Context, result: JsonObject) -> JsonObject:
        """Return what a client is greeted with, complete with the instructions for a model, which depend on the caller.

        A client whose list should grow learns from a probe only of the revisions with sessions, so that it chooses one
        if it speaks any. The sessionless one is served all the same, to clients that speak no other (ADR 2).
        """
        result = {**result, "capabilities": self._declared(result["capabilities"])}
        try:
            session = await self._sessions.resolve(context)
        except MCPError:  # a token without a caller, which is reported for the first actual request
            return result
        is_steered = session.is_modern and session.client_profile.prefers_session
        if is_steered:
            result["supportedVersions"] = list(HANDSHAKE_PROTOCOL_VERSIONS)
        if self.handshake_cache:
            return await self.handshake_cache.answer(session, context, result, is_last=not is_steered)
        return await self.instructions.complete(result, session, is_rehearsal=is_steered)

    def _declared(self, capabilities: JsonObject) -> JsonObject:
        """Return the capabilities with those of resources and prompts: which changes are notified."""
        told = self.changes.told
        return {**capabilities, **{kind: told[kind] for kind in told if kind in capabilities}}

    async def _list_tools(self, context: Context) -> JsonObject:
        session = await self._sessions.resolve(context)
        return list_result(await self.listing.list_for(session), self._server_info(context))

    async def _call_tool(self, context: Context) -> JsonObject:
        params = context.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        # The SDK's validation is bypassed (ADR 4), so the shape is checked here.
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="tools/call takes a string 'name' and an object 'arguments'",
            )
        request, given = await self._sessions.request(context), as_object(arguments)
        result = _GONE_RESULT  # stays where the block is cancelled
        try:
            with self._pending.counted(request.session, given), ended_without(client_of(context.request), self._tasks):
                answer = self._builtins.run if name in self._builtins.tools else self._tool_use_cases.call_listed
                result = await self._resumable.run(request, lambda request: answer(request, name, given))
                if request.task_ttl_ms is not None:
                    called = given.get("name") if name in self._builtins.tools else name
                    result = await self._tool_use_cases.as_asked(request, called, result)
        # In the result, which a model sees and can act on; of JSON-RPC errors hosts show it little (server/tools,
        # "Error Handling").
        except (BadRequest, Busy, NotConfirmed, UnknownSkill) as error:
            result = failure(str(error))
        return _call_result(result, self._server_info(context))

    async def _asked(self, context: Context, answer: Coroutine[Any, Any, JsonObject]) -> JsonObject:
        """Return a server's answer to a request other than a tool call; it counts as in progress like a call."""
        with closing(answer):
            session = await self._sessions.resolve(context)
            counted = self._pending.counted(session, as_object(context.params))
            with counted, ended_without(client_of(context.request), self._tasks):
                return await answer
        raise MCPError(code=types.INTERNAL_ERROR, message=_GONE)

    def _listed_schema(self, name: str) -> JsonObject | None:
        """Return the schema by which the SDK compares ``Mcp-Param-*`` headers with arguments (2026-07-28 HTTP).

        It does so before :meth:`_answer`. Only what the caller's own list shows is compared: any other answer
        would tell which tools there are.
        """
        return self._tool_use_cases.listed_schema(self._sessions.keeping_nothing(), name)

    def _server_info(self, context: Context) -> JsonObject | None:
        return self.server.info if is_modern(context) else None


def _call_result(result: JsonObject, server_info: JsonObject | None) -> JsonObject:
    """Return the result of ``tools/call`` in the form of its era."""
    meta = meta_for_next_hop(result.get("_meta"))
    if server_info is not None:
        stamped = {**meta, types.SERVER_INFO_META_KEY: server_info}
        return {"resultType": "complete", **result, "_meta": stamped}
    if result.get("resultType", "complete") != "complete":
        return failure("The server asks for input during the call, which this client's protocol cannot carry.")
    plain = {key: value for key, value in result.items() if key not in MODERN_ONLY and key != "_meta"}
    if meta:
        plain["_meta"] = meta
    return plain


class HandlerOwner(Protocol):
    """Whoever replaces the handler when a reload puts another generation in use."""

    handler: RequestHandler


class CurrentServer(ProtocolServer):
    """The SDK's server of the handler in use, with the transport's middleware in front.

    The SDK reads the middleware and the handler for each request, and the declaration for each connection; it caches
    none of them, so every attribute is looked up anew. It is one of the SDK's servers itself, because the SDK's client
    connects in memory to nothing else.
    """

    def __init__(self, owner: HandlerOwner, front: Sequence[ServerMiddleware[Any]]) -> None:
        # Without the SDK's own set-up: what it would set here would hide what the handler in use has.
        self._owner, self._front = owner, front

    def __getattr__(self, name: str) -> Any:
        server = self._owner.handler.server
        return [*self._front, *server.middleware] if name == "middleware" else getattr(server, name)


# -- refusals ------------------------------------------------------------------------------------


def _is_open(context: Context) -> bool:
    """Return whether the handshake, if there is one, is complete; before it the SDK answers."""
    return is_modern(context) or context.session.client_params is not None


def _not_found(error: UnknownResource, asked: Mapping[str, Any] | None) -> MCPError:
    """Return the error that names the requested resource, also for programs (SEP-2164)."""
    uri = (asked or {}).get("uri")
    return MCPError(code=types.INVALID_PARAMS, message=str(error), data={"uri": uri} if isinstance(uri, str) else None)


def _internal(error: Exception, method: str) -> MCPError:
    """Log a failure under a reference, and return an error with that reference only."""
    reference = secrets.token_hex(4)
    detail = error.detail if isinstance(error, ToolcribError) else ""
    _log.error("%s failed (reference %s) %s", method, reference, detail, exc_info=error)
    return MCPError(
        code=types.INTERNAL_ERROR,
        message=f"Internal error of toolcrib; its log has the details under reference {reference}.",
    )
