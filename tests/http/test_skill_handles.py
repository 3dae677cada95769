"""Skills that are active for clients without a session over HTTP: a handle tells the scope of a call (C20, R202)."""

import json
import re

import pytest
from mcp import MCPError
from mcp_types import Implementation
from shelving import put, repo, skills

from fakes.menu import tool
from online import LEGACY, MODERN, online
from worlds import OWN_TOOLS, Client

pytestmark = pytest.mark.anyio

SERVERS = {"git": [tool("log"), tool("diff"), tool("push")]}
TOKENS = [{"token": f"token-of-{name}", "subject": name} for name in ("ann", "bob")]
HANDLE = re.compile(r'"handle": "([\w-]{22,})"')
TAKERS = ["tool_search", "tool_call", "tool_call_read", "skill_get", "skill_activate", "skill_deactivate"]


def config(**section) -> dict:
    return {
        **skills(),
        "servers": {"git": {"default_loading_mode": "skill"}},
        "gate": {"listing": "auto"},
        "http": {"tokens": TOKENS},
        **section,
    }


@pytest.fixture
def shelf(tmp_path):
    put(repo(tmp_path), "git-review", tools=["git__log", "git__diff"])
    put(repo(tmp_path), "git-release", tools=["git__log", "git__push"])
    return tmp_path


async def handle_of(client: Client, *names: str, **arguments) -> str:
    """Load skills, and return the handle that came with them."""
    text = (await client.skill("get", names=list(names), **arguments))["formatted_context"]
    [handle] = HANDLE.findall(text)
    return handle


async def open_names(client: Client, **handle: str) -> set[str]:
    """Return the tools that are found, with a handle or without; just those can be called."""
    found = set(await client.found("git", search_type="regex", **handle))
    for name in ("git__log", "git__diff", "git__push"):
        result = await client.call("tool_call", {"name": name, **handle})
        assert result.get("isError", False) == (name not in found)
    return found


