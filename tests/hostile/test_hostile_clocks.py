"""The wall clock is set ten years ahead and back, again and again: nothing expires early, and nothing late."""

import json
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from counts import count
from fleets import http_settings
from mcp.shared.auth import OAuthClientInformationFull

from fakes.menu import tool
from fakes.oauth_server import guarded_server
from toolcrib.auth.bearers import Bearer
from toolcrib.auth.challenges import Challenge
from toolcrib.auth.keyring import NoKeyring
from toolcrib.auth.store import TokenStore
from toolcrib.base.clocks import steady_clock
from worlds import World, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TEN_YEARS_S = 10 * 365.25 * 86_400
DAY_S = 86_400.0
SESSION = {"tool_search": {"activation_scope": "session"}, "limits": {"sessions_kept_s": 3 * DAY_S}}
NAMED = {"TOOLCRIB_SESSION_ID": "mine"}


@dataclass
class Machine:
    """A machine whose wall clock is set by somebody, and whose time passes all the same."""

    passed: float = 0.0
    wall: float = 1_800_000_000.0
    jumps: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def jump(self) -> None:
        self.jumps += 1
        self.wall = 1_800_000_000.0 + self.passed + self.chance.uniform(-TEN_YEARS_S, TEN_YEARS_S)

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
        self.wall += seconds

    def begin(self) -> dict[str, Any]:
        """Return the clocks of a process that begins now, on a machine whose clock is right."""
        self.wall = 1_800_000_000.0 + self.passed
        lasting = steady_clock(lambda: self.wall, lambda: self.passed)
        return {"wall_clock": lambda: self.wall, "lasting_clock": lasting, "clock": lambda: self.passed}


def stale(w: World) -> list[str]:
    return list(w.gateway.tools.indexer.outdated())


def test_a_steady_clock_goes_by_the_time_that_has_passed(record_property):
    machine = Machine()
    began = machine.begin()["lasting_clock"]
    for number in range(count("clocks")):
        machine.jump()
        machine.sleep(1.0)
        assert began() == pytest.approx(1_800_000_000.0 + number + 1)
    record_property("count", machine.jumps)


async def test_no_list_is_read_again_early_and_an_old_one_is_noticed(tmp_path: Path, record_property):
    machine, wrong = Machine(), 0
    async with world(tmp_path, {"zoo": [tool("feed")]}, **machine.begin()) as w:
        for _ in range(count("clocks")):
            machine.jump()
            wrong += bool(stale(w))
        machine.sleep(DAY_S + 1)
        machine.jump()
        assert stale(w) == ["zoo"]
    record_property("count", machine.jumps)
    record_property("worst", f"{wrong} of {count('clocks')} jumps made a fresh list look old")
    assert wrong == 0


async def test_what_a_session_has_activated_stays_as_long_as_the_config_says(tmp_path: Path, record_property):
    machine, lost = Machine(), 0
    for number in range(max(2, count("clocks") // 50)):
        async with world(tmp_path, {"zoo": [tool("feed")]}, SESSION, environ=NAMED, **machine.begin()) as w:
            async with w.client() as client:
                lost += number > 0 and "zoo__feed" not in await client.names()
                await client.call("zoo__feed")
            for _ in range(25):
                machine.jump()
                async with w.client() as client:
                    lost += "zoo__feed" not in await client.names()
            machine.sleep(DAY_S)
    record_property("count", machine.jumps)
    record_property("worst", f"{lost} activations lost in {machine.jumps} jumps")
    assert lost == 0
    machine.sleep(4 * DAY_S)
    async with world(tmp_path, {"zoo": [tool("feed")]}, SESSION, environ=NAMED, **machine.begin()) as w:
        async with w.client() as client:
            assert "zoo__feed" not in await client.names()


async def test_the_rest_of_a_result_is_there_for_its_time_and_no_longer(tmp_path: Path, record_property):
    machine = Machine()
    limits = {"limits": {"result_max_bytes": 1024, "results_kept_s": 600}}
    async with world(tmp_path, {"zoo": [tool("feed")]}, limits, **machine.begin()) as w, w.client() as client:
        long = {"content": [{"type": "text", "text": "word " * 2000}]}
        w["zoo"].answers["feed"] = long
        first = await client.call("zoo__feed")
        told = re.search(r"with (\{.*\})\.", first["content"][-1]["text"])
        assert told
        handle = json.loads(told[1])
        for _ in range(count("clocks")):
            machine.jump()
            assert not (await client.call("read_more", handle)).get("isError")
        machine.sleep(601)
        assert (await client.call("read_more", handle))["isError"]
    record_property("count", machine.jumps)


async def test_a_login_lasts_until_the_server_refuses_it_and_is_renewed_then(tmp_path: Path, record_property):
    """When a token ends is kept by the wall clock, as it outlives the machine's being on; nothing is decided by it."""
    machine, ended, renewals = Machine(), 0, max(2, count("clocks") // 50)
    with guarded_server() as server:
        entry = TokenStore(tmp_path, NoKeyring(), clock=lambda: machine.wall).entry(server.url, "web")
        issuer = server.url.removesuffix("/mcp")
        client = OAuthClientInformationFull(
            client_id="client-1", redirect_uris=None, token_endpoint_auth_method="none", issuer=issuer
        )
        server.provider.clients["client-1"] = client
        await entry.set_client_info(client)
        await entry.set_tokens(server.provider.given("client-1", ["read"], server.url))
        bearer, request = Bearer(http_settings(server.url), entry), httpx2.Request("POST", server.url)
        for _ in range(count("clocks")):
            machine.jump()
            await bearer.load()
            ended += not bearer.authorize(request)
        assert server.provider.refreshes == 0
        metadata = server.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        challenge = Challenge(401, f'Bearer resource_metadata="{metadata}"', "127.0.0.1")
        for _ in range(renewals):
            machine.jump()
            ended += not await bearer.renew(bearer.authorize(request), challenge)
        assert server.provider.refreshes == renewals
    record_property("count", machine.jumps)
    record_property("worst", f"{ended} of {count('clocks')} jumps and {renewals} renewals ended a login")
    assert ended == 0
