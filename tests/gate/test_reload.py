"""A config that is reloaded holds at once; what it leaves alone goes on, and a bad one changes nothing."""

import json
import threading
from typing import Any

import anyio
import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.errors import ConfigError, Problem, StoreError
from toolcrib.catalog.index import ToolIndex
from toolcrib.catalog.indexing import Indexer
from toolcrib.gateway.offline import Offline
from toolcrib.storage.store import Store
from worlds import ERAS, MODERN, PATIENCE_S, MemoryServer, settled, text, until, world

pytestmark = pytest.mark.anyio

DENIED = {"policy": {"deny": ["*__drop_all"]}}


class Gate:
    """A tool whose calls wait until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = anyio.Event(), anyio.Event()

    async def __call__(self, _call: Any) -> Any:
        self.entered.set()
        await self.opened.wait()
        return text("done at last")


async def status_of(client: Any) -> Any:
    read = await client.ask("resources/read", {"uri": "toolcrib://status"})
    return json.loads(read["contents"][0]["text"])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_server_that_stays_the_same_goes_on_as_it_is_and_so_does_a_call_under_way(tmp_path, mode):
    gate = Gate()
    git = MemoryServer([tool("wait"), tool("status")], answers={"wait": gate})
    async with world(tmp_path, {"git": git}, listing="auto") as w, w.client(mode) as client:
        answers = []

        async def call() -> None:
            answers.append(await client.tool_call("git__wait"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.entered.wait()
            before = git.starts
            assert not (await w.reload({**DENIED, "gate": {"listing": "auto"}})).failure
            assert (await client.tool_call("git__status"))["content"][0]["text"].startswith("ran status")
            gate.opened.set()
        assert answers[0]["content"] == text("done at last")["content"]
        assert git.starts == before


OF_TOOLS = {
    "description": "Keeps versions.",
    "deferred_tools": ["status"],
    "tags": {"status": ["hippopotamus"]},
    "side_effects": {"status": "write"},
    "tool_examples": {"status": [{"args": {"path": "."}}]},
}


async def test_what_is_said_of_a_server_s_tools_holds_without_another_start_of_it(tmp_path):
    git = MemoryServer([tool("status", params={"path": "string"})])
    async with world(tmp_path, {"git": git}) as w, w.client() as client:
        await client.tool_call("git__status")
        before = git.starts
        assert await client.found("hippopotamus") == []
        assert not (await w.reload({"servers": {"git": OF_TOOLS}})).failure
        assert await client.found("hippopotamus") == ["git__status"]
        assert (await client.tool_call("git__status"))["content"][0]["text"].startswith("ran status")
        assert git.starts == before


async def test_a_server_that_stays_is_listed_again_where_its_list_could_not_be_read_at_the_reload(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("toolcrib.downstream.fleet._FIRST_RETRIES_S", (0.02,) * 500)
    git = MemoryServer([tool("status", params={"path": "string"})])
    async with world(tmp_path, {"git": git}) as w, w.client() as client:
        await client.tool_call("git__status")
        before, tools = git.starts, git.tools
        monkeypatch.setattr(git, "tools", None)  # what it answers is no list
        assert not (await w.reload({"servers": {"git": OF_TOOLS}})).failure
        await w.listed()
        assert await client.found("hippopotamus") == []
        monkeypatch.setattr(git, "tools", tools)
        await until(lambda: bool(w.gateway.tools.indexer.current().get("git__status")))
        assert await client.found("hippopotamus") == ["git__status"]
        assert git.starts == before


@pytest.mark.parametrize("said", [{}, OF_TOOLS], ids=["nothing else", "something of its tools"])
@pytest.mark.parametrize("start", ["lazy", "eager"])
async def test_a_server_that_is_told_of_roots_keeps_its_one_process(tmp_path, start, said):
    async def roots(_context: Any) -> Any:
        raise AssertionError("nobody asks for them")

    git = MemoryServer([tool("status", params={"path": "string"})], eras=("legacy",))
    before = {"servers": {"git": {"start": start}}}
    async with world(tmp_path, {"git": git}, before) as w, w.client(list_roots_callback=roots) as client:
        await client.tool_call("git__status")
        await until(lambda: len(git._talks) == 1)
        starts = git.starts
        assert not (await w.reload({"servers": {"git": {"start": start, **said}}})).failure
        await w.listed()
        assert await client.found("hippopotamus") == (["git__status"] if said else [])
        assert not (await client.tool_call("git__status")).get("isError")
        await settled()
        assert (git.starts, len(git._talks)) == (starts, 1)


class HeldList:
    """The next list that is taken in waits in its thread, as a large one does, until it may go on."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        take = Indexer._taken

        def held(indexer: Indexer, *given: Any) -> Any:
            if not self.began.is_set():
                self.began.set()
                self.go_on.wait(PATIENCE_S)
            return take(indexer, *given)

        patched.setattr(Indexer, "_taken", held)


