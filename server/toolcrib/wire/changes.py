"""Who is told that their list of tools has changed: sessions over their channel, subscribers by their subscription.

Knows whose list is another one after a change of the catalog; never knows what changed in it, or why.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup

from toolcrib.access.sessions import Session
from toolcrib.streams.sdk import Context, Subscriptions
from toolcrib.tools.gate import Gate
from toolcrib.tools.indexing import CatalogChange
from toolcrib.wire.sessions import Sessions

_log = logging.getLogger(__name__)
_ANNOUNCE_S = 1.0


class ListChanges:
    """Tells clients of changes; ``tasks`` own the telling."""

    def __init__(self, gate: Gate, sessions: Sessions, tasks: TaskGroup) -> None:
        self._gate, self._sessions, self._tasks = gate, sessions, tasks
        self._subscribers: dict[tuple[int, ...], tuple[Session, Subscriptions]] = {}

    async def listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Serve one subscription (2026-07-28); callers who see the same tools are told together."""
        session = await self._sessions.of(context)
        key = self._gate.permissions(session).key
        if key not in self._subscribers:
            self._subscribers[key] = session, Subscriptions()
        return await self._subscribers[key][1].serve(context, params)

    def end_subscriptions(self) -> None:
        """End every subscription in order: its client is told that this was meant."""
        for _session, subscriptions in self._subscribers.values():
            subscriptions.close()

    def on_catalog_change(self, change: CatalogChange) -> None:
        """Tell every session and subscriber whose list is another one now."""
        told = [(connected.session, connected.announce) for connected in self._sessions.open()]
        told += [(session, each.tell_tools_changed) for session, each in self._subscribers.values()]
        for session, announce in told:
            if self._gate.differs(session, change.before, change.after):
                self._tasks.start_soon(_tell, announce)


async def _tell(announce: Callable[[], Awaitable[None]]) -> None:
    """Tell one client, unless it takes too long; what goes wrong with it is its own affair."""
    try:
        with anyio.move_on_after(_ANNOUNCE_S):
            await announce()
    except Exception as error:  # barrier: one client that cannot be told
        _log.warning("a client could not be told that its list has changed", exc_info=error)
