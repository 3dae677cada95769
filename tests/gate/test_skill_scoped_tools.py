"""Tools that are there only while a skill that names them is active: loading mode `skill` (R202 to R211, C20)."""

import json
from functools import partial
from time import process_time

import pytest
from mcp import MCPError
from shelving import put, repo, skills, user

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.policy.sessions import RunActivations, Session
from toolcrib.skills.answers import GetRequest
from worlds import BUILTINS, ERAS, MODERN, OWN_TOOLS, SKILL_TOOLS, Client, MemoryServer, text, world

pytestmark = pytest.mark.anyio

SERVERS = {"git": [tool("log"), tool("diff"), tool("push")], "db": [tool("query"), tool("drop")]}
SWITCHES = ["skill_activate", "skill_deactivate"]
OWN = [*OWN_TOOLS, *SWITCHES]
UNKNOWN = "Unknown tool: {}"


def config(**section) -> dict:
    """Return a config in which all tools of git are there by skills alone."""
    return {**skills(), "servers": {"git": {"default_loading_mode": "skill"}}, **section}


@pytest.fixture
def shelf(tmp_path):
    """A folder with a skill that names two tools of git, and one that shares one of them."""
    put(repo(tmp_path), "git-review", "Reviews a change.", tools=["git__log", "mcp__git__diff"])
    put(repo(tmp_path), "git-release", "Makes a release.", tools=["git.log", "git.push"])
    put(repo(tmp_path), "letters", "Writes letters.")
    return tmp_path


async def is_callable(client: Client, name: str) -> bool:
    """Return whether a tool runs, by either door alike."""
    result, direct = await client.tool_call(name), await client.tried(name)
    ran = not result.get("isError")
    assert ran != isinstance(direct, MCPError)
    if not ran:
        assert result["content"][0]["text"].startswith(UNKNOWN.format(name))
        assert str(direct) == UNKNOWN.format(name)
    return ran


async def open_names(client: Client) -> set[str]:
    """Return the tools of git that are found, listed or not; those, and no others, can be called."""
    search = partial(client.found, "git", search_type="regex", include_always_loaded=True, limit=20)
    found = set(await search())
    for name in ("git__log", "git__diff", "git__push"):
        assert await is_callable(client, name) == (name in found)
    return found


async def load(client: Client, *names: str, **arguments) -> str:
    return (await client.skill("get", names=list(names), **arguments))["formatted_context"]


async def let_go(client: Client, *names: str) -> dict:
    return (await client._answered("skill_deactivate", {"names": list(names)}))["structuredContent"]


async def activate(client: Client, *names: str) -> dict:
    return (await client._answered("skill_activate", {"names": list(names)}))["structuredContent"]


# -- before, while, after ------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["hint", "auto"])
async def test_in_a_list_that_grows_they_come_with_the_skill_and_go_with_it(shelf, activation):
    given = config(skills={"core_pack": False, "tool_activation": activation})
    async with world(shelf, SERVERS, given, listing="dynamic") as w, w.client() as client:
        assert await client.names() == OWN
        assert await open_names(client) == set()
        assert client.list_changes == 0
        await load(client, "git-review")
        assert client.list_changes == 1
        assert await client.names() == [*OWN, "git__diff", "git__log"]
        assert await open_names(client) == {"git__diff", "git__log"}
        assert client.list_changes == 1
        assert await let_go(client, "git-review") == {"active": []}
        assert client.list_changes == 2
        assert await client.names() == OWN
        assert await open_names(client) == set()


@pytest.mark.parametrize("era", ERAS)
async def test_in_a_constant_list_search_and_call_know_them(shelf, era):
    async with world(shelf, SERVERS, config(), listing="stable") as w, w.client(era) as client:
        assert await open_names(client) == set()
        before = await client.tools()
        await load(client, "git-review")
        assert await client.tools() == before
        assert client.list_changes == 0
        assert await open_names(client) == {"git__diff", "git__log"}
        await let_go(client, "git-review")
        assert await open_names(client) == set()


