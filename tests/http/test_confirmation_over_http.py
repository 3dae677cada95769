"""Over HTTP the person behind each token is asked about their own calls, at the same time, in both eras."""

from typing import Any

import anyio
import mcp_types as types
import pytest

from fakes.menu import tool
from online import online
from worlds import ERAS, Call, JsonObject, MemoryServer, text

pytestmark = pytest.mark.anyio

SECTION = {
    "http": {"tokens": [{"token": "token-ann", "subject": "ann"}, {"token": "token-bob", "subject": "bob"}]},
    "policy": {"confirm": {"tools": ["zoo__feed"]}},
}


@pytest.mark.parametrize("era", ERAS)
async def test_each_answers_for_their_own_calls_and_a_yes_for_always_is_theirs_alone(tmp_path, era):
    asked: dict[str, list[str]] = {"ann": [], "bob": []}

    async def fed(call: Call) -> JsonObject:
        return text(f"fed {call.arguments['who']}")

    zoo = MemoryServer([tool("feed", params={"who": "string"})], answers={"feed": fed})
    async with online(tmp_path, {"zoo": zoo}, SECTION) as it, anyio.create_task_group() as tasks:

        async def work(name: str, answer: str, *told: str) -> None:
            async def elicit(_context: Any, params: Any) -> types.ElicitResult:
                asked[name].append(params.message.splitlines()[-1])
                action = "accept" if answer == "always" else "decline"
                return types.ElicitResult(action=action, content={"answer": answer} if action == "accept" else None)

            async with it.client(era, f"token-{name}", elicitation_callback=elicit) as client:
                for expected in told:
                    [block] = (await client.call_tool("zoo__feed", {"who": name})).content
                    assert isinstance(block, types.TextContent)
                    assert expected in block.text

        tasks.start_soon(work, "ann", "always", "fed ann", "fed ann", "fed ann")
        tasks.start_soon(work, "bob", "no", "--principal bob", "--principal bob", "--principal bob")
    assert asked == {"ann": ['Arguments: {"who":"ann"}'], "bob": ['Arguments: {"who":"bob"}'] * 3}
    assert {call["arguments"]["who"] for call in zoo.calls("feed")} == {"ann"}
