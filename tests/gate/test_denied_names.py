"""A denied tool is absent in the words of the others too: at every door, in every byte that a model reads."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from shelving import found, instructions, put, repo, skills, user

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import ERAS, MODERN, Client, JsonObject, World, world

pytestmark = pytest.mark.anyio

RED = Caller("r", tenant_id="red")
IN_RED = {"context": {"tenant_id": "red"}}
"""Of the same tenant: who has started the server, and the skills in its folders."""

SECRETS = ("frob_xyzzy", "plugh", "list-wumpus", "fooBarbaz")
"""The names of the tools that are denied, of words that are no words."""

SAYS = "Not frob_xyzzy, db.frob_xyzzy, `plugh`, the plugh tool, list-wumpus, gh__fooBarbaz or fooBarbaz."
TELLING = tool(
    "read_row",
    f"Reads a row. {SAYS}",
    {
        "id": {"type": "integer", "description": SAYS, "title": SAYS, "examples": [SAYS]},
        "deep": {"type": "object", "properties": {"er": {"anyOf": [{"$comment": SAYS}]}}, "x-help": [SAYS]},
    },
    ["id"],
    title=SAYS,
    annotations={"title": SAYS, "readOnlyHint": True},
    outputSchema={"type": "object", "description": SAYS},
    _meta={"examples": [{"args": {"note": SAYS}, "description": SAYS}], "tags": [SAYS, "plain"]},
)
DENIED = [tool(name, f"Calls read_row: {SAYS}") for name in SECRETS]
SERVERS = {"db": [TELLING, *DENIED[:2]], "gh": [tool("write_row", SAYS), *DENIED[2:]]}
POLICIES = {
    "denied by name": {"deny": list(SECRETS)},
    "denied by place": {"deny": [f"{server}.{name}" for server in SERVERS for name in SECRETS]},
    "denied by a glob": {"deny": ["frob*", "p?ugh", "*-wumpus", "*Bar*"]},
    "in no allow": {"allow": ["db.read_row", "gh.write_row"]},
    "a server denied": {"allow": ["db.read_row"], "deny": ["gh.*"]},
    "hidden from one": {"visibility": [{"when": {"tenant_id": "red"}, "deny": list(SECRETS)}]},
    "left out for one": {"visibility": [{"when": {"tenant_id": "red"}, "allow": ["db.read*"]}]},
}


async def listed_before(folder: Path, policy: str) -> None:
    """Have the servers listed once, where the policy closes one of them: after that it is not started any more."""
    if policy == "a server denied":
        async with world(folder, SERVERS):
            pass


async def ask_everything(client: Client) -> None:
    """Ask for all that a model may read, without naming anything that is denied."""
    await client.tools()
    for query in ("row", "reads a row", "not or"):
        for kind, query_of_kind in (("fts", query), ("exact", "read_row"), ("regex", "row|tool")):
            for detail in ("signature", "schema"):
                await client.call("tool_search", {"query": query_of_kind, "search_type": kind, "detail": detail})
    for name, arguments in (("db.read_row", {"id": []}), ("db.read_row", {}), ("db.read_row", "[]"), ("db.row", {})):
        assert (await client.tool_call(name, arguments))["isError"]


async def ask_for_skills(client: Client) -> None:
    """Ask for all that a model may read of skills."""
    await instructions(client)
    for query, kind in (("form", "fts"), ("form", "regex"), ("forms", "exact")):
        await client.call("skill_search", {"query": query, "search_type": kind})
    await client.call("skill_list")
    for form in ("raw", "injection"):
        await client.call("skill_get", {"names": ["forms"], "format": form, "force": True, "max_tokens": 6000})
    await client.call("skill_get", {"names": ["forms"], "file": "more.md"})
    for resource in (await client.ask("resources/list"))["resources"]:
        await client.ask("resources/read", {"uri": resource["uri"]})
    await client.ask("prompts/get", {"name": "skills_for_task", "arguments": {"task": "fill in forms"}})
    await client.ask("prompts/get", {"name": "skill", "arguments": {"name": "forms"}})


def told(w: World) -> list[str]:
    """Return the secrets that stand in anything that was said to a client."""
    said = "".join("".join(lines) for lines in w.said)
    return [secret for secret in SECRETS if secret in said]


@pytest.fixture
def telling_skill(tmp_path):
    """A skill that names what is denied, in its texts, its lists, another file of it and a name with a hidden mark."""
    hidden = SAYS.replace("_x", "_\u200bx").replace("list-w", "list-\u2060w")
    body = f"# {SAYS}\n\n1. {SAYS}\n2. {hidden}\n\n```sh\nplugh --verbose\n```\n"
    lists = {"allowed-tools": "Read plugh frob_xyzzy mcp__gh__fooBarbaz", "tools": ["plugh", {"tool": "list-wumpus"}]}
    file = put(repo(tmp_path), "forms", f"Fills forms. {SAYS}", body, tags=["frob_xyzzy"], **lists)
    (file.parent / "more.md").write_text(f"{SAYS} {hidden}", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("era", [pytest.param("legacy", marks=pytest.mark.slow), MODERN])
@pytest.mark.parametrize("policy", POLICIES)
async def test_no_door_tells_the_name_of_a_denied_tool(tmp_path, policy, era):
    await listed_before(tmp_path, policy)
    config = {"policy": POLICIES[policy], "gate": {"pass_through_below": 100}}
    async with world(tmp_path, SERVERS, config, listing="auto") as w, w.client(era, caller=RED) as client:
        await ask_everything(client)
        assert told(w) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("publish", [False, True])
async def test_nor_does_a_skill(telling_skill, policy, publish):
    await listed_before(telling_skill, policy)
    config = {**skills(publish_redacted=publish), **IN_RED, "policy": POLICIES[policy]}
    async with world(telling_skill, SERVERS, config, listing="auto") as w, w.client("auto") as client:
        await ask_for_skills(client)
        assert told(w) == []


@pytest.mark.parametrize("publish", [False, True])
async def test_what_is_denied_and_what_nobody_has_is_the_same_in_every_text_of_a_skill(tmp_path, publish):
    tools = ["mcp__db__burn", "db__gone", "db__read_row"]
    said = "First `db__burn`, then db.gone, or `burn` and `gone`, then db__read_row.\n"
    file = put(repo(tmp_path), "forms", f"Fills forms. {said}".strip(), f"# Forms\n\n1. {said}", tools=tools)
    (file.parent / "more.md").write_text(said, encoding="utf-8")

    async def given(denied: str) -> list[str]:
        config = {**skills(publish_redacted=publish), "policy": {"deny": [f"db.{denied}"]}}
        server = {"db": [tool("read_row"), tool(denied)]}
        async with world(tmp_path, server, config, listing="auto") as w, w.client("auto") as client:
            read = [{"format": "raw"}, {"format": "injection"}, {"file": "more.md"}, {"file": "SKILL.md"}]
            said = [str(await client.call("skill_get", {"names": ["forms"], "force": True, **each})) for each in read]
            uris = [f"skill://repo/forms/{path}" for path in ("SKILL.md", "more.md")] if publish else []
            said += [str(await client.ask("resources/read", {"uri": uri})) for uri in uris]
            assert bool(publish) == ("skill://repo/forms/SKILL.md" in str(await client.ask("resources/list")))
            return said

    one, other = await given("burn"), await given("gone")
    assert all("read_row" in text for text in one)
    assert not [text for text in (*one, *other) if "burn" in text or "gone" in text]


async def test_nor_do_short_lines_about_a_skill_tell_them_apart(tmp_path):
    said = "First `db__burn`, then db.gone, or `burn` and `gone`, then db__read_row."
    put(user(tmp_path), "forms", f"Fills forms. {said}", triggers=[said], tools=["mcp__db__burn", "db__gone"])
    # A skill that is called like a tool that it lists, and one of the same name, are told of by what names nothing.
    for folder in (user, repo):
        put(folder(tmp_path), "db__gone", f"Goes {folder.__name__}.", tools=["db__burn", "db__gone"])

    async def told(denied: str) -> list[str]:
        config = {**skills(), "policy": {"deny": [f"db.{denied}"]}}
        async with (
            world(tmp_path, {"db": [tool("read_row"), tool(denied)]}, config, listing="auto") as w,
            w.client("auto") as client,
        ):
            said = [str(await client.call("skill_list")), await instructions(client)]
            searches = (("fills forms", "fts"), ("form", "regex"), ("forms", "exact"), ("goes", "fts"))
            said += [str(await client.skill("search", query=query, search_type=kind)) for query, kind in searches]
            uris = ("toolcrib://skills", "toolcrib://skills.xml")
            said += [str(await client.ask("resources/read", {"uri": uri})) for uri in uris]
            asked = {name: await client.call("skill_get", {"names": [name]}) for name in ("db_gone", "db__gonee")}
            said += [str(answer).replace(name, "") for name, answer in asked.items()]
            for query in ("db__burn", "db.gone", "burn", "gone", ".*gone.*", ".*burn.*"):
                hits = [
                    await client.skill("search", query=query, search_type=kind) for kind in ("fts", "exact", "regex")
                ]
                said += [str(hit).replace(query, "") for hit in hits]
            return said

    one, other = await told("burn"), await told("gone")
    assert all("forms" in text for text in one[:5])
    assert not [text for text in (*one, *other) if "burn" in text or "gone" in text]
    assert one == other


async def test_who_may_use_all_of_them_reads_all_of_it(telling_skill):
    config = {**skills(), "policy": POLICIES["hidden from one"], "gate": {"pass_through_below": 100}}
    async with world(telling_skill, SERVERS, config, listing="auto") as w:
        async with w.client("auto") as client:
            [listed] = [each for each in await client.tools() if each["name"] == "db__read_row"]
            assert listed["title"] == SAYS
            assert listed["inputSchema"] == TELLING["inputSchema"]
            assert listed["_meta"]["examples"] == TELLING["_meta"]["examples"]
            assert await client.found("frob_xyzzy")
            await ask_for_skills(client)
        assert told(w) == list(SECRETS)


@pytest.mark.parametrize("policy", POLICIES)
async def test_who_searches_for_a_denied_name_finds_nobody_who_speaks_of_it(tmp_path, policy):
    await listed_before(tmp_path, policy)
    async with world(tmp_path, SERVERS, {"policy": POLICIES[policy]}) as w, w.client(caller=RED) as client:
        for secret in SECRETS:
            for query in (secret, f"db.{secret}", secret.replace("_", " ").replace("-", " ")):
                for kind in ("fts", "exact", "regex"):
                    if "." not in query or kind != "fts":  # a server's name may be searched for
                        assert await client.found(query, search_type=kind) == [], query
        assert (await client.found("reads a row"))[0] == "db__read_row"


@pytest.mark.parametrize("policy", POLICIES)
async def test_nor_is_a_skill_found_by_a_denied_name_that_it_speaks_of(telling_skill, policy):
    await listed_before(telling_skill, policy)
    config = {**skills(), **IN_RED, "policy": POLICIES[policy]}
    async with world(telling_skill, SERVERS, config) as w, w.client() as client:
        for secret in SECRETS:
            for query in (secret, secret.replace("_", " ").replace("-", " "), f".*{secret[:5]}.*"):
                for kind in ("fts", "exact", "regex"):
                    assert await found(client, query, search_type=kind) == [], query
        assert await found(client, "fills forms") == ["forms"]


async def test_what_means_something_to_a_program_stays(tmp_path):
    values = {"enum": ["drop", "keep"], "const": "drop", "default": "drop", "pattern": "^drop_table$"}
    schema = {"type": "string", "description": "Not drop_table.", **values}
    named = {"drop_table": {"type": "string", "description": "No drop_table."}}
    tools = [tool("read_row", "Reads.", {"next": schema, "drop_table": named["drop_table"]}, ["drop_table"])]
    server = {"db": [*tools, tool("drop_table"), tool("drop")]}
    config = {"policy": {"deny": ["drop_table", "db.drop"]}, "gate": {"pass_through_below": 100}}
    async with world(tmp_path, server, config) as w, w.client() as client:
        [listed] = [each for each in await client.tools() if each["name"] == "db__read_row"]
        assert listed["inputSchema"]["properties"]["next"] == {**schema, "description": "Not another tool."}
        assert listed["inputSchema"]["properties"]["drop_table"]["description"] == "No another tool."
        assert listed["inputSchema"]["required"] == ["drop_table"]
        [hit] = (await client.search("reads", detail="schema"))["tools"]
        assert hit["input_schema"] == listed["inputSchema"]
        [hit] = (await client.search("reads"))["tools"]
        assert hit["signature"] == 'db__read_row(drop_table: string, next?: "drop")'
        said = (await client.tool_call("db.read_row", {"drop_table": "x", "next": "x"}))["content"][0]["text"]
        assert 'must be "drop"' in said
        result = await client.tool_call("db.read_row", {"drop_table": "drop_table"})
        assert result["content"][0]["text"] == 'ran read_row {"drop_table": "drop_table"}'


async def test_words_that_are_names_of_tools_are_words_in_running_text(tmp_path):
    said = (
        "Search for rows: a search lists what you read, and the list says when to get or set them. "
        "A web search tool, the corresponding get tool and all search tools set this. "
        "Type `row`; the type of the list; https://search.io/get/list."
    )
    names = ("search", "list", "read", "get", "set", "type")
    servers = {"db": [tool("rows", said), *map(tool, names)]}
    config = {"policy": {"deny": list(names)}, "gate": {"pass_through_below": 100}}
    async with world(tmp_path, servers, config) as w, w.client() as client:
        [listed] = [each for each in await client.tools() if each["name"] == "db__rows"]
        assert listed["description"] == said
        assert await client.found("search list read") == ["db__rows"]


# -- whether it exists ---------------------------------------------------------------------------

OF_THE_FILE = re.compile(r'sk_[0-9a-f]+|"mtime_ms": \d+')
"""What comes of the place and time of a skill's file, which differ here."""

