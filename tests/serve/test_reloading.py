"""A running ``toolcrib serve`` reads its config again: on SIGHUP, and when the file changes if it is asked to."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from fakes.menu import FakeServer, tool
from serve.served import Served, command, environment, served, started, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def until_said(crib: Served, text: str) -> None:
    with anyio.fail_after(60):
        while text not in crib.said:
            await anyio.sleep(0.02)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the config in its place, as an editor does that writes another file over it."""
    config = folder / "toolcrib.json"
    document = json.loads(config.read_text())
    change(document)
    beside = folder / "toolcrib.json.new"
    beside.write_text(json.dumps(document))
    beside.replace(config)


def deny(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["toolcrib"].update(policy={"deny": [name]})


async def test_sighup_takes_up_a_new_policy_and_leaves_the_server_its_process(tmp_path):
    fake = FakeServer(tmp_path, tools=["echo", "erase"])
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        await crib.tool("tool_call", name="fake__echo")
        started_once = fake.starts()
        rewrite(tmp_path, deny("erase"))
        crib.process.send_signal(signal.SIGHUP)
        await until_said(crib, "the config is reloaded, 1 servers are in it")
        refused = await crib.tool("tool_call", name="fake__erase")
        assert refused["isError"]
        assert "Unknown tool" in json.dumps(refused)
        assert not (await crib.tool("tool_call", name="fake__echo"))["isError"]
        assert fake.starts() == started_once
        crib.close_stdin()
        assert await crib.ended() == 0
    assert not fake.survivors()


async def test_sighup_between_the_early_answer_and_the_loaded_server_is_a_reload_too(tmp_path):
    fake = FakeServer(tmp_path, tools=["echo"])
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        await crib.tool("tool_search", query="echo")
        crib.close_stdin()
        assert await crib.ended() == 0
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        crib.process.send_signal(signal.SIGHUP)
        await until_said(crib, "the config is reloaded, 1 servers are in it")
        assert not (await crib.tool("tool_call", name="fake__echo"))["isError"]
    assert not fake.survivors()


async def test_a_mistake_in_an_entry_stops_that_server_alone_until_it_is_mended(tmp_path):
    fake, other = FakeServer(tmp_path, tools=["echo"]), FakeServer(tmp_path, "other", tools=["echo"])
    async with served(tmp_path, fake, other) as crib:
        await crib.initialize()
        for entry, servers in (({**other.entry(), "args": "-y z"}, 1), (other.entry(), 2)):
            rewrite(tmp_path, lambda document, entry=entry: document["mcpServers"].update(other=entry))
            crib.process.send_signal(signal.SIGHUP)
            await until_said(crib, f"the config is reloaded, {servers} servers are in it")
            assert (await crib.tool("tool_call", name="other__echo"))["isError"] is (servers == 1)
            assert not (await crib.tool("tool_call", name="fake__echo"))["isError"]
        assert "mcpServers.other: cannot be used: args must be a list" in crib.said
    assert not fake.survivors()
    assert not other.survivors()


async def test_a_file_that_is_broken_changes_nothing_and_both_say_why(tmp_path):
    fake = FakeServer(tmp_path, tools=["echo"])
    async with served(tmp_path, fake) as crib:
        await crib.initialize()
        (tmp_path / "toolcrib.json").write_text('{"mcpServers": ')
        crib.process.send_signal(signal.SIGHUP)
        await until_said(crib, "the config is not reloaded, and nothing has changed.")
        assert not (await crib.tool("tool_call", name="fake__echo"))["isError"]
        write_config(tmp_path, limits={"close_timeout_s": 0.6})
        status = [sys.executable, "-m", "toolcrib", "status", "--config", str(tmp_path / "toolcrib.json")]
        said = (await anyio.run_process(status, env=environment(tmp_path))).stdout.decode()
        assert "the config could not be reloaded" in said
        assert "is not JSON" in said
    assert not fake.survivors()


async def test_a_file_that_is_watched_is_read_again_when_it_changes(tmp_path):
    fake = FakeServer(tmp_path, tools=["echo"])
    async with served(tmp_path, fake, options=["--watch"]) as crib:
        await crib.initialize()
        await crib.tool("tool_search", query="echo")
        other = FakeServer(tmp_path, "other", tools=[tool("paint", "Paint a wall.")])
        rewrite(tmp_path, lambda document: document["mcpServers"].update(other=other.entry()))
        await until_said(crib, "the config is reloaded, 2 servers are in it")
        found = await crib.tool("tool_search", query="paint a wall")
        assert found["structuredContent"]["tools"][0]["name"] == "other__paint"
        assert "reload" not in crib.said.replace("reloaded", "")
    assert not [*fake.survivors(), *other.survivors()]


async def test_the_file_of_variables_is_watched_with_the_config(tmp_path):
    fake = FakeServer(tmp_path, tools=["env"])
    variables = tmp_path / "toolcrib.env"
    async with served(tmp_path, fake, options=["--watch"], env_file="toolcrib.env") as crib:
        await crib.initialize()
        await crib.tool("tool_search", query="env")
        rewrite(tmp_path, lambda document: document["mcpServers"].update(fake=fake.entry(env={"T": "${T_NEW}"})))
        await until_said(crib, "the config is reloaded, 0 servers are in it")
        assert f"write T_NEW=… into {variables}" in crib.said
        variables.write_text("T_NEW=from-the-file\n")
        await until_said(crib, "the config is reloaded, 1 servers are in it")
        answer = await crib.tool("tool_call", name="fake__env")
        assert json.loads(answer["content"][0]["text"])["T"] == "from-the-file"
    assert not fake.survivors()


async def test_over_http_a_token_that_is_taken_out_is_refused_from_then_on(tmp_path):
    fake = FakeServer(tmp_path, tools=["echo"])
    tokens = [{"token": "t" * 32, "subject": "ann"}, {"token": "u" * 32, "subject": "bob"}]
    config = write_config(tmp_path, fake, http={"port": 0, "tokens": tokens})
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}

    async with started(command(config, "--transport", "http"), tmp_path) as crib, httpx2.AsyncClient() as client:
        await until_said(crib, "serving http")
        url = crib.said.partition("serving ")[2].split()[0]

        async def code(token: str) -> int:
            headers = {"Authorization": f"Bearer {token * 32}", "Accept": "application/json, text/event-stream"}
            return (await client.post(url, json=body, headers=headers, timeout=30)).status_code

        assert 401 not in (await code("t"), await code("u"))
        rewrite(tmp_path, lambda document: document["toolcrib"]["http"].update(tokens=tokens[:1], port=1))
        crib.process.send_signal(signal.SIGHUP)
        await until_said(crib, "restart toolcrib to apply changes in http.port")
        assert await code("t") != 401
        assert await code("u") == 401
    assert not fake.survivors()
