"""Prompts of servers, as a client finds them through toolcrib."""

import pytest
from mcp import MCPError
from rooting import write

from fakes.memory import MODERN, MemoryServer
from fakes.menu import tool
from worlds import ERAS, until, world

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("era", ERAS)
DOWN = pytest.mark.parametrize("down", ["legacy", "modern"])


def server(*prompts, **options) -> MemoryServer:
    return MemoryServer([tool("get")], offers={"prompts": list(prompts)}, **options)


async def prompts(client):
    return (await client.ask("prompts/list"))["prompts"]


@pytest.mark.sampled
@BOTH
@DOWN
async def test_a_prompt_of_a_server_is_listed_and_got_under_its_public_name(tmp_path, era, down):
    arguments = [{"name": "code", "description": "What to review", "required": True}]
    ask = server({"name": "review", "title": "Review", "arguments": arguments, "x": 1}, eras=(down,))
    async with world(tmp_path, {"ask": ask}, listing="auto") as w, w.client(era) as client:
        assert await prompts(client) == [{"name": "ask__review", "title": "Review", "arguments": arguments, "x": 1}]
        got = await client.ask("prompts/get", {"name": "ask__review", "arguments": {"code": "x"}})
        assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": '{"code": "x"}'}}]
        assert w["ask"].starts == 2


@BOTH
async def test_an_unknown_prompt_is_refused_and_no_server_is_asked(tmp_path, era):
    ask = server({"name": "review"})
    async with world(tmp_path, {"ask": ask}, listing="auto") as w, w.client(era) as client:
        for name in ("review", "ask__other", "other__review", ""):
            with pytest.raises(MCPError) as caught:
                await client.ask("prompts/get", {"name": name})
            assert (caught.value.code, caught.value.message) == (-32602, f"Unknown prompt: {name}")
        assert "prompts/get" not in ask.methods()


@pytest.mark.sampled
@BOTH
async def test_prompts_of_servers_follow_those_for_skills_in_pages(tmp_path, era):
    write(tmp_path / "project" / ".toolcrib" / "skills" / "tea", "SKILL.md", "---\nname: tea\ndescription: Tea.\n---\n")
    ask = server(*({"name": f"p{number:03}"} for number in range(300)))
    async with world(tmp_path, {"ask": ask}, {"skills": {}}, listing="auto") as w, w.client(era) as client:
        first = await client.ask("prompts/list")
        rest = await client.ask("prompts/list", {"cursor": first["nextCursor"]})
        names = [each["name"] for each in (*first["prompts"], *rest["prompts"])]
        assert names == ["skills_for_task", "skill", *(f"ask__p{number:03}" for number in range(300))]
        assert "nextCursor" not in rest


@BOTH
async def test_a_change_of_prompts_is_told(tmp_path, era):
    ask = server({"name": "a"})
    async with world(tmp_path, {"ask": ask}, listing="auto") as w, w.client(era) as client:
        await client.ask("prompts/get", {"name": "ask__a"})
        async with client.listening():
            await ask.change_offers("prompts", {"name": "b"})
            await until(lambda: client.told("prompts/list_changed") > 0)
        assert [each["name"] for each in await prompts(client)] == ["ask__b"]
        assert not client.told("resources/list_changed")


async def test_a_server_that_asks_for_input_gets_it_from_a_client_that_can_give_it(tmp_path):
    ask = server({"name": "a"}, eras=("modern",))
    asking = {"resultType": "input_required", "inputRequests": {"x": {"method": "roots/list"}}, "requestState": "s"}

    async def answer(call):
        return asking if "inputResponses" not in call.params else {"messages": [], "description": "done"}

    ask.given["a"] = answer
    async with world(tmp_path, {"ask": ask}, listing="auto") as w:
        async with w.client(MODERN) as client:
            first = await client.ask("prompts/get", {"name": "ask__a"})
            assert {key: first[key] for key in asking} == asking
            again = {"inputResponses": {"x": {"roots": []}}, "requestState": "s"}
            assert (await client.ask("prompts/get", {"name": "ask__a", **again}))["description"] == "done"
            assert ask.received[-1]["params"]["requestState"] == "s"
        async with w.client() as client:
            with pytest.raises(MCPError, match="asked for input"):
                await client.ask("prompts/get", {"name": "ask__a"})


async def test_progress_of_a_prompt_reaches_who_asked_for_it(tmp_path):
    ask = server({"name": "a"})

    async def answer(call):
        await call.report(1, 2, "half")
        return {"messages": []}

    ask.given["a"] = answer
    async with world(tmp_path, {"ask": ask}) as w, w.client() as client:
        seen = []

        async def note(*facts):
            seen.append(facts)

        await client.ask("prompts/get", {"name": "ask__a"}, on_progress=note)
        assert seen == [(1, 2, "half")]