async def test_a_list_that_is_taken_in_during_a_reload_holds_under_the_new_config(tmp_path, monkeypatch):
    git = MemoryServer([tool("status", params={"path": "string"})])
    async with world(tmp_path, {"git": git}) as w, w.client() as client:
        held = HeldList(monkeypatch)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.tool_call, "git__status")
            await until(held.began.is_set)
            assert not (await w.reload({"servers": {"git": OF_TOOLS}})).failure
            held.go_on.set()
        await w.listed()
        assert await client.found("hippopotamus") == ["git__status"]


async def test_a_list_that_is_taken_in_during_a_reload_is_not_lost_with_the_files_it_was_for(tmp_path, monkeypatch):
    held = HeldList(monkeypatch)
    async with world(tmp_path, {"git": [tool("status")]}, wait=False) as w, w.client() as client:
        await until(held.began.is_set)
        files = w.gateway.generation.offline.stores["tool_cache.db"]
        assert not (await w.reload()).failure
        await until(lambda: files._closed)
        held.go_on.set()
        await w.listed()
        assert await client.found("status") == ["git__status"]


async def test_what_the_new_policy_denies_is_denied_to_a_session_that_has_used_it(tmp_path):
    async with world(tmp_path, {"db": [tool("drop_all"), tool("ask")]}) as w, w.client() as client:
        assert not (await client.tool_call("db__drop_all")).get("isError")
        await w.reload(DENIED)
        with pytest.raises(MCPError, match="Unknown tool: db__drop_all"):
            await client.call("db__drop_all")
        assert "drop_all" not in json.dumps(await client.search("drop all"))


async def test_the_words_of_tools_that_stay_are_not_read_again_for_a_search(tmp_path, monkeypatch):
    read: list[int] = []
    words = ToolIndex.words
    monkeypatch.setattr(
        ToolIndex,
        "words",
        lambda index, rows, versions: words(index, read.extend(rows := tuple(rows)) or rows, versions),
    )
    async with world(tmp_path, {"db": [tool("drop_all"), tool("ask"), tool("read")]}) as w, w.client() as client:
        assert "db__drop_all" in await client.found("drop all")
        assert len(read) == 3
        await w.reload(DENIED)
        assert "db__drop_all" not in await client.found("drop all")
        assert "db__ask" in await client.found("ask")
        await w.reload()
        assert "db__drop_all" in await client.found("drop all")
    assert len(read) == 4


async def test_a_changed_file_of_capabilities_holds_without_another_start_of_a_server(tmp_path):
    own, words = tmp_path / "own.txt", "porridge spoons"
    section = {"tool_search": {"capabilities": [str(own)]}}
    own.write_text("ask bears: ask bear\n  something else\n", encoding="utf-8")
    den = MemoryServer([tool("ask_bears"), tool("sleep")])
    async with world(tmp_path, {"den": den}, section) as w, w.client() as client:
        assert await client.found(words) == []
        before = den.starts
        own.write_text(f"ask bears: ask bear\n  {words}\n", encoding="utf-8")
        assert not (await w.reload(section)).failure
        assert await client.found(words) == ["den__ask_bears"]
        assert den.starts == before


async def test_what_was_denied_is_found_once_it_is_not(tmp_path):
    async with world(tmp_path, {"db": [tool("drop_all"), tool("ask")]}, DENIED) as w, w.client() as client:
        await w.reload()
        assert "db__drop_all" in await client.found("drop all")


