"""Activation: what is recorded when, what the list then shows, for whom, and for how long."""

from typing import Any

import anyio
import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.errors import StartRefused
from toolcrib.base.model import Caller
from toolcrib.policy.client_profiles import ClientProfiles
from toolcrib.server.stdio import refuse_without_session
from worlds import BUILTINS, ERAS, PATIENCE_S, MemoryServer, configured, text, world

pytestmark = pytest.mark.anyio

DOORS = ["direct", "tool_call"]
TOOLS = [tool("read"), tool("write"), tool("drop")]


async def use(client, door: str, name: str, arguments=None):
    """Call a tool by its own name, or through ``tool_call``."""
    return await (client.call if door == "direct" else client.tool_call)(name, arguments)


# -- dynamic: the list grows ---------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
async def test_the_first_use_of_a_tool_adds_it_to_the_list_and_the_second_changes_nothing(tmp_path, door):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        await use(client, door, "db__read")
        assert (client.list_changes, await client.names()) == (1, [*BUILTINS, "db__read"])
        await use(client, door, "db__read")
        assert (client.list_changes, await client.names()) == (1, [*BUILTINS, "db__read"])
        assert len(w.happened("tool_activated")) == 1
        assert len(w["db"].calls("read")) == 2


@pytest.mark.parametrize("door", DOORS)
async def test_the_client_hears_of_its_grown_list_before_it_gets_the_result(tmp_path, door):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        heard = len(client.frames)
        await use(client, door, "db__read")
        kinds = [frame.get("method", "result") for frame in client.frames[heard:]]
        assert kinds == ["notifications/tools/list_changed", "result"]


async def test_the_client_is_told_that_the_list_may_change(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        assert client.server_capabilities.tools.list_changed is True


async def test_a_list_asked_for_during_the_first_call_shows_the_tool(tmp_path):
    going_on, over = anyio.Event(), anyio.Event()

    async def slow(call):
        going_on.set()
        await over.wait()
        return text("done")

    async with world(tmp_path, {"db": MemoryServer(TOOLS, answers={"read": slow})}) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "db__read")
            await going_on.wait()
            assert await client.names() == [*BUILTINS, "db__read"]
            over.set()


async def test_an_always_listed_tool_is_recorded_but_announces_nothing(tmp_path):
    config = {"tool_search": {"always_loaded_patterns": ["db.read"]}}
    async with world(tmp_path, {"db": TOOLS}, config) as w, w.client() as client:
        await client.call("db__read")
        assert client.list_changes == 0
        assert [event["tool_name"] for event in w.happened("tool_activated")] == ["db__read"]


@pytest.mark.parametrize("answer", [text("no", isError=True), MCPError(-32000, "no")])
async def test_a_tool_that_fails_is_activated_all_the_same(tmp_path, answer):
    async with world(tmp_path, {"db": MemoryServer(TOOLS, answers={"read": answer})}) as w, w.client() as client:
        await client.tool_call("db__read")
        assert await client.names() == [*BUILTINS, "db__read"]


async def test_a_tool_whose_server_cannot_start_is_not_activated(tmp_path):
    server = MemoryServer(TOOLS)
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        server.start_error = OSError("no such program")
        result = await client.call("db__read")
        assert result["isError"]
        assert "'db' could not be started: no such program" in result["content"][0]["text"]
        assert await client.names() == BUILTINS
        assert client.list_changes == 0
        assert w.happened("tool_activated") == []


async def test_misfit_arguments_activate_nothing(tmp_path):
    server = [tool("read", params={"at": "string"}, required=["at"])]
    async with world(tmp_path, {"db": server}) as w, w.client() as client:
        assert (await client.tool_call("db__read", {}))["isError"]
        assert await client.names() == BUILTINS


