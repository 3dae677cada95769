"""MCP Inspector as the client: a host that checks what it is told, and calls only what it is listed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from conformance.ways import COMMAND
from e2e.crib import serve, served_over_http, write_config
from e2e.npm import Npm, entry
from fakes.menu import FakeServer, tool
from worlds import OWN_TOOLS

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "modern")
PLACE = "toolcrib://servers/zoo/"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    tools = [tool("echo", "Say it again.", {"text": "string"}), tool("hidden", "Not listed.")]
    fake = FakeServer(tmp_path, "zoo", tools=tools)
    return write_config(tmp_path, {"zoo": fake.entry()}, tool_search={"always_loaded_patterns": ["zoo.echo"]})


@pytest.fixture
def offering(tmp_path: Path) -> Path:
    """Write a config whose server offers resources, templates and prompts."""
    return write_config(tmp_path, {"zoo": {"command": COMMAND[0], "args": COMMAND[1:]}})


async def ask(npm: Npm, target: list[str], *options: str, fails: bool = False) -> dict[str, Any]:
    """Run Inspector once and return what it prints; by its exit code it must be content, or not."""
    command = npm.inspector(*target, *options)
    ended = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    )
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    return json.loads(ended.stdout or ended.stderr)


def listing(era: str) -> list[str]:
    return ["--listing", "dynamic" if era == "legacy" else "auto"]


async def check(npm: Npm, target: list[str], era: str) -> None:
    mine = ["--protocol-era", era]
    listed = await ask(npm, target, *mine, "--method", "tools/list", "--strict")
    names = [tool["name"] for tool in listed["result"]["tools"]]
    assert names == [*OWN_TOOLS, "zoo__echo"]
    called = await ask(npm, target, *mine, *call("zoo__echo", {"text": "hi"}))
    assert called["result"]["structuredContent"] == {"text": "hi"}
    called = await ask(npm, target, *mine, *call("tool_call", {"name": "zoo__hidden", "arguments": {"a": 1}}))
    assert called["result"]["content"][0]["text"] == 'ran hidden {"a": 1}'
    found = await ask(npm, target, *mine, *call("tool_search", {"query": "not listed"}))
    assert found["result"]["structuredContent"]["tools"][0]["name"] == "zoo__hidden"
    refused = await ask(npm, target, *mine, *call("zoo__hidden", {}), fails=True)
    assert refused["error"]["code"] == "tool_not_found"


async def check_offers(npm: Npm, target: list[str], era: str) -> None:
    async def get(*options: str, fails: bool = False) -> dict[str, Any]:
        return await ask(npm, target, "--protocol-era", era, "--method", *options, fails=fails)

    listed = (await get("resources/list"))["result"]["resources"]
    assert {f"{PLACE}test://static-text", "toolcrib://status"} <= {resource["uri"] for resource in listed}
    [template] = (await get("resources/templates/list"))["result"]["resourceTemplates"]
    assert template["uriTemplate"] == f"{PLACE}test://template/{{id}}/data"
    for uri, said in (("test://static-text", "the static text"), ("test://template/7/data", "Data for ID: 7")):
        [content] = (await get("resources/read", "--uri", PLACE + uri))["result"]["contents"]
        assert content["uri"] == PLACE + uri
        assert said in content["text"]
    prompts = {prompt["name"]: prompt for prompt in (await get("prompts/list"))["result"]["prompts"]}
    name = "zoo__test_prompt_with_arguments"
    assert [argument["name"] for argument in prompts[name]["arguments"]] == ["arg1", "arg2"]
    given = ("--prompt-args", "arg1=one", "arg2=two")
    [message] = (await get("prompts/get", "--prompt-name", name, *given))["result"]["messages"]
    assert message["content"]["text"] == "Prompt with arguments: arg1='one', arg2='two'"
    await get("resources/read", "--uri", f"{PLACE}test://none", fails=True)


def call(name: str, arguments: dict[str, Any]) -> list[str]:
    return ["--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)]


@pytest.mark.parametrize("era", ERAS)
async def test_inspector_works_over_stdio(npm: Npm, config: Path, tmp_path: Path, era: str):
    registered = tmp_path / "registered.json"
    registered.write_text(json.dumps({"mcpServers": {"toolcrib": entry(serve(config, *listing(era)))}}))
    await check(npm, ["--config", str(registered), "--server", "toolcrib"], era)


@pytest.mark.parametrize("era", ERAS)
async def test_inspector_works_over_http(npm: Npm, config: Path, era: str):
    async with served_over_http(config, *listing(era)) as url:
        await check(npm, ["--server-url", url, "--transport", "http"], era)


async def test_inspector_falls_back_where_only_sessions_are_served(npm: Npm, config: Path):
    async with served_over_http(config, "--listing", "dynamic") as url:
        await check(npm, ["--server-url", url, "--transport", "http"], "auto")


@pytest.mark.parametrize("era", ERAS)
async def test_inspector_reads_resources_and_gets_prompts_over_stdio(
    npm: Npm, offering: Path, tmp_path: Path, era: str
):
    registered = tmp_path / "registered.json"
    registered.write_text(json.dumps({"mcpServers": {"toolcrib": entry(serve(offering, *listing(era)))}}))
    await check_offers(npm, ["--config", str(registered), "--server", "toolcrib"], era)


@pytest.mark.parametrize("era", ERAS)
async def test_inspector_reads_resources_and_gets_prompts_over_http(npm: Npm, offering: Path, era: str):
    async with served_over_http(offering, *listing(era)) as url:
        await check_offers(npm, ["--server-url", url, "--transport", "http"], era)
