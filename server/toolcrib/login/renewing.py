"""A login renewed without a person: by a refresh token, or by the secret or key of a machine.

Knows which client of the SDK does it; never knows when it has to be done.
"""

import anyio
import anyio.to_thread

from toolcrib.config.settings import ServerSettings
from toolcrib.errors import LoginFailed
from toolcrib.login.challenges import Challenge
from toolcrib.login.driving import Run
from toolcrib.login.fetching import is_in_private_network, open_fetcher
from toolcrib.login.providers import auth_of, machine_provider, renewing_provider, server_address
from toolcrib.login.store import LoginEntry

PREPARING_S = 40.0
"""Seconds for all that goes before the request for a token: what a server names is looked for at many addresses. With
that request and the writing of its answer it is less than other processes wait (:data:`~.store.PATIENCE_S`)."""


async def renewed(server: ServerSettings, entry: LoginEntry, challenge: Challenge) -> str:
    """Return another token for a server that has refused the one there was; it is kept by then.

    Raises:
        LoginRefused: the authorization server refuses it; a person has to log in.
        LoginFailed: it did not come to that.

    """
    auth = auth_of(server)
    is_machine = auth.type == "client_credentials"
    if is_machine:
        # In a thread: it imports what signs, and reads a key.
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