SIBLING = tool("read_table", "Read all rows. Unlike `drop_table`, drop_table or db.drop_table it drops no row.")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "policy",
    [
        {"deny": ["drop_table"]},
        {"deny": ["drop_*"]},
        {"deny": ["db.drop_table"]},
        {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["drop_*"]}]},
        {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["db.drop_table"]}]},
    ],
)
async def test_what_others_say_of_a_denied_tool_does_not_tell_whether_it_exists(tmp_path, era, policy):
    async def answers(folder: str, *more: Any) -> list[str]:
        (tmp_path / folder).mkdir()
        put(
            repo(tmp_path / folder),
            "drop",
            "Drops with drop_table.",
            "`drop_table`",
            tools=["drop_table", "read_table"],
        )
        config = {**skills(), **IN_RED, "policy": policy, "gate": {"pass_through_below": 100}}
        async with world(tmp_path / folder, {"db": [SIBLING, *more]}, config, listing="auto") as w:
            async with w.client(era) as client:
                said = [json.dumps(answer).replace(str(tmp_path / folder), "") for answer in await curious(client)]
                return [OF_THE_FILE.sub("", answer) for answer in said]

    assert await answers("with", tool("drop_table")) == await answers("none")


async def curious(client: Client) -> list[Any]:
    """Return the answers to questions about one denied tool."""
    said: list[Any] = [await client.tools()]
    for query in ("drop table", "drop_table", "db.drop_table", "read all rows", "drop"):
        for kind in ("fts", "exact", "regex"):
            for detail in ("signature", "schema"):
                arguments = {"query": query, "search_type": kind, "detail": detail, "include_always_loaded": True}
                said.append(await client.call("tool_search", arguments))
            said.append(await client.call("skill_search", {"query": query, "search_type": kind}))
    for name in ("drop_table", "db__drop_table", "drop_tables"):
        answer = await client.tried(name)
        said += [await client.tool_call(name), answer.error.model_dump() if isinstance(answer, MCPError) else answer]
    for arguments in ({"names": ["drop"]}, {"names": ["drop"], "format": "raw", "force": True}):
        said.append(await client.call("skill_get", arguments))
    return [*said, await instructions(client), await client.ask("resources/list")]


