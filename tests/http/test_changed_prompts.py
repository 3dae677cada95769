"""Prompts that change while clients over HTTP use a connection that lists nothing for others."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from fakes.menu import tool
from online import online
from worlds import MemoryServer, text, until

pytestmark = pytest.mark.anyio


def prompt(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Says {name}."}


async def accept(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


async def test_a_change_that_follows_another_at_once_is_not_lost(tmp_path: Path):
    zoo = MemoryServer([tool("feed")], answers={"feed": text("fed")}, offers={"prompts": [prompt("first")]})
    changes: list[Any] = []

    async def receive(message: Any) -> None:
        if isinstance(message, types.PromptListChangedNotification):
            changes.append(message)

    # A client that can be asked has a connection of its own, on which the server announces changes too.
    options = {"elicitation_callback": accept, "message_handler": receive}
    async with online(tmp_path, {"zoo": zoo}) as it, it.client("legacy", **options) as client:
        await client.call("zoo__feed", {})
        await zoo.change_offers("prompts", prompt("second"))
        await until(lambda: len(changes) == 1)
        await zoo.change_offers("prompts", prompt("third"))
        await until(lambda: len(changes) == 2)
        page = await client.ask("prompts/list", {})
        assert "zoo__third" in [each["name"] for each in page["prompts"]]
