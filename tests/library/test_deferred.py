"""Tools in the formats of model APIs that search for tools, and what a model is answered there."""

import base64
from typing import Any

import mcp.types
import pytest
from mcp.server import Server

import toolcrib

pytestmark = pytest.mark.anyio

PIXEL = base64.b64encode(b"pixel").decode()


def forecast(city: str) -> str:
    """Tell the weather of the next days in a city."""
    if city != "Oslo":
        raise ValueError("There is no such city.")
    return "Rain from noon on."


def use(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def function_call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments}


def search_call(arguments: Any, execution: str = "client") -> dict[str, Any]:
    return {"type": "tool_search_call", "call_id": "call_1", "arguments": arguments, "execution": execution}


def text_of(answer: dict[str, Any]) -> str:
    [block] = answer.get("content") or answer["output"]
    return block["text"]


async def test_anthropic_gets_a_search_tool_and_every_definition_to_be_loaded_later():
    async with toolcrib.open(tools=[forecast]) as crib:
        search, tool = await crib.as_deferred_tools("anthropic")
        assert (search["name"], list(search["input_schema"]["properties"])) == ("tool_search", ["query"])
        assert "defer_loading" not in search, "the API refuses a request whose tools are all deferred"
        assert tool == {
            "name": "local__forecast",
            "description": "Tell the weather of the next days in a city.",
            "input_schema": (await crib.tools())[0].input_schema,
            "defer_loading": True,
        }


async def test_openai_gets_no_definition_before_it_is_found():
    async with toolcrib.open(tools=[forecast]) as crib:
        [search] = await crib.as_deferred_tools("openai")
        assert (search["type"], search["execution"]) == ("tool_search", "client")
        found = await crib.answer(search_call({"query": "weather in a city"}))
        assert (found["type"], found["call_id"], found["execution"]) == ("tool_search_output", "call_1", "client")
        assert [(tool["name"], tool["defer_loading"]) for tool in found["tools"]] == [("local__forecast", True)]
        assert found["tools"][0]["parameters"]["required"] == ["city"]


async def test_a_search_that_the_api_makes_is_over_all_definitions():
    async with toolcrib.open(tools=[forecast]) as crib:
        anthropic = await crib.as_deferred_tools("anthropic", hosted_search=True)
        openai = await crib.as_deferred_tools("openai", hosted_search=True)
    assert anthropic[0] == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
    assert openai[0] == {"type": "tool_search"}
    for tools in (anthropic, openai):
        assert [tool["name"] for tool in tools[1:] if tool["defer_loading"]] == ["local__forecast"]


async def test_what_both_apis_refuse_at_the_top_of_a_schema_is_left_out():
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}, "anyOf": [{"required": ["a"]}]}
    async with toolcrib.open(servers={"odd": odd(input_schema=schema)}) as crib:
        [_, anthropic] = await crib.as_deferred_tools("anthropic")
        [_, openai] = await crib.as_deferred_tools("openai", hosted_search=True)
    for given in (anthropic["input_schema"], openai["parameters"]):
        assert given == {"type": "object", "properties": schema["properties"]}


async def test_a_denied_tool_is_neither_offered_nor_found_nor_called():
    config = {"toolcrib": {"policy": {"deny": ["local.forecast"]}}}
    async with toolcrib.open(config, tools=[forecast]) as crib:
        assert [tool["name"] for tool in await crib.as_deferred_tools("anthropic")] == ["tool_search"]
        denied = await crib.answer(use("local__forecast", {"city": "Oslo"}))
        missing = await crib.answer(use("local__forecasts", {"city": "Oslo"}))
        found = await crib.answer(use("tool_search", {"query": "weather in a city"}))
    assert denied["is_error"]
    assert text_of(denied).replace("forecast", "forecasts") == text_of(missing)
    assert "forecast" not in str(found)


async def test_a_search_is_answered_with_references():
    async with toolcrib.open(tools=[forecast]) as crib:
        found = await crib.answer(use("tool_search", {"query": "weather in a city"}))
        nothing = await crib.answer(use("tool_search", {"query": "zzzz"}))
    assert found == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "tool_reference", "tool_name": "local__forecast"}],
    }
    assert text_of(nothing)
    assert "is_error" not in nothing


