"""How a server's tools are listed: all pages, once for the index, and again when it says that they have changed."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from downstream.fleets import DEADLINE_S, HURRIED_S, fleet_of, passing, settings_of, settled, time_passes, until
from fakes.menu import FakeServer, tool
from toolcrib.base.errors import StartFailed, StoreError
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.connection import Greeting, LiveList, LiveTools, Outdated
from toolcrib.downstream.fleet import StartPlan
from toolcrib.downstream.lists import ListBounds, read_list
from toolcrib.downstream.states import RawList, State

pytestmark = pytest.mark.anyio
BOTH = pytest.mark.parametrize("era", ["legacy", "modern"])


# -- pages ---------------------------------------------------------------------------------------


@BOTH
async def test_all_pages_are_fetched(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path, tools={"generate": 25}, page_size=4)
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.fleet["fake"].connection()
        [(_, names, _)] = it.lists
        assert len(set(names)) == 25
    assert len(fake.messages("tools/list")) == 7


@pytest.mark.parametrize("loop", ["same", "fresh"])
async def test_a_list_that_repeats_itself_is_read_once(tmp_path: Path, loop: Any):
    fake = FakeServer(tmp_path, tools=["a", "b"], cursor_loop=loop)
    async with fleet_of(settings_of(fake), list_pages=30) as it:
        await it.fleet["fake"].connection()
        assert it.lists == [("fake", ["a", "b"], "modern")]
        assert it.cuts == ["its list repeats itself"]
    assert len(fake.messages("tools/list")) == {"same": 2, "fresh": 3}[loop]


async def test_a_page_that_does_not_come_costs_those_before_it_nothing():
    async def ask(_method: str, params: Any) -> dict[str, Any]:
        if params:
            await anyio.sleep_forever()
        return {"tools": [1, 2], "nextCursor": "2"}

    async with passing(0.8 * DEADLINE_S):
        with anyio.fail_after(DEADLINE_S):
            found = await read_list(ask, "tools/list", "tools", ListBounds(9), keeps=lambda: True)
    assert found == RawList([1, 2], "page 2 of its list did not come in time", is_passing=True)
    async with passing(DEADLINE_S):
        with pytest.raises(TimeoutError), anyio.fail_after(DEADLINE_S):
            await read_list(ask, "tools/list", "tools", ListBounds(9), keeps=lambda: False)


async def test_definitions_pass_undecoded_whatever_they_are(tmp_path: Path):
    odd = {"name": "odd", "inputSchema": {"type": "array"}, "outputSchema": 7, "x": [None]}
    fake = FakeServer(tmp_path, tools=[odd, tool("fine")])
    async with fleet_of(settings_of(fake)) as it:
        await it.fleet["fake"].connection()
        assert it.lists == [("fake", ["odd", "fine"], "modern")]
        assert set(it.fleet["fake"].live) == {"odd", "fine"}


# -- changes -------------------------------------------------------------------------------------


@BOTH
async def test_an_announced_change_is_listed_again(tmp_path: Path, era: Any):
    fake = FakeServer(tmp_path, tools=["grow"], list_changed_after="grow", more_tools=["new"])
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.call("fake", "grow")
        await until(lambda: set(it.fleet["fake"].live) == {"grow", "new"})
        assert it.lists[1:] == [("fake", ["grow", "new"], era)]
        assert it.states_of() == ["starting", "ready"]


@BOTH
async def test_many_announcements_at_once_are_one_change(tmp_path: Path, era: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.connection._DEBOUNCE_S", DEADLINE_S)
    fake = FakeServer(tmp_path, tools=["grow"], list_changed_after="grow", more_tools=["new"], announcements=30)
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        await it.call("fake", "grow")  # all that it announces comes before its answer
        await settled()
        assert len(it.lists) == 1
        await time_passes(DEADLINE_S)
        await until(lambda: len(it.lists) == 2)
        await time_passes(2 * DEADLINE_S)
        assert len(it.lists) == 2


async def test_a_modern_server_that_announces_no_changes_is_not_listened_to(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        await it.call("fake", "echo")
    assert fake.messages("subscriptions/listen") == []


async def test_a_modern_server_is_listened_to_before_it_is_listed(tmp_path: Path):
    fake = FakeServer(tmp_path, list_changed_capability=True)
    async with fleet_of(settings_of(fake)) as it:
        await it.call("fake", "echo")
    methods = [message["method"] for message in fake.messages()]
    assert methods.index("subscriptions/listen") < methods.index("tools/list")


@pytest.mark.parametrize("error", [StoreError("disk full"), ValueError("disk full")])
async def test_a_list_that_cannot_be_taken_in_again_is_told_and_the_server_stays(tmp_path: Path, error: Exception):
    fake = FakeServer(tmp_path, tools=["grow"], list_changed_after="grow", more_tools=["new"])
    async with fleet_of(settings_of(fake)) as it:
        await it.fleet["fake"].connection()
        it.listing_error = error
        await it.call("fake", "grow")
        await until(lambda: it.reason() == "The tools of 'fake' cannot be read: disk full")
        assert it.fleet["fake"].status.state is State.READY
        it.listing_error = None
        await it.call("fake", "grow")
        await until(lambda: it.reason() == "")
        await until(lambda: it.lists[1:] == [("fake", ["grow", "new"], "modern")] * 2)  # before the call, and after it
    assert len(fake.starts()) == 1


@BOTH
async def test_a_call_waits_for_the_list_that_its_server_has_announced(tmp_path: Path, era: Any):
    fake = FakeServer(
        tmp_path, tools=["grow", "old"], list_changed_after="grow", more_tools=["new"], fewer_tools=["old"]
    )
    async with fleet_of(settings_of(fake, protocol=era)) as it:
        connection = await it.fleet["fake"].connection()
        fingerprint = it.fleet["fake"].live["old"]
        await it.call("fake", "grow")
        await until(lambda: connection.announcements.changes > 0)
        with pytest.raises(Outdated):
            await it.send("fake", "old", {"arguments": {}}, fingerprint=fingerprint)
        assert set(it.fleet["fake"].live) == {"grow", "new"}
    assert fake.calls("old") == []


async def test_a_tool_is_not_called_while_the_announced_list_cannot_be_read(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["grow"], list_changed_after="grow", more_tools=["new"])
    async with fleet_of(settings_of(fake)) as it:
        connection = await it.fleet["fake"].connection()
        it.listing_error = ValueError("it is no list")
        await it.call("fake", "grow")
        await until(lambda: connection.announcements.changes > 0)
        with pytest.raises(StartFailed, match=r"it is no list\. It has announced that they changed, so nothing ran"):
            await it.call("fake", "grow")
    assert len(fake.calls("grow")) == 1


async def test_a_list_that_hangs_when_asked_again_ends_at_the_deadline(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake, connect_timeout_s=DEADLINE_S), close_timeout_s=HURRIED_S) as it:
        await it.up()
        os.kill(fake.starts()[-1], signal.SIGSTOP)
        async with passing(DEADLINE_S):
            with pytest.raises(StartFailed, match=r"The tools of 'fake' cannot be read: no answer within 6 s"):
                await it.fleet["fake"].list_again()


async def test_listing_again_on_request_starts_a_sleeping_server(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        await it.fleet["fake"].list_again()
        assert len(it.lists) == 2
    assert len(fake.starts()) == 1


async def test_an_index_that_cannot_be_written_fails_that_start_only(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        it.listing_error = StoreError("the disk is full")
        with pytest.raises(StartFailed, match="could not be started: the disk is full"):
            await it.fleet["fake"].connection()
        it.listing_error = None
        assert await it.text("fake", "echo") == "{}"


# -- for the index only --------------------------------------------------------------------------


async def test_a_server_that_is_only_to_be_listed_is_stopped_afterwards(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        it.fleet.begin(StartPlan(["fake"], []))
        await it.fleet.first_listing(["fake"])
        await it.is_in(State.SLEEPING)
        await until(lambda: not fake.survivors())
        assert it.lists == [("fake", ["echo"], "modern")]
        assert it.states_of() == ["starting", "ready", "sleeping"]
        assert it.reason() == ""


async def test_a_server_that_is_up_when_the_fleet_is_closed_is_reported_as_down(tmp_path: Path):
    async with fleet_of(settings_of(FakeServer(tmp_path))) as it:
        await it.up()
        assert it.states_of() == ["starting", "ready"]
    assert it.states_of() == ["starting", "ready", "sleeping"]


async def test_a_server_that_somebody_wants_meanwhile_stays(tmp_path: Path):
    fake = FakeServer(tmp_path, hold_at="list")
    async with fleet_of(settings_of(fake)) as it:
        it.fleet.begin(StartPlan(["fake"], []))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "fake", "echo")
            await fake.reached("tools/list")
            await settled()
            fake.let_go()
        assert await it.text("fake", "echo") == "{}"
        assert it.states_of() == ["starting", "ready"]
    assert len(fake.starts()) == 1


async def test_a_call_at_the_moment_when_a_server_goes_to_sleep_is_answered(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        it.fleet.begin(StartPlan(["fake"], []))
        await it.fleet.first_listing(["fake"])
        assert await it.text("fake", "echo") == "{}"
    assert len(fake.calls()) == 1


async def test_who_is_cancelled_is_told_of_no_list_that_cannot_be_read(tmp_path: Path):
    async def end_at_once(_server: ServerSettings, _raw: RawList, _greeting: Greeting) -> LiveTools:
        scope.cancel()
        raise StoreError("it closed the connection")

    settings = settings_of(FakeServer(tmp_path))
    async with fleet_of(settings) as it:
        connection = await it.fleet["fake"].connection()
        with anyio.CancelScope() as scope:
            await LiveList(settings, end_at_once, 1, None, lambda: None).read_again(connection)
        assert scope.cancelled_caught
