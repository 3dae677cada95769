"""The logins of the servers of a config while it is served: one token a server, for all connections to it.

Knows which server is logged in to, and whether that has changed; never knows how a login is made.
What it takes is imported, in a thread, when the first server is reached that may want a login.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.errors import StoreError
from toolcrib.model import JsonObject

if TYPE_CHECKING:
    from toolcrib.login.bearers import Bearer
    from toolcrib.login.challenges import Challenge
    from toolcrib.login.store import LoginEntry


Show = Callable[[str, str], Awaitable[None]]


class Logins:
    """The logins that are kept in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bearers: dict[str, Bearer] = {}

    async def bearer(self, server: ServerSettings) -> "Bearer | None":
        """Return the token for connections to a server, as it is kept now; None for one that takes no login."""
        if not server.may_log_in:
            return None
        bearer = self._bearers.get(server.key)
        if bearer is None or bearer.server.target != server.target or bearer.server.options.auth != server.options.auth:
            bearer = self._bearers[server.key] = await anyio.to_thread.run_sync(self._made, server)
        await bearer.load()
        return bearer

    async def has_changed(self, server: ServerSettings) -> bool:
        """Return whether what is kept of a login has changed since it was used last: somebody may have logged in."""
        bearer = self._bearers.get(server.key)
        try:
            return bearer is not None and await bearer.entry.has_changed()
        except StoreError:
            return False

    async def log_in(self, server: ServerSettings, show: Show) -> None:
        """Have a person log in to a server that has asked for it; ``show`` gets the address, and where the answer goes.

        Raises:
            LoginFailed: it did not come to that.
            StoreError: it cannot be kept.

        """
        bearer = self._bearers.get(server.key)
        log_in = await anyio.to_thread.run_sync(self._flow, server, bearer.challenge if bearer else None)
        await log_in(show)

    def _flow(self, server: ServerSettings, challenge: "Challenge | None") -> Callable[[Show], Awaitable[None]]:
        from toolcrib.login.flow import Ask, challenged, log_in  # noqa: PLC0415 - see above

        # Another entry than that of the connections, which find that it has changed.
        entry = kept_login(self._folder, server)

        async def flow(show: Show) -> None:
            await log_in(server, entry, challenge or (await challenged(server))[0], Ask(show))

        return flow

    def _made(self, server: ServerSettings) -> "Bearer":
        from toolcrib.login.bearers import Bearer  # noqa: PLC0415 - see above

        return Bearer(server, kept_login(self._folder, server))


def logins_told(folder: Path, servers: Iterable[ServerSettings]) -> Mapping[str, JsonObject]:
    """Return what may be told of the logins in ``folder`` to servers, by their keys. Blocks; asks no keyring."""
    wanted = {(server.key, server.target.public_url) for server in servers if isinstance(server.target, HttpTarget)}
    if not wanted or not folder.is_dir():
        return {}
    from toolcrib.login.keeping import Keeper  # noqa: PLC0415 - see above
    from toolcrib.login.keyring import NoKeyring  # noqa: PLC0415
    from toolcrib.login.telling import login_json  # noqa: PLC0415

    records = (each for each in Keeper(folder, NoKeyring()).facts() if (each.entry, each.server) in wanted)
    return {record.entry: told for record in records if (told := login_json(record))}


def kept_login(folder: Path, server: ServerSettings) -> "LoginEntry":
    """Return what is kept in ``folder`` of the login to a server, or in the system's keyring. Nothing is read yet."""
    from toolcrib.login.keyring import SystemKeyring  # noqa: PLC0415 - see above
    from toolcrib.login.store import TokenStore  # noqa: PLC0415

    assert isinstance(server.target, HttpTarget)
    return TokenStore(folder, SystemKeyring()).entry(server.target.public_url, server.key, server.learned)
