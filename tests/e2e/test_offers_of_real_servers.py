"""Resources, prompts and completions of a real server through a real ``toolcrib serve``: only names are others."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ResourceUpdatedNotification

from e2e.crib import ERAS, connected, crib, write_config
from e2e.npm import Npm, entry
from worlds import Client, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PREFIX = "toolcrib://servers/all/"
PLAIN = {"skills": {"enabled": False}, "tool_search": {"enabled": False}}
LISTS = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}


async def whole(client: Client, method: str) -> list[dict[str, Any]]:
    """Return all pages of a list, without what is toolcrib's own."""
    items, params = [], {}
    while True:
        page = await client.ask(method, params)
        items += [each for each in page[LISTS[method]] if each.get("uri") != "toolcrib://status"]
        if "nextCursor" not in page:
            return items
        params = {"cursor": page["nextCursor"]}


def own(item: dict[str, Any]) -> dict[str, Any]:
    """Return a definition as its server gives it."""
    plain = dict(item)
    for key in ("uri", "uriTemplate"):
        if key in plain:
            plain[key] = plain[key].removeprefix(PREFIX)
    return {**plain, "name": plain["name"].removeprefix("all__")}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_lists_reads_prompts_and_completions_are_those_of_the_server(
    tmp_path: Path, npm: Npm, transport: str, era: str
):
    config = write_config(tmp_path, {"all": entry(npm.everything())}, **PLAIN)
    async with connected(npm.everything(), "legacy") as direct, crib(transport, era, config) as client:
        for method in LISTS:
            mine, theirs = await whole(client, method), await whole(direct, method)
            assert theirs
            assert sorted(map(own, mine), key=str) == sorted(theirs, key=str)
        for resource in (await whole(direct, "resources/list"))[:3]:
            through = await client.ask("resources/read", {"uri": PREFIX + resource["uri"]})
            there = await direct.ask("resources/read", {"uri": resource["uri"]})
            assert [{**each, "uri": each["uri"].removeprefix(PREFIX)} for each in through["contents"]] == there[
                "contents"
            ]
        for prompt in await whole(direct, "prompts/list"):
            arguments = {each["name"]: "1" for each in prompt.get("arguments", ())}
            if "resourceType" in arguments:
                arguments |= {"resourceType": "Text", "resourceId": "1"}
            through = await client.ask("prompts/get", {"name": f"all__{prompt['name']}", "arguments": arguments})
            there = await direct.ask("prompts/get", {"name": prompt["name"], "arguments": arguments})
            assert str(through["messages"]).replace(PREFIX, "") == str(there["messages"]) or "resource" in str(there)
        argument = {"name": "department", "value": "E"}
        completed = [
            (await each.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": name}, "argument": argument}))
            for each, name in ((client, "all__completable-prompt"), (direct, "completable-prompt"))
        ]
        assert completed[0]["completion"] == completed[1]["completion"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_subscription_of_the_newer_era_brings_the_updates_of_the_server(
    tmp_path: Path, npm: Npm, transport: str
):
    config = write_config(tmp_path, {"all": entry(npm.everything())}, **PLAIN)
    async with crib(transport, "modern", config) as client:
        uri = (await whole(client, "resources/list"))[0]["uri"]
        async with client.listen(resource_subscriptions=[uri]) as updates:
            await client.call("all__toggle-subscriber-updates", {})
            assert getattr(await anext(updates), "uri", None) == uri


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_subscription_of_a_session_brings_the_updates_of_the_server(tmp_path: Path, npm: Npm, transport: str):
    config = write_config(tmp_path, {"all": entry(npm.everything())}, **PLAIN)
    told: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.append(str(message.params.uri))

    async with crib(transport, "legacy", config) as client:
        client.session._message_handler = hear
        uri = (await whole(client, "resources/list"))[0]["uri"]
        await client.ask("resources/subscribe", {"uri": uri})
        await client.call("all__toggle-subscriber-updates", {})
        await until(lambda: told != [])
        await client.ask("resources/unsubscribe", {"uri": uri})
        assert set(told) == {uri}
