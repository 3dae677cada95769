"""``toolcrib://status``: what is going on, whatever is switched off, and never more than its reader may know."""

import json
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import Client, MemoryServer, settled, until, world

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
STATUS = "toolcrib://status"
OFF = {"skills": {"enabled": False}}
TOOLS = [tool("feed"), tool("hide")]


async def status_of(client: Client) -> dict[str, Any]:
    """Return what the resource holds."""
    [found] = (await client.ask("resources/read", {"uri": STATUS}))["contents"]
    assert (found["uri"], found["mimeType"]) == (STATUS, "application/json")
    return json.loads(found["text"])


async def server_of(client: Client, key: str = "zoo") -> dict[str, Any]:
    """Return what it tells of one server."""
    [found] = [server for server in (await status_of(client))["servers"] if server["server"] == key]
    return found


# -- always there --------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("config", [OFF, {**OFF, "tool_search": {"enabled": False}}, skills()], ids=json.dumps)
async def test_it_is_read_whatever_is_switched_off_and_listed_but_by_a_plain_proxy(tmp_path, era, config):
    async with world(tmp_path, {"zoo": TOOLS}, config, listing="auto") as w, w.client(era) as client:
        assert client.server_capabilities.resources is not None
        listed = (await client.ask("resources/list"))["resources"]
        # A plain proxy lists nothing of its own.
        assert (STATUS in [each["uri"] for each in listed]) is ("tool_search" not in config)
        status = await status_of(client)
    assert (status["skills"] is None) is ("enabled" in config["skills"])
    assert [server["server"] for server in status["servers"]] == ["zoo"]


async def test_it_tells_version_session_listing_counts_and_what_was_used(tmp_path):
    config = {**OFF, "servers": {"zoo": {"always_loaded_tools": ["hide"]}}}
    async with world(tmp_path, {"zoo": TOOLS}, config) as w, w.client() as client:
        await client.call("zoo__feed")
        status = await status_of(client)
        [called] = w.happened("tool_call")
    assert status["version"]
    assert status["session"] == called["session"]
    assert (status["client"], status["listing"], status["structured"]) == ("mcp", "auto", True)
    assert status["list_grows"] is True
    assert status["listing_reason"] == status["structured_reason"] == "this client is unknown"
    assert status["tools"] == {"allowed": 2, "deferred": 1, "activated": ["zoo__feed"]}
    assert status["semantic"]["state"] == "off"
    assert status["rebuilt"] == {}


@pytest.mark.parametrize("era", ERAS)
async def test_active_skills_are_told_with_the_tools_that_the_caller_may_use(tmp_path, era):
    put(repo(tmp_path), "feeding", tools=["zoo__feed", "zoo__hide", "ark__board"])
    config = {
        **skills(),
        "policy": {"deny": ["zoo.hide"]},
        "servers": {"zoo": {"default_loading_mode": "skill"}},
    }
    servers = {"zoo": TOOLS, "ark": MemoryServer([tool("board")])}
    async with world(tmp_path, servers, config, listing="auto") as w, w.client(era) as client:
        assert (await status_of(client))["skills"]["active"] == []
        await client.skill("get", names=["feeding"])
        tools = {"ark__board": "deferred", "zoo__feed": "ready"}
        assert (await status_of(client))["skills"]["active"] == [{"name": "feeding", "tools": tools}]
        await client.call("skill_deactivate", {"names": ["feeding"]})
        assert (await status_of(client))["skills"]["active"] == []


async def test_a_tool_of_an_active_skill_whose_server_has_failed_is_told_so(tmp_path):
    put(repo(tmp_path), "feeding", tools=["zoo__feed"])
    dead = MemoryServer(TOOLS)
    async with world(tmp_path, {"zoo": dead}, skills()) as w, w.client() as client:
        await client.skill("get", names=["feeding"])
        dead.start_error = OSError("no such program")
        await client.tool_call("zoo__feed")
        [active] = (await status_of(client))["skills"]["active"]
    assert active["tools"] == {"zoo__feed": "its server failed"}


