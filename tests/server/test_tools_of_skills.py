"""What is said of the tools that a skill names: which there are, in which state, how many are missing (R202)."""

import json

import pytest
from shelving import found, listed, put, repo, skills

from fakes.menu import tool
from toolcrib.base.errors import StartFailed
from worlds import ERAS, MemoryServer, world

pytestmark = pytest.mark.anyio

SERVERS = {"git": [tool("log"), tool("diff")], "db": [tool("query"), tool("drop"), tool("log")]}
DENYING = {"policy": {"deny": ["db.drop"]}}


async def text_of(client, *names, **arguments) -> str:
    return (await client.skill("get", names=list(names), **arguments))["formatted_context"]


async def told(client, name: str) -> list[str]:
    """Return the lines that stand before a skill's own text."""
    return (await text_of(client, name, force=True)).partition("<skill ")[0].splitlines()


def pack(folder, **fields) -> dict:
    """Write a pack with one skill, and return the config that has it."""
    text = json.dumps({"name": "pack.team.ship", "trigger": "Ship it.", "steps": ["Ship."], **fields})
    (folder / "team").mkdir()
    (folder / "team" / "ship.skill.json").write_text(text, encoding="utf-8")
    return skills(skill_packs=[{"name": "team", "path": "team"}])


# -- which tools they are ------------------------------------------------------------------------

SPELLINGS = [
    "git__diff",
    "git.diff",
    "git/diff",
    "git:diff",
    "diff",
    "mcp__git__diff",
    "mcp__toolcrib__git__diff",
    "git.d*",
    "mcp__git__d?ff",
]


