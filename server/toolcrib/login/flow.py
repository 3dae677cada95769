"""A person logs in to a server: from the server's challenge to a stored login.

Knows the steps and how long a person may take; never knows how a person is shown a URL.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TypeVar

import anyio
import anyio.to_thread
import httpx2

from toolcrib.base.errors import LoginFailed, ToolcribError
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult
from toolcrib.login.addresses import is_shown
from toolcrib.login.bearers import Bearer
from toolcrib.login.challenges import Challenge, challenge_of
from toolcrib.login.driving import Driven, Run
from toolcrib.login.fetching import FETCH_S, is_in_private_network, open_fetcher
from toolcrib.login.listener import Listener, listening
from toolcrib.login.providers import Person, auth_of, person_provider, server_address
from toolcrib.login.store import LoginEntry

_T = TypeVar("_T")

PERSON_S = 600.0
"""How long a person may take, in seconds, from being shown the URL to the response."""

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "toolcrib", "version": "0"},
    },
}


@dataclass(frozen=True, slots=True)
class Ask:
    """The ways to reach a person: ``show`` is called with a URL to open, and where the response will arrive.

    ``paste`` is called with the authorization URL, and returns the response that the person enters manually; the
    browser may deliver it first. ``scope`` is requested besides what is known to be needed.
    """

    show: Callable[[str, str], Awaitable[None]]
    paste: Callable[[str], Awaitable[AuthorizationCodeResult]] | None = None
    scope: str = ""


async def challenged(server: ServerSettings, bearer: Bearer | None = None) -> tuple[Challenge, bool]:
    """Return a server's response to a request without a token or with ``bearer``, and whether it requests a login.

    Raises:
        LoginFailed: it cannot be reached.

    """
    target = server.target
    assert isinstance(target, HttpTarget)
    headers = {**target.headers, "accept": "application/json, text/event-stream"}
    async with await anyio.to_thread.run_sync(partial(httpx2.AsyncClient, timeout=FETCH_S)) as client:
        if target.sse:
            request = client.build_request("GET", target.url, headers=headers)
        else:
            request = client.build_request("POST", target.url, headers=headers, json=_INITIALIZE)
        sent = bearer.authorize(request) if bearer else ""
        try:
            with anyio.fail_after(FETCH_S):
                response = await client.send(request, stream=True)
        except TimeoutError:
            raise LoginFailed(f"{target.public_url} did not answer within {FETCH_S:g} s") from None
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            raise LoginFailed(f"{target.public_url} cannot be reached: {reason}") from None
        challenge = challenge_of(response)
        await response.aclose()
    if challenge is None:
        peer = challenge_of(httpx2.Response(HTTPStatus.UNAUTHORIZED, extensions=response.extensions))
        return peer or Challenge(HTTPStatus.UNAUTHORIZED), False
    if bearer and await bearer.renew(sent, challenge):
        return challenge, False
    return challenge, True


async def log_in(server: ServerSettings, entry: LoginEntry, challenge: Challenge, ask: Ask) -> Driven:
    """Let a person log in, and return the login, which is stored by then.

    Raises:
        LoginFailed: the login failed; the text says why. The previous login stays stored.
        StoreError: it cannot be stored.

    """
    auth = auth_of(server)
    login = await entry.read()
    known = [uri.port for uri in (login.client and login.client.redirect_uris) or () if uri.port]
    ports = (auth.redirect_port,) if auth.redirect_port else (*known[:1], 0)
    wanted = challenge.asking_for(auth.scopes)
    if ask.scope:
        # Previously granted scopes are requested again if there is a login (SEP-2350); else those named by the server.
        status = HTTPStatus.FORBIDDEN if login.tokens else HTTPStatus.UNAUTHORIZED
        wanted = replace(wanted, status=status).asking_for((*wanted.scope.split(), *ask.scope.split()))
    async with (
        listening(*ports) as listener,
        open_fetcher(allows_private=await is_in_private_network(server_address(server), challenge.peer)) as fetcher,
    ):
        provider = person_provider(server, entry, _Asked(listener, ask).person)
        try:
            driven: Driven | ToolcribError = await Run(provider, fetcher, registers=True).go(wanted)
        except ToolcribError as error:  # an error from inside the listener would be wrapped in a group
            driven = error
    if isinstance(driven, ToolcribError):
        raise driven
    await entry.note(account=driven.account, issuer=driven.issuer)
    return driven


class _Asked:
    """One login request to a person."""

    def __init__(self, listener: Listener, ask: Ask) -> None:
        self._listener, self._ask = listener, ask
        self._address, self._until = "", math.inf
        self.person = Person(listener.redirect_uri, self._show, self._answer, ask.scope)

    async def _show(self, address: str) -> None:
        if not is_shown(address):
            raise LoginFailed("the authorization server names a URL that is not opened in a browser")
        self._address = address
        self._listener.expect(address)
        self._until = anyio.current_time() + PERSON_S
        await self._in_time(partial(self._ask.show, address, self._listener.redirect_uri))

    async def _answer(self) -> AuthorizationCodeResult:
        if self._ask.paste is None:
            return await self._in_time(self._listener.answer)
        return await self._in_time(partial(_first_of, self._listener.answer, partial(self._ask.paste, self._address)))

    async def _in_time(self, step: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for a step by the person.

        Raises:
            LoginFailed: it took too long.

        """
        with anyio.CancelScope(deadline=self._until):
            return await step()
        raise LoginFailed(f"no answer came within {PERSON_S / 60:g} minutes")


async def _first_of(*ways: Callable[[], Awaitable[AuthorizationCodeResult]]) -> AuthorizationCodeResult:
    """Return the first response from several sources.

    Raises:
        LoginFailed: the first response is a denial.

    """
    outcomes: list[AuthorizationCodeResult | LoginFailed] = []

    async def wait(way: Callable[[], Awaitable[AuthorizationCodeResult]]) -> None:
        try:
            outcomes.append(await way())
        except LoginFailed as error:  # an error from inside the group would be wrapped
            outcomes.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for way in ways:
            tasks.start_soon(wait, way)
    if isinstance(outcomes[0], LoginFailed):
        raise outcomes[0]
    return outcomes[0]
