"""Hundreds of real skills served at once. Looks at the corpus beside the repository, where there is one."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from published import entries, everything, is_true, resources
from shelving import skills

from toolcrib.base.text import estimate_tokens
from toolcrib.skills.formats.agent_skill import read_agent_skill
from worlds import Client, World, world

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CORPUS = (Path(__file__).resolve().parents[2] / "../shared/skills-dev/corpus").resolve()
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
NAME_MAX, DESCRIPTION_MAX = 64, 1024
LOADED_MIN, PUBLISHED_MIN = 0.98, 0.8
"""Shares of the files that load, and that are published too because they keep every rule of the format."""

ITEM_TOKENS = 60
BATCH = 10
ALL = {"max_entries": 10_000, "max_bytes": 10_000_000}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    found = sorted(CORPUS.rglob("SKILL.md"))
    if not found:
        pytest.skip("the corpus of skills is not here")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one folder for all tests, so that only the first has to read every file."""
    return tmp_path_factory.mktemp("corpus")


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[World, Client]]:
    """Serve the corpus to one client."""
    async with (
        world(folder, {}, skills(skill_dirs=[str(CORPUS)], initial=ALL), listing="auto") as w,
        w.client("auto") as client,
    ):
        yield w, client


def distinct(files: list[Path]) -> set[tuple[str, str]]:
    """Return the name and hash of each skill that can be read and its author wants served; of copies only one is."""
    read = (read_agent_skill(file.read_bytes(), folder_name=file.parent.name, path=file.name)[0] for file in files)
    return {(text.name, text.content_hash) for text in read if text and not text.is_hidden and not text.requires}


async def test_nearly_all_load_and_each_other_is_told_with_the_reason(files: list[Path], folder: Path):
    names: list[str] = []
    cursor: dict[str, str] = {}
    async with serving(folder) as (_, client):
        while len(names) <= len(files):
            answer = await client.skill("list", page_size=200, **cursor)
            names += [skill["name"] for skill in answer["skills"]]
            if not answer["truncated"]:
                break
            cursor = {"cursor": answer["next_cursor"]}
    errors = {error["path"]: error["message"] for error in answer["errors"]}
    assert len(names) == len(set(names)) == answer["total"] == len(distinct(files))
    assert len(errors) == answer["errors_count"] <= len(files) * (1 - LOADED_MIN)
    assert errors.keys() <= {file.relative_to(CORPUS).as_posix() for file in files}
    assert all(errors.values())


async def test_what_the_extension_publishes_keeps_its_rules(files: list[Path], folder: Path):
    async with serving(folder) as (_, client):
        published = await entries(client)
        assert sorted(published) == sorted(await resources(client))
        assert len(published) == len(await everything(client, "skills/list", "skills")), "each once"
        for uri, entry in published.items():
            name, description = entry["frontmatter"]["name"], entry["frontmatter"]["description"]
            assert NAME.fullmatch(name)
            assert len(name) <= NAME_MAX
            assert 0 < len(description) <= DESCRIPTION_MAX
            assert uri.endswith(f"/{name}/SKILL.md")
            assert await is_true(client, entry)
    assert len(published) >= len(files) * PUBLISHED_MIN


@pytest.mark.parametrize("budget", [200, 1500])
async def test_every_skill_keeps_its_budget(files: list[Path], folder: Path, budget: int):
    async with serving(folder) as (w, client):
        catalog = await client.ask("resources/read", {"uri": "toolcrib://skills"})
        uris = [skill["uri"] for skill in json.loads(catalog["contents"][0]["text"])["skills"]]
        for uri in uris:
            await keeps(client, [uri], budget)
        for start in range(0, len(uris), BATCH):
            await keeps(client, uris[start : start + BATCH], budget)
        assert all(event["final_tokens_est"] <= budget for event in w.happened("skill_get"))
    assert len(uris) >= len(files) * PUBLISHED_MIN


async def keeps(client: Client, uris: list[str], budget: int) -> None:
    """Check that both forms of an answer stay within ``budget``, and that nothing is missing from it."""
    result = await client.call("skill_get", {"names": uris, "max_tokens": budget, "force": True})
    [block] = result["content"]
    answer = result["structuredContent"]
    assert block["text"] == answer["formatted_context"]
    assert estimate_tokens(block["text"]) <= budget
    assert estimate_tokens(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))) <= budget + ITEM_TOKENS * len(
        uris
    )
    assert len(answer["skills"]) == len(uris)
    assert "not_found" not in answer
    assert block["text"].count("<skill ") == block["text"].count("</skill>")
