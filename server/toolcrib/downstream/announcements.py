"""Change notifications of a server, in either era: of its list of tools, its other lists, single resources.

Knows the notifications and the subscription that delivers them; never knows what is done about a change.
"""

from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.abc
import mcp_types as types
from mcp import ClientSession, MCPError

from toolcrib.base.errors import DownstreamError
from toolcrib.base.model import OfferKind
from toolcrib.jsonrpc.sdk import (
    IncomingMessage,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    SubscriptionLost,
    ToolsListChanged,
    listen,
)

_LISTEN_AGAIN_S = 1.0

_DEBOUNCE_S = 0.05
_REST = 4
"""After a reading, the next one waits so many times as long as it took: no server can keep us reading."""


def rest_s(took_s: float = 0.0) -> float:
    """Return how many seconds to wait before what has been announced is read, after a reading that took so long."""
    return max(_DEBOUNCE_S, _REST * took_s)


class News:
    """What one server has announced.

    ``changes`` counts how often it said that its tools have changed, ``list_changed`` is set when it does. ``said`` is
    set when it says so of another list. ``on_updated`` gets the URI of each resource that it says has changed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.list_changed = anyio.Event()
        self.said = anyio.Event()
        self.on_updated: Callable[[str], None] = _to_nobody
        self._kinds: set[OfferKind] = set()

    def take(self) -> frozenset[OfferKind]:
        """Return the lists besides tools that have changed, and reset."""
        kinds, self._kinds, self.said = frozenset(self._kinds), set(), anyio.Event()
        return kinds

    async def hear(self, message: IncomingMessage) -> None:
        """Take in what a server with a session tells."""
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

    def hear_event(self, event: ServerEvent) -> None:
        """Take in what comes by a subscription."""
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
        """Note that the list of tools is another one now."""
        self.changes += 1
        self.list_changed.set()

    def note(self, *kinds: OfferKind) -> None:
        """Note that these lists are others now."""
        self._kinds.update(kinds)
        self.said.set()


def _to_nobody(_uri: str) -> None:
    """Hear of an update that nobody has subscribed to."""


def capabilities_of(session: ClientSession) -> types.ServerCapabilities:
    """Return what a server says it can do."""
    return session.server_capabilities or types.ServerCapabilities()


def offered_by(session: ClientSession) -> frozenset[OfferKind]:
    """Return the kinds of things besides tools that a server says it has."""
    told = capabilities_of(session)
    resources: tuple[OfferKind, ...] = ("resource", "template") if told.resources else ()
    prompts: tuple[OfferKind, ...] = ("prompt",) if told.prompts else ()
    return frozenset(resources + prompts)


class Listening:
    """The 2026-07-28 subscription to changes of the lists that a server says it tells changes of."""

    def __init__(self, session: ClientSession, news: News, closed: anyio.Event) -> None:
        self._session, self._news, self._closed = session, news, closed
        told = capabilities_of(session)
        self._tools = bool(told.tools and told.tools.list_changed)
        self._resources = bool(told.resources and told.resources.list_changed)
        self._prompts = bool(told.prompts and told.prompts.list_changed)

    @property
    def is_promised(self) -> bool:
        """Whether there is anything to be told of."""
        return self._tools or self._resources or self._prompts

    async def hold(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Hold it for as long as the connection lives.

        Held before the first list is fetched, because a change between the two would not be told again.
        """
        if not await self._subscribe(task_status.started):
            task_status.started()
            return
        while not self._closed.is_set():
            await anyio.sleep(_LISTEN_AGAIN_S)
            # What changed meanwhile was not told.
            await self._subscribe(self._note_everything)

    def _note_everything(self) -> None:
        self._news.note_tools()
        self._news.note(*offered_by(self._session))

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
                    self._news.hear_event(event)
        return held


async def hold_updates(
    session: ClientSession, news: News, uri: str, *, task_status: anyio.abc.TaskStatus[anyio.CancelScope]
) -> None:
    """Hold a 2026-07-28 subscription to one resource, taken again when it is lost; cancel the scope to end it.

    Raises:
        DownstreamError: the server did not grant it.

    """
    with anyio.CancelScope() as scope:
        await _hold_once(session, news, uri, lambda: task_status.started(scope))
        while True:
            await anyio.sleep(_LISTEN_AGAIN_S)
            with suppress(DownstreamError):
                # What changed meanwhile was not told.
                await _hold_once(session, news, uri, lambda: news.on_updated(uri))


async def _hold_once(session: ClientSession, news: News, uri: str, on_held: Callable[[], None]) -> None:
    held = False
    try:
        async with listen(session, resource_subscriptions=[uri]) as subscription:
            held = bool(subscription.honored.resource_subscriptions)
            if held:
                on_held()
                async for event in subscription:
                    news.hear_event(event)
    except (MCPError, SubscriptionLost) as error:
        if not held:
            code = error.code if isinstance(error, MCPError) else types.INTERNAL_ERROR
            raise DownstreamError(code, str(error)) from None
    if not held:
        raise DownstreamError(types.INVALID_PARAMS, "The server does not notify changes of this resource.")