async def test_in_a_list_of_tools_a_denied_name_goes_the_way_of_one_that_nobody_has(tmp_path):
    listed = {"allowed-tools": "Read Bash(git:*) drop_table no_such_tool db.read_row mcp__db__* drop nowhere"}
    put(repo(tmp_path), "one", "Drops.", **listed)
    put(repo(tmp_path), "two", "Drops.", tools=["drop_table", {"tool": "no_such_tool", "note": "N."}, "db__read_row"])
    servers = {"db": [tool("read_row"), tool("drop_table"), tool("drop")]}
    async with world(tmp_path, servers, {**skills(), "policy": {"deny": ["drop*"]}}) as w, w.client() as client:
        one, two = (await client.skill("get", names=["one", "two"], format="raw", max_tokens=6000))["skills"]
        assert [note["tool"] for note in one["tools"]] == ["Read", "Bash", "db.read_row", "mcp__db__*"]
        assert [note["tool"] for note in two["tools"]] == ["db__read_row"]
        assert "no_such_tool" not in json.dumps([one, two])
    async with world(tmp_path, servers, skills()) as w, w.client() as client:
        one, two = (await client.skill("get", names=["one", "two"], format="raw", max_tokens=6000))["skills"]
        assert len(one["tools"]) == 8
        assert len(two["tools"]) == 3


