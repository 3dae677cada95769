"""A person logs in to a server: from what the server answers to a stranger to a login that is kept.

Knows the steps and how long a person may take; never knows how a person is shown an address.
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

from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.errors import LoginFailed, ToolcribError
from toolcrib.login.addresses import is_shown
from toolcrib.login.bearers import Bearer
from toolcrib.login.challenges import Challenge, challenge_of
from toolcrib.login.driving import Driven, Run
from toolcrib.login.fetching import FETCH_S, is_in_private_network, open_fetcher
from toolcrib.login.listener import Listener, listening
from toolcrib.login.providers import Person, auth_of, person_provider, server_address
from toolcrib.login.store import LoginEntry
from toolcrib.streams.sdk_oauth import AuthorizationCodeResult

_T = TypeVar("_T")

PERSON_S = 600.0
"""Seconds that a person may take, from being shown the address to the answer."""

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
    """How a person is asked: ``show`` gets an address that may be opened, and where the answer will arrive.

    ``paste`` gets the address that was asked at, and returns the answer that the person gives by hand; the browser may
    bring it before. ``scope`` is asked for besides what is known to be needed.
    """

    show: Callable[[str, str], Awaitable[None]]
    paste: Callable[[str], Awaitable[AuthorizationCodeResult]] | None = None
    scope: str = ""


async def challenged(server: ServerSettings, bearer: Bearer | None = None) -> tuple[Challenge, bool]:
    """Return what a server answers to a stranger, or to ``bearer``, and whether that is to ask for a login.

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
    """Have a person log in, and return what came of it; it is kept by then.

    Raises:
        LoginFailed: it did not come to that; the text says why. What was kept before is kept still.
        StoreError: it cannot be kept.

    """
    auth = auth_of(server)
    login = await entry.read()
    known = [uri.port for uri in (login.client and login.client.redirect_uris) or () if uri.port]
    ports = (auth.redirect_port,) if auth.redirect_port else (*known[:1], 0)
    wanted = challenge.asking_for(auth.scopes)
    if ask.scope:
        # What was given before is asked for again where there is a login (SEP-2350); else what the server names.
        status = HTTPStatus.FORBIDDEN if login.tokens else HTTPStatus.UNAUTHORIZED
        wanted = replace(wanted, status=status).asking_for((*wanted.scope.split(), *ask.scope.split()))
    async with (
        listening(*ports) as listener,
        open_fetcher(allows_private=await is_in_private_network(server_address(server), challenge.peer)) as fetcher,
    ):
        provider = person_provider(server, entry, _Asked(listener, ask).person)
        try:
            driven: Driven | ToolcribError = await Run(provider, fetcher, registers=True).go(wanted)
        except ToolcribError as error:  # through the listener it would come wrapped in a group
            driven = error
    if isinstance(driven, ToolcribError):
        raise driven
    await entry.note(account=driven.account, issuer=driven.issuer)
    return driven


class _Asked:
    """One question to a person."""

    def __init__(self, listener: Listener, ask: Ask) -> None:
        self._listener, self._ask = listener, ask
        self._address, self._until = "", math.inf
        self.person = Person(listener.redirect_uri, self._show, self._answer, ask.scope)

    async def _show(self, address: str) -> None:
        if not is_shown(address):
            raise LoginFailed("the authorization server names an address that no browser is given")
        self._address = address
        self._listener.expect(address)
        self._until = anyio.current_time() + PERSON_S
        await self._in_time(partial(self._ask.show, address, self._listener.redirect_uri))

    async def _answer(self) -> AuthorizationCodeResult:
        if self._ask.paste is None:
            return await self._in_time(self._listener.answer)
        return await self._in_time(partial(_first_of, self._listener.answer, partial(self._ask.paste, self._address)))

    async def _in_time(self, step: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for a step of the person's.

        Raises:
            LoginFailed: their time is over.

        """
        with anyio.CancelScope(deadline=self._until):
            return await step()
        raise LoginFailed(f"no answer came within {PERSON_S / 60:g} minutes")


async def _first_of(*ways: Callable[[], Awaitable[AuthorizationCodeResult]]) -> AuthorizationCodeResult:
    """Return the answer that comes first, of several ways in which one may.

    Raises:
        LoginFailed: the first is no.

    """
    outcomes: list[AuthorizationCodeResult | LoginFailed] = []

    async def wait(way: Callable[[], Awaitable[AuthorizationCodeResult]]) -> None:
        try:
            outcomes.append(await way())
        except LoginFailed as error:  # out of the group it would come wrapped
            outcomes.append(error)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for way in ways:
            tasks.start_soon(wait, way)
    if isinstance(outcomes[0], LoginFailed):
        raise outcomes[0]
    return outcomes[0]
