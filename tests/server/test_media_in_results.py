"""Images, audio and blobs in results: on the first page of every client, and their bytes never again as text (R405)."""

import base64
import json
import random
import time
from typing import Any

import pytest

from fakes.menu import tool
from toolcrib.gateway.blocks import repeats_media, structured_text
from toolcrib.policy.client_profiles import ClientProfiles
from worlds import ERAS, JsonObject, MemoryServer, configured, world

pytestmark = pytest.mark.anyio

HOSTS = ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client", "opencode", "copilot-cli", "@cline/core"]
TEXT_ALONE = ["gemini-cli-mcp-client", "opencode"]
UNKNOWN = ["cursor-vscode", ""]
SCHEMA = {"type": "object", "properties": {"result": {}}}


def encoded(size: int) -> str:
    """Return base64 of so many bytes."""
    return base64.b64encode(random.Random(size).randbytes(size)).decode()


LARGE, SMALL, TINY = encoded(900_000), encoded(9_000), encoded(100)


def image(data: str) -> JsonObject:
    return {"type": "image", "data": data, "mimeType": "image/png"}


def text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def server(result: JsonObject, **more: Any) -> dict[str, MemoryServer]:
    return {"web": MemoryServer([{**tool("shot", "Take one."), **more}], answers={"shot": result})}


