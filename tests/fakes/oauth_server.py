"""An MCP server on loopback that wants a login, and its authorization server beside it, both made with the SDK.

Tests decide when tokens end and what is revoked; every request is noted. The person consents at once.
"""

import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fakes.http_server import _server, serving


@dataclass
class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server's memory. ``lasts_s``: what it says of how long a token lasts."""

    lasts_s: int | None = 3600
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    refresh_tokens: dict[str, RefreshToken] = field(default_factory=dict)
    access_tokens: dict[str, AccessToken] = field(default_factory=dict)
    refreshes: int = 0
    revoked: list[str] = field(default_factory=list)
    refuses_person: bool = False
    machine_requests: list[dict[str, str]] = field(default_factory=list)

    def expire(self) -> None:
        """End all access tokens; what renews them stays good."""
        self.access_tokens.clear()

    def revoke_all(self) -> None:
        """End everything that was given."""
        self.access_tokens.clear()
        self.refresh_tokens.clear()

    def given(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        """Give tokens."""
        access, refresh = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        ends = None if self.lasts_s is None else int(time.time()) + self.lasts_s
        self.access_tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=ends, resource=resource
        )
        self.refresh_tokens[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lasts_s, scope=" ".join(scopes) or None
        )

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refuses_person:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.given(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refresh_tokens.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.refreshes += 1
        return self.given(client.client_id, refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access_tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)
        self.access_tokens.pop(token.token, None)
        self.refresh_tokens.pop(token.token, None)


@dataclass
class Guarded:
    """A running server that wants a login. ``paths`` are those of all requests, ``tools`` of calls that came in."""

    url: str
    provider: Provider
    paths: list[str] = field(default_factory=list)
    under_way: int = 0
    """Requests that came in and are not done with."""
    answers: dict[str, Response] = field(default_factory=dict)
    """What is answered at a path in place of what would be."""
    open_methods: tuple[bytes, ...] = ()
    """What bodies hold that pass without a token."""

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return self.paths.count(path)


@contextmanager
def guarded_server(*, scopes: list[str] | None = None, json_response: bool = True) -> Iterator[Guarded]:
    """Serve until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = Provider()
    running = Guarded(f"{origin}/mcp", provider)
    auth = AuthSettings.model_validate(
        {
            "issuer_url": origin,
            "resource_server_url": running.url,
            "client_registration_options": {"enabled": True, "valid_scopes": ["read", "write"]},
            "revocation_options": {"enabled": True},
            "required_scopes": scopes or ["read"],
            "validate_token_resource": True,
        }
    )
    app = _server().streamable_http_app(
        json_response=json_response,
        auth=auth,
        auth_server_provider=provider,
        token_verifier=ProviderTokenVerifier(provider),
    )
    with serving(_between(app, running), bound=listener):
        yield running


def _between(app: ASGIApp, running: Guarded) -> ASGIApp:
    async def seen(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        running.paths.append(scope["path"])
        running.under_way += 1
        try:
            await answered(scope, receive, send)
        finally:
            running.under_way -= 1

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False} if not sent else await receive()

        sent: list[bool] = []

        async def once() -> Message:
            message = await again()
            sent.append(True)
            return message

        if scope["path"] == "/token" and b"client_credentials" in body:
            await _machine_token(body, running.provider)(scope, once, send)
        elif answer := running.answers.get(scope["path"]):
            await answer(scope, once, send)
        elif any(method in body for method in running.open_methods):
            token = running.provider.given("anybody", ["read"], running.url).access_token
            headers = [*scope["headers"], (b"authorization", f"Bearer {token}".encode())]
            await app({**scope, "headers": headers}, once, send)
        else:
            await app(scope, once, send)

    return seen


def _machine_token(body: bytes, provider: Provider) -> Response:
    """Answer a request by ``client_credentials``, which the SDK's server does not know."""
    asked = {name: values[0] for name, values in parse_qs(body.decode()).items()}
    provider.machine_requests.append(asked)
    tokens = provider.given("machine", asked.get("scope", "read").split(), asked.get("resource"))
    return JSONResponse(tokens.model_copy(update={"refresh_token": None}).model_dump(exclude_none=True))