async def test_an_activated_tool_is_still_found_and_says_that_it_is_activated(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        await client.call("db__read")
        answer = await client.search("db", search_type="regex")
        activated = {hit["name"]: hit.get("activated", False) for hit in answer["tools"]}
        assert activated == {"db__read": True, "db__write": False, "db__drop": False}
        assert answer["total_deferred"] == 3


async def test_a_tool_that_is_gone_from_its_server_is_gone_from_the_list_and_comes_back_activated(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        await client.call("db__read")
        await w.change("db", tool("write"))
        assert (client.list_changes, await client.names()) == (2, BUILTINS)
        await w.change("db", *TOOLS)
        assert client.list_changes == 3
        assert await client.names() == [*BUILTINS, "db__read"]


# -- one session never sees another's ------------------------------------------------------------


async def test_two_sessions_never_see_each_others_activations(tmp_path):
    names = [f"t{number}" for number in range(20)]
    async with world(tmp_path, {"db": [tool(name) for name in names]}) as w, w.client() as one, w.client() as two:
        meet = Barrier(2)

        async def live(client, mine: list[str]) -> None:
            active: set[str] = set()
            for number in range(100):
                await meet.wait()
                name = mine[number % len(mine)]
                await use(client, DOORS[number % 2], f"db__{name}")
                active.add(f"db__{name}")
                await meet.wait()
                assert (await client.names())[len(BUILTINS) :] == sorted(active)
                assert client.list_changes == len(active)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live, one, names[0::2])
            tasks.start_soon(live, two, names[1::2])
        assert len(w["db"].calls()) == 200


class Barrier:
    """Lets nobody on before all are there."""

    def __init__(self, parties: int) -> None:
        self._parties, self._waiting, self._open = parties, 0, anyio.Event()

    async def wait(self) -> None:
        self._waiting += 1
        gate = self._open
        if self._waiting == self._parties:
            self._waiting, self._open = 0, anyio.Event()
            gate.set()
        with anyio.fail_after(PATIENCE_S):
            await gate.wait()


async def test_many_sessions_that_activate_the_same_tool_at_once_are_each_told_once(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, anyio.create_task_group() as tasks:
        meet = Barrier(8)

        async def live() -> None:
            async with w.client() as client:
                await meet.wait()
                await client.call("db__read")
                assert (client.list_changes, await client.names()) == (1, [*BUILTINS, "db__read"])

        for _ in range(8):
            tasks.start_soon(live)
    assert len(w.happened("tool_activated")) == 8


async def test_two_calls_of_one_session_at_once_activate_a_tool_once(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w, w.client() as client:
        async with anyio.create_task_group() as tasks:
            for door in DOORS * 4:
                tasks.start_soon(use, client, door, "db__read")
        assert client.list_changes == 1
        assert len(w.happened("tool_activated")) == 1


# -- stable and auto -----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", DOORS)
async def test_in_stable_mode_no_call_changes_the_list(tmp_path, era, door):
    async with world(tmp_path, {"db": TOOLS}, listing="stable") as w, w.client(era) as client:
        before = await client.ask("tools/list")
        await use(client, door, "db__read")
        assert await client.ask("tools/list") == before
        assert client.list_changes == 0


async def test_in_stable_mode_an_activation_is_a_recorded_fact(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, listing="stable") as w, w.client() as client:
        await client.call("db__read")
        [hit] = (await client.search("db.read", search_type="exact"))["tools"]
        assert hit["activated"] is True
        assert len(w.happened("tool_activated")) == 1


async def test_in_auto_mode_each_client_is_served_by_its_own_protocol(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, listing="auto") as w:
        async with w.client("legacy") as old, w.client("auto") as new:
            assert (old.protocol_version, new.protocol_version) == ("2025-11-25", "2026-07-28")
            for client in (old, new):
                await client.call("db__read")
            assert await old.names() == [*BUILTINS, "db__read"]
            assert await new.names() == BUILTINS
            assert (old.list_changes, new.list_changes) == (1, 0)


async def test_without_a_session_nothing_is_kept_and_nothing_is_called_activated(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, listing="auto") as w, w.client("2026-07-28") as client:
        await client.call("db__read")
        [hit] = (await client.search("db.read", search_type="exact"))["tools"]
        assert "activated" not in hit


@pytest.mark.parametrize(
    ("servers", "toolcrib", "transport", "mode"),
    [
        (["db"], {}, "stdio", "auto"),
        (["db"], {}, "http", "auto"),
        (["db"], {"http": {"tokens": [{"token": "12345678", "subject": "ana"}]}}, "http", "auto"),
        (["db"], {"gate": {"listing": "dynamic"}}, "stdio", "dynamic"),
        (["db"], {"gate": {"listing": "stable"}}, "http", "stable"),
        ([], {}, "stdio", "stable"),
        ([], {"gate": {"listing": "dynamic"}}, "stdio", "stable"),
        (["db"], {"tool_search": {"enabled": False}}, "stdio", "stable"),
    ],
)
def test_the_listing_mode_follows_from_the_config_on_any_transport(tmp_path, servers, toolcrib, transport, mode):
    settings = configured(tmp_path, {key: MemoryServer() for key in servers}, toolcrib)
    assert ClientProfiles(settings, transport).profile("").listing == mode


async def test_a_caller_whose_token_stands_for_nobody_is_served_nothing(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, listing="auto") as w:
        nobody: Any = None
        for era in ERAS:
            async with w.client(era, caller=Caller(nobody)) as client:
                for method in ("tools/list", "tools/call"):
                    with pytest.raises(MCPError, match="identifies no caller"):
                        await client.ask(method, {"name": "db__read"})
        assert w["db"].calls() == []


# -- how long ------------------------------------------------------------------------------------


async def test_run_scope_forgets_with_the_connection(tmp_path):
    async with world(tmp_path, {"db": TOOLS}) as w:
        async with w.client() as client:
            await client.call("db__read")
        async with w.client() as again:
            assert await again.names() == BUILTINS


def session_scope(session_id: str | None = "s-1") -> dict:
    return {"tool_search": {"activation_scope": "session"}, "context": {"session_id": session_id}}


async def test_session_scope_outlives_the_connection_and_the_process(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w:
        async with w.client() as client:
            await client.call("db__read")
            assert [event["activation_scope"] for event in w.happened("tool_activated")] == ["session"]
        async with w.client() as again:
            assert await again.names() == [*BUILTINS, "db__read"]
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w, w.client() as later:
        assert await later.names() == [*BUILTINS, "db__read"]
        await later.call("db__read")
        assert later.list_changes == 0


async def test_session_scope_keeps_sessions_with_other_ids_apart(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, session_scope("s-1")) as w, w.client() as client:
        await client.call("db__read")
    async with world(tmp_path, {"db": TOOLS}, session_scope("s-2")) as w, w.client() as client:
        assert await client.names() == BUILTINS


async def test_session_scope_without_an_id_is_refused_with_the_reason(tmp_path):
    with pytest.raises(StartRefused, match=r"context\.session_id.*TOOLCRIB_SESSION_ID"):
        refuse_without_session(configured(tmp_path, {}, session_scope(None)))
    refuse_without_session(configured(tmp_path, {}, session_scope()))
    refuse_without_session(configured(tmp_path, {}, {}))


async def test_a_denied_tool_that_was_activated_in_an_earlier_run_is_not_listed(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w, w.client() as client:
        await client.call("db__read")
    denying = {**session_scope(), "policy": {"deny": ["db.read"]}}
    async with world(tmp_path, {"db": TOOLS}, denying) as w, w.client() as client:
        assert await client.names() == BUILTINS
        with pytest.raises(MCPError, match="Unknown tool: db__read"):
            await client.call("db__read")


async def test_a_session_unused_for_thirty_days_is_forgotten_and_one_in_use_is_not(tmp_path):
    day = 86_400
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w, w.client() as client:
        await client.call("db__read")
    for age, listed in ((29, True), (58, True), (89, False)):
        async with world(tmp_path, {"db": TOOLS}, session_scope(), now=age * day) as w, w.client() as client:
            assert ("db__read" in (await client.names())) is listed, age


async def test_calls_of_one_session_id_over_two_connections_activate_a_tool_once(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w, w.client() as one, w.client() as two:
        async with anyio.create_task_group() as tasks:
            for client in (one, two, one, two):
                tasks.start_soon(client.call, "db__read")
        assert len(w.happened("tool_activated")) == 1
        assert await one.names() == await two.names() == [*BUILTINS, "db__read"]


async def test_session_scope_is_kept_apart_by_who_asks(tmp_path):
    async with world(tmp_path, {"db": TOOLS}, session_scope()) as w:
        async with w.client(caller=Caller("ana")) as ana, w.client(caller=Caller("bo")) as bo:
            await ana.call("db__read")
            assert await ana.names() == [*BUILTINS, "db__read"]
            assert await bo.names() == BUILTINS
