"""Refreshes a login without a person: with a refresh token, or with a machine's secret or key."""

import base64
import json
import logging
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus

import anyio
import anyio.to_thread
import httpx2
from mcp import MCPDeprecationWarning
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    create_oauth_metadata_request,
    handle_auth_metadata_response,
    issuers_match,
    validate_metadata_issuer,
)
from pydantic import AnyUrl, ValidationError

from toolcrib import __version__
from toolcrib.auth.challenges import Challenge
from toolcrib.auth.fetching import Fetch, is_in_private_network, open_fetcher, origin_of
from toolcrib.auth.store import LoginEntry
from toolcrib.base.errors import LoginFailed, LoginRefused
from toolcrib.base.json_values import as_object
from toolcrib.base.model import JsonObject
from toolcrib.base.text import one_line, sanitize, truncate
from toolcrib.config.schema import AuthSection
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.jsonrpc.sdk_oauth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

_CLIENT_NAME = "toolcrib"


def server_address(server: ServerSettings) -> str:
    """Return the URL that identifies a server in a login: without its potentially secret parts."""
    assert isinstance(server.target, HttpTarget)
    return server.target.public_url


def auth_of(server: ServerSettings) -> AuthSection:
    """Return the login settings of a server, including defaults."""
    return server.options.auth or AuthSection()


class OAuthStorage:
    """The SDK's protocol ``TokenStorage``: a stored login, overridden by the config.

    ``redirect_uri`` is where responses of the current login arrive: a registration for another URI cannot be used for
    it, nor one for less than the requested ``scope``. ``renews``: members missing from new tokens are taken from the
    previous ones (RFC 6749, section 6).

    A registration is stored with the tokens issued to it, not when it is made: if a person then does not respond, the
    previous login remains.
    """

    def __init__(
        self, server: ServerSettings, entry: LoginEntry, *, redirect_uri: str = "", scope: str = "", renews: bool
    ) -> None:
        self._entry, self._redirect_uri, self._renews = entry, redirect_uri, renews
        self._scope = frozenset(scope.split())
        self._registration: OAuthClientInformationFull | None = None
        self._configured = _configured(auth_of(server), redirect_uri)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return await self._entry.get_tokens()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store received tokens, with the registration made for them, if there was one.

        Raises:
            LoginFailed: there is no access token among them.

        """
        # The SDK would store an empty token and send it.
        if not tokens.access_token:
            raise LoginFailed("the authorization server gave an empty token")
        if self._renews and (before := (await self._entry.read()).tokens):
            completed = {
                "refresh_token": tokens.refresh_token or before.refresh_token,
                "scope": tokens.scope or before.scope,
            }
            tokens = tokens.model_copy(update=completed)
        await self._entry.set_tokens(tokens, self._registration)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client named in the config, else the stored registration, if it can be used."""
        if self._configured:
            return self._configured
        client = await self._entry.get_client_info()
        if client and self._redirect_uri and self._redirect_uri not in map(str, client.redirect_uris or ()):
            return None
        # A registration is limited to its scope; a wider request needs a new one.
        if client and client.scope and not self._scope.issubset(client.scope.split()):
            return None
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Remember a registration until there are tokens."""
        self._registration = client_info


class _ByPerson(OAuthClientProvider):
    """Lets a person log in."""

    async def _perform_authorization(self) -> httpx2.Request:
        require_known_endpoints(self.context)
        choose_client_authentication(self.context)
        return await super()._perform_authorization()


class _ByRefresh(OAuthClientProvider):
    """Renews a login, after discovering metadata as before any login.

    ``issuer`` is who issued it, empty if unknown: the refresh token is sent to no other server.
    """

    issuer = ""

    async def _perform_authorization(self) -> httpx2.Request:
        choose_client_authentication(self.context)
        if not self.context.can_refresh_token():
            raise LoginRefused("there is no refresh token", is_final=False)
        require_known_endpoints(self.context)
        self._demand_issuer()
        return await self._refresh_token()

    def _demand_issuer(self) -> None:
        metadata = self.context.oauth_metadata
        if not self.issuer:
            return
        if metadata is None:
            raise LoginFailed("the authorization server no longer states its issuer")
        if not issuers_match(str(metadata.issuer), self.issuer):
            raise LoginRefused("the authorization server has changed", is_final=False)


def person_provider(
    server: ServerSettings,
    entry: LoginEntry,
    *,
    redirect_uri: str,
    show: Callable[[str], Awaitable[None]],
    answer: Callable[[], Awaitable[AuthorizationCodeResult]],
    scope: str = "",
) -> OAuthClientProvider:
    """Return the OAuth client for a person's login, who has requested ``scope``.

    ``show`` is called with the URL to open, ``answer`` waits for the response at ``redirect_uri``.
    """
    return _ByPerson(
        server_url=server_address(server),
        client_metadata=_metadata(AnyUrl(redirect_uri)),
        storage=OAuthStorage(server, entry, redirect_uri=redirect_uri, scope=scope, renews=False),
        redirect_handler=show,
        callback_handler=answer,
        client_metadata_url=auth_of(server).client_metadata_url,
    )


def renewing_provider(server: ServerSettings, entry: LoginEntry, issuer: str) -> OAuthClientProvider:
    """Return the OAuth client that renews a person's login at the ``issuer`` that issued it, without interaction."""
    provider = _ByRefresh(
        server_url=server_address(server),
        client_metadata=_metadata(None),
        storage=OAuthStorage(server, entry, renews=True),
        client_metadata_url=auth_of(server).client_metadata_url,
    )
    provider.issuer = issuer
    return provider


