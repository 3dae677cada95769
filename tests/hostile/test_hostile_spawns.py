"""Whatever a client says, no program is started but the servers of the config, each once."""

import random
import string
from contextlib import suppress
from typing import Any

import pytest
from counts import count
from mcp import MCPError

from fakes.menu import tool
from worlds import ERAS, OWN_TOOLS, MemoryServer, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

COMMANDS = ("/bin/sh", "sh -c 'touch /x'", "$(touch /x)", "`touch /x`", "; touch /x", "| touch /x", "&& touch /x")
KEYS = (
    "command",
    "args",
    "env",
    "url",
    "server",
    "name",
    "names",
    "query",
    "path",
    "mcpServers",
    "config",
    "arguments",
)
METHODS = (
    "servers/add",
    "config/reload",
    "tools/test",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "sampling/createMessage",
    "roots/list",
)


def chosen(chance: random.Random, depth: int = 2) -> Any:
    """Return a value that somebody could send who wants a program started."""
    kind = chance.randrange(6 if depth else 3)
    match kind:
        case 0:
            return chance.choice(COMMANDS)
        case 1:
            return "".join(chance.choices(string.printable, k=chance.randrange(20)))
        case 2:
            return chance.choice((None, True, 0, -1, 1e300, ""))
        case 3 | 4:
            return {chance.choice(KEYS): chosen(chance, depth - 1) for _ in range(chance.randrange(4))}
        case _:
            return [chosen(chance, depth - 1) for _ in range(chance.randrange(4))]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("era", ERAS)
async def test_no_request_starts_anything(tmp_path, monkeypatch, record_property, era):
    servers = {"zoo": MemoryServer([tool("feed", "Feed.", {"command": "string"})]), "ark": MemoryServer([tool("sail")])}
    started: list[object] = []
    chance = random.Random(era)
    async with world(tmp_path, servers, {"skills": {"enabled": True}}, listing="auto") as w, w.client(era) as client:
        for door in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system", "anyio.open_process"):
            monkeypatch.setattr(door, lambda *given, **_options: started.append(given))
        tools = [*OWN_TOOLS, "zoo__feed", "ark__sail", "read_more", "nobody__knows"]
        for number in range(count("spawns") // 2):
            if number % 4:
                await client.tried(chance.choice(tools), {chance.choice(KEYS): chosen(chance) for _ in range(3)})
            else:
                await _asked(client, chance.choice(METHODS), {chance.choice(KEYS): chosen(chance)})
        monkeypatch.undo()
        record_property("count", number + 1)
        record_property("worst", f"{era}: {len(started)} programs started in {count('spawns') // 2} calls")
        assert await client.names()
        assert started == []
        assert all(server.starts <= 2 for server in servers.values())  # once to be listed, once to be used
        assert w.gateway.tools.fleet.statuses().keys() == servers.keys()


async def _asked(client: Any, method: str, params: dict[str, Any]) -> None:
    """Ask, whatever the answer is: what it leaves behind is looked at."""
    with suppress(MCPError, ValueError):
        await client.ask(method, params)
