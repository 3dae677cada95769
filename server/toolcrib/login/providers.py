"""Builds the SDK's OAuth clients for one server from its config and its stored login.

Knows which client applies, and its arguments; never knows HTTP, nor how a person is asked.
"""

import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx2
from mcp import MCPDeprecationWarning
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import issuers_match
from pydantic import AnyUrl

from toolcrib import __version__
from toolcrib.base.errors import LoginFailed, LoginRefused
from toolcrib.config.schema import AuthSection
from toolcrib.config.settings import HttpTarget, ServerSettings
from toolcrib.jsonrpc.sdk_oauth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from toolcrib.login.addresses import origin_of
from toolcrib.login.store import LoginEntry

_CLIENT_NAME = "toolcrib"


def server_address(server: ServerSettings) -> str:
    """Return the URL that identifies a server in a login: without its potentially secret parts."""
    assert isinstance(server.target, HttpTarget)
    return server.target.public_url


def auth_of(server: ServerSettings) -> AuthSection:
    """Return the login settings of a server, including defaults."""
    return server.options.auth or AuthSection()


class Kept:
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
        if not tokens.access_token:
            raise LoginFailed("the authorization server gave an empty token")
        if self._renews and (before := (await self._entry.read()).tokens):
            kept = {
                "refresh_token": tokens.refresh_token or before.refresh_token,
                "scope": tokens.scope or before.scope,
            }
            tokens = tokens.model_copy(update=kept)
        await self._entry.set_tokens(tokens, self._registration)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client named in the config, else the stored registration, if it can be used."""
        if self._configured:
            return self._configured
        client = await self._entry.get_client_info()
        if client and self._redirect_uri and self._redirect_uri not in map(str, client.redirect_uris or ()):
            return None
        if client and client.scope and not self._scope.issubset(client.scope.split()):
            return None
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Remember a registration until there are tokens."""
        self._registration = client_info


@dataclass(frozen=True, slots=True)
class Person:
    """The ways to reach a person: ``show`` is called with the URL to open, ``answer`` waits for the response.

    ``scope`` is what the person requested.
    """

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    answer: Callable[[], Awaitable[AuthorizationCodeResult]]
    scope: str = ""


class _ByPerson(OAuthClientProvider):
    """Lets a person log in."""

    async def _perform_authorization(self) -> httpx2.Request:
        demand_addresses(self.context)
        settle_method(self.context)
        return await super()._perform_authorization()


class _ByRefresh(OAuthClientProvider):
    """Renews a login, after discovering metadata as before any login.

    ``issuer`` is who issued it, empty if unknown: the refresh token is sent to nobody else.
    """

    issuer = ""

    async def _perform_authorization(self) -> httpx2.Request:
        settle_method(self.context)
        if not self.context.can_refresh_token():
            raise LoginRefused("there is no refresh token", is_final=False)
        demand_addresses(self.context)
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


def person_provider(server: ServerSettings, entry: LoginEntry, person: Person) -> OAuthClientProvider:
    """Return the OAuth client for a person's login."""
    return _ByPerson(
        server_url=server_address(server),
        client_metadata=_metadata(AnyUrl(person.redirect_uri)),
        storage=Kept(server, entry, redirect_uri=person.redirect_uri, scope=person.scope, renews=False),
        redirect_handler=person.show,
        callback_handler=person.answer,
        client_metadata_url=auth_of(server).client_metadata_url,
    )


def renewing_provider(server: ServerSettings, entry: LoginEntry, issuer: str) -> OAuthClientProvider:
    """Return the OAuth client that renews a person's login at the ``issuer`` that issued it, without interaction."""
    provider = _ByRefresh(
        server_url=server_address(server),
        client_metadata=_metadata(None),
        storage=Kept(server, entry, renews=True),
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

    auth, url, kept = auth_of(server), server_address(server), Kept(server, entry, renews=False)
    scope = " ".join(auth.scopes) or None
    assert auth.client_id is not None
    with warnings.catch_warnings():
        # If the config names no issuer, its author trusts the server to name the right one.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        if auth.private_key is None:
            assert auth.client_secret is not None
            return ClientCredentialsOAuthProvider(
                url, kept, auth.client_id, auth.client_secret, scope=scope, issuer=auth.issuer
            )
        algorithm = _algorithm(auth.private_key)
        jwt.encode({}, auth.private_key, algorithm)  # once here, where nobody waits for its imports
        signing = SignedJWTParameters(
            issuer=auth.client_id,
            subject=auth.client_id,
            signing_key=auth.private_key,
            signing_algorithm=algorithm,
        )
        return PrivateKeyJWTOAuthProvider(
            url, kept, auth.client_id, signing.create_assertion_provider(), scope=scope, issuer=auth.issuer
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


def demand_addresses(context: OAuthContext) -> None:
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


def settle_method(context: OAuthContext) -> None:
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