async def test_servers_come_and_go_and_sessions_are_told_if_their_list_changed(tmp_path):
    section = {"tool_search": {"enabled": False}}
    async with world(tmp_path, {"git": [tool("status")]}, section) as w, w.client() as client:
        assert await client.names() == ["git__status"]
        await w.reload(section, {"git": w["git"], "db": [tool("ask")]})
        await until(lambda: client.list_changes > 0)
        assert await client.names() == ["db__ask", "git__status"]
        told = client.list_changes
        await w.reload(section, {"db": w["db"]})
        await until(lambda: client.list_changes > told)
        assert await client.names() == ["db__ask"]


async def test_nobody_is_told_of_a_reload_that_changes_no_list(tmp_path):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        await client.names()
        await w.reload({"limits": {"result_max_bytes": 2048}})
        await client.names()
        assert client.list_changes == 0


async def test_a_subscriber_is_told_of_a_reload_and_of_changes_after_it(tmp_path):
    section = {"tool_search": {"enabled": False}}
    async with world(tmp_path, {"git": [tool("status")]}, section) as w, w.client(MODERN) as client, client.listening():
        await w.reload(section, {"git": w["git"], "db": [tool("ask")]})
        await until(lambda: client.list_changes > 0)
        await until(lambda: not w.gateway.tools.fleet.listing_first)
        assert await client.names() == ["db__ask", "git__status"]
        told = client.list_changes
        await w.change("db", tool("ask"), tool("tell"))
        await until(lambda: client.list_changes > told)
        assert "db__tell" in await client.names()


async def test_what_a_session_has_used_stays_listed(tmp_path):
    async with world(tmp_path, {"git": [tool("status"), tool("log")]}, listing="dynamic") as w, w.client() as client:
        await client.tool_call("git__status")
        await w.reload({"gate": {"listing": "dynamic"}, "policy": {"deny": ["git__log"]}})
        await until(lambda: not w.gateway.tools.fleet.listing_first)
        assert "git__status" in await client.names()