def machine_provider(server: ServerSettings, entry: LoginEntry) -> OAuthClientProvider:
    """Return the OAuth client that logs in without a person, with a secret or a signature. Imports slow modules.

    Raises:
        LoginFailed: the key of the config cannot be used.

    """
    import jwt  # noqa: PLC0415 - as below
    from mcp.client.auth.extensions.client_credentials import (  # noqa: PLC0415 - signatures are slow to import
        ClientCredentialsOAuthProvider,
        PrivateKeyJWTOAuthProvider,
        SignedJWTParameters,
    )

    auth, url, storage = auth_of(server), server_address(server), OAuthStorage(server, entry, renews=False)
    scope = " ".join(auth.scopes) or None
    assert auth.client_id is not None
    with warnings.catch_warnings():
        # If the config names no issuer, its author trusts the server to name the right one.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if auth.private_key is None:
            assert auth.client_secret is not None
            return ClientCredentialsOAuthProvider(
                url, storage, auth.client_id, auth.client_secret, scope=scope, issuer=auth.issuer
            )
        algorithm = _algorithm(auth.private_key)
        jwt.encode({}, auth.private_key, algorithm)  # once here, in a thread, because it imports modules
        signing = SignedJWTParameters(
            issuer=auth.client_id, subject=auth.client_id, signing_key=auth.private_key, signing_algorithm=algorithm
        )
        return PrivateKeyJWTOAuthProvider(
            url, storage, auth.client_id, signing.create_assertion_provider(), scope=scope, issuer=auth.issuer
        )


def _metadata(redirect_uri: AnyUrl | None) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        redirect_uris=None if redirect_uri is None else [redirect_uri],
        client_name=_CLIENT_NAME,
        software_id=_CLIENT_NAME,
        software_version=__version__,
    )


def _configured(auth: AuthSection, redirect_uri: str) -> OAuthClientInformationFull | None:
    if auth.client_id is None:
        return None
    return OAuthClientInformationFull(
        client_id=auth.client_id,
        client_secret=auth.client_secret,
        redirect_uris=[AnyUrl(redirect_uri)] if redirect_uri else None,
        issuer=auth.issuer,
    )


def require_known_endpoints(context: OAuthContext) -> None:
    """Raise if the SDK would treat the server's own origin as the authorization server although it is elsewhere.

    The SDK does so if that server's metadata is unavailable (as in the protocol of 2025-03-26), and would send the
    server what only the authorization server may have: a secret, a refresh token, a code.

    Raises:
        LoginFailed: the authorization server is on another origin than the server, and its endpoints are not known.

    """
    if context.oauth_metadata is not None or context.auth_server_url is None:
        return
    named = httpx2.URL(context.auth_server_url)
    if origin_of(named) != origin_of(httpx2.URL(context.server_url)):
        raise LoginFailed(f"{named.host} does not tell its addresses now, so nothing is asked of it")


