"""Who is told that one of their lists has changed: sessions over their channel, subscribers by their subscription.

Knows whose list is another one after a change; never knows what changed in it, or why.
"""

from functools import partial
from typing import Any

import mcp_types as types
from anyio.abc import TaskGroup
from mcp import MCPError

from toolcrib.access.sessions import Session
from toolcrib.model import JsonObject, OfferKind
from toolcrib.offers.indexing import OffersChange
from toolcrib.offers.use_cases import OfferUseCases
from toolcrib.streams.sdk import Context, PromptsListChanged, ResourcesListChanged, Subscriptions, ToolsListChanged
from toolcrib.tools.gate import Gate
from toolcrib.tools.indexing import CatalogChange
from toolcrib.wire.sessions import Sessions
from toolcrib.wire.updates import ResourceUpdates, tell

_LISTENING_MAX = 1024
"""Subscriptions of 2026-07-28 at a time."""

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


class ListChanges:
    """Tells clients of changes; ``tasks`` own the telling."""

    def __init__(
        self, gate: Gate, offers: OfferUseCases, updates: ResourceUpdates, sessions: Sessions, tasks: TaskGroup
    ) -> None:
        self._gate, self._offers, self._updates = gate, offers, updates
        self._sessions, self._tasks = sessions, tasks
        self._listening: dict[Subscriptions, Session] = {}

    @property
    def told(self) -> dict[str, JsonObject]:
        """What is told of resources and prompts, as capabilities."""
        return {
            "resources": _set(subscribe=self._offers.may_subscribe, listChanged=self._offers.is_listed("resource")),
            "prompts": _set(listChanged=self._offers.is_listed("prompt")),
        }

    async def listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription (2026-07-28); of resources it gets those that its caller may read."""
        session = await self._sessions.of(context)
        if len(self._listening) >= _LISTENING_MAX:
            raise MCPError(code=types.INTERNAL_ERROR, message="Subscription limit reached")
        subscriptions = Subscriptions()
        self._listening[subscriptions] = session
        try:
            wanted = params.notifications.resource_subscriptions or ()
            async with self._updates.held(session, wanted, subscriptions) as held:
                honored = params.notifications.model_copy(update={"resource_subscriptions": held or None})
                return await subscriptions.serve(context, params.model_copy(update={"notifications": honored}))
        finally:
            del self._listening[subscriptions]

    def end_subscriptions(self) -> None:
        """End every subscription in order: its client is told that this was meant."""
        for subscriptions in self._listening:
            subscriptions.close()

    def on_catalog_change(self, change: CatalogChange) -> None:
        """Tell every session and subscriber whose list of tools is another one now."""
        for session, say in self._everybody(ToolsListChanged()):
            if self._gate.differs(session, change.before, change.after):
                self._tasks.start_soon(tell, say)

    def on_offers_change(self, change: OffersChange) -> None:
        """Tell every session and subscriber whose list of resources, templates or prompts is another one now."""
        for event, kinds in _LISTS:
            for session, say in self._everybody(event):
                if self._offers.differs(session, change, kinds):
                    self._tasks.start_soon(tell, say)

    def _everybody(self, event: _Event) -> list[tuple[Session, Any]]:
        notification = _NOTIFICATIONS[type(event)]
        told = [(each.session, partial(each.announce, notification())) for each in self._sessions.open()]
        return [*told, *((session, partial(each.tell, event)) for each, session in self._listening.items())]


def _set(**flags: bool) -> JsonObject:
    return {name: True for name, flag in flags.items() if flag}
