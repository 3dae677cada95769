"""Processes that are killed while they renew a login: what was received is on the disk before it is used, and whole.

The full count of 1,000 takes about five minutes.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from counts import count
from mcp.server.auth.provider import AccessToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from fakes.oauth_server import Guarded, guarded_server
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import Login, TokenStore

pytestmark = pytest.mark.hostile

KILLS = count("renewals")
MEASURED = 4
"""Renewals that are left alone at first, to know how long one takes here."""

FORKER = """
import os, sys, anyio, httpx2
from pathlib import Path
from downstream.fleets import http_settings
from toolcrib.auth import oauth
from toolcrib.auth.bearers import Bearer
from toolcrib.auth.challenges import Challenge
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore

folder, url = sys.argv[1:]
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

async def renew_and_use():
    bearer = Bearer(http_settings(url), TokenStore(Path(folder), NoKeyring()).entry(url, "web"))
    metadata = url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    challenge = Challenge(401, f'Bearer resource_metadata="{metadata}"', "127.0.0.1")
    await bearer.load()
    async with httpx2.AsyncClient(trust_env=False) as http:
        while True:
            request = http.build_request("POST", url, json=HELLO)
            sent = bearer.authorize(request)
            if sent:
                await http.send(request)
            if not await bearer.renew(sent, challenge):
                os._exit(3)

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        try:
            anyio.run(renew_and_use)
        finally:
            os._exit(4)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Journal:
    """Which access tokens were given, in their order, and which of them was used last."""

    def __init__(self, server: Guarded) -> None:
        self.given: list[str] = []
        self.used = -1
        self._looked_up, self._gives = server.provider.load_access_token, server.provider.given
        server.provider.load_access_token = self._load
        server.provider.given = self._given

    async def _load(self, token: str) -> AccessToken | None:
        if token in self.given:
            self.used = max(self.used, self.given.index(token))
        return await self._looked_up(token)

    def _given(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        tokens = self._gives(client_id, scopes, resource)
        self.given.append(tokens.access_token)
        return tokens


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.timeout(3600)
def test_whatever_is_killed_while_it_renews_loses_nothing_that_was_used(tmp_path: Path, record_property):
    moments, counts = random.Random(14), {"killed": 0, "needs_login": 0}
    with guarded_server() as server:
        journal = Journal(server)
        _log_in(tmp_path, server)
        command = [sys.executable, "-c", FORKER, str(tmp_path), server.url]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path])}
        with subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        ) as forker:
            renews_s = _seconds_of_a_renewal(forker, journal)
            _log_in(tmp_path, server)
            for _ in range(KILLS):
                _wait_until_idle(server)
                asked = server.provider.refreshes, server.asked("/token")
                forker.stdin.write("\n")
                pid = int(forker.stdout.readline())
                time.sleep(moments.uniform(0, 3 * renews_s))
                _kill(pid)
                code = int(forker.stdout.readline())
                login = _kept(tmp_path, server)
                assert not login.record.problem
                assert code in (3, -signal.SIGKILL)
                if login.tokens is None:
                    # What it had was spent by one that was killed before the answer was there: it asked once, no more.
                    # What that one asked may have waited in the socket till now.
                    late = server.asked("/token") - asked[1] - 1
                    assert late in (0, 1)
                    assert server.provider.refreshes - asked[0] <= late
                    assert login.client is not None
                    counts["needs_login"] += 1
                    _log_in(tmp_path, server)
                    continue
                counts["killed"] += 1
                assert journal.given.index(login.tokens.access_token) >= journal.used
            forker.stdin.close()
    killed = sum(counts.values())
    record_property("count", killed)
    record_property("worst", f"{counts['needs_login']} of {killed} had to log in again, 0 lost what was used")
    print(f"{counts}, {len(journal.given)} tokens given, one in {renews_s:.3f} s")
    assert counts["killed"]
    # How many are renewed before the kill depends on how busy the machine is; the first ones were left alone.
    assert len(journal.given) > MEASURED + 2


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, signal.SIGKILL)


def _wait_until_idle(server: Guarded) -> None:
    """Wait until the server is done with what the process that was killed had asked."""
    ends_at = time.monotonic() + 60
    while server.under_way:
        assert time.monotonic() < ends_at, "a request is never done with"
        time.sleep(0.001)


def _seconds_of_a_renewal(forker: "subprocess.Popen[str]", journal: Journal) -> float:
    forker.stdin.write("\n")
    pid, began = int(forker.stdout.readline()), time.monotonic()
    while len(journal.given) <= MEASURED:
        assert time.monotonic() - began < 60, "nothing is renewed"
        time.sleep(0.01)
    taken = (time.monotonic() - began) / MEASURED
    _kill(pid)
    forker.stdout.readline()
    return taken


def _log_in(folder: Path, server: Guarded) -> None:
    issuer = server.url.removesuffix("/mcp")
    client = OAuthClientInformationFull(
        client_id="client-1", redirect_uris=None, token_endpoint_auth_method="none", issuer=issuer
    )
    server.provider.clients["client-1"] = client

    async def keep() -> None:
        entry = TokenStore(folder, NoKeyring()).entry(server.url, "web")
        await entry.set_client_info(client)
        await entry.set_tokens(server.provider.given("client-1", ["read"], server.url))

    anyio.run(keep)


def _kept(folder: Path, server: Guarded) -> Login:
    return anyio.run(TokenStore(folder, NoKeyring()).entry(server.url, "web").read)