@pytest.mark.parametrize(
    "fields",
    [{"triggers": "Where a ` is."}, {"description": "D.", "tags": ["a ` mark", "`plugh`"]}],
    ids=["trigger", "tag"],
)
async def test_a_mark_in_one_text_of_a_skill_hides_no_denied_name_in_the_next(tmp_path, fields):
    put(repo(tmp_path), "one", **{"description": "Runs `plugh` now.", **fields})
    config = {**skills(), "policy": {"deny": ["plugh"]}}
    async with world(tmp_path, SERVERS, config) as w, w.client() as client:
        assert await found(client, "another tool", search_type="regex") == ["one"]
        for kind in ("regex", "fts"):
            assert await found(client, "plugh", search_type=kind) == []


# -- values and joined spellings -------------------------------------------------------------------

SIBLING = tool(
    "run_action",
    "Runs an action: dropEverything, drop-everything or `Drop Everything`, with the Drop Everything tool.",
    {
        "action": {"type": "string", "enum": ["keep_row", "drop_everything", "dropEverything", "drop_all", "delete"]},
        "next": {"type": "string", "default": "db__drop_everything"},
        "kind": {"oneOf": [{"const": "drop_everything", "title": "x"}, {"const": "keep_row"}]},
        "only": {"enum": ["drop_everything"]},
        "drop_everything": {"type": "boolean", "default": True},
        "deep": {"type": "array", "items": {"properties": {"enum": {"enum": ["db__drop_everything", 5]}}}},
    },
    ["action"],
    outputSchema={"type": "object", "properties": {"done": {"enum": ["drop_everything", "keep_row"]}}},
)
ACTIONS = {"db": [SIBLING, tool("drop_everything", "Drops."), tool("delete", "Deletes.")]}
BY_POLICY = {
    "denied by name": {"deny": ["drop_everything", "db.delete"]},
    "denied by a glob": {"deny": ["*.drop_*", "delete"]},
    "in no allow": {"allow": ["db.run_action"]},
    "hidden from one": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["drop_everything", "delete"]}]},
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("policy", BY_POLICY)
async def test_no_value_of_another_tool_is_the_name_of_a_denied_one(tmp_path, policy, era):
    config = {"policy": BY_POLICY[policy], "gate": {"pass_through_below": 100}}
    async with world(tmp_path, ACTIONS, config, listing="auto") as w, w.client(era, caller=RED) as client:
        [listed] = [each for each in await client.tools() if each["name"] == "db__run_action"]
        given = listed["inputSchema"]["properties"]
        assert given["action"]["enum"] == ["keep_row", "drop_all", "delete"], "a single word is an action of many"
        assert given["next"] == {"type": "string"}
        assert given["kind"]["oneOf"] == [{"title": "x", "not": {}}, {"const": "keep_row"}]
        assert given["only"] == {"not": {}}
        assert given["deep"]["items"]["properties"]["enum"]["enum"] == [5]
        assert given["drop_everything"] == {"type": "boolean", "default": True}, "which a call needs"
        assert listed.get("outputSchema", {}).get("properties") in (None, {"done": {}})
        for detail in ("signature", "schema"):
            for query in ("runs an action", "run_action"):
                await client.call("tool_search", {"query": query, "detail": detail, "include_always_loaded": True})
        for wrong in ({}, {"action": "zorp_everything"}, {"action": "drop_everything"}, {"action": 5}):
            refused = await client.tool_call("db.run_action", wrong)
            assert refused["isError"]
            assert "keep_row" in refused["content"][0]["text"]
        said = "".join("".join(lines) for lines in w.said)
        for spelling in ("dropEverything", "drop-everything", "Drop Everything", "db__drop_everything"):
            assert spelling not in said
        # The parameter is left, in schemas, in signatures and in the words of a mistake.
        assert not re.search(r"""(?<!properties": \{")drop_everything(?!\\*": ?\{|\?|: )""", said)


