"""What a client was answered before the program was there is looked at again, and taken back where it was wrong."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fakes.memory import MODERN
from fakes.menu import tool
from toolcrib.base.errors import StoreError
from toolcrib.catalog.index import ToolIndex
from toolcrib.server import handshake_cache, lists
from toolcrib.server.early import FOLDER, EarlyExchange, StartConditions
from worlds import ERAS, Client, World, until, world

pytestmark = pytest.mark.anyio

DB = {"db": [tool("read_row", "Read a row.")]}
ALWAYS = {"tool_search": {"default_loading_mode": "always"}}
WRONG = "would be told something else"


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_cache, "_VERIFY_AFTER_S", 0)


@asynccontextmanager
async def begun(w: World, given: list[Any]) -> AsyncGenerator[None]:
    """Serve the next client as one that was answered ``given`` before; keep for the next start what it is answered."""
    it = EarlyExchange()
    it.start, it.replayed = StartConditions([], {"HOME": str(w.settings.config_path.parent)}), given
    async with w.serving.handshakes_cached(it):
        yield


async def greeted(client: Client, era: str) -> None:
    """Have a client greeted that was not, as it connected."""
    if era == MODERN:
        await client.ask("server/discover")


async def kept(w: World, era: str) -> str:
    """Return what a client of this era is answered at the next start, as JSON."""
    async with begun(w, []), w.client(era) as client:
        await greeted(client, era)
    [file] = (w.settings.cache_dir / FOLDER).glob("*.json")
    return json.dumps(json.loads(file.read_bytes())["answers"])


@pytest.mark.parametrize("era", ERAS)
async def test_a_wrong_list_is_taken_back_from_a_client_that_listens(tmp_path: Path, era: str, caplog: Any):
    async with world(tmp_path, DB, ALWAYS, listing="auto") as w:
        given = (await kept(w, era)).replace("read_row", "write_row")
        async with begun(w, json.loads(given)), w.client(era) as client, client.listening():
            await greeted(client, era)
            await until(lambda: client.list_changes == 1)
    assert WRONG in caplog.text


@asynccontextmanager
async def listening_late(folder: Path, caplog: Any) -> AsyncGenerator[Client]:
    """Give a client that was told a wrong list, and subscribes only when that has been found out."""
    async with world(folder, DB, ALWAYS, listing="auto") as w:
        given = (await kept(w, MODERN)).replace("read_row", "write_row")
        async with begun(w, json.loads(given)), w.client(MODERN) as client:
            await greeted(client, MODERN)
            await until(lambda: WRONG in caplog.text)
            async with client.listening():
                await client.list_tools()  # what is told to who subscribes has come before the next answer
                yield client


async def test_a_wrong_list_is_taken_back_from_a_client_that_listens_later(tmp_path: Path, caplog: Any):
    async with listening_late(tmp_path, caplog) as client:
        assert client.list_changes == 1


async def test_who_listens_when_no_wrong_list_is_held_any_more_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    monkeypatch.setattr(lists, "LIST_TTL_MS", 0)
    async with listening_late(tmp_path, caplog) as client:
        assert client.list_changes == 0


async def test_an_index_that_cannot_be_read_when_it_is_looked_at_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
):
    async with world(tmp_path, DB, ALWAYS) as w:
        given = json.loads(await kept(w, "legacy"))
        read = ToolIndex.shown
        failed: list[str] = []

        def fails_once(index: ToolIndex, *asked: Any) -> Any:
            if not failed:
                failed.append("the index")
                raise StoreError("The index cannot be read.")
            return read(index, *asked)

        monkeypatch.setattr(ToolIndex, "shown", fails_once)
        async with begun(w, given), w.client() as client:
            await until(lambda: "cannot be read" in caplog.text)
            assert "db__read_row" in await client.names()
            assert client.list_changes == 0
    assert failed


async def test_only_the_first_greeting_was_answered_before(tmp_path: Path):
    async with world(tmp_path, DB, listing="auto") as w:
        given = json.loads(await kept(w, MODERN))
        async with begun(w, given), w.client(MODERN) as client:
            await client.ask("server/discover")
            again = await client.ask("server/discover")
    assert again == given[0][1]["result"]
    assert "instructions" in again
