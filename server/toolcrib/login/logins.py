"""The logins of the servers of a config while it is served: one token a server, for all connections to it.

Knows which server is logged in to, and whether that has changed; never knows how a login is made.
What it takes is imported, in a thread, when the first server is reached that may want a login.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.errors import StoreError

if TYPE_CHECKING:
    from toolcrib.login.bearers import Bearer
    from toolcrib.login.store import LoginEntry


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

    def _made(self, server: ServerSettings) -> "Bearer":
        from toolcrib.login.bearers import Bearer  # noqa: PLC0415 - see above

        return Bearer(server, kept_login(self._folder, server))


def kept_login(folder: Path, server: ServerSettings) -> "LoginEntry":
    """Return what is kept in ``folder`` of the login to a server, or in the system's keyring. Nothing is read yet."""
    from toolcrib.login.keyring import SystemKeyring  # noqa: PLC0415 - see above
    from toolcrib.login.store import TokenStore  # noqa: PLC0415

    assert isinstance(server.target, HttpTarget)
    return TokenStore(folder, SystemKeyring()).entry(server.target.public_url, server.key)