async def test_a_call_on_a_server_that_goes_ends_before_the_server_does(tmp_path):
    gate = Gate()
    git = MemoryServer([tool("wait")], answers={"wait": gate})
    async with world(tmp_path, {"git": git}) as w, w.client() as client:
        answers = []

        async def call() -> None:
            answers.append(await client.tool_call("git__wait"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await gate.entered.wait()
            await w.reload({}, {})
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call("git__wait")
            assert git._talks
            gate.opened.set()
        assert answers[0]["content"] == text("done at last")["content"]
        await until(lambda: not git._talks)


async def test_a_server_whose_entry_changes_is_started_anew(tmp_path):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        await client.tool_call("git__status")
        other = MemoryServer([tool("status"), tool("blame")], entry={"command": "in-memory", "args": ["--more"]})
        await w.reload({}, {"git": other})
        assert await client.found("blame") == ["git__blame"]
        assert (await client.tool_call("git__blame"))["content"][0]["text"].startswith("ran blame")
        await until(lambda: len(other._talks) == 1)


async def test_a_config_that_cannot_be_used_changes_nothing_and_says_why(tmp_path):
    def read() -> Any:
        raise ConfigError("mcp.json", [Problem("toolcrib.gate", "is not a thing")])

    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        before = (await status_of(client))["loaded"]
        loaded = await w.read_again(read)
        assert "toolcrib.gate: is not a thing" in loaded.failure
        assert (await client.tool_call("git__status"))["content"][0]["text"].startswith("ran status")
        after = (await status_of(client))["loaded"]
        assert (after["at"], before["failure"]) == (before["at"], "")
        assert "toolcrib.gate: is not a thing" in after["failure"]
        [event] = w.happened("config_reloaded")
        assert not event["ok"]
        assert "is not a thing" in event["reason"]
        await w.reload()
        assert (await status_of(client))["loaded"]["failure"] == ""


async def test_a_file_that_no_index_can_be_opened_for_changes_nothing_either(tmp_path, monkeypatch):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        monkeypatch.setattr("toolcrib.gateway.composition.open_offline", _refused)
        assert "disk" in (await w.reload(DENIED)).failure
        assert not (await client.tool_call("git__status")).get("isError")


async def test_what_was_opened_for_a_reload_that_fails_at_its_end_is_closed_again(tmp_path, monkeypatch):
    opened: list[Store] = []

    def failing(offline: Offline) -> Any:
        opened.append(offline.stores["tool_cache.db"])
        raise StoreError("tool_cache.db cannot be used")

    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        with monkeypatch.context() as patched:
            patched.setattr("toolcrib.gateway.composition._known_eras", failing)
            assert "cannot be used" in (await w.reload(DENIED)).failure
        assert [store._closed for store in opened] == [True]
        assert not (await client.tool_call("git__status")).get("isError")


def _refused(*_given: Any, **_more: Any) -> Any:
    raise OSError(28, "No space left on the disk")


async def test_what_takes_a_restart_is_named_and_stays(tmp_path):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        cache = w.settings.cache_dir
        section = {"cache_dir": "elsewhere", "http": {"port": 99}, "context": {"profile": "other"}, **DENIED}
        loaded = await w.reload(section)
        assert set(loaded.fixed) == {"cache_dir", "http.port", "context"}
        assert w.gateway.settings.cache_dir == cache
        assert (await status_of(client))["loaded"]["needs_restart"] == list(loaded.fixed)
        assert not (tmp_path / "elsewhere").exists()


async def test_skills_can_be_switched_off_and_on(tmp_path):
    on = {"skills": {"discover": [], "core_pack": True}}
    async with world(tmp_path, {"git": [tool("status")]}, on) as w, w.client() as client:
        assert "skill_search" in await client.names()
        await w.reload({"skills": {"enabled": False}})
        await until(lambda: client.list_changes > 0)
        assert "skill_search" not in await client.names()
        await w.reload(on)
        assert (await client.skill("list"))["total"] > 0


async def test_a_bound_that_is_another_holds_for_the_next_call(tmp_path):
    git = MemoryServer([tool("log")], answers={"log": text("x" * 5000)})
    async with world(tmp_path, {"git": git}) as w, w.client() as client:
        assert len(json.dumps(await client.tool_call("git__log"))) > 5000
        await w.reload({"limits": {"result_max_bytes": 1024}})
        assert len(json.dumps(await client.tool_call("git__log"))) < 3000


async def test_one_reload_after_another_leaves_nothing_behind(tmp_path):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        await client.tool_call("git__status")
        retired = []
        for number in range(5):
            retired.append(w.gateway.generation)
            await w.reload({"limits": {"result_max_bytes": 2048 + number}})
        await until(lambda: all(each.offline.stores["tool_cache.db"]._closed for each in retired))
        assert not (await client.tool_call("git__status")).get("isError")
        assert w["git"].starts <= 2


async def test_a_catalog_that_grows_old_in_a_running_process_is_listed_anew(tmp_path):
    looks: list[float] = []
    wanted, go = anyio.Event(), anyio.Event()

    async def pause(seconds: float) -> None:
        looks.append(seconds)
        wanted.set()
        await (go.wait() if len(looks) == 1 else anyio.sleep_forever())

    async with world(tmp_path, {"git": [tool("status")]}, pause=pause) as w, w.client() as client:
        await wanted.wait()
        w["git"].tools.append(tool("blame"))
        assert await client.found("blame") == []
        w.clock.now += 86_401
        go.set()
        await until(lambda: bool(w.gateway.tools.indexer.current().get("git__blame")))
        assert await client.found("blame") == ["git__blame"]
        assert looks[0] == 3600


async def test_what_a_server_above_refuses_changes_nothing_and_is_closed_again(tmp_path):
    async with world(tmp_path, {"git": [tool("status")]}) as w, w.client() as client:
        refused = []

        async def refuse(generation: Any) -> Any:
            refused.append(generation)
            raise StoreError("there is no room for it")

        w.gateway.prepare_reload = refuse
        before = w.gateway.generation
        assert "no room" in (await w.reload(DENIED)).failure
        assert w.gateway.generation is before
        await until(lambda: all(each.offline.stores["tool_cache.db"]._closed for each in refused))
        assert not (await client.tool_call("git__status")).get("isError")
