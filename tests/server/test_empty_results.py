"""Results that are empty, or have structured content and no text: a success to every client (R404)."""

import json
from typing import Any

import pytest
from repository import ON, ran

from fakes.menu import tool
from fakes.tasks import TaskServer
from worlds import ERAS, Client, JsonObject, MemoryServer, text, world

pytestmark = pytest.mark.anyio

TEXT_ALONE = ["gemini-cli-mcp-client-x", "opencode", "continue-cli-client"]
OTHERS = ["claude-code", "copilot-cli", "somebody"]
EMPTY: dict[str, JsonObject] = {"nothing": {}, "no content": {"content": None}, "no blocks": {"content": []}}
STRUCTURED: JsonObject = {"rows": [{"id": 1}], "next": None}
AS_TEXT = '{"rows":[{"id":1}],"next":null}'
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
BLANK = {"type": "text", "text": " \n"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a", "text": "said"}}


def server(result: JsonObject, **more: Any) -> dict[str, MemoryServer]:
    return {"db": MemoryServer([tool("delete_row", "Delete a row.", **more)], answers={"delete_row": result})}


async def called(client: Client, door: str) -> JsonObject:
    call = client.call if door == "direct" else client.tool_call
    result = await call("db__delete_row", {})
    return {key: value for key, value in result.items() if key not in ("_meta", "resultType")}


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", ["direct", "tool_call"])
@pytest.mark.parametrize("answer", EMPTY.values(), ids=EMPTY)
async def test_an_empty_result_is_a_success_without_content(tmp_path, answer, door, era):
    async with world(tmp_path, server(answer)) as w, w.client(era) as client:
        assert await called(client, door) == {"content": []}
        assert (await client.call_tool("db__delete_row", {})).content == []
        assert [each["ok"] for each in w.happened("tool_call")] == [True, True]
        assert len(w["db"].calls()) == 2


async def test_an_empty_result_takes_no_bytes(tmp_path):
    db = server({})
    db["db"].eras = ("legacy",)
    async with world(tmp_path, db) as w, w.client() as client:
        await client.tool_call("db__delete_row")
        assert [each["bytes"] for each in w.happened("tool_call")] == [0]


@pytest.mark.parametrize("era", ERAS)
async def test_what_else_an_empty_result_says_stays(tmp_path, era):
    more = {"isError": True, "_meta": {"db/took": 3}, "vendor": 1}
    async with world(tmp_path, server(more)) as w, w.client(era) as client:
        result = await client.tool_call("db__delete_row")
        assert (result["isError"], result["vendor"], result["content"]) == (True, 1, [])
        assert result["_meta"]["db/took"] == 3


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_an_empty_answer_to_other_requests_is_passed_on(tmp_path, method, era):
    offers = {"prompts": [{"name": "greet"}], "resources": [{"name": "a", "uri": "file:///a"}]}
    db = MemoryServer(offers=offers, given={"greet": {}, "file:///a": {}})
    async with world(tmp_path, {"db": db}) as w, w.client(era) as client:
        resource = (await client.ask("resources/list", {}))["resources"][-1]
        given = {"name": "db__greet"} if method == "prompts/get" else {"uri": resource["uri"]}
        assert set(await client.ask(method, given)) <= {"_meta", "resultType", "ttlMs", "cacheScope"}


@pytest.mark.parametrize("form", ["legacy", "modern"])
async def test_a_task_that_ends_with_nothing_has_ended_well(tmp_path, form):
    async def nothing(_task: Any) -> JsonObject:
        return {}

    async with world(tmp_path, {"lab": TaskServer(eras=(form,), script=nothing)}) as w, w.client() as client:
        result = await client.tool_call("lab__research", {"topic": "owls"})
        assert (result["content"], result.get("isError", False)) == ([], False)


async def test_a_program_goes_on_after_an_empty_result(tmp_path):
    code = "from tools import db__delete_row\nrepr(await db__delete_row())"
    reading = server({}, annotations={"readOnlyHint": True})
    async with world(tmp_path, reading, ON) as w, w.client() as client:
        assert await ran(client, code) == "''"


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("host", [*TEXT_ALONE, *OTHERS])
@pytest.mark.parametrize("blocks", [[], [BLANK], [IMAGE]], ids=["nothing", "a blank text", "an image"])
async def test_structured_content_is_a_text_too_for_hosts_that_show_text_alone(tmp_path, blocks, host, era):
    answer = {"content": blocks, "structuredContent": STRUCTURED}
    async with world(tmp_path, server(answer)) as w, w.client(era, name=host) as client:
        added = [{"type": "text", "text": AS_TEXT}] if host in TEXT_ALONE else []
        for door in ("direct", "tool_call"):
            assert await called(client, door) == {"content": [*blocks, *added], "structuredContent": STRUCTURED}


@pytest.mark.parametrize("block", [{"type": "text", "text": "1 row"}, RESOURCE], ids=["text", "resource"])
async def test_structured_content_beside_a_text_is_not_repeated(tmp_path, block):
    answer = {"content": [block], "structuredContent": STRUCTURED}
    async with world(tmp_path, server(answer)) as w, w.client(name=TEXT_ALONE[0]) as client:
        result = await called(client, "tool_call")
        assert [each["type"] for each in result["content"]] == [block["type"]]
        assert result["structuredContent"] == STRUCTURED


@pytest.mark.parametrize("answer", [[1, 2], "said", 7, False, {}], ids=str)
async def test_every_value_is_written_once(tmp_path, answer):
    async with world(tmp_path, server({"structuredContent": answer})) as w:
        for era in ERAS:
            async with w.client(era, name=TEXT_ALONE[0]) as client:
                [block] = (await client.tool_call("db__delete_row"))["content"]
                assert json.loads(block["text"]) == answer


async def test_a_host_that_is_set_to_get_no_structured_content_gets_its_text(tmp_path):
    config = {"results": {"hosts": {"my-*": {"structured": "never"}}}}
    async with world(tmp_path, server({"structuredContent": STRUCTURED}), config) as w:
        for name, texts in (("my-client", [AS_TEXT]), ("their-client", [])):
            async with w.client(name=name) as client:
                result = await client.tool_call("db__delete_row")
                assert [block["text"] for block in result["content"]] == texts


@pytest.mark.parametrize("value", ["x" * 200_000, [{"id": number} for number in range(20_000)]], ids=["text", "rows"])
async def test_long_structured_content_is_read_on_as_a_text_and_written_once(tmp_path, value):
    structured = {"value": value}
    async with world(tmp_path, server({"structuredContent": structured})) as w:
        async with w.client(name=TEXT_ALONE[0]) as client:
            result = await client.tool_call("db__delete_row")
            said = result["content"][0]["text"]
            while "call toolcrib's" in (notice := result["content"][-1]["text"]):
                _name, _, given = notice.partition("call toolcrib's ")[2].partition(" with ")
                result = await client.call(_name, json.JSONDecoder().raw_decode(given)[0])
                said += result["content"][0]["text"]
            assert json.loads(said) == structured


async def test_text_is_passed_unchanged(tmp_path):
    async with world(tmp_path, server(text("deleted"))) as w, w.client(name=TEXT_ALONE[0]) as client:
        assert (await called(client, "direct"))["content"] == text("deleted")["content"]
