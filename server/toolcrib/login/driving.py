"""One run of the SDK's OAuth client: from a challenge to a token, with its requests sent by a guarded client.

Knows the run, and how to word its failures for people; never knows what the requests mean to the client.
A run is separate from the server's requests, because the SDK's client would block all others until its own is answered.
"""

import base64
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus

import anyio
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError

from toolcrib.base.errors import LoginFailed, LoginRefused
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.login.challenges import Challenge
from toolcrib.login.fetching import Fetcher
from toolcrib.login.providers import demand_addresses

_REQUESTS_MAX = 24
"""Maximum number of requests of one run: metadata discovery takes up to seven, each with up to five same-origin
redirects.
"""

_TEXT_MAX = 300
_ACCOUNT_MAX = 120
_ACCOUNT_CLAIMS = ("email", "preferred_username", "name", "sub")
_TOKEN_REQUEST = "application/x-www-form-urlencoded"  # noqa: S105 - a content type
_AGAIN_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass(frozen=True, slots=True)
class Driven:
    """The result of a run: the token for the server, its account if known, and its issuer."""

    token: str
    account: str
    issuer: str


class Run:
    """One run. ``registers``: the client may register itself with the authorization server."""

    def __init__(self, provider: OAuthClientProvider, fetcher: Fetcher, *, registers: bool) -> None:
        self._provider, self._fetcher, self._registers = provider, fetcher, registers
        self._last: httpx2.Response | None = None
        self._account = ""

    async def go(self, challenge: Challenge) -> Driven:
        """Return a token in answer to a challenge; it is stored by then.

        Raises:
            LoginRefused: the authorization server refuses; the error says whether the stored login is invalid.
            LoginFailed: no token was obtained; the text says why.

        """
        # Errors are reported by our exceptions; the SDK would log responses, including their contents.
        logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
        probe = httpx2.Request("POST", self._provider.context.server_url)
        try:
            async with aclosing(self._provider.async_auth_flow(probe)) as flow:
                return await self._through(flow, probe, challenge)
        except LoginFailed:
            raise
        except (OAuthFlowError, ValueError, httpx2.InvalidURL) as error:
            raise self._failure(error) from None

    async def _through(
        self, flow: AsyncGenerator[httpx2.Request, httpx2.Response], probe: httpx2.Request, challenge: Challenge
    ) -> Driven:
        outgoing = await anext(flow)
        if outgoing is not probe:  # it renews before a request; here a challenge comes first
            raise LoginFailed(
                "a token was requested before the server required one, which is a bug in toolcrib: please report it"
            )
        probe.headers.pop("authorization", None)
        outgoing = await flow.asend(challenge.response(probe))
        for _ in range(_REQUESTS_MAX):
            if outgoing is probe:
                token = probe.headers.get("authorization", "").removeprefix("Bearer ")
                return Driven(token, self._account, self._issuer())
            # The response may contain the only valid refresh token, so a cancelled caller still waits for it: for one
            # response, which has a deadline, and for storing it.
            with anyio.CancelScope(shield=_asks_for_token(outgoing)):
                outgoing = await flow.asend(await self._answer(outgoing))
        raise LoginFailed("the authorization server leads from one address to the next")

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST" and not _asks_for_token(request) and not self._registers:
            raise LoginRefused("the authorization server has changed", is_final=False)
        if request.method == "POST":
            demand_addresses(self._provider.context)
        self._last = None
        response = self._last = await self._fetcher.fetch(request)
        if _asks_for_token(request):
            self._account = _account(_json(response))
            if response.status_code >= HTTPStatus.BAD_REQUEST:
                raise _refusal(response)
        return response

    def _issuer(self) -> str:
        metadata = self._provider.context.oauth_metadata
        return str(metadata.issuer) if metadata else ""

    def _failure(self, error: Exception) -> LoginFailed:
        """Return a failure in our words: the SDK's messages contain parts of responses, which may be secret."""
        if self._last is not None and isinstance(error, OAuthRegistrationError | OAuthTokenError):
            host, status = self._last.request.url.host, self._last.status_code
            what = "gave no token" if isinstance(error, OAuthTokenError) else "did not register toolcrib"
            return LoginFailed(f"{host} {what} (HTTP {status}{_code(self._last)})")
        if isinstance(error, OAuthFlowError):
            return LoginFailed(truncate(one_line(sanitize(str(error))), _TEXT_MAX))
        return LoginFailed("the server or its authorization server names something that is not as OAuth prescribes")


def _asks_for_token(request: httpx2.Request) -> bool:
    return request.headers.get("content-type", "") == _TOKEN_REQUEST


def _refusal(response: httpx2.Response) -> LoginFailed:
    """Return why there is no token.

    Only ``invalid_grant`` means that the stored login is invalid; a proxy, or a client mistyped in the config, may be
    refused too, and the login is valid once that is fixed (RFC 6749, section 5.2).
    """
    host, status = response.request.url.host, response.status_code
    text = f"{host} refused (HTTP {status}{_code(response)})"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _AGAIN_LATER:
        return LoginFailed(text)
    return LoginRefused(text, is_final=_json(response).get("error") == "invalid_grant")


def _code(response: httpx2.Response) -> str:
    """Return the code of an error (RFC 6749, section 5.2), a single word; the rest of the response stays secret."""
    code = _json(response).get("error")
    is_word = isinstance(code, str) and code.isascii() and code.replace("_", "").isalpha() and len(code) <= 40
    return f", {code}" if is_word else ""


def _json(response: httpx2.Response) -> JsonObject:
    try:
        return as_object(json.loads(response.content))
    except (ValueError, RecursionError):
        return {}


def _account(answer: JsonObject) -> str:
    """Return the account that a token was issued to, if an ID token names it (OpenID Connect Core, section 3.1.3.7).

    Its signature is not verified: it comes from the token endpoint itself, and is only displayed.
    """
    parts = str(answer.get("id_token", "")).split(".")
    if len(parts) != 3:
        return ""
    try:
        claims = as_object(json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (ValueError, RecursionError):
        return ""
    named = (claims.get(claim) for claim in _ACCOUNT_CLAIMS)
    account = next((each for each in named if isinstance(each, str) and each), "")
    return truncate(one_line(sanitize(account)), _ACCOUNT_MAX)