@pytest.mark.parametrize("era", ERAS)
async def test_the_block_has_names_states_and_signatures_where_no_list_shows_them(shelf, era):
    servers = {"git": [tool("log", params={"path": "string"}), tool("diff")]}
    async with world(shelf, servers, config(), listing="stable") as w, w.client(era) as client:
        lines = (await load(client, "git-review")).splitlines()
    assert lines[:3] == ["SKILL TOOLS: git-review", "- git__log(path?: string) [ready]", "- git__diff() [ready]"]
    assert "tool_call" in lines[3]


async def test_hits_and_definitions_name_the_skill_that_they_are_there_by(shelf):
    async with world(shelf, SERVERS, config(), listing="dynamic") as w, w.client() as client:
        await load(client, "git-review")
        [hit] = (await client.search("git__log", search_type="exact"))["tools"]
        assert (hit["loading_mode"], hit["owner"], hit["activated"]) == ("skill", "git-review", True)
        meta = {each["name"]: each["_meta"] for each in await client.tools()}["git__log"]
        assert meta["toolcrib/source"] == {"kind": "skill", "owner": "git-review", "server": "git", "tool": "log"}
        await client.call("db__query")
        meta = {each["name"]: each["_meta"] for each in await client.tools()}["db__query"]
        assert meta["toolcrib/source"] == {"kind": "server", "owner": "db", "tool": "query"}


async def test_a_hit_of_a_tool_that_was_used_says_that_it_is_activated_while_a_skill_opens_others(shelf):
    async with world(shelf, SERVERS, config(), listing="dynamic") as w, w.client() as client:
        await client.call("db__query")
        await load(client, "git-review")
        hits = (await client.search("git__log|db__", search_type="regex", include_always_loaded=True))["tools"]
    assert {hit["name"]: hit.get("activated", False) for hit in hits} == {
        "git__log": True,
        "db__query": True,
        "db__drop": False,
    }