MEDIA = {
    "image": image(LARGE),
    "audio": {"type": "audio", "data": LARGE, "mimeType": "audio/wav"},
    "blob": {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": LARGE}},
}


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("host", [*HOSTS, *UNKNOWN])
@pytest.mark.parametrize("media", MEDIA.values(), ids=MEDIA)
async def test_media_reach_every_client_whole_with_their_text(tmp_path, media, host, era):
    config = {"gate": {"expose": {"resources": "off"}}}  # so that addresses are the server's own
    async with world(tmp_path, server({"content": [media, text("Saved.")]}), config) as w:
        async with w.client(era, name=host) as client:
            for door in ("web__shot", "tool_call"):
                result = await client.call(door, {"name": "web__shot"} if door == "tool_call" else {})
                assert result["content"] == [media, text("Saved.")]


@pytest.mark.parametrize("host", [HOSTS[0], UNKNOWN[0]])
async def test_the_text_beside_an_image_is_read_on(tmp_path, host):
    lines = "".join(f"line {number} of the log, with some words\n" for number in range(40_000))
    async with world(tmp_path, server({"content": [text(lines), image(LARGE)]})) as w, w.client(name=host) as client:
        first = await client.tool_call("web__shot")
        assert [block["type"] for block in first["content"]] == ["text", "image", "text"]
        assert first["content"][1] == image(LARGE)
        assert lines.startswith(first["content"][0]["text"])
        assert len(first["content"][0]["text"]) > 20_000


def copies(data: str) -> dict[str, Any]:
    """Return structured content that has an image again, in the forms of servers, and what else it says."""
    in_lines = "\r\n".join(data[at : at + 76] for at in range(0, len(data), 76))
    return {
        "as its only block": {"result": [image(data)]},
        "with null members": {"result": {**image(data), "annotations": None, "_meta": None}},
        "beside a caption": {"result": [image(data)], "caption": "a cat"},
        "in an address": {"caption": "a cat", "url": f"data:image/png;base64,{data}"},
        "in lines": {"caption": "a cat", "png": in_lines},
        "in an address in lines": {"caption": "a cat", "url": f"data:image/png;base64,{in_lines}"},
        "without padding": {"caption": "a cat", "png": data.rstrip("=")},
        "in JSON in a text": {"caption": "a cat", "said": json.dumps(image(data)).replace("/", "\\/")},
        "in lines in JSON in a text": {"caption": "a cat", "said": json.dumps(image(in_lines))},
        "in Markdown": {"page": f"a cat ![](data:image/png;base64,{data}) as seen"},
        "between lines of letters": {"page": f"a\ncat\n{in_lines}\n\nend of mail", "caption": "a cat"},
        "in lines that are indented": {"page": in_lines.replace("\r\n", "\n  "), "caption": "a cat"},
        "behind a path": {"page": f"img/{data}/a.png", "caption": "a cat"},
        "as a name": {data: "a cat"},
    }


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("size", [9_000, 300_000])
@pytest.mark.parametrize("form", copies(TINY))
async def test_a_host_shows_no_bytes_again_and_all_that_is_said_besides(tmp_path, form, size, host, era):
    data = encoded(size)
    answer = {"content": [image(data)], "structuredContent": copies(data)[form]}
    async with world(tmp_path, server(answer)) as w, w.client(era, name=host) as client:
        result = await client.tool_call("web__shot")
        assert result["content"][0] == image(data)
        said = "".join(block["text"] for block in result["content"][1:])
        structured = None if host in TEXT_ALONE else result.get("structuredContent")
        assert letters(data[80:140]) not in letters(json.dumps([said, structured]))
        if form in ("as its only block", "with null members"):
            assert said == ""
        else:
            assert "a cat" in said
            assert "[the bytes of image 1]" in said
        assert "[toolcrib" not in said


async def test_each_of_several_images_is_named(tmp_path):
    before, after = encoded(9_000), encoded(9_001)
    answer = {"content": [text("two"), image(before), image(after)], "structuredContent": {"new": after, "old": before}}
    async with world(tmp_path, server(answer)) as w, w.client(name=HOSTS[0]) as client:
        result = await client.tool_call("web__shot")
        said = {"new": "[the bytes of image 2]", "old": "[the bytes of image 1]"}
        assert [*result["content"][:3], json.loads(result["content"][3]["text"])] == [*answer["content"], said]


async def test_a_short_result_is_not_cut_and_loses_nothing_but_the_bytes(tmp_path):
    more = {"_meta": {"web/notes": "n" * 25_000}, "vendor": "v"}
    answer = {"content": [text("x" * 30_000), image(SMALL)], "structuredContent": {"png": SMALL}, **more}
    async with world(tmp_path, server(answer)) as w, w.client(name=HOSTS[0]) as client:
        result = await client.tool_call("web__shot")
        assert [block.get("text") for block in result["content"]] == [
            "x" * 30_000,
            None,
            '{"png":"[the bytes of image 1]"}',
        ]
        assert (result["_meta"]["web/notes"], result["vendor"]) == ("n" * 25_000, "v")


@pytest.mark.parametrize("host", TEXT_ALONE)
async def test_structured_content_that_a_host_never_shows_stays_beside_a_text(tmp_path, host):
    answer = {"content": [text("A cat."), image(SMALL)], "structuredContent": {"png": SMALL, "w": 640}}
    async with world(tmp_path, server(answer)) as w, w.client(name=host) as client:
        result = await client.tool_call("web__shot")
        assert {key: result[key] for key in answer} == answer


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("host", UNKNOWN)
async def test_an_unknown_client_gets_what_the_server_sends(tmp_path, host, era):
    answer = {"content": [image(SMALL)], "structuredContent": {"result": [image(SMALL)]}}
    async with world(tmp_path, server(answer)) as w, w.client(era, name=host) as client:
        result = await client.tool_call("web__shot")
        assert {key: result[key] for key in answer} == answer


async def test_declared_structured_content_of_a_listed_tool_stays_whole(tmp_path):
    config = {"servers": {"web": {"always_loaded_tools": ["shot"]}}}
    for data in (SMALL, LARGE):
        answer = {"content": [image(data)], "structuredContent": {"result": [image(data)]}}
        async with world(tmp_path, server(answer, outputSchema=SCHEMA), config) as w:
            async with w.client(name=HOSTS[0]) as client:
                await client.tools()
                result = await client.call_tool("web__shot", {})
                assert result.structured_content == answer["structuredContent"]
                assert [block.type for block in result.content] == ["image"]


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ([image(TINY)], {"png": SMALL}),
        ([image(TINY)], {"result": [image(SMALL)]}),
        ([image(TINY)], {"id": TINY}),
        ([image(SMALL)], {"id": "=" * 300}),
        ([image("=" * 300)], {"rule": "=" * 300}),
        ([image(SMALL), image(TINY)], {"result": [image(TINY), image(SMALL)]}),
        ([image(TINY)], {"result": [image(TINY), image(TINY)]}),
        ([image(TINY)], {"result": []}),
        ([image(TINY), {}], {"error": None}),
        ([image(TINY), None], {"result": None}),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
async def test_what_the_blocks_do_not_say_is_said(tmp_path, content, structured):
    async with world(tmp_path, server({"content": content, "structuredContent": structured})) as w:
        async with w.client(name="opencode") as client:
            said = (await client.tool_call("web__shot"))["content"][-1]["text"]
            shown = json.dumps(structured, separators=(",", ":")).replace(SMALL, "[the bytes of image 1]")
            assert said == (json.dumps(structured, separators=(",", ":")) if content == [image(TINY)] else shown)


async def test_items_are_said_once_each_and_in_their_order():
    for texts, items in ((["a"], ["a", "a"]), (["1", "2"], [2, 1]), (["true"], [True] * 5), (["[]"], [[], []])):
        result = {"content": [text(each) for each in texts], "structuredContent": {"result": items}}
        assert json.loads(structured_text(result)) == {"result": items}
        result["content"] = [text("Found:"), *(text(json.dumps(item)) for item in items)]
        assert structured_text(result) == ""


RUNS = ["A" * 255 + " ", "A\n" * 127 + "!", "A" * 48 + "\n", "\\n" * 127 + "A!", "A\\/" * 120 + " ", "A", "words, "]


@pytest.mark.parametrize("held", RUNS, ids=lambda held: repr(held[:9]))
async def test_bytes_are_looked_for_in_time_proportional_to_the_size(held):
    def took(size: int) -> float:
        data = "A" * (size // 4) + "B" * 400
        result = {
            "content": [image(data), image(data[:300])],
            "structuredContent": {"held": held * (size // len(held))},
        }
        began = time.thread_time()
        repeats_media(result)
        structured_text(result)
        return time.thread_time() - began

    few, many = (min(took(size) for _ in range(3)) for size in (100_000, 800_000))
    assert many < 30 * few
    assert many < 2  # seconds of one processor; measured: 0.01 to 0.2


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("content", [{"blob": SMALL}, {"text": "said " * 20_000}], ids=["blob", "text"])
async def test_a_resource_is_said_once_though_its_address_is_public(tmp_path, content, era):
    held = {"type": "resource", "resource": {"uri": "file:///a", "mimeType": None, **content}}
    link = {"type": "resource_link", "uri": "file:///b", "name": "b"}
    answer = {"content": [held, link], "structuredContent": {"result": [held, link]}}
    async with world(tmp_path, server(answer)) as w, w.client(era, name=HOSTS[0]) as client:
        result = await client.tool_call("web__shot")
        assert result["content"][0]["resource"]["uri"] == "toolcrib://servers/web/file:///a"
        assert "structuredContent" not in result
        assert "structuredContent" not in json.dumps(result["content"])


@pytest.mark.parametrize("value", [[image(SMALL)], ["a", 1], "a", 7, False, []], ids=str)
async def test_what_is_not_an_object_is_a_text_for_clients_with_sessions_unless_it_is_said(tmp_path, value):
    said = [image(SMALL)] if isinstance(value, list) and image(SMALL) in value else [text(json.dumps(value))]
    for content in ([], said):
        async with world(tmp_path, server({"content": content, "structuredContent": value})) as w:
            async with w.client("legacy") as client:
                result = await client.tool_call("web__shot")
                assert "structuredContent" not in result
                [block] = result["content"]
                assert json.loads(block["text"]) == value if block["type"] == "text" else block == said[0]
            async with w.client(ERAS[1]) as client:
                result = await client.tool_call("web__shot")
                assert (result["content"], result["structuredContent"]) == (content, value)


def test_of_every_known_host_there_is_one_here(tmp_path):
    table = ClientProfiles(configured(tmp_path, {}, {}), "stdio").table
    assert {host.shows for host in table} == {host.shows for host in table if host.clients.rstrip("*") in HOSTS}
