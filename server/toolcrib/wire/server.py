"""toolcrib as an MCP server: what each request means, in both protocol eras, on any transport.

Knows the protocol's methods, eras and errors; never knows SQL, processes or how tools are ranked.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib import __version__
from toolcrib.access.sessions import Session
from toolcrib.base.json_values import as_object
from toolcrib.config.schema import Listing
from toolcrib.errors import BadRequest, DownstreamError, ToolcribError, UnknownResource, UnknownSkill, UnknownTool
from toolcrib.model import JsonObject
from toolcrib.tools.indexing import CatalogChange
from toolcrib.tools.results import failure, meta_for_next_hop
from toolcrib.tools.use_cases import Crib, ToolCall
from toolcrib.wire.builtin.registry import Builtins
from toolcrib.wire.envelope import call_result, list_result
from toolcrib.wire.instructions import Instructions
from toolcrib.wire.methods.registry import Methods
from toolcrib.wire.sessions import Context, Sessions, is_modern

_log = logging.getLogger(__name__)
_ANNOUNCE_S = 1.0
_PASSED_ON = ("inputResponses", "requestState")
_GREETINGS = ("initialize", "server/discover")


class _Server(Server[Any]):
    """The SDK's server, which tells sessionful clients that its list may change: the SDK's default denies it."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@dataclass(frozen=True, slots=True)
class _Listeners:
    """The 2026-07-28 subscriptions of all callers who see the same tools; ``session`` stands for them."""

    session: Session
    bus: InMemorySubscriptionBus
    handler: ListenHandler


@dataclass(frozen=True, slots=True)
class WireParts:
    """What requests are answered with. ``methods`` are those beside tools."""

    crib: Crib
    builtins: Builtins
    instructions: Instructions
    sessions: Sessions
    listing: Listing
    methods: Sequence[Methods]