async def test_a_call_is_answered_with_what_the_tool_returned():
    async with toolcrib.open(tools=[forecast]) as crib:
        anthropic = await crib.answer(use("local__forecast", {"city": "Oslo"}))
        openai = await crib.answer(function_call("local__forecast", '{"city": "Oslo"}'))
    text = "Rain from noon on."
    content = [{"type": "text", "text": text}]
    assert anthropic == {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    output = [{"type": "input_text", "text": text}]
    assert openai == {"type": "function_call_output", "call_id": "call_1", "output": output}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("block", "said"),
    [
        (use("local__forecast", {"city": "Rome"}), "no such city"),
        (use("local__forecast", {}), "city"),
        (use("local__forecast", "Oslo"), "no JSON"),
        (use("nobody__knows", {}), "Unknown tool"),
        (use("tool_search", {"query": " "}), "query"),
        (use("tool_search", {}), "query"),
        (function_call("local__forecast", "{"), "no JSON"),
        (function_call("local__forecast", "[]"), "no JSON object"),
        (function_call("local__forecast", ""), "city"),
    ],
)
async def test_a_model_is_told_what_went_wrong(block: dict[str, Any], said: str):
    async with toolcrib.open(tools=[forecast]) as crib:
        answer = await crib.answer(block)
    assert said in text_of(answer)
    assert answer.get("is_error", True)


async def test_a_search_of_openai_that_cannot_be_made_finds_nothing():
    async with toolcrib.open(tools=[forecast]) as crib:
        answer = await crib.answer(search_call({"queries": ["weather"]}))
    assert (answer["type"], answer["tools"]) == ("tool_search_output", [])


@pytest.mark.parametrize("block", [{"type": "text", "text": "Hello"}, search_call({}, "server"), 7])
async def test_a_block_that_asks_for_nothing_is_refused(block: object):
    async with toolcrib.open(tools=[forecast]) as crib:
        with pytest.raises(toolcrib.BadRequest, match="tool_use"):
            await crib.answer(block)


async def test_another_api_is_refused():
    async with toolcrib.open(tools=[forecast]) as crib:
        with pytest.raises(toolcrib.BadRequest, match="'anthropic' or 'openai'"):
            await crib.as_deferred_tools("mistral")  # pyright: ignore[reportArgumentType] - what is tried


async def test_images_stay_images_and_what_a_model_cannot_read_is_named():
    link = mcp.types.ResourceLink(type="resource_link", name="page", uri="https://example.com/page")
    sound = mcp.types.AudioContent(type="audio", data=PIXEL, mime_type="audio/wav")
    image = mcp.types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
    drawing = mcp.types.ImageContent(type="image", data=PIXEL, mime_type="image/tiff")
    empty = mcp.types.TextContent(type="text", text="")
    async with toolcrib.open(servers={"odd": odd(image, drawing, sound, link, empty)}) as crib:
        anthropic = (await crib.answer(use("odd__show", {})))["content"]
        openai = (await crib.answer(function_call("odd__show", "{}")))["output"]
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert anthropic[0] == {"type": "image", "source": source}
    assert openai[0] == {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    said = ["(image of the type image/tiff, left out)", "(audio of the type audio/wav, left out)", link.uri]
    assert [block["text"] for block in anthropic[1:]] == said
    assert [block["text"] for block in openai[1:]] == said


async def test_a_result_without_text_is_its_structure():
    async with toolcrib.open(servers={"odd": odd(structured={"sky": "grey"})}) as crib:
        assert text_of(await crib.answer(use("odd__show", {}))) == '{"sky": "grey"}'


async def test_a_result_without_anything_is_an_empty_one():
    async with toolcrib.open(servers={"odd": odd()}) as crib:
        assert (await crib.answer(use("odd__show", {})))["content"] == []
        assert (await crib.answer(function_call("odd__show", "{}")))["output"] == ""


def odd(*content: Any, structured: Any = None, input_schema: dict[str, Any] | None = None) -> Any:
    """Return a server with one tool, ``show``, that returns this."""

    async def list_tools(_context: Any, _params: Any) -> mcp.types.ListToolsResult:
        return mcp.types.ListToolsResult(tools=[tool])

    async def call_tool(_context: Any, _params: Any) -> mcp.types.CallToolResult:
        return mcp.types.CallToolResult(content=list(content), structured_content=structured)

    tool = mcp.types.Tool(name="show", description="Shows it.", input_schema=input_schema or {"type": "object"})
    return Server("odd", on_list_tools=list_tools, on_call_tool=call_tool)
