"""The logins of the servers of a config while it is served: one token a server, for all connections to it.

Its dependencies are imported, in a thread, when the first server that may require a login is reached.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from toolcrib.base.errors import StoreError
from toolcrib.base.model import JsonObject
from toolcrib.config.settings import HttpTarget, ServerSettings

if TYPE_CHECKING:
    from toolcrib.auth.bearers import Bearer
    from toolcrib.auth.challenges import Challenge
    from toolcrib.auth.store import LoginEntry

Show = Callable[[str, str], Awaitable[None]]


class Logins:
    """The logins stored in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bearers: dict[str, Bearer] = {}

    async def bearer(self, server: ServerSettings) -> "Bearer | None":
        """Return the stored token for connections to a server; None for a server without a login."""
        if not server.may_log_in:
            return None
        bearer = self._bearers.get(server.key)
        # After a reload a key may stand for another server, which must not get this token.
        if bearer is None or bearer.server.target != server.target or bearer.server.options.auth != server.options.auth:
            bearer = self._bearers[server.key] = await anyio.to_thread.run_sync(self._new_bearer, server)
        await bearer.load()
        return bearer

    async def has_changed(self, server: ServerSettings) -> bool:
        """Return whether the stored login has changed since its last use: a person may have logged in."""
        bearer = self._bearers.get(server.key)
        try:
            return bearer is not None and await bearer.entry.has_changed()
        except StoreError:
            return False

    async def log_in(self, server: ServerSettings, show: Show) -> None:
        """Let a person log in to a server; ``show`` is called with the URL, and where the response will arrive.

        Raises:
            LoginFailed: the login failed.
            StoreError: it cannot be stored.

        """
        bearer = self._bearers.get(server.key)
        log_in = await anyio.to_thread.run_sync(self._flow, server, bearer.challenge if bearer else None)
        await log_in(show)

    def _flow(self, server: ServerSettings, challenge: "Challenge | None") -> Callable[[Show], Awaitable[None]]:
        from toolcrib.auth.flow import LoginPrompt, log_in, request_challenge  # noqa: PLC0415 - see above

        # Not the entry of the connections, which detect that it has changed.
        entry = stored_login(self._folder, server)

        async def flow(show: Show) -> None:
            await log_in(server, entry, challenge or (await request_challenge(server))[0], LoginPrompt(show))

        return flow

    def _new_bearer(self, server: ServerSettings) -> "Bearer":
        from toolcrib.auth.bearers import Bearer  # noqa: PLC0415 - see above

        return Bearer(server, stored_login(self._folder, server))


def login_facts(folder: Path, servers: Iterable[ServerSettings]) -> Mapping[str, JsonObject]:
    """Return the public facts of the logins in ``folder`` to servers, by key. Blocks; uses no keyring."""
    wanted = {(server.key, server.target.public_url) for server in servers if isinstance(server.target, HttpTarget)}
    if not wanted or not folder.is_dir():
        return {}
    from toolcrib.auth.keyring import NoKeyring  # noqa: PLC0415
    from toolcrib.auth.records import login_json  # noqa: PLC0415
    from toolcrib.auth.store import TokenStore  # noqa: PLC0415 - see above

    records = (each for each in TokenStore(folder, NoKeyring()).records() if (each.entry, each.server) in wanted)
    return {record.entry: facts for record in records if (facts := login_json(record))}


def stored_login(folder: Path, server: ServerSettings) -> "LoginEntry":
    """Return the login to a server stored in ``folder``, or in the system's keyring. Nothing is read yet."""
    from toolcrib.auth.keyring import SystemKeyring  # noqa: PLC0415 - see above
    from toolcrib.auth.store import TokenStore  # noqa: PLC0415

    assert isinstance(server.target, HttpTarget)
    return TokenStore(folder, SystemKeyring()).entry(server.target.public_url, server.key, server.learned)
