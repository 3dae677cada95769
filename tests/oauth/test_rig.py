"""The SDK's client with what is kept of logins, on real authorization servers: once, later, and from two processes."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

from e2e.npm import Npm
from oauth.rig import TESTS, Browser, PortTakenError, Rig, oidc_provider, running
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import LoginEntry, TokenStore
from toolcrib.jsonrpc.sdk_oauth import AuthorizationCodeResult, OAuthClientMetadata

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BACK = "http://127.0.0.1:9/callback"


def _notes_server(port: int) -> list[str]:
    issuer = "http://127.0.0.1:9"
    return [sys.executable, "-m", "oauth.notes_server", str(port), issuer, f"{issuer}/introspection", "id", "secret"]


def test_a_server_whose_port_is_taken_is_told_from_one_that_fails(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        command = _notes_server(other.getsockname()[1])
        with pytest.raises(PortTakenError), running(command, tmp_path / "told.txt"):
            pass


def test_a_server_ends_with_its_stdin():
    subprocess.run(_notes_server(0), check=True, stdin=subprocess.DEVNULL, cwd=TESTS, capture_output=True, timeout=60)


def _entry(folder: Path, url: str) -> LoginEntry:
    return TokenStore(folder / "tokens", NoKeyring()).entry(url, "notes")


def _client(rig: Rig, entry: LoginEntry, browser: Browser) -> OAuthClientProvider:
    results: list[AuthorizationCodeResult] = []

    async def show(address: str) -> None:
        query = parse_qs(urlsplit(await browser.log_in(address)).query)
        results.append(AuthorizationCodeResult.model_validate({name: values[0] for name, values in query.items()}))

    async def answer() -> AuthorizationCodeResult:
        return results.pop()

    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(BACK)], client_name="test")
    return OAuthClientProvider(rig.url, metadata, entry, show, answer)


async def _call(rig: Rig, provider: OAuthClientProvider) -> Any:
    async with httpx2.AsyncClient(auth=provider, timeout=30, trust_env=False) as http:
        async with Client(streamable_http_client(rig.url, http_client=http)) as client:
            return (await client.call_tool("read_note", {"title": "one"})).content[0]


async def test_a_login_is_kept_and_used_without_another_one(rig: Rig, tmp_path: Path):
    browser = Browser()
    assert (await _call(rig, _client(rig, _entry(tmp_path, rig.url), browser))).text == "note one"
    login = await _entry(tmp_path, rig.url).read()
    assert login.record.issuer.rstrip("/") == rig.issuer
    assert login.tokens
    assert login.tokens.refresh_token
    assert (await _call(rig, _client(rig, _entry(tmp_path, rig.url), browser))).text == "note one"
    assert len(browser.opened) == 1


RENEW = """
import json, sys, anyio, httpx2
from pathlib import Path
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
from toolcrib.jsonrpc.sdk_oauth import OAuthToken

async def main(folder, url, endpoint, rounds):
    entry = TokenStore(Path(folder), NoKeyring()).entry(url, "notes")
    for number in range(int(rounds)):
        before = (await entry.read()).tokens.access_token
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        async with entry.refreshing() as login:
            if login.tokens.access_token != before:
                print("another", flush=True)
                continue
            form = {"grant_type": "refresh_token", "refresh_token": login.tokens.refresh_token,
                    "client_id": login.client.client_id, "resource": url}
            if login.client.client_secret:
                form["client_secret"] = login.client.client_secret
            async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
                answer = await http.post(endpoint, data=form)
            assert answer.status_code == 200, answer.text
            await entry.set_tokens(OAuthToken.model_validate_json(answer.content))
            print("renewed", flush=True)
anyio.run(main, *sys.argv[1:])
"""
ROUNDS = 10


async def test_two_processes_that_renew_at_once_renew_once(rig: Rig, tmp_path: Path):
    await _call(rig, _client(rig, _entry(tmp_path, rig.url), Browser()))
    metadata = httpx2.get(f"{rig.issuer}/.well-known/oauth-authorization-server", trust_env=False).json()
    arguments = [str(tmp_path / "tokens"), rig.url, metadata["token_endpoint"], str(ROUNDS)]

    def raced() -> list[list[str]]:
        command = [sys.executable, "-c", RENEW, *arguments]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        both = [subprocess.Popen(command, **pipes) for _ in range(2)]
        try:
            said: list[list[str]] = []
            for _ in range(ROUNDS):
                for process in both:
                    assert process.stdout.readline() == "ready\n"
                for process in both:
                    process.stdin.write("\n")
                said.append(sorted(process.stdout.readline().strip() for process in both))
            return said
        finally:
            for process in both:
                process.kill()
                process.communicate()

    before = rig.happened()
    assert await anyio.to_thread.run_sync(raced) == [["another", "renewed"]] * ROUNDS
    happened = rig.happened()[len(before) :]
    if rig.told:
        assert happened.count("grant refresh_token") == ROUNDS
        assert not [line for line in happened if line.startswith(("refused", "error", "revoked"))]
    assert (await _call(rig, _client(rig, _entry(tmp_path, rig.url), Browser()))).text == "note one"


async def test_tokens_are_for_one_server_of_a_provider_only(npm: Npm, tmp_path: Path):
    with oidc_provider(npm, tmp_path, servers=2) as [one, other]:
        entry = _entry(tmp_path, one.url)
        await _call(one, _client(one, entry, Browser()))
        tokens = await entry.get_tokens()
        assert tokens
        headers = {"Authorization": f"Bearer {tokens.access_token}", "Accept": "application/json, text/event-stream"}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = httpx2.post(other.url, headers=headers, json=hello, trust_env=False)
        assert answer.status_code == 401
        assert json.dumps(answer.json()).count(tokens.access_token) == 0


async def test_what_is_revoked_is_refused_and_a_person_is_asked_again(rig: Rig, tmp_path: Path):
    entry, browser = _entry(tmp_path, rig.url), Browser()
    await _call(rig, _client(rig, entry, browser))
    login = await entry.read()
    assert login.client
    assert login.tokens
    assert login.tokens.refresh_token
    client = {"client_id": login.client.client_id}
    if login.client.client_secret:
        client["client_secret"] = login.client.client_secret
    await anyio.to_thread.run_sync(rig.revoke, client, login.tokens.refresh_token)
    await anyio.to_thread.run_sync(rig.revoke, client, login.tokens.access_token)
    assert (await _call(rig, _client(rig, _entry(tmp_path, rig.url), browser))).text == "note one"
    assert len(browser.opened) == 2
