"""The lists of tools that sessions are shown, and the notifications that a client's list has changed."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError

from toolcrib.base.json_values import compact
from toolcrib.base.model import JsonObject, OfferKind
from toolcrib.base.names import name_digest
from toolcrib.catalog.gate import Gate
from toolcrib.catalog.indexing import CatalogChange
from toolcrib.catalog.offers import OffersChange
from toolcrib.catalog.snapshot import Catalog
from toolcrib.events.kinds import ToolsListed
from toolcrib.events.log import EventLog
from toolcrib.gateway.offers import OfferUseCases
from toolcrib.gateway.tools import ToolUseCases
from toolcrib.jsonrpc.sdk import Context, PromptsListChanged, ResourcesListChanged, Subscriptions, ToolsListChanged
from toolcrib.policy.sessions import Session
from toolcrib.server.builtin.registry import Builtins
from toolcrib.server.envelopes import LIST_TTL_MS
from toolcrib.server.sessions import Sessions
from toolcrib.server.subscriptions import ResourceUpdates, Teller, tell
from toolcrib.skills.catalog import ChangedScopes

_NAMES_TOLD = 50


class Listing:
    """Creates tool lists for one configuration."""

    def __init__(self, tool_use_cases: ToolUseCases, builtins: Builtins, events: EventLog) -> None:
        self._tool_use_cases, self._builtins, self._events = tool_use_cases, builtins, events
        # The list that was digested last: most are the same as the one before.
        self._digested: tuple[list[JsonObject], list[tuple[str, str]]] | None = None
        self._digest = ""

    async def definitions(self, session: Session) -> list[JsonObject]:
        """Return the definitions in a session's ``tools/list``."""
        downstream_tools = await self._tool_use_cases.list_tools(session)
        return [*self._builtins.shown_to(session), *downstream_tools]

    async def list_for(self, session: Session) -> list[JsonObject]:
        """Return the same for a session that has requested it, and emit an event about it."""
        tools = await self.definitions(session)
        own = self._builtins.shown_to(session)
        marks = self._tool_use_cases.gate.marks(session, self._tool_use_cases.indexer.current())
        if self._digested != (own, marks):
            self._digested, self._digest = (own, marks), name_digest(compact([own, marks]))
        names = [tool["name"] for tool in tools[len(own) : len(own) + _NAMES_TOLD]]
        self._events.emit(ToolsListed(len(tools), names, self._digest), session=session.label)
        return tools


_LISTENING_MAX = 1024
"""Maximum number of concurrent 2026-07-28 subscriptions."""

_Event = ToolsListChanged | ResourcesListChanged | PromptsListChanged

_NOTIFICATIONS = {
    ToolsListChanged: types.ToolListChangedNotification,
    ResourcesListChanged: types.ResourceListChangedNotification,
    PromptsListChanged: types.PromptListChangedNotification,
}


_LISTS: tuple[tuple[_Event, tuple[OfferKind, ...]], ...] = (
    (ResourcesListChanged(), ("resource", "template")),
    (PromptsListChanged(), ("prompt",)),
)


class _Stream:
    """One subscription of 2026-07-28, and the session of its caller."""

    def __init__(self, session: Session, tasks: TaskGroup) -> None:
        self.session, self.subscriptions = session, Subscriptions()
        self._teller = Teller(self.subscriptions.publish, tasks)

    def note(self, event: _Event) -> None:
        """Schedule a notification: one for a change that is noted several times meanwhile. Never waits."""
        self._teller.note(event)

    async def notify(self, event: _Event) -> None:
        """Do the same, where sessions wait until theirs is sent."""
        self.note(event)