async def test_a_handle_reaches_the_tools_of_its_skills_and_nothing_else_does(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann") as client:
        before = await client.tools()
        handle = await handle_of(client, "git-review")
        assert await client.tools() == before
        assert await open_names(client) == set()
        assert await open_names(client, handle=handle) == {"git__log", "git__diff"}
        with pytest.raises(MCPError, match="Unknown tool: git__log"):
            await client.call("git__log")


async def test_each_load_has_a_scope_of_its_own_unless_it_names_one(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann") as client:
        one, other = await handle_of(client, "git-review"), await handle_of(client, "git-release")
        assert one != other
        assert await open_names(client, handle=one) == {"git__log", "git__diff"}
        assert await handle_of(client, "git-release", handle=one) == one
        assert await open_names(client, handle=one) == {"git__log", "git__diff", "git__push"}
        result = await client.call("skill_deactivate", {"names": ["git-review"], "handle": one})
        assert result["structuredContent"] == {"active": ["git-release"]}
        assert await open_names(client, handle=one) == {"git__log", "git__push"}


async def test_a_skill_that_is_activated_without_its_text_brings_a_handle_too(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann") as client:
        result = await client.call("skill_activate", {"names": ["git-review"]})
        [handle] = HANDLE.findall(result["content"][0]["text"])
        assert await open_names(client, handle=handle) == {"git__log", "git__diff"}


async def test_a_handle_is_good_for_its_principal_alone_and_only_for_a_time(shelf):
    now = [1000.0]
    given = config(limits={"skill_handles_s": 60})
    async with (
        online(shelf, SERVERS, given, clock=lambda: now[0]) as it,
        it.client(MODERN, "token-of-ann") as ann,
        it.client(MODERN, "token-of-bob") as bob,
    ):
        handle = await handle_of(ann, "git-review")
        refusals = [await bob.call("tool_call", {"name": "git__log", "handle": handle})]
        refusals.append(await ann.call("tool_search", {"query": "log", "handle": "x" * 22}))
        now[0] += 59
        assert await open_names(ann, handle=handle) == {"git__log", "git__diff"}
        now[0] += 59  # it lasts from its last use on
        assert await open_names(ann, handle=handle) == {"git__log", "git__diff"}
        now[0] += 61
        refusals.append(await ann.call("tool_call", {"name": "git__log", "handle": handle}))
    assert {result["isError"] for result in refusals} == {True}
    assert len({result["content"][0]["text"] for result in refusals}) == 1


async def test_a_session_header_is_a_scope_without_a_handle(shelf):
    named = {"x-toolcrib-session": "mine"}
    async with online(shelf, SERVERS, config()) as it:
        async with it.client(MODERN, "token-of-ann", named) as client:
            answer = await client.skill("get", names=["git-review"])
            assert not HANDLE.search(answer["formatted_context"])
            assert "handle" not in str(await client.tools())
        async with it.client(MODERN, "token-of-ann", named) as client:
            assert await open_names(client) == {"git__log", "git__diff"}
        async with it.client(MODERN, "token-of-bob", named) as client:
            assert await open_names(client) == set()


@pytest.mark.parametrize("era", [MODERN, pytest.param("legacy", marks=pytest.mark.slow)])
@pytest.mark.parametrize("other", [{"tenant_id": "blue"}, {"tenant_id": "red", "project_id": "two"}, {}], ids=str)
async def test_a_kept_session_id_is_another_scope_for_each_tenant_and_project_of_a_subject(shelf, era, other):
    red = {"tenant_id": "red"}
    tokens = [{"token": f"token-{name}", "subject": "ann", **of} for name, of in (("red", red), ("other", other))]
    given = config(
        context=red,
        http={"tokens": tokens},
        skills={**skills()["skills"], "scope_mode": "project" if "project_id" in other else "tenant"},
        tool_search={"activation_scope": "session"},
    )
    named = {"x-toolcrib-session": "mine"}
    for began in ("", "restarted"):
        async with online(shelf, SERVERS, given) as it:
            async with it.client(era, "token-red", named) as client:
                if not began:
                    await client.skill("get", names=["git-review"])
                assert await open_names(client) == {"git__log", "git__diff"}
            async with it.client(era, "token-other", named) as client:
                assert await open_names(client) == set()
                result = await client.call("skill_deactivate", {"names": ["none"]})
                assert "git-review" not in json.dumps(result)


async def test_a_session_of_the_handshake_era_needs_no_handle(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client("legacy", "token-of-ann") as client:
        assert client.protocol_version == LEGACY
        answer = await client.skill("get", names=["git-review"])
        assert not HANDLE.search(answer["formatted_context"])
        assert "handle" not in str([each["inputSchema"] for each in await client.tools()])
        assert await open_names(client) == {"git__log", "git__diff"}


async def test_the_parameter_is_shown_where_it_is_taken_and_only_where_tools_are_scoped(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann") as client:
        shown = {each["name"]: each["inputSchema"]["properties"] for each in await client.tools()}
        assert [name for name in shown if "handle" in shown[name]] == TAKERS
        result = await client.call("tool_call", {"name": "git__log", "handle": 7})
        assert "handle" in result["content"][0]["text"]
    async with online(shelf, SERVERS, config(servers={})) as it, it.client(MODERN, "token-of-ann") as client:
        assert await client.names() == OWN_TOOLS
        assert "handle" not in str([each["inputSchema"] for each in await client.tools()])
        result = await client.call("tool_call", {"name": "git__log", "handle": "x" * 22})
        assert "handle: is not known here" in result["content"][0]["text"]


@pytest.mark.parametrize("section", [{}, {"skills": {"core_pack": False, "outcomes": True}}], ids=["scoped", "all"])
async def test_what_scoped_tools_and_outcomes_add_to_a_prompt_is_small(shelf, section):
    read = []
    for given in (config(**section), config(servers={})):
        async with online(shelf, SERVERS, given) as it, it.client(MODERN, "token-of-ann") as client:
            shown = [
                {key: each[key] for key in ("name", "description", "inputSchema")} for each in await client.tools()
            ]
            read.append(len(json.dumps(shown, separators=(",", ":"))))
    # Measured: such JSON has 4.17 characters a token of cl100k, and 300 tokens are allowed for all that is conditional.
    assert read[0] - read[1] < (300 if section else 250) * 4.17


async def test_the_prompt_of_a_person_brings_a_handle_too(shelf):
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann") as client:
        result = await client.ask("prompts/get", {"name": "skill", "arguments": {"name": "git-review"}})
        [handle] = HANDLE.findall(result["messages"][0]["content"]["text"])
        assert await open_names(client, handle=handle) == {"git__log", "git__diff"}


# -- what came of skills -------------------------------------------------------------------------

REPORTING = {"skills": {"core_pack": False, "outcomes": True}}


async def reported(client: Client, **arguments) -> bool:
    """Report that a skill did what it was for, and return whether that was taken."""
    result = await client.call("skill_report_outcome", {"name": "git-review", "success": True, **arguments})
    if result["isError"]:
        assert "no outcome to report" in result["content"][0]["text"]
    return not result["isError"]


@pytest.mark.parametrize("scoped", [True, False])
async def test_who_has_a_handle_reports_what_came_of_the_skills_that_came_with_it(shelf, scoped):
    given = config(**REPORTING) if scoped else config(**REPORTING, servers={})
    async with online(shelf, SERVERS, given) as it, it.client(MODERN, "token-of-ann") as client:
        text = (await client.skill("get", names=["git-review"]))["formatted_context"]
        handle = set(HANDLE.findall(text))
        assert len(handle) == 1
        [handle] = handle
        other = set(HANDLE.findall((await client.skill("get", names=["git-release"]))["formatted_context"])).pop()
        assert not await reported(client)
        assert not await reported(client, handle=other)
        assert await reported(client, handle=handle)
        assert not await reported(client, handle=handle)
        await client.skill("get", names=["git-review"], force=True, handle=handle)
        assert await reported(client, handle=handle)


async def test_a_handle_of_another_reports_nothing(shelf):
    async with (
        online(shelf, SERVERS, config(**REPORTING, servers={})) as it,
        it.client(MODERN, "token-of-ann") as ann,
        it.client(MODERN, "token-of-bob") as bob,
    ):
        handle = await handle_of(ann, "git-review")
        result = await bob.call("skill_report_outcome", {"name": "git-review", "success": False, "handle": handle})
        assert result["isError"]
        assert "handle is not yours" in result["content"][0]["text"]
        assert await reported(ann, handle=handle)


async def test_what_was_sent_with_a_handle_is_only_named_to_who_asks_with_it_again(shelf):
    async with (
        online(shelf, SERVERS, config(**REPORTING, servers={})) as it,
        it.client(MODERN, "token-of-ann") as client,
    ):
        handle = await handle_of(client, "git-review")
        again = await client.skill("get", names=["git-review"], handle=handle)
        assert "Already sent" in again["formatted_context"]
        assert "Already sent" not in (await client.skill("get", names=["git-review"]))["formatted_context"]


async def test_where_only_outcomes_take_a_handle_nothing_else_shows_the_parameter(shelf):
    async with (
        online(shelf, SERVERS, config(**REPORTING, servers={})) as it,
        it.client(MODERN, "token-of-ann") as client,
    ):
        shown = {each["name"]: each["inputSchema"]["properties"] for each in await client.tools()}
        assert [name for name in shown if "handle" in shown[name]] == ["skill_get", "skill_report_outcome"]
    async with (
        online(shelf, SERVERS, config(**REPORTING, servers={})) as it,
        it.client("legacy", "token-of-ann") as client,
    ):
        assert "handle" not in str([each["inputSchema"] for each in await client.tools()])
        assert not HANDLE.search((await client.skill("get", names=["git-review"]))["formatted_context"])
        assert await reported(client)


async def test_many_session_ids_of_one_subject_leave_what_was_sent_to_another(shelf):
    mine = {"x-toolcrib-session": "mine"}
    async with online(shelf, SERVERS, config()) as it, it.client(MODERN, "token-of-ann", mine) as ann:
        await ann.skill("get", names=["git-review"])
        for number in range(80):
            bobs = await it.modern("tools/list", authorization="Bearer token-of-bob", x_toolcrib_session=str(number))
            assert bobs.status_code == 200
        again = await ann.skill("get", names=["git-review"])
        assert "Already sent" in again["formatted_context"]


async def test_each_session_of_a_subject_is_told_with_its_own_active_skills(shelf):
    async with online(shelf, SERVERS, config()) as it:
        for name in ("git-review", "git-release"):
            info = Implementation(name=name, version="1")
            async with it.client(MODERN, "token-of-ann", {"x-toolcrib-session": name}, client_info=info) as client:
                await client.skill("get", names=[name])
        told = {session.client: session.skills.skills for session in it.world.serving.sessions.seen()}
    assert {client: [skill.name for skill in skills] for client, skills in told.items()} == {
        "git-review": ["git-review"],
        "git-release": ["git-release"],
    }