@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_a_value_that_is_the_name_of_a_denied_tool_is_refused_and_nothing_runs(tmp_path, door):
    async def answers(w: World, caller: Caller, action: str) -> JsonObject:
        async with w.client(caller=caller) as client:
            arguments = {"action": action, "drop_everything": False}
            return await (
                client.call("db__run_action", arguments)
                if door == "direct"
                else client.tool_call("db__run_action", arguments)
            )

    config = {"policy": BY_POLICY["hidden from one"]}
    async with world(tmp_path, ACTIONS, config) as w:
        refused = await answers(w, RED, "drop_everything")
        assert "'action'" in str(refused) or "action: " in str(refused)
        assert refused["isError"]
        assert w["db"].calls() == []
        for caller, action in ((RED, "keep_row"), (RED, "delete"), (Caller("b"), "drop_everything")):
            assert "isError" not in await answers(w, caller, action)
        assert len(w["db"].calls()) == 3
        # To the caller it is none of the values, like one that is not there.
        wrong = await answers(w, RED, "zorp_everything")
        assert wrong == refused
        assert len(w["db"].calls()) == 3
        if door == "direct":
            # For others it is for the server to refuse.
            assert "isError" not in await answers(w, Caller("b"), "zorp_everything")


@pytest.mark.parametrize("policy", BY_POLICY)
async def test_the_name_of_a_denied_tool_is_never_answered_with_certainty(tmp_path, policy):
    sure = tool("keep_everything", "Keeps everything, does not drop everything.", {"drop_everything": {}})
    servers = {"db": [*ACTIONS["db"], sure, *(tool(f"feed_{number}") for number in range(20))]}
    config = {"policy": {**BY_POLICY[policy]}}
    if "allow" in config["policy"]:
        config["policy"]["allow"] = [*config["policy"]["allow"], "db.keep_everything", "db.feed_*"]
    async with world(tmp_path, servers, config) as w, w.client(caller=RED) as client:
        for query in (
            "drop_everything",
            "db__drop_everything",
            "db.drop_everything",
            "dropEverything",
            "drop-everything",
        ):
            denied, absent = await client.search(query), await client.search(query.replace("drop", "zorp"))
            assert (denied["confidence"] == "high") is False
            assert (absent["confidence"] == "high") is False


