"""Servers that want a login, while serving: nothing is opened, nothing is lost, and the answer says what to run."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.shared.auth import OAuthClientInformationFull
from starlette.responses import JSONResponse, Response

from downstream.fleets import DEADLINE_S, TEST_S, Watched, http_settings, time_passes
from fakes.oauth_server import Guarded, guarded_server
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.logins import Logins
from toolcrib.auth.store import LoginEntry, TokenStore
from toolcrib.base.errors import LoginNeeded, StartFailed
from toolcrib.config.schema import LimitsSection
from toolcrib.downstream.fleet import open_fleet
from toolcrib.downstream.isolation import Isolation
from toolcrib.downstream.lifecycle import DownstreamDependencies
from toolcrib.downstream.suspended import SuspendedCalls
from toolcrib.downstream.transport import open_streams

pytestmark = pytest.mark.anyio

RUN = r"requires a login, so nothing ran\. Run `toolcrib login web` in a terminal\."


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


def entry_of(folder: Path, server: Guarded) -> LoginEntry:
    return TokenStore(folder, NoKeyring()).entry(server.url, "web")


async def logged_in(folder: Path, server: Guarded, scopes: list[str] | None = None) -> None:
    """Keep what a login gives."""
    entry, provider = entry_of(folder, server), server.provider
    issuer = server.url.removesuffix("/mcp")
    client = OAuthClientInformationFull(
        client_id="client-1", redirect_uris=None, token_endpoint_auth_method="none", issuer=issuer
    )
    provider.clients["client-1"] = client
    await entry.set_client_info(client)
    await entry.set_tokens(provider.given("client-1", scopes or ["read"], server.url))


@asynccontextmanager
async def fleet_with_logins(folder: Path, server: Guarded, **options: Any) -> AsyncGenerator[Watched]:
    settings, watched = http_settings(server.url, **options), Watched()
    bounds, logins = LimitsSection(), Logins(folder)
    dependencies = DownstreamDependencies(
        bounds,
        partial(open_streams, logins=logins),
        watched.listed,
        watched.state_changed,
        lambda: 0.0,
        watched.compared,
        Isolation(),
        SuspendedCalls(bounds),
        logins=logins,
    )
    with anyio.fail_after(TEST_S):
        async with open_fleet({"web": settings}, {}, dependencies) as watched.fleet:
            yield watched


async def test_a_server_that_wants_a_login_says_so_at_once_and_names_the_command(tmp_path: Path, guarded: Guarded):
    async with fleet_with_logins(tmp_path, guarded) as it:
        for tried in range(1, 7):  # the pause after the last is longer than the next call can take to come
            await time_passes(DEADLINE_S)
            with pytest.raises(LoginNeeded, match=RUN):
                await it.call("web", "echo")
            assert it.states_of("web") == ["starting", "needs_login"] * tried
        asked = len(guarded.paths)
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")
        assert len(guarded.paths) == asked, "the second call in a pause asks nobody"
    assert set(guarded.paths) == {"/mcp"}, "no metadata is looked for, and nobody is registered"


async def test_the_next_call_works_once_somebody_has_logged_in(tmp_path: Path, guarded: Guarded):
    async with fleet_with_logins(tmp_path, guarded) as it:
        with pytest.raises(LoginNeeded):
            await it.call("web", "echo")
        await logged_in(tmp_path, guarded)
        assert await it.text("web", "echo", {"text": "a"}) == '{"text": "a"}'
        assert it.states_of("web")[-1] == "ready"


async def test_a_login_that_ends_in_the_middle_is_renewed_once_and_the_call_goes_on(tmp_path: Path, guarded: Guarded):
    await logged_in(tmp_path, guarded)
    async with fleet_with_logins(tmp_path, guarded) as it:
        await it.call("web", "echo")
        before = (await entry_of(tmp_path, guarded).read()).tokens
        guarded.provider.expire()
        assert await it.text("web", "echo", {"text": "b"}) == '{"text": "b"}'
        assert guarded.provider.refreshes == 1
        assert it.states_of("web") == ["starting", "ready"]
        after = (await entry_of(tmp_path, guarded).read()).tokens
    assert before
    assert after
    assert after.refresh_token != before.refresh_token, "what came in its place is kept"


async def test_calls_at_the_same_time_renew_a_login_once(tmp_path: Path, guarded: Guarded):
    await logged_in(tmp_path, guarded)
    async with fleet_with_logins(tmp_path, guarded) as it:
        await it.call("web", "echo")
        guarded.provider.expire()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(it.call, "web", "echo")
        assert guarded.provider.refreshes == 1


async def test_a_login_that_is_refused_to_be_renewed_says_that_nothing_ran(tmp_path: Path, guarded: Guarded):
    await logged_in(tmp_path, guarded)
    async with fleet_with_logins(tmp_path, guarded) as it:
        await it.call("web", "echo")
        guarded.provider.revoke_all()
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")
        assert it.fleet["web"].status.state.value == "needs_login"
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")
        assert guarded.asked("/token") == 1, "what was refused is not tried again"
        await logged_in(tmp_path, guarded)
        assert await it.text("web", "echo", {"text": "c"}) == '{"text": "c"}'


@pytest.mark.parametrize("sse", [False, True])
async def test_a_login_that_is_refused_without_a_word_is_wanted_anew(tmp_path: Path, guarded: Guarded, *, sse: bool):
    await logged_in(tmp_path, guarded)
    guarded.provider.revoke_all()
    guarded.answers["/mcp"] = Response(status_code=401)
    async with fleet_with_logins(tmp_path, guarded, sse=sse) as it:
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")


@pytest.mark.parametrize("sse", [False, True])
async def test_a_bare_refusal_is_for_want_of_the_login_that_the_config_names(
    tmp_path: Path, guarded: Guarded, *, sse: bool
):
    guarded.answers["/mcp"] = Response(status_code=401)
    async with fleet_with_logins(tmp_path, guarded, sse=sse, auth={"scopes": ["read"]}) as it:
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")


async def test_a_login_that_cannot_be_told_to_be_over_is_kept(tmp_path: Path, guarded: Guarded):
    await logged_in(tmp_path, guarded)
    async with fleet_with_logins(tmp_path, guarded) as it:
        await it.call("web", "echo")
        guarded.provider.expire()
        guarded.answers["/token"] = JSONResponse({"error": "busy"}, 503)
        with pytest.raises(
            StartFailed, match=r"its login could not be refreshed: 127\.0\.0\.1 refused \(HTTP 503, busy\)"
        ):
            await it.call("web", "echo")
        guarded.answers.clear()
        assert (await entry_of(tmp_path, guarded).read()).tokens
        await it.answers("web", "echo")


async def test_a_login_that_does_not_reach_far_enough_names_what_is_missing(tmp_path: Path):
    with guarded_server(scopes=["write"]) as server:
        await logged_in(tmp_path, server, ["read"])
        async with fleet_with_logins(tmp_path, server) as it:
            with pytest.raises(LoginNeeded, match=r"Run `toolcrib login web( --scope write)?` in a terminal\."):
                await it.call("web", "echo")


async def test_a_server_that_wants_a_login_for_calls_only_keeps_its_known_tools(tmp_path: Path, guarded: Guarded):
    guarded.open_methods = (b"server/discover", b"initialize", b"tools/list", b"notifications/")
    async with fleet_with_logins(tmp_path, guarded) as it:
        await it.up("web")
        with pytest.raises(LoginNeeded, match=RUN):
            await it.call("web", "echo")
        assert it.lists[0][1] == ["echo", "sleep", "progress"]
        await it.is_in(it.fleet["web"].status.state.NEEDS_LOGIN, "web")


async def test_a_machine_logs_in_by_itself(tmp_path: Path, guarded: Guarded):
    auth = {"type": "client_credentials", "client_id": "machine", "client_secret": "s3cr3t-of-it"}
    async with fleet_with_logins(tmp_path, guarded, auth=auth) as it:
        assert await it.text("web", "echo", {"text": "m"}) == '{"text": "m"}'
        guarded.provider.expire()
        assert await it.text("web", "echo", {"text": "n"}) == '{"text": "n"}'
    record = (await entry_of(tmp_path, guarded).read()).record
    assert (record.account, record.issuer) == ("machine", guarded.url.removesuffix("/mcp"))


async def test_a_machine_proves_who_it_is_by_a_signature(tmp_path: Path, guarded: Guarded):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    issuer = guarded.url.removesuffix("/mcp")
    auth = {"type": "client_credentials", "client_id": "machine", "private_key": pem, "issuer": issuer}
    async with fleet_with_logins(tmp_path, guarded, auth={**auth, "scopes": ["read"]}) as it:
        assert await it.text("web", "echo", {"text": "k"}) == '{"text": "k"}'
    [asked] = guarded.provider.machine_requests
    claims = jwt.decode(asked["client_assertion"], key.public_key(), ["ES256"], audience=issuer)
    assert (claims["iss"], claims["sub"], asked["scope"]) == ("machine", "machine", "read")
    assert "client_secret" not in asked


@pytest.mark.parametrize("changes", [{"issuer": "https://other.example"}, {"private_key": "no key"}])
async def test_a_machine_gives_its_proof_to_its_issuer_only(tmp_path: Path, guarded: Guarded, changes: Any):
    auth = {"type": "client_credentials", "client_id": "machine", "client_secret": "s3cr3t-of-it", **changes}
    if "private_key" in changes:
        del auth["client_secret"]
    async with fleet_with_logins(tmp_path, guarded, auth=auth) as it:
        with pytest.raises(StartFailed, match="its login could not be refreshed: ") as caught:
            await it.call("web", "echo")
    assert "s3cr3t" not in str(caught.value)
    assert not guarded.provider.machine_requests


async def test_nobody_logs_in_where_the_config_says_so(tmp_path: Path, guarded: Guarded):
    await logged_in(tmp_path, guarded)
    async with fleet_with_logins(tmp_path, guarded, auth={"type": "none"}) as it:
        with pytest.raises(StartFailed, match=r"HTTP 401 .*Get a token from whoever runs the server"):
            await it.call("web", "echo")
        assert it.states_of("web") == ["starting", "failed"]


async def test_a_token_goes_to_its_server_only(tmp_path: Path, guarded: Guarded):
    import httpx2

    from toolcrib.auth.bearers import Bearer

    await logged_in(tmp_path, guarded)
    bearer = Bearer(http_settings(guarded.url), entry_of(tmp_path, guarded))
    await bearer.load()
    for url in ("https://127.0.0.1/mcp", "http://127.0.0.1:1/mcp", "http://localhost/mcp"):
        request = httpx2.Request("POST", url)
        assert not bearer.authorize(request)
        assert "authorization" not in request.headers
    assert bearer.authorize(httpx2.Request("POST", guarded.url)).startswith("Bearer access-")
