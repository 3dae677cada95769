"""Files of the cache with bits turned, pieces cut off and garbage in them: each start repairs what it finds."""

import random
import shutil
import time
from pathlib import Path

import pytest
from counts import count
from shelving import found, put, skills, user

from fakes.menu import tool
from toolcrib.catalog.index import TOOLS_SCHEMA, ToolIndex
from toolcrib.storage.store import Store
from worlds import Client, world

pytestmark = [pytest.mark.anyio, pytest.mark.hostile]

TOOLS = [tool(f"feed_{number}", f"Feed animal {number}. " + "Much is to be said. " * 20) for number in range(100)]
NAMED = {"TOOLCRIB_SESSION_ID": "mine"}
SESSION = {"tool_search": {"activation_scope": "session"}}


def damage(file: Path, chance: random.Random) -> None:
    """Damage a file in one of several ways."""
    data = bytearray(file.read_bytes())
    match chance.randrange(5):
        case 0:
            del data[chance.randrange(len(data)) :]
        case 1:
            for _ in range(chance.randrange(1, 50)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 2:
            start = chance.randrange(len(data))
            data[start : start + 4096] = chance.randbytes(4096)
        case 3:
            data[: chance.randrange(1, 200)] = chance.randbytes(chance.randrange(1, 200))
        case _:
            start = chance.randrange(len(data))
            data[start : start + chance.randrange(1, 20_000)] = bytes(100)
    file.write_bytes(bytes(data))


async def made(folder: Path) -> Path:
    """Make a cache with all that belongs into it, and a decision beside it; return the index."""
    async with world(folder, {"zoo": TOOLS}, SESSION, environ=NAMED) as w, w.client() as client:
        await client.call("zoo__feed_7")
        return w.catalog_file


@pytest.mark.timeout(3000)
async def test_every_damaged_index_opens_with_what_is_sound_or_empty(tmp_path, record_property):
    good = await made(tmp_path)
    chance, slowest, wrong, tries = random.Random(7), 0.0, 0, 0
    for _ in range(count("damage")):
        tries += 1
        folder = tmp_path / "try"
        folder.mkdir()
        file = folder / good.name
        shutil.copy(good, file)
        damage(file, chance)
        began = time.perf_counter()
        with Store(file, TOOLS_SCHEMA) as store:
            index = ToolIndex(store)
            keys = {row.key: row.config_fingerprint for row in index.server_rows().values() if row.key == "zoo"}
            names = {known.public_name for known in index.load(keys)}
            wrong += names not in (set(), {f"zoo__{each['name']}" for each in TOOLS})
            with store.write() as connection:
                connection.execute("DELETE FROM tools WHERE namespace = 'nobody'")
        slowest = max(slowest, time.perf_counter() - began)
        shutil.rmtree(folder)
    record_property("count", tries)
    record_property("worst", f"up again after {slowest * 1000:.0f} ms; {wrong} half catalogs")
    record_property("goal met", slowest < 2)
    assert wrong == 0
    assert slowest < 20


@pytest.mark.timeout(3000)
async def test_toolcrib_starts_with_each_and_a_decision_outlives_the_index(tmp_path, record_property):
    good = await made(tmp_path)
    kept, chance, failed, lost, tries = good.read_bytes(), random.Random(8), 0, 0, 0
    for _ in range(max(4, count("damage") // 10)):
        tries += 1
        for other in good.parent.glob(f"{good.name}*"):
            other.unlink()
        good.write_bytes(kept)
        damage(good, chance)
        async with world(tmp_path, {"zoo": TOOLS}, SESSION, environ=NAMED) as w, w.client() as client:
            failed += not await client.found("feed animal 7", limit=1)
            lost += "zoo__feed_7" not in await client.names()
    record_property("count", tries)
    record_property("worst", f"{failed} starts failed, {lost} decisions lost")
    assert failed == 0
    assert lost == 0


async def answers_of_skills(client: Client) -> tuple[bool, bool, bool]:
    """Return whether a search, a list and a text of skills are what they should be."""
    listed = await client.call("skill_list")
    given = await client.call("skill_get", {"names": ["feeding-7"], "force": True})
    return await found(client, "feeding animal 7") != [], "feeding-1" in str(listed), "Mix the food." in str(given)


@pytest.mark.timeout(3000)
async def test_a_damaged_index_of_skills_is_made_anew_and_every_request_is_answered(tmp_path, record_property):
    for number in range(40):
        body = f"# Feeding\n\n1. Mix the food.\n\n{'Much is to be said. ' * 40}"
        put(user(tmp_path), f"feeding-{number}", f"Feeding animal {number}.", body)
    async with world(tmp_path, {}, skills()) as w, w.client() as client:
        assert await answers_of_skills(client) == (True, True, True)
    good = tmp_path / "cache" / "skills.db"
    kept, chance, tries, wrong = good.read_bytes(), random.Random(9), 0, []
    for _ in range(max(20, count("damage") // 10)):
        tries += 1
        for other in good.parent.glob("skills.db*"):
            other.unlink()
        data = bytearray(kept)
        # Inside of rows, where SQLite's own check finds nothing.
        start = chance.randrange(len(data) // 2, len(data) - 500)
        data[start : start + 500] = chance.randbytes(500)
        good.write_bytes(data)
        for _start in ("this", "the next"):
            async with world(tmp_path, {}, skills()) as w, w.client() as client:
                wrong += [start] * (await answers_of_skills(client) != (True, True, True))
    record_property("count", tries)
    assert wrong == []
