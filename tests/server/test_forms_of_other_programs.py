"""Skills as two other programs write them, from the file to what a model reads: found, given whole, given in brief."""

import json

import pytest
from shelving import found, put, repo, skills

from fakes.menu import tool
from toolcrib.base.text import estimate_tokens
from worlds import ERAS, world

SET = {"SERVICE_LOGS": "/var/log"}

pytestmark = pytest.mark.anyio

DEBUGGING = """---
name: debug-service
description: Find out why a service fails.
domain: debugging
triggers: [service is down, error rate is up]
frames: [debug]
tools: [read_logs, run_query]
requires: [SERVICE_LOGS]
---
# Debug a service

## When to use

A service answers with errors, or not at all.

## Steps

1. Read the log of the last minutes.
2. Ask for the last change.
"""
"""A skill of a program with frames, domains and a working memory."""

WRITING = """---
name: paper-review
displayName: Paper Review
description: Judges a paper and says what to mend.
version: 1.2.0
workDirection: scientific writing
capabilities:
  - find gaps in an argument
  - check citations
tools: [open_document]
---
You are a careful reviewer. Say what is missing before you praise.
"""
"""A skill of a program that switches tools by skill: neither triggers nor steps."""


@pytest.fixture
def written(tmp_path):
    """Write both into the repository of a world, and the second into a pack too."""
    for name, text in (("debug-service", DEBUGGING), ("paper-review", WRITING)):
        file = repo(tmp_path) / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    entry = {
        "name": "team.recipe",
        "displayName": "Recipe",
        "version": "2.0",
        "description": "Cooks for many.",
        "workDirection": "kitchen",
        "capabilities": ["soup", "bread"],
    }
    pack = tmp_path / "pack" / "recipe.skill.json"
    pack.parent.mkdir()
    pack.write_text(json.dumps(entry), encoding="utf-8")
    packs = [{"name": "team", "path": str(pack.parent)}]
    return tmp_path, skills(skill_packs=packs, frames={"debug": ["debugging", "code-review"]})


async def brief_of(client, task: str, **arguments: str) -> str:
    params = {"name": "skills_for_task", "arguments": {"task": task, "top_k": "1", **arguments}}
    [message] = (await client.ask("prompts/get", params))["messages"]
    return message["content"]["text"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_brief_does_not_tell_a_denied_tool_from_one_that_is_not_there(written, era):
    folder, config = written
    there, denied = [tool("run_query")], [tool("run_query"), tool("read_logs")]
    briefs = []
    for tools, policy in ((there, {}), (denied, {"deny": ["ops.read_logs"]})):
        options = {**config, "policy": policy}
        async with world(folder, {"ops": tools}, options, environ=SET, listing="auto") as w, w.client(era) as client:
            briefs.append(await brief_of(client, "a service fails", frame="debug"))
    assert "Tools: run_query\n" in briefs[0]
    assert briefs[0] == briefs[1]


async def test_a_brief_names_tools_of_one_plain_word_and_those_that_are_always_listed(tmp_path):
    put(repo(tmp_path), "review", tools=["search", "list_rows", "git.log", "nothing", "no_such_tool"])
    servers = {"db": [tool("search"), tool("list_rows")], "git": [tool("log")]}
    config = {**skills(), "tool_search": {"always_loaded_patterns": ["db.list_rows"]}}
    async with world(tmp_path, servers, config) as w, w.client() as client:
        assert "\nTools: search, list_rows, git.log\n" in await brief_of(client, "fill in a form")


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_with_domain_frames_and_triggers_is_found_by_them_and_given_in_brief(written, era):
    folder, config = written
    servers = {"ops": [tool("read_logs"), tool("run_query")]}
    async with world(folder, servers, config, environ=SET, listing="auto") as w, w.client(era) as client:
        assert (await found(client, "the error rate is up"))[0] == "debug-service"
        text = await brief_of(client, "a service fails", frame="debug")
    head, _, rest = text.partition("\n---\n")
    assert [line.partition(": ")[0] for line in head.split("\n")[1:]] == [
        "[Skill",
        "Domain",
        "Tools",
        "Triggers",
        "Base directory",
    ]
    assert "Domain: debugging\nTools: read_logs, run_query\nTriggers: service is down, error rate is up\n" in head
    assert rest.startswith("## When to use\n\nA service answers with errors, or not at all.\n</skill>")
    assert 'uri="skill://repo/debug-service/SKILL.md"' in head
    assert estimate_tokens(text.partition("</skill>")[0]) <= 130


async def test_three_briefs_take_at_most_400_tokens(written):
    folder, config = written
    async with world(folder, {}, config, environ=SET) as w, w.client() as client:
        text = await brief_of(client, "find, review or cook what fails", top_k="3")
    assert text.count("[Skill: ") == 3
    assert estimate_tokens(text) <= 400


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_with_capabilities_loads_without_triggers_and_steps_and_says_all_that_it_says(written, era):
    folder, config = written
    async with world(folder, {}, config, environ=SET, listing="auto") as w, w.client(era) as client:
        assert (await client.skill("list"))["errors_count"] == 0
        answer = await client.skill("get", names=["paper-review"])
        raw = await client.skill("get", names=["paper-review"], format="raw")
        assert (await found(client, "who can check the citations"))[0] == "paper-review"
    for text in (answer["formatted_context"], raw["formatted_context"]):
        assert "Version: 1.2.0" in text
        assert "Work direction: scientific writing" in text
        assert "Capabilities: find gaps in an argument, check citations" in text
        assert "You are a careful reviewer." in text
    [given] = raw["skills"]
    assert given["title"] == "Paper Review"
    assert given["extra"] == {
        "version": "1.2.0",
        "workDirection": "scientific writing",
        "capabilities": ["find gaps in an argument", "check citations"],
    }


async def test_such_a_skill_loads_from_a_pack_too(written):
    folder, config = written
    async with world(folder, {}, config, environ=SET) as w, w.client() as client:
        text = (await client.skill("get", names=["team.recipe"]))["formatted_context"]
        assert "Work direction: kitchen\nCapabilities: soup, bread\nVersion: 2.0" in text
        assert "Capabilities: soup, bread" in await brief_of(client, "cook for many")
        [given] = (await client.skill("get", names=["team.recipe"], format="raw"))["skills"]
        published = await client.ask("resources/read", {"uri": given["uri"]})
    assert "Work direction: kitchen" in published["contents"][0]["text"]


async def test_a_version_alone_is_told_with_the_fields_and_not_with_the_text(written):
    folder, config = written
    put(repo(folder), "plain", "Does one thing.", version="version-7.1")
    async with world(folder, {}, config, environ=SET) as w, w.client() as client:
        assert "version-7.1" not in (await client.skill("get", names=["plain"]))["formatted_context"]
        [given] = (await client.skill("get", names=["plain"], format="raw"))["skills"]
    assert given["extra"] == {"version": "version-7.1"}


async def test_a_pack_that_says_neither_is_still_told_what_is_missing(written):
    folder, config = written
    (folder / "pack" / "tea.skill.json").write_text('{"description": "Makes tea."}', encoding="utf-8")
    (folder / "pack" / "cake.skill.json").write_text('{"capabilities": ["cake"]}', encoding="utf-8")
    async with world(folder, {}, config, environ=SET) as w, w.client() as client:
        errors = (await client.skill("list"))["errors"]
    assert sorted(each["path"] for each in errors) == ["cake.skill.json"] * 2 + ["tea.skill.json"] * 2
