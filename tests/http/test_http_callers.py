"""Who is asking over HTTP: the token says it, and nothing that a client or a model writes can say otherwise."""

import json
from typing import Any

import anyio
import pytest

from fakes.menu import tool
from online import MODERN, Online, online
from worlds import BUILTINS, ERAS

pytestmark = pytest.mark.anyio

SERVERS = {"zoo": [tool("feed"), tool("hide")], "ark": [tool("sail")]}
TOKENS = [
    {"token": "token-ann", "subject": "ann", "tenant_id": "acme", "profile": "keeper"},
    {"token": "token-ann-reads", "subject": "ann", "tenant_id": "acme", "profile": "visitor"},
    {"token": "token-bob", "subject": "bob", "tenant_id": "bobs", "project_id": "boat"},
    {"token": "token-eve", "subject": "eve"},
]
VISIBILITY = [
    {"when": {"tenant_id": "acme", "profile": "keeper"}, "allow": ["zoo.*"]},
    {"when": {"profile": "visitor"}, "allow": ["zoo.*"], "deny": ["feed"]},
    {"when": {"project_id": "boat"}, "allow": ["ark.*"]},
]
BY_TOKEN = {
    "token-ann": ["zoo__feed", "zoo__hide"],
    "token-ann-reads": ["zoo__hide"],
    "token-bob": ["ark__sail"],
    "token-eve": [],
}


def config(**sections: Any) -> dict[str, Any]:
    shown = {"tool_search": {"default_loading_mode": "always"}}
    return {
        "http": {"tokens": TOKENS},
        "policy": {"allow": ["nothing"], "visibility": VISIBILITY},
        **shown,
        **sections,
    }


@pytest.mark.parametrize("era", ERAS)
async def test_the_token_decides_what_is_listed_found_and_called(tmp_path, era):
    async with online(tmp_path, SERVERS, config()) as it:
        for token, seen in BY_TOKEN.items():
            async with it.client(era, token) as client:
                assert await client.names() == [*BUILTINS, *seen]
                found = await client.found(".*", search_type="regex", include_always_loaded=True)
                assert sorted(found) == seen
                for name in ("zoo__feed", "zoo__hide", "ark__sail", "zoo__none"):
                    result = await client.tool_call(name)
                    assert bool(result.get("isError")) == (name not in seen)


async def test_what_a_token_does_not_show_is_as_unknown_as_what_does_not_exist(tmp_path):
    async with online(tmp_path, SERVERS, config()) as it:
        for token, seen in BY_TOKEN.items():
            told = set()
            for name in {"zoo__feed", "zoo__hide", "ark__sail", "zoo__none"} - set(seen):
                params = {"name": name, "arguments": {"a": 1}}
                answer = await it.modern("tools/call", params, authorization=f"Bearer {token}")
                told.add((answer.status_code, answer.text.replace(name, "NAME")))
            assert len(told) == 1


async def test_a_leaked_session_id_is_worth_nothing_to_another_caller(tmp_path):
    async with online(tmp_path, SERVERS, config()) as it:
        session = await it.session("token-ann")
        await session.call("zoo__feed")
        for token in ("token-bob", "token-eve"):
            stolen = {**session.headers, "authorization": f"Bearer {token}"}
            assert (await it.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **stolen)).status_code == 404
            assert (await it.http.get(it.url, headers={**stolen, "accept": "text/event-stream"})).status_code == 404
            assert (await it.http.delete(it.url, headers=stolen)).status_code == 404
        bare = {name: value for name, value in session.headers.items() if name != "authorization"}
        assert (await it.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, **bare)).status_code == 401
        assert "zoo__feed" in await session.names()


async def test_another_token_of_the_same_caller_sees_with_its_own_eyes_in_the_same_session(tmp_path):
    async with online(tmp_path, SERVERS, config()) as it:
        session = await it.session("token-ann")
        assert await session.names() == [*BUILTINS, "zoo__feed", "zoo__hide"]
        session.headers["authorization"] = "Bearer token-ann-reads"
        assert await session.names() == [*BUILTINS, "zoo__hide"]
        assert (await session.call("zoo__feed"))[-1]["error"]["message"] == "Unknown tool: zoo__feed"
        session.headers["authorization"] = "Bearer token-ann"
        assert await session.names() == [*BUILTINS, "zoo__feed", "zoo__hide"]


CLAIMS = {
    "principal": "ann", "subject": "ann", "tenant_id": "acme", "project_id": "boat", "profile": "keeper",
    "session_id": "of-ann", "caller": {"tenant_id": "acme"}, "authorization": "Bearer token-ann",
}  # fmt: skip


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_that_a_client_writes_makes_it_somebody_else(tmp_path, era):
    headers = {f"x-{name.replace('_', '-')}": json.dumps(value) for name, value in CLAIMS.items()}
    async with online(tmp_path, SERVERS, config()) as it, it.client(era, "token-eve", headers) as eve:
        for method, params in (
            ("tools/list", {}),
            ("tools/list", CLAIMS),
            ("tools/list", {"_meta": {**CLAIMS, "toolcrib/caller": CLAIMS}}),
        ):
            listed = await eve.ask(method, params)
            assert [tool["name"] for tool in listed["tools"]] == BUILTINS
        for arguments in ({"name": "zoo__feed", **CLAIMS}, {"name": "zoo__feed", "arguments": CLAIMS}):
            assert (await eve.call("tool_call", arguments, _meta=CLAIMS))["isError"]
        assert (await eve.call("tool_search", {"query": "feed", **CLAIMS}))["isError"]
        assert await eve.found("feed", include_always_loaded=True) == []
        assert it.world["zoo"].calls() == []