# -- servers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_failed_server_is_told_with_the_reason_and_since_when(tmp_path, era):
    dead = MemoryServer(TOOLS, start_error=OSError("no such program"))
    async with (
        world(tmp_path, {"zoo": dead, "ark": [tool("board")]}, OFF, listing="auto") as w,
        w.client(era) as client,
    ):
        failed, other = await server_of(client), await server_of(client, "ark")
    assert failed["state"] == "failed"
    assert "no such program" in failed["reason"]
    assert abs(datetime.fromisoformat(failed["since"]).timestamp() - w.clock.now) < 60
    assert (failed["tools"], failed["listed_at"]) == (0, None)
    assert (other["state"], other["reason"], other["tools"]) == ("sleeping", "", 1)


@pytest.mark.usefixtures("just_started")
async def test_a_server_is_followed_through_its_life(tmp_path):
    hanging = MemoryServer(TOOLS, hangs_at="tools/list")
    async with world(tmp_path, {"zoo": hanging, "ark": [tool("board")]}, OFF, wait=False) as w, w.client() as client:
        starting = await server_of(client)
        assert (starting["state"], starting["reason"]) == ("starting", "starting, 0 s so far")
        await client.call("ark__board")
        ready = await server_of(client, "ark")
        assert ready["state"] == "ready"
        w.clock.now += 3600
        await w["ark"].hang_up()
        await settled()
        assert (await server_of(client, "ark"))["state"] != "ready"


async def test_when_a_server_was_listed_in_which_era_and_which_tools_were_refused(tmp_path):
    broken = {"name": "broken", "inputSchema": 1}
    async with world(tmp_path, {"zoo": [*TOOLS, broken]}, OFF) as w, w.client() as client:
        server = await server_of(client)
    assert datetime.fromisoformat(server["listed_at"]) == datetime.fromtimestamp(w.clock.now, UTC)
    assert server["protocol"] in ("legacy", "modern")
    assert [refused["name"] for refused in server["refused"]] == ["broken"]
    assert server["refused"][0]["reason"]


# -- who may know what ---------------------------------------------------------------------------

BROKEN = {"name": "secret_broken", "inputSchema": 1}
GUESTS = {"visibility": [{"when": {"profile": "guest"}, "deny": ["secret*", "vault.*"]}]}


@pytest.mark.parametrize("era", ERAS)
async def test_no_caller_learns_of_a_server_or_tool_that_is_kept_from_them(tmp_path, era):
    servers = {
        "zoo": MemoryServer([*TOOLS, tool("secret_drop"), BROKEN]),
        "vault": [tool("open")],
    }
    async with world(tmp_path, servers, {**OFF, "policy": GUESTS}, listing="auto") as w:
        async with w.client(era, caller=Caller("ann")) as client:
            owners = await status_of(client)
        servers["zoo"].start_error = OSError("secret_drop cannot be opened")
        await w["zoo"].hang_up()
        async with w.client(era, caller=Caller("bo", profile="guest")) as client:
            await client.tried("zoo__feed")
            guests = await status_of(client)
    assert {server["server"]: server["tools"] for server in owners["servers"]} == {"zoo": 3, "vault": 1}
    assert [refused["name"] for refused in owners["servers"][0]["refused"]] == ["secret_broken"]
    assert {server["server"]: server["tools"] for server in guests["servers"]} == {"zoo": 2}
    assert "[denied] cannot be opened" in guests["servers"][0]["reason"]
    assert guests["tools"]["allowed"] == 2
    assert not [word for word in ("secret", "vault") if word in json.dumps(guests)]


async def test_a_server_of_which_a_few_tools_are_allowed_is_told_once_they_are_known(tmp_path):
    config = {**OFF, "policy": {"allow": ["zoo.feed"]}}
    async with world(tmp_path, {"zoo": TOOLS, "ark": TOOLS}, config) as w, w.client() as client:
        assert [server["server"] for server in (await status_of(client))["servers"]] == ["zoo"]


async def test_tools_used_before_they_were_denied_are_not_told(tmp_path):
    kept = {**OFF, "tool_search": {"activation_scope": "session"}, "context": {"session_id": "s"}}
    async with world(tmp_path, {"zoo": TOOLS}, kept) as w, w.client() as client:
        await client.call("zoo__feed")
        await client.call("zoo__hide")
    async with world(tmp_path, {"zoo": TOOLS}, {**kept, "policy": {"deny": ["hide"]}}) as w, w.client() as client:
        assert (await status_of(client))["tools"]["activated"] == ["zoo__feed"]


