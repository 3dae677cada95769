"""What is for an authorization server goes to that one only, whatever it or the server answers."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp.server.auth.provider import RefreshToken
from mcp.shared.auth import OAuthClientInformationFull
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from downstream.fleets import TEST_S, http_settings
from fakes.oauth_server import Guarded, guarded_server
from toolcrib.auth import fetching, oauth, store
from toolcrib.auth.bearers import Bearer
from toolcrib.auth.challenges import Challenge
from toolcrib.auth.flow import LoginPrompt, log_in
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import LoginEntry, TokenStore
from toolcrib.base.errors import LoginFailed
from toolcrib.config.settings import ServerSettings
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult, OAuthToken

pytestmark = pytest.mark.anyio

RESOURCE_METADATA = "/.well-known/oauth-protected-resource/mcp"
METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
POSTED = ("/token", "/register", "/authorize")


@pytest.fixture
def server() -> Iterator[Guarded]:
    with guarded_server() as running:
        yield running


@pytest.fixture
def elsewhere(server: Guarded) -> Iterator[Guarded]:
    """The authorization server that ``server`` names, at another origin."""
    with guarded_server() as running:
        names(server, running)
        yield running


def origin(guarded: Guarded) -> str:
    return guarded.url.removesuffix("/mcp")


def names(server: Guarded, authorization: Guarded) -> None:
    told = {"resource": server.url, "authorization_servers": [origin(authorization)]}
    server.answers[RESOURCE_METADATA] = JSONResponse(told)


def challenge(server: Guarded) -> Challenge:
    return Challenge(401, f'Bearer resource_metadata="{origin(server)}{RESOURCE_METADATA}"', "127.0.0.1")


async def entry_of(folder: Path, server: Guarded, authorization: Guarded, issuer: str | None) -> LoginEntry:
    """Keep a login that ``authorization`` gave for ``server``; ``issuer`` is what the client is bound to."""
    entry = TokenStore(folder, NoKeyring()).entry(server.url, "web")
    client = OAuthClientInformationFull(
        client_id="client-1", redirect_uris=None, token_endpoint_auth_method="none", issuer=issuer
    )
    authorization.provider.clients["client-1"] = client
    await entry.set_client_info(client)
    await entry.set_tokens(authorization.provider.given("client-1", ["read"], server.url))
    await entry.note(issuer=f"{origin(authorization)}/")
    return entry


async def renewed(server: Guarded, entry: LoginEntry, auth: Any = None) -> bool:
    """Have the login of an entry renewed, as after a refusal of its token."""
    bearer = Bearer(settings_of(server, auth), entry)
    await bearer.load()
    sent = bearer.authorize(httpx2.Request("POST", server.url))
    with anyio.fail_after(TEST_S):
        return await bearer.renew(sent, challenge(server))


def settings_of(server: Guarded, auth: Any) -> ServerSettings:
    return http_settings(server.url, **({"auth": auth} if auth else {}))


async def paste(_address: str) -> AuthorizationCodeResult:
    raise AssertionError("nobody is asked")


async def show(_address: str, _redirect: str) -> None:
    raise AssertionError("nothing is shown")


UNTOLD = [Response(status_code=503), Response(status_code=404), Response(b"{", media_type="application/json")]


@pytest.mark.parametrize("answer", UNTOLD, ids=["busy", "missing", "garbage"])
async def test_a_refresh_token_is_not_given_to_the_server_where_its_authorization_server_is_silent(
    tmp_path: Path, server: Guarded, elsewhere: Guarded, answer: Response
):
    entry = await entry_of(tmp_path, server, elsewhere, f"{origin(elsewhere)}/")
    elsewhere.answers.update(dict.fromkeys(METADATA, answer))
    with pytest.raises(LoginFailed, match=r"127\.0\.0\.1 does not tell its addresses now"):
        await renewed(server, entry)
    assert not any(map(server.asked, POSTED))
    assert (await entry.read()).tokens
    elsewhere.answers.clear()
    assert await renewed(server, entry)
    assert elsewhere.asked("/token") == 1
    assert not any(map(server.asked, POSTED))


async def test_the_secret_of_a_machine_is_not_given_to_the_server_where_its_authorization_server_is_silent(
    tmp_path: Path, server: Guarded, elsewhere: Guarded
):
    entry = TokenStore(tmp_path, NoKeyring()).entry(server.url, "web")
    elsewhere.answers.update(dict.fromkeys(METADATA, Response(status_code=503)))
    auth = {"type": "client_credentials", "client_id": "machine", "client_secret": "s3cr3t-of-it"}
    with pytest.raises(LoginFailed, match="does not tell its addresses now"):
        await renewed(server, entry, auth)
    assert not server.provider.machine_requests
    assert not any(map(server.asked, POSTED))


@pytest.mark.parametrize("auth", [None, {"client_id": "mine", "client_secret": "s3cr3t-mine"}])
async def test_nobody_is_sent_to_the_server_to_log_in_where_its_authorization_server_is_silent(
    tmp_path: Path, server: Guarded, elsewhere: Guarded, auth: Any
):
    entry = TokenStore(tmp_path, NoKeyring()).entry(server.url, "web")
    elsewhere.answers.update(dict.fromkeys(METADATA, Response(status_code=503)))
    with anyio.fail_after(TEST_S), pytest.raises(LoginFailed, match="does not tell its addresses now"):
        await log_in(settings_of(server, auth), entry, challenge(server), LoginPrompt(show, paste))
    assert not any(map(server.asked, POSTED))


@pytest.mark.parametrize("auth", [None, {"client_id": "client-1"}], ids=["kept", "configured"])
async def test_a_refresh_token_is_given_to_nobody_but_who_gave_it(
    tmp_path: Path, server: Guarded, elsewhere: Guarded, auth: Any
):
    entry = await entry_of(tmp_path, server, elsewhere, None)
    with guarded_server() as other:
        names(server, other)
        assert not await renewed(server, entry, auth)
        assert not any(map(other.asked, POSTED))
    assert (await entry.read()).tokens
    names(server, elsewhere)
    assert await renewed(server, entry, auth)


@pytest.mark.parametrize(
    ("status", "error", "is_over"),
    [
        (400, "invalid_grant", True),
        (400, "invalid_request", False),
        (401, "invalid_client", False),
        (403, "forbidden", False),
        (404, "", False),
    ],
)
async def test_only_a_grant_that_is_refused_ends_a_login(
    tmp_path: Path, server: Guarded, status: int, error: str, *, is_over: bool
):
    entry = await entry_of(tmp_path, server, server, None)
    server.answers["/token"] = JSONResponse({"error": error}, status)
    assert not await renewed(server, entry)
    assert ((await entry.read()).tokens is None) is is_over


async def test_a_renewal_that_is_given_up_while_it_is_answered_is_kept_all_the_same(tmp_path: Path, server: Guarded):
    entry = await entry_of(tmp_path, server, server, None)
    asked, goes_on = threading.Event(), threading.Event()
    exchange = server.provider.exchange_refresh_token

    async def slowly(client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        given = await exchange(client, refresh_token, scopes)
        asked.set()
        await anyio.to_thread.run_sync(goes_on.wait, TEST_S)
        return given

    server.provider.exchange_refresh_token = slowly
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(renewed, server, entry)
        await anyio.to_thread.run_sync(asked.wait, TEST_S)
        tasks.cancel_scope.cancel()
        goes_on.set()
    login = await entry.read()
    assert login.tokens
    assert login.tokens.refresh_token in server.provider.refresh_tokens


async def test_a_login_that_is_given_up_leaves_the_one_that_there_is(tmp_path: Path, server: Guarded):
    entry = await entry_of(tmp_path, server, server, None)
    before = await entry.read()

    async def given_up(_address: str) -> AuthorizationCodeResult:
        raise LoginFailed("never mind")

    async def shown(_address: str, _redirect: str) -> None:
        """Show nothing: the answer is given by hand."""

    with anyio.fail_after(TEST_S), pytest.raises(LoginFailed, match="never mind"):
        await log_in(settings_of(server, None), entry, challenge(server), LoginPrompt(shown, given_up))
    assert server.asked("/register") == 1, "the client that is kept is for no answer in a browser"
    after = await entry.read()
    assert (after.tokens, after.client) == (before.tokens, before.client)
    assert await renewed(server, entry)


async def test_an_empty_token_is_not_kept(tmp_path: Path, server: Guarded):
    entry = await entry_of(tmp_path, server, server, None)
    server.answers["/token"] = JSONResponse({"access_token": "", "token_type": "Bearer"})
    with pytest.raises(LoginFailed, match="gave an empty token"):
        await renewed(server, entry)
    login = await entry.read()
    assert login.tokens
    assert login.tokens.access_token


async def test_a_proxy_on_this_machine_opens_it_to_no_server(
    tmp_path: Path, server: Guarded, monkeypatch: pytest.MonkeyPatch
):
    """The connection to the server went to the proxy, whose address is private; the server's is not."""
    entry = await entry_of(tmp_path, server, server, None)
    lookup = socket.getaddrinfo

    def looked_up(host: str, *arguments: Any, **options: Any) -> list[Any]:
        return lookup("93.184.216.34" if host == "mcp.example" else host, *arguments, **options)

    monkeypatch.setattr(fetching.socket, "getaddrinfo", looked_up)
    with pytest.raises(LoginFailed, match="is in a private network, and the server itself is not"):
        await oauth.renewed(http_settings("https://mcp.example/mcp"), entry, challenge(server))
    assert not server.paths


async def test_a_renewal_is_over_before_others_cease_to_wait_for_it(
    tmp_path: Path, server: Guarded, monkeypatch: pytest.MonkeyPatch
):
    assert oauth.PREPARING_S + fetching.FETCH_S < store.LOCK_WAIT_S
    monkeypatch.setattr(oauth, "PREPARING_S", 0.2)
    entry = await entry_of(tmp_path, server, server, None)
    over = threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await anyio.to_thread.run_sync(over.wait, TEST_S)
        await Response(status_code=404)(scope, receive, send)

    server.answers[RESOURCE_METADATA] = cast("Response", slow)
    with pytest.raises(LoginFailed, match=r"its authorization server was not found within 0\.2 s"):
        await renewed(server, entry)
    over.set()
    assert (await entry.read()).tokens