@pytest.mark.sampled
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_every_spelling_means_the_tool_which_is_told_by_its_public_name(tmp_path, spelling):
    put(repo(tmp_path), "review", tools=[spelling])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert "- git__diff [deferred]" in await told(client, "review")
        assert "\nTools:" not in await text_of(client, "review", force=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_is_used_or_always_listed_is_ready(tmp_path, era):
    put(repo(tmp_path), "review", tools="git__log git__diff db__query")
    config = {**skills(), "tool_search": {"always_loaded_patterns": ["db.query"]}}
    async with world(tmp_path, SERVERS, config, listing="dynamic") as w, w.client() as client:
        await client.call("git__log")
        lines = await told(client, "review")
    assert lines[:4] == [
        "SKILL TOOLS: review",
        "- git__log [ready]",
        "- git__diff [deferred]",
        "- db__query [ready]",
    ]


async def test_what_the_author_says_of_a_tool_stands_beside_it(tmp_path):
    put(repo(tmp_path), "review", tools=[{"tool": "git__diff", "note": "what has changed"}])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert "- git__diff [deferred]: what has changed" in await told(client, "review")


async def test_a_tool_whose_server_has_failed_is_told_so(tmp_path):
    put(repo(tmp_path), "review", tools=["git__diff"])
    git = MemoryServer([tool("diff")])
    async with world(tmp_path, {"git": git}, skills()):
        pass  # it is known from here on
    git.start_error = StartFailed("git", "It is broken.")
    async with world(tmp_path, {"git": git}, skills()) as w, w.client() as client:
        assert (await client.tool_call("git__diff"))["isError"]
        assert "- git__diff [its server failed]" in await told(client, "review")


async def test_what_a_host_may_run_unasked_and_what_is_no_servers_is_only_mentioned(tmp_path):
    put(repo(tmp_path), "review", **{"allowed-tools": "Read git__log", "tools": ["Bash(git:*)", "tool_search"]})
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert await told(client, "review") == []
        assert "\nTools: Bash (git:*), tool_search, Read, git__log\n" in await text_of(client, "review", force=True)


async def test_a_bare_name_that_several_tools_have_means_none_of_them(tmp_path):
    put(repo(tmp_path), "review", tools=["log"])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert await told(client, "review") == ["SKILL TOOLS: review", "1 tool that it names: not available now.", ""]


async def test_a_text_cannot_mean_the_tools_of_whichever_server(tmp_path):
    put(repo(tmp_path), "review", tools=["*", "?it__diff", "[dg]*"])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert await told(client, "review") == []


async def test_a_skill_that_names_nothing_is_given_as_it_was(tmp_path):
    put(repo(tmp_path), "review")
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert (await text_of(client, "review")).startswith("<skill ")


@pytest.mark.sampled
@pytest.mark.parametrize("max_tokens", [200, 400, 6000])
async def test_what_is_said_of_tools_keeps_the_budget(tmp_path, max_tokens):
    names = [f"tool_number_{number}" for number in range(60)]
    put(repo(tmp_path), "review", body="# Review\n\n" + "1. Look at all of it once more.\n" * 200, tools=names)
    async with world(tmp_path, {"git": [tool(name) for name in names]}, skills()) as w, w.client() as client:
        text = await text_of(client, "review", max_tokens=max_tokens)
    assert len(json.dumps(text, ensure_ascii=False)) - 2 <= 4 * max_tokens
    assert "SKILL TOOLS: review" in text
    assert ("- and " in text) == (max_tokens < 6000)


# -- what is not there ---------------------------------------------------------------------------


async def test_denied_and_nonexistent_are_one_count_without_names(tmp_path):
    put(repo(tmp_path), "review", tools=["git__diff", "db__drop", "db__zap"])
    async with world(tmp_path, SERVERS, {**skills(), **DENYING}) as w, w.client() as client:
        text = await text_of(client, "review")
        raw = json.dumps(await client.skill("get", names=["review"], format="raw"))
    assert "\n2 tools that it names: not available now.\n" in text
    assert not [name for name in ("drop", "zap") if name in text + raw]


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_tells_a_denied_tool_from_one_that_nobody_has(tmp_path, era):
    """The same skill, where the tool is denied and where there is none: byte for byte the same answers."""
    said = []
    body = "# Review\n\n1. Call `db__drop` now.\n2. Or use db.drop: see mcp__db__drop.\n3. `drop` it.\n"
    fields = {"tools": ["db__drop", "git__diff"], "steps": ["db__drop"], "domain": "Has `drop`."}
    fields |= {"hints": {"After `drop`": ["Not `drop`."]}}
    put(repo(tmp_path), "review", "Reviews, and calls db__drop.", body, **fields)
    without = [each for each in SERVERS["db"] if each["name"] != "drop"]
    for tools, deny in ((SERVERS["db"], "db.drop"), (without, "other.thing")):
        config = {**skills(), "policy": {"deny": [deny]}, "cache_dir": deny}
        async with world(tmp_path, {**SERVERS, "db": tools}, config, listing="auto") as w, w.client(era) as client:
            said.append([await client.skill("get", names=["review"], format=form) for form in ("injection", "raw")])
    assert "drop" not in json.dumps(said)
    assert said[0] == said[1]


async def test_where_nothing_is_denied_a_text_keeps_the_names_that_nobody_has(tmp_path):
    put(repo(tmp_path), "review", body="# Review\n\n1. Call `db__zap`.\n", tools=["db__zap"])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        text = await text_of(client, "review")
    assert "Call `db__zap`." in text
    assert text.count("db__zap") == 1


# -- what a skill needs --------------------------------------------------------------------------

NEEDS = "review needs a tool that is not available now: its steps may not work."


async def test_a_needed_tool_that_is_missing_is_told_before_the_steps(tmp_path):
    put(repo(tmp_path), "review", tools=["git__diff"])
    config = {**skills(), "skill_tools": {"review": ["git.log", "svn.log"]}}
    async with world(tmp_path, SERVERS, config) as w, w.client() as client:
        lines = await told(client, "review")
    assert lines[:4] == [NEEDS, "SKILL TOOLS: review", "- git__log [deferred]", "- git__diff [deferred]"]


@pytest.mark.parametrize("key", ["review", "repo/review"])
async def test_the_config_names_a_skill_by_its_name_or_with_its_source(tmp_path, key):
    put(repo(tmp_path), "review")
    config = {**skills(), "skill_tools": {key: {"tools": ["svn.log"]}}}
    async with world(tmp_path, SERVERS, config) as w, w.client() as client:
        assert (await told(client, "review"))[0] == NEEDS


async def test_a_pack_says_which_tools_it_needs(tmp_path):
    config = pack(tmp_path, tools=["git__log"], required_tools=["svn__log"])
    async with world(tmp_path, SERVERS, config) as w, w.client() as client:
        lines = await told(client, "pack.team.ship")
    assert lines[0].startswith("pack.team.ship needs a tool that is not available now")
    assert "- git__log [deferred]" in lines


async def test_the_frontmatter_of_a_folder_needs_nothing(tmp_path):
    put(repo(tmp_path), "review", tools=["svn__log"], required_tools=["svn__diff"])
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert await told(client, "review") == ["SKILL TOOLS: review", "2 tools that it names: not available now.", ""]
        assert await listed(client, usable=True) == ["review"]


@pytest.mark.parametrize("era", ERAS)
async def test_usable_leaves_out_skills_that_need_what_the_caller_does_not_have(tmp_path, era):
    config = pack(tmp_path, required_tools=["db__drop"])
    for name in ("needs-git", "needs-svn", "needs-denied", "needs-nothing"):
        put(repo(tmp_path), name, "Reviews a change.")
    needed = {"needs-git": ["git.*"], "needs-svn": ["git.log", "svn.*"], "needs-denied": ["db.drop"]}
    config |= {"skill_tools": needed, **DENYING}
    async with world(tmp_path, SERVERS, config, listing="auto") as w, w.client(era) as client:
        assert len(await listed(client)) == 5
        assert await listed(client, usable=True) == ["needs-git", "needs-nothing"]
        assert sorted(await found(client, "reviews a change", usable=True)) == ["needs-git", "needs-nothing"]
        assert sorted(await found(client, "needs", search_type="regex", usable=True)) == ["needs-git", "needs-nothing"]
        assert await found(client, "needs-svn", search_type="exact", usable=True) == []
        assert (await client.skill("list", usable=True))["total"] == 2


# -- servers that were never listed --------------------------------------------------------------

NAMED = ["git__diff", "db__drop", "db__zap", "lone", "mcp__git__d*", "nowhere__x", "Bash"]


@pytest.mark.parametrize("era", ERAS)
async def test_tools_of_servers_that_were_never_listed_are_no_missing_ones(tmp_path, era):
    put(repo(tmp_path), "review", tools=NAMED)
    servers = {key: MemoryServer(tools, hangs_at="start") for key, tools in SERVERS.items()}
    options = {"wait": False, "listing": "auto"}
    async with world(tmp_path, servers, skills(), **options) as w, w.client(era) as client:
        assert (await told(client, "review"))[1:] == [
            "1 tool that it names: not available now.",
            "5 tools that it names: of servers that are not listed yet.",
            "",
        ]


async def test_a_brief_names_them_and_says_so_until_they_are_listed(tmp_path):
    put(repo(tmp_path), "review", tools=NAMED)
    servers = {key: MemoryServer(tools, hangs_at="start") for key, tools in SERVERS.items()}
    async with world(tmp_path, servers, skills(), wait=False) as w, w.client() as client:
        [line] = await tools_in_brief(client)
    assert line == "Tools: Bash, not listed yet: git__diff, db__drop, db__zap, lone, mcp__git__d*"
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        assert await tools_in_brief(client) == ["Tools: git__diff, db__drop, Bash"]


@pytest.mark.parametrize("era", ERAS)
async def test_before_a_server_is_listed_nothing_tells_a_denied_tool_from_any_other_of_it(tmp_path, era):
    said = []
    tools = ["git__diff", "db__drop", "secret__x"]
    put(repo(tmp_path), "review", body="# Review\n\n1. Call `db__drop`.\n", tools=tools)
    for deny in (["db.drop", "secret.*"], ["db.other", "secret.*"]):
        servers = {key: MemoryServer(SERVERS["db"], hangs_at="start") for key in ("git", "db", "secret")}
        config = {**skills(), "policy": {"deny": deny}, "cache_dir": deny[0]}
        options = {"wait": False, "listing": "auto"}
        async with world(tmp_path, servers, config, **options) as w, w.client(era) as client:
            said.append([await tools_in_brief(client), await text_of(client, "review", force=True)])
    assert said[0] == said[1]
    assert said[0][0] == ["Tools: not listed yet: 2 more"]
    assert "drop" not in str(said)


async def tools_in_brief(client) -> list[str]:
    params = {"name": "skills_for_task", "arguments": {"task": "fill in a form", "top_k": "1"}}
    [message] = (await client.ask("prompts/get", params))["messages"]
    return [line for line in message["content"]["text"].splitlines() if line.startswith("Tools:")]
