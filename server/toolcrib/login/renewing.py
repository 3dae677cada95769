"""Refreshes a login without a person: with a refresh token, or with a machine's secret or key.

Knows which client of the SDK does it; never knows when it is due.
"""

import anyio
import anyio.to_thread

from toolcrib.base.errors import LoginFailed
from toolcrib.config.settings import ServerSettings
from toolcrib.login.challenges import Challenge
from toolcrib.login.driving import Run
from toolcrib.login.fetching import is_in_private_network, open_fetcher
from toolcrib.login.providers import auth_of, machine_provider, renewing_provider, server_address
from toolcrib.login.store import LoginEntry

PREPARING_S = 40.0
"""Deadline, in seconds, of everything before the token request: metadata may be looked up at many URLs. Together with
that request and storing its response it is less than other processes wait (:data:`~.store.PATIENCE_S`).
"""


async def renewed(server: ServerSettings, entry: LoginEntry, challenge: Challenge) -> str:
    """Return a new token for a server that has refused the previous one; it is stored by then.

    Raises:
        LoginRefused: the authorization server refuses; a person has to log in.
        LoginFailed: the renewal failed.

    """
    auth = auth_of(server)
    is_machine = auth.type == "client_credentials"
    if is_machine:
        # In a thread: it imports signature code, and reads a key.
        provider = await anyio.to_thread.run_sync(machine_provider, server, entry)
    else:
        issuer = (await entry.read()).record.issuer
        provider = renewing_provider(server, entry, issuer)
    allows_private = await is_in_private_network(server_address(server), challenge.peer)
    async with open_fetcher(allows_private=allows_private) as fetcher:
        run = Run(provider, fetcher, registers=False)
        try:
            with anyio.fail_after(PREPARING_S):
                driven = await run.go(challenge.asking_for(auth.scopes))
        except TimeoutError:
            raise LoginFailed(f"its authorization server was not found within {PREPARING_S:g} s") from None
    if is_machine:
        await entry.note(account=auth.client_id, issuer=driven.issuer)
    return driven.token
