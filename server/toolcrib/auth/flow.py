"""A person logs in to a server: from the server's challenge to a stored login."""

# asyncio resolves the listener's address in a concurrent.futures executor, whose module it would import on the loop.
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport] - see above
import math
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import anyio.to_thread
import httpx2

from toolcrib.auth.bearers import Bearer
from toolcrib.auth.challenges import Challenge, challenge_of
from toolcrib.auth.fetching import FETCH_S, is_in_private_network, is_shown, open_fetcher
from toolcrib.auth.oauth import Grant, Run, auth_of, person_provider, server_address
from toolcrib.auth.store import LoginEntry
from toolcrib.base.errors import LoginFailed, ToolcribError
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult

_TEXT_MAX = 200


def state_of(address: str) -> str:
    """Return the ``state`` in the authorization URL ``address``; empty if it has none."""
    return _parameter(urlsplit(address).query, "state")


def answer_in(query: str, state: str) -> AuthorizationCodeResult | None:
    """Return the authorization response in a redirect's query; None if it is invalid or has another ``state``.

    Raises:
        LoginFailed: the authorization was denied.

    """
    # The state ties the response to our request (RFC 6749, section 10.12); compared in constant time.
    if not state or not secrets.compare_digest(_parameter(query, "state").encode(), state.encode()):
        return None
    if error := _parameter(query, "error"):
        # The page that the browser shows chose these words: they must not steer the terminal.
        said = truncate(one_line(sanitize(_parameter(query, "error_description"))), _TEXT_MAX)
        word = truncate(one_line(sanitize(error)), _TEXT_MAX)
        raise LoginFailed(f"the login was denied: {word}{f' ({said})' if said else ''}")
    code = _parameter(query, "code")
    return AuthorizationCodeResult(code=code, state=state, iss=_parameter(query, "iss") or None) if code else None


def _parameter(query: str, name: str) -> str:
    try:
        return parse_qs(query, max_num_fields=50).get(name, [""])[0]
    except ValueError:
        return ""


_HOST, _PATH = "127.0.0.1", "/callback"
_HEAD_MAX, _HEAD_S = 16 * 1024, 5.0
_AT_ONCE = 8

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>toolcrib</title>
<p>{text} You can close this page.</p></html>"""
_HEADERS = (
    "content-type: text/html; charset=utf-8\r\ncontent-security-policy: default-src 'none'\r\n"
    "referrer-policy: no-referrer\r\ncache-control: no-store\r\nconnection: close\r\n"
)


class Listener:
    """Waits for one response at ``redirect_uri``. Create it with :func:`listening`."""

    def __init__(self, port: int) -> None:
        self.redirect_uri = f"http://{_HOST}:{port}{_PATH}"
        self._hosts = (f"{_HOST}:{port}", f"localhost:{port}")
        self._state = ""
        self._answered = anyio.Event()
        self._result: AuthorizationCodeResult | LoginFailed | None = None
        self._room = anyio.CapacityLimiter(_AT_ONCE)

    def expect(self, address: str) -> None:
        """Wait for the response to the authorization URL ``address``, and no other."""
        self._state = state_of(address)

    async def answer(self) -> AuthorizationCodeResult:
        """Return the response, once it has arrived.

        Raises:
            LoginFailed: the authorization was denied.

        """
        await self._answered.wait()
        if isinstance(self._result, AuthorizationCodeResult):
            return self._result
        raise self._result or LoginFailed("no answer came")

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Handle one connection."""
        # At most a few at once: any program of this machine may connect.
        async with stream, self._room:
            try:
                with anyio.move_on_after(_HEAD_S):
                    status, text = self._handle(await _head(stream))
                    page = _PAGE.format(text=text).encode()
                    head = f"HTTP/1.1 {status}\r\n{_HEADERS}content-length: {len(page)}\r\n\r\n"
                    await stream.send(head.encode() + page)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            finally:
                if self._result is not None:
                    self._answered.set()  # once the browser has its page

    def _handle(self, head: str) -> tuple[str, str]:
        """Return the status and text of the reply to a request; store the response, if it is the expected one."""
        first, *fields = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        named = {name.strip().lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        # The host is checked against DNS rebinding: another site's script could send the request.
        if method != "GET" or path != _PATH or named.get("host", "").lower() not in self._hosts:
            return "404 Not Found", "There is nothing here."
        if self._result is not None:
            return "409 Conflict", "The answer was already received."
        try:
            self._result = answer_in(query, self._state)
        except LoginFailed as error:
            self._result = error
            return "200 OK", "The login was denied."
        if self._result is None:
            return "400 Bad Request", "This is not the answer to toolcrib's request."
        return "200 OK", "toolcrib has received the answer."


async def _head(stream: anyio.abc.SocketStream) -> str:
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= _HEAD_MAX:
        data += await stream.receive()
    return data[:_HEAD_MAX].partition(b"\r\n\r\n")[0].decode("latin-1")


@asynccontextmanager
async def listening(*ports: int) -> AsyncGenerator[Listener]:
    """Listen at the first of these ports that is free, 0 for any, until the block ends.

    Raises:
        LoginFailed: none of them is free.

    """
    # The port of the registration first: a new one would need a new registration.
    for port in ports:
        try:
            listener = await anyio.create_tcp_listener(local_host=_HOST, local_port=port)
        except OSError:
            continue
        async with listener, anyio.create_task_group() as tasks:
            waiting = Listener(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610 - of anyio
            tasks.start_soon(listener.serve, waiting.serve)
            yield waiting
            tasks.cancel_scope.cancel()
        return
    raise LoginFailed(f"port {ports[0]} of 127.0.0.1, where the answer is expected, is used by another program")


_T = TypeVar("_T")

PERSON_S = 600.0
"""How long a person may take, in seconds, from being shown the URL to the response."""

_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "toolcrib", "version": "0"}},
}


