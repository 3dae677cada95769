"""``completion/complete`` of the prompts of skills: names of what this caller may see, whatever servers complete."""

from typing import Any

import pytest
from mcp import MCPError
from shelving import put, repo, skills, user

from fakes.memory import MemoryServer
from fakes.menu import tool
from worlds import ERAS, world

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path):
    put(repo(tmp_path), "forms")
    put(repo(tmp_path), "format-code")
    put(repo(tmp_path), "deploy", "Ships to the first cluster.")
    put(user(tmp_path), "deploy", "Ships to the second cluster.")
    return tmp_path


async def completed(client, prompt: str, argument: str, value: str) -> Any:
    params = {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": argument, "value": value}}
    return (await client.ask("completion/complete", params))["completion"]


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("servers", [{}, {"zoo": MemoryServer([tool("feed")])}], ids=["no server", "a server"])
async def test_names_of_skills_are_completed_whether_servers_complete_or_not(shelf, era, servers):
    async with world(shelf, servers, skills(), listing="auto") as w, w.client(era) as client:
        assert await completed(client, "skill", "name", "fo") == {
            "values": ["format-code", "forms"],
            "total": 2,
            "hasMore": False,
        }
        assert (await completed(client, "skill", "name", "DEP"))["values"] == ["repo/deploy", "user/deploy"]
        assert (await completed(client, "skill", "name", "zz"))["values"] == []
        assert (await completed(client, "skill", "other", "fo"))["values"] == []
        assert (await completed(client, "skills_for_task", "task_type", "co"))["values"] == ["code"]
        with pytest.raises(MCPError) as caught:
            await completed(client, "nosuch", "name", "fo")
        assert caught.value.code == -32602


async def test_hidden_skills_are_not_offered_and_at_most_a_hundred_are(shelf):
    for number in range(120):
        put(repo(shelf), f"many-{number:03}")
    async with world(shelf, {}, skills(disabled_skills=["forms"])) as w, w.client() as client:
        assert (await completed(client, "skill", "name", "fo"))["values"] == ["format-code"]
        many = await completed(client, "skill", "name", "many")
        assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 120, True)