class Wire:
    """Answers requests with a :class:`Crib` and its skills. Make one with :func:`open_wire`."""

    def __init__(self, parts: WireParts, tasks: TaskGroup) -> None:
        self._parts, self._tasks = parts, tasks
        self._crib, self._builtins, self._sessions = parts.crib, parts.builtins, parts.sessions
        self._refuses_modern = parts.listing == "dynamic"
        self._listeners: dict[tuple[int, ...], _Listeners] = {}
        self.server = _Server(
            "toolcrib",
            version=__version__,
            title="toolcrib",
            get_tool_input_schema=self._listed_schema,
            on_list_tools=_answered_above,
            on_call_tool=_answered_above,
            on_subscriptions_listen=self._listen,
        )
        self.server.middleware = [self._answer]
        for methods in parts.methods:
            methods.register(self.server)

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer tool requests here, past the SDK's shaping of results; leave the rest to the SDK."""
        if ctx.request_id is None:
            return await call_next(ctx)  # a notification asks for nothing
        try:
            if self._refuses_modern:
                _require_session(ctx)
            if ctx.method == "tools/list" and _is_open(ctx):
                return await self._list_tools(ctx)
            if ctx.method == "tools/call" and _is_open(ctx):
                return await self._call_tool(ctx)
            if ctx.method in _GREETINGS:
                return await self._with_instructions(ctx, as_object(await call_next(ctx)))
            return await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except (UnknownTool, UnknownResource, BadRequest) as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
        except DownstreamError as error:
            raise MCPError(code=error.code, message=str(error), data=error.data) from None
        except Exception as error:  # barrier: a request; no exception text of ours ever reaches a client
            raise _internal(error, ctx.method) from None

    async def _with_instructions(self, context: Context, result: JsonObject) -> JsonObject:
        """Return the result of a greeting with what a model is told first, which depends on who is asking."""
        for kind in ("resources", "prompts"):
            if kind in result["capabilities"]:
                result["capabilities"][kind] = {}  # the SDK promises news of them, which there is none of
        told = await self._parts.instructions.told_to(partial(self._sessions.of, context))
        return {**result, "instructions": told} if told else result

    async def _list_tools(self, context: Context) -> JsonObject:
        session = self._sessions.of(context)
        downstream_tools = await self._crib.list_tools(session)
        return list_result([*self._builtins.definitions, *downstream_tools], self._server_info(context))

    async def _call_tool(self, context: Context) -> JsonObject:
        params = context.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="tools/call takes a string 'name' and an object 'arguments'",
            )
        session, call = self._sessions.of(context), _tool_call(context, name, as_object(arguments))
        try:
            run = self._builtins.run if name in self._builtins else self._crib.call_listed
            result = await run(session, call)
        except (BadRequest, UnknownSkill) as error:
            result = failure(str(error))
        return call_result(result, self._server_info(context))

    def _listed_schema(self, name: str) -> JsonObject | None:
        """Return the schema by which the SDK compares ``Mcp-Param-*`` headers with arguments (2026-07-28 HTTP).

        It does so before :meth:`_answer`. Only what the caller's own list shows is compared: any other answer
        would tell which tools there are.
        """
        return None if self._refuses_modern else self._crib.listed_schema(self._sessions.keeping_nothing(), name)

    def _server_info(self, context: Context) -> JsonObject | None:
        return self.server.server_info_stamp if is_modern(context) else None

    # -- changes of the catalog ------------------------------------------------------------------

    async def _listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription; all callers who see the same tools share a bus."""
        session = self._sessions.of(context)
        key = self._crib.gate.view(session).key
        if key not in self._listeners:
            bus = InMemorySubscriptionBus()
            self._listeners[key] = _Listeners(session, bus, ListenHandler(bus))
        return await self._listeners[key].handler(context, params)

    def end_subscriptions(self) -> None:
        """End every subscription in order: its client is told that this was meant."""
        for listeners in self._listeners.values():
            listeners.handler.close()

    def on_catalog_change(self, change: CatalogChange) -> None:
        """Tell every session whose list is another one now."""
        gate = self._crib.gate
        for connected in self._sessions.open():
            if gate.differs(connected.session, change.before, change.after):
                self._tasks.start_soon(_tell, connected.announce)
        for listeners in self._listeners.values():
            if gate.differs(listeners.session, change.before, change.after):
                self._tasks.start_soon(_tell, partial(listeners.bus.publish, ToolsListChanged()))


async def _tell(announce: Callable[[], Awaitable[None]]) -> None:
    """Tell one client, unless it takes too long; what goes wrong with it is its own affair."""
    try:
        with anyio.move_on_after(_ANNOUNCE_S):
            await announce()
    except Exception as error:  # barrier: one client that cannot be told
        _log.warning("a client could not be told that its list has changed", exc_info=error)


@asynccontextmanager
async def open_wire(parts: WireParts) -> AsyncGenerator[Wire]:
    """Open the protocol side of a crib; its server can be run on any transport meanwhile."""
    async with anyio.create_task_group() as tasks:
        wire = Wire(parts, tasks)
        parts.crib.indexer.subscribe(wire.on_catalog_change)
        yield wire
        tasks.cancel_scope.cancel()


def _tool_call(context: Context, name: str, arguments: object) -> ToolCall:
    params = context.params or {}
    return ToolCall(
        name=name,
        arguments=arguments,
        meta=meta_for_next_hop(params.get("_meta")),
        extra={key: params[key] for key in _PASSED_ON if key in params},
        on_progress=context.session.report_progress,
        announce=_announcer(context),
    )


def _announcer(context: Context) -> Callable[[], Awaitable[None]]:
    async def announce() -> None:
        # On this request's own channel: over HTTP a client need not hold the other one open.
        await context.session.send_notification(
            types.ToolListChangedNotification(), related_request_id=context.request_id
        )

    return announce


def _is_open(context: Context) -> bool:
    """Return whether the handshake is over, where there is one; before it the SDK gives the answer."""
    return is_modern(context) or context.session.client_params is not None


def _require_session(context: Context) -> None:
    """Refuse a request of the sessionless era; clients that negotiate fall back by themselves."""
    meta = as_object((context.params or {}).get("_meta"))
    if types.PROTOCOL_VERSION_META_KEY not in meta:
        return
    raise MCPError(
        code=types.UNSUPPORTED_PROTOCOL_VERSION,
        message="This server lists tools as they are used, which takes a session: connect with 'initialize'. "
        "To serve this protocol revision, start toolcrib with --listing stable or auto.",
        data={"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": meta[types.PROTOCOL_VERSION_META_KEY]},
    )


def _internal(error: Exception, method: str) -> MCPError:
    """Log what went wrong under a reference, and return an error that tells no more than the reference."""
    reference = secrets.token_hex(4)
    detail = error.detail if isinstance(error, ToolcribError) else ""
    _log.error("%s failed (reference %s) %s", method, reference, detail, exc_info=error)
    return MCPError(
        code=types.INTERNAL_ERROR,
        message=f"Internal error of toolcrib; its log has the details under reference {reference}.",
    )


async def _answered_above(_context: Context, _params: Any) -> Any:
    """Stand for a handler, so that the SDK declares the tools capability; :meth:`Wire._answer` answers."""
    raise MCPError(code=types.INVALID_REQUEST, message="Not initialized")
