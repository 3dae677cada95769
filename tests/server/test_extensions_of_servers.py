"""Extensions that servers declare and that work through toolcrib are declared to clients, in both eras."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from fakes.memory import MODERN, JsonObject, MemoryServer
from fakes.menu import tool
from toolcrib.server.early import FOLDER, EarlyExchange, StartConditions
from worlds import Client, world

pytestmark = pytest.mark.anyio

UI = "io.modelcontextprotocol/ui"
APPS: JsonObject = {UI: {"mimeTypes": ["text/html;profile=mcp-app"]}}


@dataclass(eq=False)
class Extended(MemoryServer):
    """A server that declares extensions."""

    extensions: JsonObject = field(default_factory=lambda: dict(APPS))

    @property
    def capabilities(self) -> JsonObject:
        return {**super().capabilities, "extensions": self.extensions}


async def declared_to(client: Client) -> JsonObject:
    """Return the extensions in the first answer to a client, as it was sent."""
    if client.protocol_version == MODERN:
        answer = await client.ask("server/discover")
    else:
        [answer] = [frame["result"] for frame in client.frames if "capabilities" in frame.get("result", {})]
    return {name: each for name, each in answer["capabilities"].get("extensions", {}).items() if name == UI}


@pytest.mark.sampled
@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize("spoken", ["legacy", "modern"])
async def test_what_a_listed_server_declares_is_declared(tmp_path, era, spoken):
    servers = {"app": Extended([tool("view")], eras=[spoken]), "db": MemoryServer([tool("get")])}
    async with world(tmp_path, servers) as w, w.client(era) as client:
        assert await declared_to(client) == APPS


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_it_is_declared_from_the_index_before_the_server_runs(tmp_path, era):
    servers: dict[str, Any] = {"app": Extended([tool("view")])}
    async with world(tmp_path, servers):
        pass
    starts = servers["app"].starts
    async with world(tmp_path, servers) as w, w.client(era) as client:
        assert await declared_to(client) == APPS
        assert servers["app"].starts == starts
        servers["app"].extensions = {}
        await client.tool_call("app__view")
        async with w.client(era) as other:
            assert await declared_to(other) == {}


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_it_is_part_of_what_the_next_start_answers_early(tmp_path, era):
    async with world(tmp_path, {"app": Extended([tool("view")])}) as w:
        early = EarlyExchange()
        early.start = StartConditions([], {"HOME": str(tmp_path)})
        async with w.serving.handshakes_cached(early), w.client(era) as client:
            assert await declared_to(client) == APPS
    [file] = (w.settings.cache_dir / FOLDER).glob("*.json")
    [_question, outcome], *_rest = json.loads(file.read_bytes())["answers"]
    assert outcome["result"]["capabilities"]["extensions"][UI] == APPS[UI]


@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_of_a_server_that_is_denied_nothing_is_declared(tmp_path, era):
    policy = {"policy": {"visibility": [{"when": {"profile": "guest"}, "deny": ["app.*"]}]}}
    servers = {"app": Extended([tool("view")]), "db": MemoryServer([tool("get")])}
    async with world(tmp_path, servers, {**policy, "context": {"profile": "guest"}}) as w, w.client(era) as client:
        assert await declared_to(client) == {}
    async with world(tmp_path, servers, policy) as w, w.client(era) as client:
        assert await declared_to(client) == APPS


@pytest.mark.parametrize("extensions", [{"example.com/own": {}}, {UI: {"text": "x" * 2000}}])
async def test_unknown_extensions_and_endless_settings_are_not(tmp_path, extensions):
    async with world(tmp_path, {"app": Extended([tool("view")], extensions=extensions)}) as w, w.client() as client:
        assert await declared_to(client) == {}
        assert not any("example.com" in str(frame) for frame in client.frames)


async def test_of_several_the_first_ones_settings_are_declared(tmp_path):
    servers = {"a": Extended([tool("view")]), "b": Extended([tool("show")], extensions={UI: {"other": True}})}
    async with world(tmp_path, servers) as w, w.client(MODERN) as client:
        assert await declared_to(client) == APPS