async def test_they_are_no_deferred_tools(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        assert (await client.search("query"))["total_deferred"] == 2
        await load(client, "git-review")
        assert (await client.search("query"))["total_deferred"] == 2


# -- which they are ------------------------------------------------------------------------------

WAYS = {
    "server": {"servers": {"git": {"default_loading_mode": "skill"}}},
    "every server": {"tool_search": {"default_loading_mode": "skill", "always_loaded_patterns": ["db.*"]}},
    "pattern": {"tool_search": {"skill_scoped_patterns": ["git.*"]}},
    "bare pattern": {"tool_search": {"skill_scoped_patterns": ["log", "diff", "pu*"]}},
    "skill": {"skill_tools": {"git-review": {"tools": ["mcp__git__*"], "scoped": True}}},
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_a_pattern_or_a_skill_scopes_them(shelf, way):
    async with world(shelf, SERVERS, {**skills(), **WAYS[way]}) as w, w.client() as client:
        assert await open_names(client) == set()
        assert await is_callable(client, "db__query")
        await load(client, "git-review")
        opened = {"git__diff", "git__log", *(["git__push"] if way == "skill" else [])}
        assert await open_names(client) == opened


async def test_the_first_rule_that_speaks_decides(shelf):
    given = {
        **skills(),
        "policy": {"deny": ["db.drop"]},
        "tool_search": {
            "always_loaded_patterns": ["git.log"],
            "skill_scoped_patterns": ["git.*", "db.drop"],
        },
        "servers": {
            "git": {"always_loaded_tools": ["diff"]},  # per tool comes after the pattern
            "db": {"default_loading_mode": "skill", "always_loaded_tools": ["query"]},  # and before the server
        },
    }
    async with world(shelf, SERVERS, given) as w, w.client() as client:
        assert await client.names() == [*OWN, "db__query", "git__log"]
        assert not await is_callable(client, "git__diff")
        assert not await is_callable(client, "db__drop")


@pytest.mark.parametrize("era", ERAS)
async def test_a_denied_tool_is_nowhere(shelf, era):
    given = config(policy={"deny": ["git.log"]})
    async with world(shelf, SERVERS, given, listing="auto") as w, w.client(era) as client:
        said = await load(client, "git-review", format="raw") + await load(client, "git-review", force=True)
        assert "log" not in said
        assert "1 tool that it names: not available now." in said
        assert await open_names(client) == {"git__diff"}


async def test_what_a_host_may_run_unasked_opens_nothing(tmp_path):
    put(repo(tmp_path), "git-review", **{"allowed-tools": "git__log"})
    async with world(tmp_path, SERVERS, config()) as w, w.client() as client:
        await load(client, "git-review")
        assert await open_names(client) == set()


async def test_a_tool_that_comes_later_and_one_that_changes_are_open_too(shelf):
    async with world(shelf, {"git": [tool("diff")]}, config()) as w, w.client() as client:
        await load(client, "git-review")
        assert await client.names() == [*OWN, "git__diff"]
        await w.change("git", tool("diff", "Another text."), tool("log"))
        assert await client.names() == [*OWN, "git__diff", "git__log"]


# -- the set of active skills --------------------------------------------------------------------


async def test_a_tool_that_two_active_skills_name_stays_until_both_are_let_go(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        await load(client, "git-review", "git-release")
        assert client.list_changes == 1
        assert await open_names(client) == {"git__diff", "git__log", "git__push"}
        assert await let_go(client, "git-review") == {"active": ["git-release"]}
        assert await open_names(client) == {"git__log", "git__push"}
        [hit] = (await client.search("git__log", search_type="exact"))["tools"]
        assert hit["owner"] == "git-release"
        await let_go(client, "git-release")
        assert await open_names(client) == set()


async def test_an_exclusive_skill_takes_the_place_of_all_others(shelf):
    given = config(skill_tools={"git-release": {"exclusive": True}})
    async with world(shelf, SERVERS, given) as w, w.client() as client:
        await load(client, "git-review", "letters")
        await load(client, "git-release")
        assert await open_names(client) == {"git__log", "git__push"}
        gone = [(event["skill_name"], event["reason"]) for event in w.happened("skill_deactivated")]
        assert gone == [("git-review", "exclusive"), ("letters", "exclusive")]
        await load(client, "git-review", force=True)
        assert await open_names(client) == {"git__log", "git__push", "git__diff"}


async def test_of_several_exclusive_skills_in_one_call_the_last_named_is_active(shelf):
    given = config(skill_tools={name: {"exclusive": True} for name in ("git-release", "git-review")})
    async with world(shelf, SERVERS, given) as w, w.client() as client:
        await load(client, "git-release", "git-review")
        assert await open_names(client) == {"git__log", "git__diff"}
        await load(client, "git-review", "git-release", force=True)
        assert await open_names(client) == {"git__log", "git__push"}


async def test_two_sessions_are_apart(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as one, w.client() as other:
        await load(one, "git-review")
        assert await open_names(other) == set()
        assert other.list_changes == 0
        assert await open_names(one) == {"git__diff", "git__log"}


async def test_the_end_of_the_session_lets_go(shelf):
    async with world(shelf, SERVERS, config()) as w:
        async with w.client() as client:
            await load(client, "git-review")
        async with w.client() as client:
            assert await open_names(client) == set()


async def test_one_process_on_stdio_is_one_scope_in_the_newer_era(shelf):
    async with world(shelf, SERVERS, config(), listing="stable") as w:
        async with w.client(MODERN) as client:
            await load(client, "git-review")
        async with w.client(MODERN) as client:
            assert await open_names(client) == {"git__diff", "git__log"}


async def test_a_kept_session_id_is_one_scope_over_reconnects(shelf):
    given = config(tool_search={"activation_scope": "session"}, context={"session_id": "s"})
    async with world(shelf, SERVERS, given) as w:
        async with w.client() as client:
            await load(client, "git-review")
        async with w.client() as client:
            assert await open_names(client) == {"git__diff", "git__log"}


async def test_what_two_processes_activate_under_one_session_id_is_all_kept(shelf):
    given = config(tool_search={"activation_scope": "session"}, context={"session_id": "s"})
    async with world(shelf, SERVERS, given) as one, one.client() as first:
        await first.names()  # the session has begun, and has read what is kept
        async with world(shelf, SERVERS, given) as other, other.client() as second:
            await load(second, "git-review", "letters")
            await load(first, "git-release")
            assert await open_names(first) == {"git__diff", "git__log", "git__push"}
            assert await let_go(second, "letters") == {"active": ["git-review", "git-release"]}
            assert await open_names(second) == {"git__diff", "git__log", "git__push"}
    async with world(shelf, SERVERS, given) as w, w.client() as client:
        assert await open_names(client) == {"git__diff", "git__log", "git__push"}
        assert await let_go(client, "letters") == {"active": ["git-review", "git-release"], "not_active": ["letters"]}


async def test_always_loaded_tools_and_those_activated_by_use_stay_when_a_skill_goes(tmp_path):
    put(repo(tmp_path), "all", "Uses all.", tools=["git.log", "db.query", "db.drop"])
    given = {**config(tool_search={"always_loaded_patterns": ["db.drop"]}), **skills(tool_activation="auto")}
    async with world(tmp_path, SERVERS, given) as w, w.client() as client:
        await load(client, "all")
        assert await client.names() == [*OWN, "db__drop", "db__query", "git__log"]
        await client.call("db__query")
        await client.call("git__log")
        assert client.list_changes == 1
        await let_go(client, "all")
        assert await client.names() == [*OWN, "db__drop", "db__query"]


async def test_a_reload_of_the_config_decides_anew(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        await load(client, "git-review")
        await w.reload(config(policy={"deny": ["git.log"]}))
        await w.listed()
        assert await open_names(client) == {"git__diff"}
        await w.reload(skills())
        await w.listed()
        assert await client.names() == [*OWN_TOOLS, "git__diff"]  # which was used
        assert await open_names(client) == {"git__diff", "git__log", "git__push"}


# -- what makes a skill active -------------------------------------------------------------------


async def test_only_a_text_that_was_delivered_makes_a_skill_active(shelf):
    put(user(shelf), "git-review", "Reviews otherwise.", tools=["git.log"])
    put(repo(shelf), "hidden", "Is switched off.", tools=["git.log"])
    given = config(skills={"core_pack": False, "disabled_skills": ["hidden"]})
    async with world(shelf, SERVERS, given, listing="dynamic") as w, w.client() as client:
        await load(client, "git-review")  # two have this name
        await load(client, "hidden", "nobody")
        await load(client, "git-release", file="SKILL.md")
        await client.ask("resources/read", {"uri": "skill://repo/git-release/SKILL.md"})
        assert await open_names(client) == set()
        await load(client, "repo/git-release", format="raw")
        assert await open_names(client) == {"git__log", "git__push"}


async def test_a_skill_that_is_only_named_for_lack_of_room_is_not_active(shelf):
    long = "# Long\n\n" + "1. Look at all of it once more, and write it down.\n" * 400
    names = [f"long-{number}" for number in range(9)]
    for name in names:
        put(repo(shelf), name, "Is long.", long, tools=["git.push"])
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        said = await load(client, *names, max_tokens=200)
        assert "<skill " not in said
        assert "git__push" not in said
        assert await open_names(client) == set()


async def test_a_suppressed_reload_of_a_skill_that_was_let_go_makes_it_active_again(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        await load(client, "git-review")
        await let_go(client, "git-review")
        again = await load(client, "git-review")
        assert "Already sent in this session" in again
        assert "<skill " not in again
        assert "- git__log [ready]" in again
        assert await open_names(client) == {"git__diff", "git__log"}
        assert "SKILL TOOLS" not in await load(client, "git-review")


async def test_a_prompt_that_a_person_picked_makes_its_skill_active(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        result = await client.ask("prompts/get", {"name": "skill", "arguments": {"name": "git-review"}})
        assert "SKILL TOOLS: git-review" in result["messages"][0]["content"]["text"]
        assert client.list_changes == 1
        assert await open_names(client) == {"git__diff", "git__log"}


async def test_a_skill_is_activated_and_let_go_without_its_text(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        said = await activate(client, "git-review", "nobody")
        assert (said["active"], said["not_found"]) == (["git-review"], ["nobody"])
        assert "- git__log [ready]" in said["note"]
        assert "Open the thing" not in json.dumps(said)
        assert client.list_changes == 1
        assert await open_names(client) == {"git__diff", "git__log"}
        for spelling in ("skill://repo/git-review/SKILL.md", "repo/git-review", "$git-review"):
            await activate(client, "git-review")
            assert await let_go(client, spelling) == {"active": []}
        await activate(client, "git-review")
        assert await let_go(client, "nobody") == {"active": ["git-review"], "not_active": ["nobody"]}
        reasons = [event["reason"] for event in w.happened("skill_deactivated")]
        assert reasons == ["explicit"] * 3


async def test_events_tell_what_a_skill_opens_and_why_a_call_is_refused(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        await client.tool_call("git__log")
        await load(client, "git-review")
        [refused] = w.happened("tool_activation_denied")
        assert (refused["tool_name"], refused["reason"]) == ("git__log", "skill")
        opened = [(event["tool_name"], event["source"], event["reason"]) for event in w.happened("tool_activated")]
        assert opened == [("git__diff", "skill", "skill"), ("git__log", "skill", "skill")]


# -- tools that are only deferred ----------------------------------------------------------------


@pytest.mark.parametrize("listing", ["dynamic", "stable"])
async def test_a_skill_that_is_to_activate_lists_its_deferred_tools_while_it_is_active(shelf, listing):
    given = skills(tool_activation="auto")
    async with world(shelf, SERVERS, given, listing=listing) as w, w.client() as client:
        said = await load(client, "git-review")
        assert "- git__log" in said
        assert "[deferred]" not in said
        listed = ["git__diff", "git__log"] if listing == "dynamic" else []
        assert await client.names() == [*OWN_TOOLS, *listed]
        hits = (await client.search("git", search_type="regex"))["tools"]
        assert {hit["name"]: hit.get("activated", False) for hit in hits} == {
            "git__diff": True,
            "git__log": True,
            "git__push": False,
        }


LISTS = {
    "grows": ({"gate": {"listing": "dynamic"}}, {"reader": {"db__query"}, "dropper": set(), "logger": {"git__log"}}),
    "constant": ({"gate": {"listing": "stable"}}, {"reader": set(), "dropper": set(), "logger": set()}),
    "plain proxy": (
        {"tool_search": {"enabled": False}},
        {"reader": set(), "dropper": set(), "logger": {"git__log"}},
    ),
    "few tools": (
        {"gate": {"listing": "dynamic", "pass_through_below": 9}},
        {"reader": set(), "dropper": set(), "logger": {"git__log"}},
    ),
}
"""Kinds of lists, and what each skill adds to one."""


@pytest.mark.parametrize("kind", LISTS)
async def test_a_client_is_told_of_a_skill_that_comes_or_goes_where_that_changes_its_list_and_only_there(
    tmp_path, kind
):
    put(repo(tmp_path), "reader", "Reads.", tools=["db.query"])
    put(repo(tmp_path), "dropper", "Drops what the session has used already.", tools=["db.drop"])
    put(repo(tmp_path), "logger", "Logs.", tools=["git.log"])
    section, added = LISTS[kind]
    given = config(skills={"core_pack": False, "tool_activation": "auto"}, **section)
    async with world(tmp_path, SERVERS, given) as w, w.client() as client:
        unused = await client.names()
        await client.call("db__drop")
        before, told = set(await client.names()), client.list_changes
        assert told == (1 if kind == "grows" else 0)
        assert before - set(unused) == ({"db__drop"} if kind == "grows" else set())
        for skill, names in added.items():
            for change, expected in ((activate, before | names), (let_go, before)):
                await change(client, skill)
                told += bool(names)
                assert set(await client.names()) == expected, skill
                assert client.list_changes == told, skill


async def test_a_tool_that_a_skill_has_listed_stays_after_its_first_use_and_neither_is_told(shelf):
    async with world(shelf, SERVERS, skills(tool_activation="auto"), listing="dynamic") as w, w.client() as client:
        await load(client, "git-review")
        told = client.list_changes
        listed = await client.names()
        await client.call("git__log")
        assert (await client.names(), client.list_changes) == (listed, told)


async def test_the_list_of_a_plain_proxy_stays_as_it_is_where_each_request_stands_alone(shelf):
    given = config(tool_search={"enabled": False})
    async with world(shelf, SERVERS, given) as w, w.client(MODERN) as client:
        before = await client.names()
        await load(client, "git-review")
        assert await client.names() == before
        assert not [name for name in before if name.startswith("git__")]


async def test_by_default_a_skill_only_tells_of_its_deferred_tools(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        assert "- git__log [deferred]" in await load(client, "git-review")
        assert await client.names() == OWN_TOOLS
        assert w.happened("tool_activated") == []
        assert client.list_changes == 0


# -- where nothing is scoped ---------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_without_scoped_tools_every_list_is_the_same_to_the_byte(shelf, era):
    lists = []
    for given in (skills(), {**skills(), "skill_tools": {"git-review": ["git.log"]}}):
        async with world(shelf, SERVERS, given, listing="auto") as w, w.client(era) as client:
            before = await client.tools()
            await load(client, "git-review")
            lists += [json.dumps(before), json.dumps(await client.tools())]
    assert len(set(lists)) == 1


async def test_the_tools_that_switch_skills_are_listed_only_where_tools_are_scoped(shelf):
    async with world(shelf, SERVERS, config()) as w, w.client() as client:
        assert (await client.names())[-2:] == SWITCHES
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        assert not set(SWITCHES) & set(await client.names())
        result = await client.tried("skill_activate", {"names": ["git-review"]})
        assert str(result) == UNKNOWN.format("skill_activate")
    async with world(shelf, SERVERS, config(skills={"enabled": False})) as w, w.client() as client:
        assert await client.names() == BUILTINS


async def test_a_plain_proxy_lists_them_while_they_are_open(shelf):
    given = config(tool_search={"enabled": False})
    async with world(shelf, SERVERS, given) as w, w.client() as client:
        own = [*SKILL_TOOLS, *SWITCHES]
        assert await client.names() == [*own, "db__drop", "db__query"]
        await load(client, "git-review")
        assert await client.names() == [*own, "db__drop", "db__query", "git__diff", "git__log"]
        assert client.list_changes == 1


async def test_a_result_of_such_a_tool_passes_like_any_other(shelf):
    git = MemoryServer([tool("log"), tool("diff")], answers={"log": text("three commits")})
    async with world(shelf, {"git": git}, config()) as w, w.client() as client:
        await load(client, "git-review")
        assert (await client.tool_call("git.log"))["content"][0]["text"] == "three commits"


# -- what it costs -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["hint", "auto"])
async def test_activation_adds_at_most_a_millisecond_to_the_giving_of_a_skill(tmp_path, activation):
    names = [f"git__t{number}" for number in range(0, 1000, 50)]
    put(repo(tmp_path), "review", "Reviews a change.", tools=names)
    put(repo(tmp_path), "letter", "Writes a letter.")
    servers = {"git": [tool(f"t{number}") for number in range(1000)]}
    given = config(skills={"core_pack": False, "tool_activation": activation})
    async with world(tmp_path, servers, given) as w:
        cases = w.handler.instructions._overviews._use_cases
        session = Session("test", Caller("local"), RunActivations(), growing=True)
        spent: dict[str, list[float]] = {"review": [], "letter": []}
        for name in ("review", "letter") * 100:  # the least of many: a busy machine makes the CPU slower too
            began = process_time()
            answer = await cases.get(session, GetRequest((name,), force=True))
            spent[name].append(process_time() - began)
            opened = cases.dependencies.gate.opened(session, cases.dependencies.indexer.current())
            assert len(opened) == (20 if name == "review" else 0)
            assert answer.skills
            await cases.tools.deactivate(session, [name])
    added = min(spent["review"][5:]) - min(spent["letter"][5:])
    assert added < 0.001, f"{added * 1000:.2f} ms"