def choose_client_authentication(context: OAuthContext) -> None:
    """Choose the client authentication method, if none is configured, from those the authorization server supports."""
    client, metadata = context.client_info, context.oauth_metadata
    if client is None or client.token_endpoint_auth_method is not None:
        return
    taken = (metadata and metadata.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
    by_secret = "client_secret_basic" if "client_secret_basic" in taken else "client_secret_post"
    client.token_endpoint_auth_method = by_secret if client.client_secret else "none"


def _algorithm(private_key: str) -> str:
    """Return the signature algorithm for a key (RFC 7518)."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    try:
        key = load_pem_private_key(private_key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise LoginFailed("private_key is not a readable PEM key") from None
    match key:
        case rsa.RSAPrivateKey():
            return "RS256"
        case ec.EllipticCurvePrivateKey(curve=ec.SECP256R1()):
            return "ES256"
        case ec.EllipticCurvePrivateKey(curve=ec.SECP384R1()):
            return "ES384"
        case ed25519.Ed25519PrivateKey():
            return "EdDSA"
        case _:
            raise LoginFailed("private_key is of an unsupported type")


async def revoked(server: ServerSettings, entry: LoginEntry, fetch: Fetch) -> bool:
    """Revoke a stored login; return False if there is none, or the authorization server has no revocation.

    Raises:
        LoginFailed: the authorization server cannot be reached, or refuses.

    """
    login = await entry.read()
    if login.tokens is None or not login.record.issuer:
        return False
    context = renewing_provider(server, entry, login.record.issuer).context
    context.client_info = await OAuthStorage(server, entry, renews=False).get_client_info()
    try:
        context.oauth_metadata = await _server_metadata(server, login.record.issuer, fetch)
    except (OAuthFlowError, ValidationError):
        raise LoginFailed("the authorization server has changed") from None
    metadata = context.oauth_metadata
    if metadata is None or metadata.revocation_endpoint is None or context.client_info is None:
        return False
    choose_client_authentication(context)
    # The refresh token first: revoking it may invalidate the other too (RFC 7009, section 2.1).
    tokens = {"refresh_token": login.tokens.refresh_token, "access_token": login.tokens.access_token}
    for kind, token in tokens.items():
        if token:
            data = {"token": token, "token_type_hint": kind, "client_id": context.client_info.client_id}
            data, headers = context.prepare_token_auth(data, {})
            request = httpx2.Request("POST", str(metadata.revocation_endpoint), data=data, headers=headers)
            response = await fetch(request)
            if response.status_code != HTTPStatus.OK:
                raise LoginFailed(f"{request.url.host} refused (HTTP {response.status_code})")
    return True


async def _server_metadata(server: ServerSettings, issuer: str, fetch: Fetch) -> OAuthMetadata | None:
    """Return the metadata of an issuer, discovered as before any login."""
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server_address(server)):
        goes_on, metadata = await handle_auth_metadata_response(await fetch(create_oauth_metadata_request(url)))
        if metadata:
            validate_metadata_issuer(metadata, issuer)
        if metadata or not goes_on:
            return metadata
    return None


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
class Grant:
    """The result of a run: the token for the server, its account if known, and its issuer."""

    token: str
    account: str
    issuer: str


class Run:
    """One run. ``registers``: the client may register itself with the authorization server."""

    def __init__(self, provider: OAuthClientProvider, fetch: Fetch, *, registers: bool) -> None:
        self._provider, self._get, self._registers = provider, fetch, registers
        self._last: httpx2.Response | None = None
        self._account = ""

    async def authorize(self, challenge: Challenge) -> Grant:
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
                return await self._drive(flow, probe, challenge)
        except LoginFailed:
            raise
        except (OAuthFlowError, ValueError, httpx2.InvalidURL) as error:
            raise self._failure(error) from None

    async def _drive(
        self, flow: AsyncGenerator[httpx2.Request, httpx2.Response], probe: httpx2.Request, challenge: Challenge
    ) -> Grant:
        outgoing = await anext(flow)
        if outgoing is not probe:  # it renews before a request; here a challenge comes first
            raise LoginFailed(
                "a token was requested before the server required one, which is a bug in toolcrib: please report it"
            )
        probe.headers.pop("authorization", None)
        outgoing = await flow.asend(challenge.response(probe))
        for _ in range(_REQUESTS_MAX):
            # The flow ends by repeating the request that was refused, with the token in it.
            if outgoing is probe:
                token = probe.headers.get("authorization", "").removeprefix("Bearer ")
                return Grant(token, self._account, self._issuer())
            # The response may contain the only valid refresh token, so a cancelled caller still waits for it: for one
            # response, which has a deadline, and for storing it.
            with anyio.CancelScope(shield=_asks_for_token(outgoing)):
                outgoing = await flow.asend(await self._fetch(outgoing))
        raise LoginFailed("the authorization server leads from one address to the next")

    async def _fetch(self, request: httpx2.Request) -> httpx2.Response:
        # The only other POST registers a client, which a renewal has no reason to do.
        if request.method == "POST" and not _asks_for_token(request) and not self._registers:
            raise LoginRefused("the authorization server has changed", is_final=False)
        if request.method == "POST":
            require_known_endpoints(self._provider.context)
        # A failure without a response must not be blamed on the one before.
        self._last = None
        response = self._last = await self._get(request)
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
    async with open_fetcher(allows_private=allows_private) as fetch:
        run = Run(provider, fetch, registers=False)
        try:
            with anyio.fail_after(PREPARING_S):
                grant = await run.authorize(challenge.asking_for(auth.scopes))
        except TimeoutError:
            raise LoginFailed(f"its authorization server was not found within {PREPARING_S:g} s") from None
    if is_machine:
        await entry.note(account=auth.client_id, issuer=grant.issuer)
    return grant.token