# -- index files ---------------------------------------------------------------------------------


async def test_an_index_that_had_to_be_made_anew_is_told_with_the_reason(tmp_path):
    put(repo(tmp_path), "pdf-forms")
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("tool_cache.db", "skills.db"):
        (cache / name).write_bytes(b"no database at all" * 100)
    async with world(tmp_path, {"zoo": TOOLS}, skills()) as w, w.client() as client:
        rebuilt = (await status_of(client))["rebuilt"]
        told = {event["file"]: event["reason"] for event in w.happened("index_rebuilt")}
    assert set(rebuilt) == {"tool_cache.db", "skills.db"}
    assert rebuilt == told
    assert str(tmp_path) not in json.dumps(rebuilt)


async def test_it_counts_what_servers_offer_besides_tools_as_far_as_the_reader_may_use_it(tmp_path):
    offers = {
        "resources": [{"uri": "x://1", "name": "a"}, {"uri": "x://2", "name": "secret"}, {"uri": 7}],
        "resourceTemplates": [{"uriTemplate": "x://{y}", "name": "t"}],
        "prompts": [{"name": "p"}],
    }
    config = {**OFF, "policy": {"deny": ["secret"]}}
    async with world(tmp_path, {"zoo": MemoryServer(TOOLS, offers=offers)}, config) as w, w.client() as client:
        zoo, status = await server_of(client), await status_of(client)
    for told in (zoo, status):
        assert (told["resources"], told["resource_templates"], told["prompts"]) == (1, 1, 1)
    assert zoo["refused"] == [{"name": "#3", "reason": "has no uri"}]


NEWEST = {"protocol": "2026-07-28", "reason": "the newest"}
KNOWN = {"protocol": "2025-11-25", "reason": "the server spoke no other when it was listed"}
ASKS = {"protocol": "2025-11-25", "reason": "in it the server can ask its client"}
SET = {"protocol": "2025-11-25", "reason": "set by servers.zoo.protocol"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("spoken", "protocol", "client", "told"),
    [
        (("legacy", "modern"), "auto", "legacy", NEWEST),
        (("legacy", "modern"), "auto", "asked", ASKS),
        (("legacy", "modern"), "auto", "2026-07-28", NEWEST),
        (("legacy", "modern"), "legacy", "2026-07-28", SET),
        (("legacy",), "auto", "legacy", KNOWN),
        (("modern",), "auto", "asked", {**NEWEST, "reason": "the server speaks no other"}),
    ],
)
async def test_it_tells_which_protocol_is_spoken_with_a_server_and_why(tmp_path, spoken, protocol, client, told):
    asked: dict[str, Any] = {"elicitation_callback": _refuse} if client == "asked" else {}
    era = "legacy" if client == "asked" else client
    servers = {"zoo": MemoryServer(TOOLS, eras=spoken)}
    config = {**OFF, "servers": {"zoo": {"protocol": protocol}}}
    async with world(tmp_path, servers, config) as w, w.client(era, **asked) as connected:
        await connected.names()
        await until(lambda: w.happened("downstream_state")[-1]["state"] == "sleeping")
        assert (await server_of(connected))["connection"] is None
        await connected.tool_call("zoo__feed")
        assert (await server_of(connected))["connection"] == told
        ready = [event for event in w.happened("downstream_state") if event["state"] == "ready"]
        assert {
            key: ready[-1][f"protocol{suffix}"] for key, suffix in (("protocol", ""), ("reason", "_reason"))
        } == told


async def test_who_uses_another_connection_is_told_of_their_own(tmp_path):
    async with world(tmp_path, {"zoo": TOOLS}, OFF) as w, w.client(elicitation_callback=_refuse) as asked:
        async with w.client("2026-07-28") as other:
            await other.names()
            await asked.tool_call("zoo__feed")
            assert (await server_of(other))["connection"] is None
            await other.tool_call("zoo__feed")
            assert (await server_of(other))["connection"] == NEWEST
            assert (await server_of(asked))["connection"] == ASKS


async def _refuse(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")
