"""Asks the calling person to log in, if a server requires it and their client can show them a URL.

Knows who can be asked, and that one request serves all waiters; never knows what a login consists of (R274).
"""

import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from toolcrib.auth.logins import Logins
from toolcrib.base.errors import LoginFailed, StartFailed, ToolcribError
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import ServerSettings, Settings
from toolcrib.downstream.fleet import Fleet
from toolcrib.policy.asking import Asker, refuse_beyond
from toolcrib.policy.confirmations import MustAsk
from toolcrib.policy.sessions import Session

_ELICIT, _COMPLETE = "elicitation/create", "notifications/elicitation/complete"
_OWNER = "local"
"""The principal of the person at this machine, who owns these logins, and receives the login's redirect."""

_log = logging.getLogger(__name__)

Show = Callable[[str, str], Awaitable[None]]


class AskedLogins:
    """Requests logins to the servers of a config, and lists servers after a login."""

    def __init__(self, settings: Settings, fleet: Fleet) -> None:
        self._settings, self._fleet = settings, fleet
        self._turns: dict[str, anyio.Lock] = {}
        self._asked_before = Counter[str]()
        self._has_logged_in: dict[str, bool] = {}

    async def settle(self, session: Session, asker: Asker, key: str) -> bool:
        """Return whether somebody has logged in to a server that requires it.

        A caller that waits for another call's request gets its result, and requests nothing.

        Raises:
            MustAsk: the person can be asked, but not while this request is under way.

        """
        server, logins = self._settings.servers.get(key), self._fleet.logins
        if server is None or logins is None or not _can_be_asked(session, asker):
            return False
        if not asker.is_live:
            raise MustAsk
        asked_before = self._asked_before[key]
        async with self._turns.setdefault(key, anyio.Lock()):
            if not await logins.has_changed(server):
                if self._asked_before[key] == asked_before:
                    self._has_logged_in[key] = await self._has_said_yes(logins, server, asker)
                    self._asked_before[key] += 1  # not if the call was abandoned meanwhile
                if not self._has_logged_in[key]:
                    return False
        with suppress(StartFailed):  # reported when the call is tried again
            await self._fleet[key].connection(wanted=False)
        return True

    async def _has_said_yes(self, logins: Logins, server: ServerSettings, asker: Asker) -> bool:
        try:
            await self._ask(logins, server, asker)
        except ToolcribError as error:
            _log.warning("nobody logged in to %s: %s", server.key, error)
            return False
        return True

    async def _ask(self, logins: Logins, server: ServerSettings, asker: Asker) -> None:
        """Request a login, and wait for the result, as long as a person may take to answer."""
        elicitation = secrets.token_urlsafe()

        async def show(address: str, _redirect_uri: str) -> None:
            question: JsonObject = {
                "mode": "url",
                "message": f"The server {server.key} requires you to log in, in the browser on this computer.",
                "url": address,
                "elicitationId": elicitation,
            }
            if (await _answer(asker, question)).get("action") != "accept":
                raise LoginFailed("their client was asked, and the answer is no")

        with anyio.move_on_after(self._settings.toolcrib.limits.answer_timeout_s) as patience:
            await logins.log_in(server, show)
        if patience.cancelled_caught:
            raise LoginFailed("nobody answered in time")
        if asker.lasting:
            await asker.tell(_COMPLETE, {"elicitationId": elicitation})


async def _answer(asker: Asker, question: JsonObject) -> JsonObject:
    from mcp import MCPError  # noqa: PLC0415 - who only says that nobody can be asked does not wait for the SDK

    try:
        return await asker.ask(_ELICIT, question)
    except MCPError as error:
        raise LoginFailed(f"their client could not be asked: {error.message}") from None


def _can_be_asked(session: Session, asker: Asker) -> bool:
    """Return whether the caller is the person at this machine, and its client can open URLs."""
    from mcp import MCPError  # noqa: PLC0415 - as above

    if session.caller.principal != _OWNER:
        return False
    try:
        refuse_beyond(asker.capabilities, _ELICIT, {"mode": "url"})
    except MCPError:
        return False
    return True
