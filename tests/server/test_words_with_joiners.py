"""Words and emoji that are written with joiners stay: in definitions, arguments and skills (ADR 79)."""

import pytest
from shelving import put, repo, skills

from fakes.menu import tool
from worlds import ERAS, Call, JsonObject, MemoryServer, text, world

pytestmark = pytest.mark.anyio

CODER, WANT, NOTES = "\U0001f9d1\u200d\U0001f4bb", "می\u200cخواهم", "یادداشت\u200cها"
HINDI, HIDING = "क्\u200dष", "pay\u200cload\u200d"


async def done(_call: Call) -> JsonObject:
    return text("done")


def chat() -> MemoryServer:
    tools = [
        tool(
            "react",
            f"React with an emoji such as {CODER}; {HIDING}",
            {"emoji": {"type": "string", "enum": ["x", CODER]}},
        ),
        tool(
            "find", f"{WANT} {NOTES}", {"نوع": {"type": "string", "enum": [NOTES, "کارها"]}, HINDI: {"default": HINDI}}
        ),
        tool("hide", "Says more than is seen.", {"to": {"type": "string", "enum": [HIDING]}}),
    ]
    prompts = [{"name": "start", "title": WANT, "arguments": [{"name": HINDI}]}]
    return MemoryServer(tools, answers={"react": done, "find": done}, offers={"prompts": prompts})


@pytest.mark.parametrize("era", ERAS)
async def test_definitions_and_arguments_keep_them(tmp_path, era):
    everything = {"servers": {"chat": {"default_loading_mode": "always"}}}
    server = chat()
    async with world(tmp_path, {"chat": server}, everything, listing="auto") as w, w.client(era) as client:
        listed = {each["name"]: each for each in (await client.ask("tools/list"))["tools"]}
        assert listed["chat__react"]["description"] == f"React with an emoji such as {CODER}; payload"
        assert listed["chat__react"]["inputSchema"]["properties"]["emoji"]["enum"] == ["x", CODER]
        assert listed["chat__find"]["description"] == f"{WANT} {NOTES}"
        assert listed["chat__find"]["inputSchema"]["properties"][HINDI] == {"default": HINDI}
        assert "chat__hide" not in listed
        [prompt] = (await client.ask("prompts/list"))["prompts"]
        assert (prompt["title"], prompt["arguments"]) == (WANT, [{"name": HINDI}])
        for name, given in (("react", {"emoji": CODER}), ("find", {"نوع": NOTES, HINDI: HINDI})):
            for call in ((f"chat__{name}", given), ("tool_call", {"name": f"chat__{name}", "arguments": given})):
                await client.call(*call)
            assert [call["arguments"] for call in server.calls(name)] == [given, given]
        refused = await client.call("tool_call", {"name": "chat__find", "arguments": {"نوع": "یادداشتها"}})
        assert NOTES in refused["content"][0]["text"]
    [why] = [each.reason for each in w.gateway.tools.indexer.refused["chat"]]
    assert "(U+200C, U+200D)" in why


@pytest.mark.parametrize("query", [NOTES, "یادداشت", "یادداشت ها"])
async def test_a_tool_is_found_by_its_words(tmp_path, query):
    async with world(tmp_path, {"chat": chat()}, listing="auto") as w, w.client() as client:
        assert (await client.found(query))[0] == "chat__find"


JOINED = "حذف_\u200cهمه"
DENIED = JOINED.replace("\u200c", "")


async def test_names_have_none_since_rules_name_them(tmp_path):
    deny: JsonObject = {"policy": {"deny": [f"db__{DENIED}"]}, "servers": {"db": {"default_loading_mode": "always"}}}
    named = [tool(name, "Deletes all.") for name in (DENIED, JOINED, f"{DENIED}\u200c", "count")]
    offers = {"prompts": [{"name": JOINED}, {"name": "ask"}], "resources": [{"uri": f"x:/{JOINED}", "name": "x"}]}
    async with (
        world(tmp_path, {"db": MemoryServer(named, offers=offers)}, deny, listing="auto") as w,
        w.client() as client,
    ):
        assert [name for name in await client.names() if name.startswith("db")] == ["db__count"]
        assert [each["name"] for each in (await client.ask("prompts/list"))["prompts"]] == ["db__ask"]
        assert JOINED not in str(await client.ask("resources/list"))


@pytest.mark.parametrize("written", [JOINED, f"{DENIED[:3]}\u200c{DENIED[3:]}", f"db__{JOINED}", f"`{JOINED}`"])
async def test_no_joiner_hides_a_denied_name(tmp_path, written):
    schema = {"type": "string", "enum": ["rows", written.strip("`")]}
    tools = [tool(DENIED, "Deletes all."), tool("count", f"{WANT}, counts what {written} deletes.", {"of": schema})]
    put(repo(tmp_path), "notes", "Counts.", f"# Notes\n\n1. {WANT}. Use {written} now.\n")
    config = {**skills(), "policy": {"deny": [f"db__{DENIED}"]}}
    async with world(tmp_path, {"db": tools}, config, listing="auto") as w, w.client() as client:
        described = (await client.call("tool_search", {"query": "count"}))["content"][0]["text"]
        given = (await client.call("skill_get", {"names": ["notes"]}))["content"][0]["text"]
    for said in (described, given):
        assert "another tool" in said
        assert DENIED not in said.replace("\u200c", "")


async def test_a_denied_name_elsewhere_takes_no_joiner_along(tmp_path):
    tools = [tool("drop_all", "Deletes."), tool("count", f"{WANT}, counts what drop_all deletes.")]
    config: JsonObject = {"policy": {"deny": ["db__drop_all"]}}
    async with world(tmp_path, {"db": tools}, config, listing="auto") as w, w.client() as client:
        described = (await client.call("tool_search", {"query": "count"}))["content"][0]["text"]
    assert f"{WANT}, counts what another tool deletes." in described


@pytest.mark.parametrize("era", ERAS)
async def test_skills_keep_them(tmp_path, era):
    put(repo(tmp_path), "notes", f"{WANT} {CODER} {HIDING}", f"# {NOTES}\n\n1. {HINDI} {HIDING}\n", trigger=WANT)
    async with world(tmp_path, {}, skills(), listing="auto") as w, w.client(era) as client:
        given = (await client.call("skill_get", {"names": ["notes"]}))["content"][0]["text"]
        found = (await client.call("skill_search", {"query": NOTES}))["content"][0]["text"]
    assert all(each in given for each in (WANT, NOTES, f"{HINDI} payload"))
    assert HIDING not in given
    assert WANT in found