# -- hidden characters ---------------------------------------------------------------------------

HIDING = "".join(map(chr, (0x07, 0x1B, 0x200B, 0x200F, 0x202E, 0x2066, 0x2060, 0xFEFF, 0xE0041, 0xE007F, 0x85)))


@pytest.mark.parametrize("era", ERAS)
async def test_no_listed_text_holds_characters_that_hide_something(tmp_path, era):
    said, clean = f"Re{HIDING}ads\n\ta row{HIDING}.", "Reads\n\ta row."
    parameter = {"type": "string", "title": said, "description": said, "x-note": [said]}
    texts = {"title": said, "annotations": {"title": said}, "_meta": {"examples": [{"args": {}, "description": said}]}}
    hostile = tool("read_row", said, {"id": {**parameter, "enum": ["a"]}}, **texts)
    config = {"gate": {"pass_through_below": 100}}
    async with world(tmp_path, {"db": [hostile]}, config, listing="auto") as w, w.client(era) as client:
        [listed] = [each for each in await client.tools() if each["name"] == "db__read_row"]
        assert listed["title"] == listed["annotations"]["title"] == clean
        assert listed["description"].startswith(clean)
        told = {"type": "string", "title": clean, "description": clean, "x-note": [clean], "enum": ["a"]}
        assert listed["inputSchema"]["properties"]["id"] == told
        [hit] = (await client.search("reads", detail="schema"))["tools"]
        assert hit["input_schema"] == listed["inputSchema"]
        assert hit["examples"] == [{"args": {}, "description": "Reads a row."}]


async def test_a_name_with_hidden_characters_in_it_is_a_name(tmp_path):
    broken = "Not drop\u200b_table, d\u00adrop_table, \u202edrop_table."
    config = {"policy": {"deny": ["drop_table"]}, "gate": {"pass_through_below": 100}}
    async with (
        world(tmp_path, {"db": [tool("read_row", broken), tool("drop_table")]}, config) as w,
        w.client() as client,
    ):
        [listed] = [each for each in await client.tools() if each["name"] == "db__read_row"]
        assert listed["description"] == "Not another tool, another tool, another tool."