@dataclass(frozen=True, slots=True)
class LoginPrompt:
    """The ways to reach a person: ``show`` is called with a URL to open, and where the response will arrive.

    ``paste`` is called with the authorization URL, and returns the response that the person enters manually; the
    browser may deliver it first. ``scope`` is requested besides what is known to be needed.
    """

    show: Callable[[str, str], Awaitable[None]]
    paste: Callable[[str], Awaitable[AuthorizationCodeResult]] | None = None
    scope: str = ""


async def request_challenge(server: ServerSettings, bearer: Bearer | None = None) -> tuple[Challenge, bool]:
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
                # Streamed, as the stream of an SSE server never ends.
                response = await client.send(request, stream=True)
        except TimeoutError:
            raise LoginFailed(f"{target.public_url} did not answer within {FETCH_S:g} s") from None
        except httpx2.TransportError as error:
            reason = str(error) or type(error).__name__
            raise LoginFailed(f"{target.public_url} cannot be reached: {reason}") from None
        challenge = challenge_of(response)
        await response.aclose()
    if challenge is None:
        # The server asks for nothing, so a challenge is made up for its network address.
        peer = challenge_of(httpx2.Response(HTTPStatus.UNAUTHORIZED, extensions=response.extensions))
        return peer or Challenge(HTTPStatus.UNAUTHORIZED), False
    if bearer and await bearer.renew(sent, challenge):
        return challenge, False
    return challenge, True


async def log_in(server: ServerSettings, entry: LoginEntry, challenge: Challenge, prompt: LoginPrompt) -> Grant:
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
    if prompt.scope:
        # Previously granted scopes are requested again if there is a login (SEP-2350); else those named by the server.
        status = HTTPStatus.FORBIDDEN if login.tokens else HTTPStatus.UNAUTHORIZED
        wanted = replace(wanted, status=status).asking_for((*wanted.scope.split(), *prompt.scope.split()))
    async with (
        listening(*ports) as listener,
        open_fetcher(allows_private=await is_in_private_network(server_address(server), challenge.peer)) as fetch,
    ):
        prompted = _PromptedLogin(listener, prompt)
        provider = person_provider(
            server,
            entry,
            redirect_uri=listener.redirect_uri,
            show=prompted.show,
            answer=prompted.answer,
            scope=prompt.scope,
        )
        try:
            grant: Grant | ToolcribError = await Run(provider, fetch, registers=True).authorize(wanted)
        except ToolcribError as error:  # an error from inside the listener would be wrapped in a group
            grant = error
    if isinstance(grant, ToolcribError):
        raise grant
    await entry.note(account=grant.account, issuer=grant.issuer)
    return grant


class _PromptedLogin:
    """One login request to a person."""

    def __init__(self, listener: Listener, prompt: LoginPrompt) -> None:
        self._listener, self._prompt = listener, prompt
        self._address, self._until = "", math.inf

    async def show(self, address: str) -> None:
        """Show a person the authorization URL, from when on their time runs."""
        if not is_shown(address):
            raise LoginFailed("the authorization server names a URL that is not opened in a browser")
        self._address = address
        self._listener.expect(address)
        self._until = anyio.current_time() + PERSON_S
        await self._in_time(partial(self._prompt.show, address, self._listener.redirect_uri))

    async def answer(self) -> AuthorizationCodeResult:
        """Return the response, from the browser or entered by the person."""
        if self._prompt.paste is None:
            return await self._in_time(self._listener.answer)
        return await self._in_time(
            partial(_first_of, self._listener.answer, partial(self._prompt.paste, self._address))
        )

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