async def test_arguments_that_look_like_a_caller_go_to_the_server_as_they_are(tmp_path):
    async with online(tmp_path, SERVERS, config()) as it, it.client(MODERN, "token-ann") as ann:
        await ann.call("zoo__feed", CLAIMS)
        assert it.world["zoo"].calls()[0]["arguments"] == CLAIMS


# -- sessions that outlive their connection (R73 to R79) -----------------------------------------

KEPT = {"tool_search": {"activation_scope": "session"}, "policy": {}}


async def listed(it: Online, token: str, session_id: str | None) -> list[str]:
    headers = {} if session_id is None else {"x-toolcrib-session": session_id}
    async with it.client("legacy", token, headers) as client:
        return (await client.names())[len(BUILTINS) :]


async def use(it: Online, token: str, session_id: str | None, name: str) -> None:
    headers = {} if session_id is None else {"x-toolcrib-session": session_id}
    async with it.client("legacy", token, headers) as client:
        assert not (await client.call(name)).get("isError")


async def test_a_named_session_is_kept_for_its_caller_and_id_alone(tmp_path):
    async with online(tmp_path, SERVERS, config(**KEPT)) as it:
        await use(it, "token-ann", "work", "zoo__feed")
        assert await listed(it, "token-ann", "work") == ["zoo__feed"]
        assert await listed(it, "token-ann-reads", "work") == []
        assert await listed(it, "token-ann", "play") == []
        assert await listed(it, "token-ann", None) == []
        assert await listed(it, "token-ann", "") == []
        assert await listed(it, "token-bob", "work") == []
    async with online(tmp_path, SERVERS, config(**KEPT)) as restarted:
        assert await listed(restarted, "token-ann", "work") == ["zoo__feed"]
        assert await listed(restarted, "token-bob", "work") == []


async def test_without_the_header_a_session_is_gone_with_its_connection(tmp_path):
    async with online(tmp_path, SERVERS, config(**KEPT)) as it:
        await use(it, "token-ann", None, "zoo__feed")
        assert await listed(it, "token-ann", None) == []


async def test_the_header_means_nothing_in_run_scope(tmp_path):
    async with online(tmp_path, SERVERS, config(policy={}, tool_search={})) as it:
        await use(it, "token-ann", "work", "zoo__feed")
        assert await listed(it, "token-ann", "work") == []


async def test_a_kept_session_shows_nothing_that_its_caller_may_no_longer_use(tmp_path):
    async with online(tmp_path, SERVERS, config(**KEPT)) as it:
        await use(it, "token-ann", "work", "zoo__feed")
    async with online(tmp_path, SERVERS, config(**{**KEPT, "policy": {"deny": ["feed"]}})) as it:
        assert await listed(it, "token-ann", "work") == []


async def test_two_ids_on_one_connection_are_two_sessions(tmp_path):
    async with online(tmp_path, SERVERS, config(**KEPT)) as it:
        session = await it.session("token-ann")
        for session_id, name in (("one", "zoo__feed"), ("two", "zoo__hide")) * 3:
            session.headers["x-toolcrib-session"] = session_id
            await session.call(name)
            assert await session.names() == [*BUILTINS, name]


async def test_concurrent_calls_of_one_named_session_activate_each_tool_once(tmp_path):
    names = [f"tool_{number:02}" for number in range(20)]
    async with online(tmp_path, {"zoo": [tool(name) for name in names]}, config(**KEPT)) as it:
        sessions = [await it.session("token-ann", x_toolcrib_session="work") for _ in range(3)]
        announced: list[str] = []

        async def call(session, name):
            frames = await session.call(f"zoo__{name}")
            announced.extend([name] * (len(frames) - 1))
            assert "result" in frames[-1]

        async with anyio.create_task_group() as tasks:
            for name in names:
                for session in sessions:
                    tasks.start_soon(call, session, name)
        assert sorted(announced) == names
        assert len(it.world.happened("tool_activated")) == len(names)
        for session in sessions:
            assert await session.names() == [*BUILTINS, *(f"zoo__{name}" for name in names)]
    async with online(tmp_path, {"zoo": [tool(name) for name in names]}, config(**KEPT)) as restarted:
        assert len(await listed(restarted, "token-ann", "work")) == len(names)


async def test_one_connection_cannot_fill_the_memory_with_session_ids(tmp_path):
    async with online(tmp_path, SERVERS, config(**KEPT)) as it:
        session = await it.session("token-ann")
        for number in range(100):
            session.headers["x-toolcrib-session"] = f"id-{number}"
            await session.names()
        assert len(list(it.world.serving.sessions.open())) <= 64