class ListChanges:
    """Notifies clients of changes; ``tasks`` own the sending. ``listening`` are the subscriptions of 2026-07-28.

    A session is notified of a list that differs for it. A subscription is also notified of what a server announces, as
    it would be by the server itself: its tools may be called though they are not listed. Not if anything of any server
    is hidden from its caller: an announcement that nothing visible explains would tell of it.
    """

    def __init__(
        self, gate: Gate, offers: OfferUseCases, updates: ResourceUpdates, sessions: Sessions, tasks: TaskGroup
    ) -> None:
        self._gate, self._offers, self._updates = gate, offers, updates
        self._sessions, self._tasks = sessions, tasks
        self.listening: dict[_Stream, None] = {}
        self.wrong_until = -math.inf

    def take_over(self, before: "ListChanges") -> None:
        """Take over the subscribers of the notifier of the previous config."""
        self.listening, self.wrong_until = before.listening, before.wrong_until

    def lists(self, catalog: Catalog) -> dict[Session, tuple[object, ...]]:
        """Return the current lists of everybody who can be notified: of tools, of resources, of prompts."""
        sessions = {session for session, _say in self._everybody(ToolsListChanged())}
        return {
            session: (
                self._gate.marks(session, catalog),
                *([self._offers.marks(session, kind) for kind in kinds] for _event, kinds in _LISTS),
            )
            for session in sessions
        }

    def tell_changed(
        self, before: Mapping[Session, tuple[object, ...]], after: Mapping[Session, tuple[object, ...]]
    ) -> None:
        """Notify everybody of each list that differs between ``before`` and ``after``."""
        for place, event in enumerate((ToolsListChanged(), *(event for event, _kinds in _LISTS))):
            for session, say in self._everybody(event):
                if session in before and session in after and before[session][place] != after[session][place]:
                    self._tasks.start_soon(tell, say)

    @property
    def told(self) -> dict[str, JsonObject]:
        """The announced notifications about resources and prompts, as capabilities."""
        return {
            "resources": _set(subscribe=self._offers.may_subscribe, listChanged=self._offers.is_listed("resource")),
            "prompts": _set(listChanged=self._offers.is_listed("prompt")),
        }

    async def listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription (2026-07-28); resource updates are limited to resources that its caller may read."""
        session = await self._sessions.resolve(context)
        if len(self.listening) >= _LISTENING_MAX:
            raise MCPError(code=types.INTERNAL_ERROR, message="Subscription limit reached")
        stream = _Stream(session, self._tasks)
        # No await since the check, so that the bound holds for requests that arrive together.
        self.listening[stream] = None
        try:
            wanted = params.notifications.resource_subscriptions or ()
            async with self._updates.held(session, wanted, stream.subscriptions) as held:
                if anyio.current_time() < self.wrong_until:
                    stream.note(ToolsListChanged())  # sent once the client is subscribed
                # The client is told which it holds; one that it may not read is missing like one that does not exist.
                honored = params.notifications.model_copy(update={"resource_subscriptions": held or None})
                return await stream.subscriptions.serve(context, params.model_copy(update={"notifications": honored}))
        finally:
            del self.listening[stream]

    def end_subscriptions(self) -> None:
        """End every subscription gracefully: its client is notified."""
        for stream in self.listening:
            stream.subscriptions.close()

    def take_back_tools(self) -> None:
        """Notify every session and subscriber that the list of tools they received is not current.

        Later subscribers are notified too, for as long as clients may treat a list as current.
        """
        self.wrong_until = anyio.current_time() + LIST_TTL_MS / 1000
        for _session, say in self._everybody(ToolsListChanged()):
            self._tasks.start_soon(tell, say)

    def on_catalog_change(self, change: CatalogChange) -> None:
        """Notify every session and subscriber whose list of tools has changed."""
        if change.uses:
            self._announce(ToolsListChanged(), change.uses)
        for session, say in self._everybody(ToolsListChanged()):
            # A change of what a caller may not see must not be noticeable, so nobody else is notified.
            if self._gate.differs(session, change.before, change.after):
                self._tasks.start_soon(tell, say)

    def on_offers_change(self, change: OffersChange) -> None:
        """Notify every session and subscriber whose list of resources, templates or prompts has changed."""
        for event, kinds in _LISTS:
            if change.announced.intersection(filter(self._offers.is_listed, kinds)):
                self._announce(event, _anyone)
            for session, say in self._everybody(event):
                if self._offers.differs(session, change, kinds):
                    self._tasks.start_soon(tell, say)

    def on_skills_change(self, changed: ChangedScopes) -> None:
        """Notify every session and subscriber in these scopes that their list of resources, with skills, has changed.

        Of changes of servers' skills, which policy may hide, only those to whom nothing is denied are notified.

        Does nothing if these notifications were not announced.
        """
        if self._offers.is_listed("resource"):
            for session, say in self._everybody(ResourcesListChanged()):
                scope = session.caller.tenant_id, session.caller.project_id
                sees_all = self._gate.permissions(session).unrestricted
                if scope in changed.own or (sees_all and scope in changed.of_servers):
                    self._tasks.start_soon(tell, say)

    def _announce(self, event: _Event, uses: Callable[[Session], bool]) -> None:
        """Pass on what a server has announced to the subscribers that use the connection on which it did."""
        for stream in self.listening:
            if uses(stream.session) and self._gate.hides_nothing(stream.session):
                stream.note(event)

    def _everybody(self, event: _Event) -> list[tuple[Session, Any]]:
        notification = _NOTIFICATIONS[type(event)]
        told = [(each.session, partial(each.notify, notification())) for each in self._sessions.open()]
        return [*told, *((stream.session, partial(stream.notify, event)) for stream in self.listening)]


def _anyone(_session: Session) -> bool:
    """Return that everybody uses it: prompts and resources are listed on the connection that is shared."""
    return True


def _set(**flags: bool) -> JsonObject:
    return {name: True for name, flag in flags.items() if flag}
