"""Real servers behind a real ``toolcrib serve``: found, called, listed, and answering as they do without it."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import MCPError
from mcp_types import TextContent

from e2e.crib import (
    ERAS,
    JsonObject,
    connected,
    crib,
    free_port,
    listening,
    write_config,
)
from e2e.npm import Npm, entry
from worlds import OWN_TOOLS, Client

pytestmark = pytest.mark.anyio

TIME = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
GIT = [sys.executable, "-m", "mcp_server_git"]


def told(result: JsonObject) -> JsonObject:
    """Return what a result says; what the protocol adds on each hop is left out."""
    return {key: result.get(key) for key in ("content", "structuredContent", "isError")}


CONVERT = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.mark.slow
async def test_a_server_is_found_called_and_listed(tmp_path: Path):
    always = {"servers": {"time": {"start": "eager", "always_loaded_tools": ["convert_time"]}}}
    config = write_config(tmp_path, {"time": entry(TIME)}, **always)
    async with crib("http", "modern", config) as client:
        assert await client.names() == [*OWN_TOOLS, "time__convert_time"]
        assert await client.found("current time") == ["time__get_current_time"]
        through = await client.call("time__convert_time", CONVERT)
    async with connected(TIME, ERAS["modern"]) as time:
        assert told(through) == told(await time.call("convert_time", CONVERT))


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_two_servers_answer_as_they_do_directly(tmp_path: Path, repository: Path, transport: str, era: str):
    config = write_config(tmp_path, {"time": entry(TIME), "git": entry(GIT)})
    log = {"repo_path": str(repository), "max_count": 1}
    nowhere = {"repo_path": str(tmp_path / "nowhere")}
    async with crib(transport, era, config) as client:
        assert await client.names() == OWN_TOOLS
        assert (await client.found("history of commits log"))[0] == "git__git_log"
        assert "time__convert_time" in await client.found("convert between time zones", server="time")
        through = [
            await client.tool_call("time__convert_time", CONVERT),
            await client.call("git__git_log", log),
            await client.call("git__git_log", nowhere),
        ]
        grown = ["git__git_log", "time__convert_time"] if era == "legacy" else []
        assert await client.names() == [*OWN_TOOLS, *grown]
    async with connected(TIME, ERAS[era]) as time, connected(GIT, ERAS[era]) as git:
        directly = [
            await time.call("convert_time", CONVERT),
            await git.call("git_log", log),
            await git.call("git_log", nowhere),
        ]
    assert [told(result) for result in through] == [told(result) for result in directly]
    assert "A start" in through[1]["content"][0]["text"]
    assert through[2]["isError"] is True


# -- from npm ------------------------------------------------------------------------------------

EVERYTHING = [
    ("echo", {"message": "hi"}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-sum", {"a": "one"}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-links", {"count": 2}),
    ("get-nothing", {}),
]
LONG = "trigger-long-running-operation"
LONG_STEPS = {"duration": 0.6, "steps": 3}


@asynccontextmanager
async def everything(npm: Npm, transport: str) -> AsyncGenerator[JsonObject]:
    """Yield the entry of the reference server, started first where it is not a process of toolcrib's own."""
    if transport == "stdio":
        yield entry(npm.everything())
        return
    port = free_port()
    async with listening(npm.everything(transport), port):
        yield {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}


async def answer(client: Client, name: str, arguments: JsonObject) -> JsonObject:
    """Return what a call says; of an error, code and text without the name that was asked for."""
    try:
        return told(await client.call(name, arguments))
    except MCPError as error:
        return {"error": error.code}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("behind", ["stdio", "streamableHttp"])
@pytest.mark.parametrize("before", ["stdio", "http"])
async def test_the_reference_server_answers_as_it_does_directly(
    npm: Npm, tmp_path: Path, before: str, behind: str, era: str
):
    async with everything(npm, behind) as server, crib(before, era, write_config(tmp_path, {"it": server})) as client:
        assert (await client.found("add two numbers sum"))[0] == "it__get-sum"
        through = [await answer(client, f"it__{name}", arguments) for name, arguments in EVERYTHING]
        called = sorted({f"it__{name}" for name, _ in EVERYTHING} - {"it__get-nothing"})
        assert await client.names() == [*OWN_TOOLS, *(called if era == "legacy" else [])]
    async with connected(npm.everything(), "legacy") as direct:
        directly = [await answer(direct, name, arguments) for name, arguments in EVERYTHING]
        definitions = {tool["name"]: tool for tool in await direct.tools()}
    directly[-1] = {"error": -32602}  # for what does not exist, toolcrib itself answers
    assert through == [
        {**result, "isError": result.get("isError")} if "content" in result else result
        for result in json.loads(json.dumps(directly).replace('"demo://', '"toolcrib://servers/it/demo://'))
    ]
    assert definitions.keys() > {name for name, _ in EVERYTHING[:-1]}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("before", ["stdio", "http"])
async def test_progress_of_a_long_call_arrives_step_by_step(npm: Npm, tmp_path: Path, before: str, era: str):
    steps: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async with crib(before, era, write_config(tmp_path, {"it": entry(npm.everything())})) as client:
        for name, arguments in ((f"it__{LONG}", LONG_STEPS), ("tool_call", {"name": LONG, "arguments": LONG_STEPS})):
            steps.clear()
            result = await client.call_tool(name, arguments, progress_callback=note)
            # What the server says of itself stands behind the first result of tool_call.
            assert result.content[0] == TextContent(
                text="Long running operation completed. Duration: 0.6 seconds, Steps: 3."
            )
            assert steps == [(1, 3), (2, 3), (3, 3)]


async def test_a_listed_tool_is_its_own_definition_under_another_name(npm: Npm, tmp_path: Path):
    always = {"tool_search": {"default_loading_mode": "always"}}
    async with connected(npm.everything(), "legacy") as direct:
        own = {tool["name"]: tool for tool in await direct.tools()}
    async with crib("stdio", "legacy", write_config(tmp_path, {"it": entry(npm.everything())}, **always)) as client:
        for tool in (await client.tools())[len(OWN_TOOLS) :]:
            source = tool.pop("_meta").pop("toolcrib/source")
            mine = own.pop(source["tool"])
            mine.pop("_meta", None)
            if mine.get("execution") == {"taskSupport": "required"}:  # toolcrib runs it for whoever has no tasks
                mine["execution"] = {"taskSupport": "optional"}
            assert tool == {**mine, "name": f"it__{source['tool']}"}
    assert own == {}


async def test_files_and_memories_are_written_and_read_through_toolcrib(npm: Npm, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    memory = entry(npm.memory(), env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    config = write_config(tmp_path, {"files": entry(npm.filesystem(folder)), "memory": memory})
    async with crib("stdio", "legacy", config) as client:
        write = {"path": str(folder / "a.txt"), "content": "kept"}
        assert not (await client.tool_call("files__write_file", write)).get("isError")
        assert (folder / "a.txt").read_text() == "kept"
        outside = await client.tool_call("files__read_text_file", {"path": str(tmp_path / "toolcrib.json")})
        assert outside["isError"] is True
        ann = {"name": "Ann", "entityType": "person", "observations": ["keeps the crib"]}
        await client.call("memory__create_entities", {"entities": [ann]})
        graph = (await client.tool_call("memory__read_graph"))["structuredContent"]
        assert graph["entities"][0]["observations"] == ["keeps the crib"]
        grown = ["files__read_text_file", "files__write_file", "memory__create_entities", "memory__read_graph"]
        assert await client.names() == [*OWN_TOOLS, *grown]
