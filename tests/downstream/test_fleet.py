"""All servers together: which start in the background, how many at once, which are kept up and which may sleep."""

import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest

from downstream.fleets import (
    DEADLINE_S,
    HURRIED_S,
    Watched,
    fleet_of,
    passing,
    settings_of,
    settled,
    time_passes,
    until,
)
from fakes.menu import FakeServer
from toolcrib.base.errors import StartFailed
from toolcrib.config.schema import LimitsSection
from toolcrib.config.settings import ServerSettings
from toolcrib.downstream.fleet import StartPlan, failed
from toolcrib.downstream.offers import OfferSink
from toolcrib.downstream.states import Offered, State
from toolcrib.downstream.transport import Streams, open_streams

pytestmark = pytest.mark.anyio


async def test_servers_are_known_by_their_keys(tmp_path: Path):
    async with fleet_of(settings_of(FakeServer(tmp_path, "one")), settings_of(FakeServer(tmp_path, "two"))) as it:
        assert "one" in it.fleet
        assert "three" not in it.fleet
        assert it.fleet["one"].settings.key == "one"
        assert {key: status.state.value for key, status in it.fleet.statuses().items()} == {
            "one": "sleeping",
            "two": "sleeping",
        }
        with pytest.raises(KeyError):
            it.fleet["three"]


@pytest.mark.parametrize("most", [1, 2])
async def test_only_so_many_servers_start_at_a_time_in_the_background(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.downstream.fleet._SLOT_S", DEADLINE_S)
    fakes = [FakeServer(tmp_path, f"fake{number}") for number in range(5)]
    async with fleet_of(*map(settings_of, fakes), parallel_starts=most) as it:
        it.fleet.begin(StartPlan([fake.name for fake in fakes[:3]], [fake.name for fake in fakes[3:]]))
        await until(lambda: len(it.lists) == 5)
        assert it.starting_most == most
        assert {name for name, _, _ in it.lists[: 3 - most + 1]} <= {fake.name for fake in fakes[:3]}


async def test_a_first_listing_is_waited_for_a_later_one_is_not(tmp_path: Path):
    new, stale = FakeServer(tmp_path, "new"), FakeServer(tmp_path, "stale", hang_at="list")
    async with fleet_of(settings_of(new), settings_of(stale)) as it:
        it.fleet.begin(StartPlan(["new"], ["stale"]))
        assert it.fleet.listing_first == ["new"]
        await it.fleet.first_listing(["stale", "nobody"])
        await it.fleet.first_listing(["new"])
        assert it.fleet.listing_first == []
        assert [name for name, _, _ in it.lists] == ["new"]


async def test_a_first_listing_that_fails_is_not_waited_for_longer(tmp_path: Path):
    bad = FakeServer(tmp_path, "bad", exit_at="spawn")
    async with fleet_of(settings_of(bad)) as it:
        it.fleet.begin(StartPlan(["bad"], []))
        await it.fleet.first_listing(["bad"])
        assert list(failed(it.fleet.statuses())) == ["bad"]
        assert "it exited with status 3" in failed(it.fleet.statuses())["bad"]


async def test_listing_all_lists_every_server_once_and_tells_what_became_of_each(tmp_path: Path):
    new, known = FakeServer(tmp_path, "new"), FakeServer(tmp_path, "known")
    bad = FakeServer(tmp_path, "bad", exit_at="spawn")
    async with fleet_of(*map(settings_of, (new, known, bad))) as it:
        it.fleet.begin(StartPlan(["new"], []))
        statuses = await it.fleet.list_all()
        assert sorted(name for name, _, _ in it.lists) == ["known", "new"]
        assert statuses["bad"].state is State.FAILED
    assert (len(new.starts()), len(known.starts())) == (1, 1)


# -- the very first start ------------------------------------------------------------------------


async def test_servers_that_hang_do_not_keep_the_others_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.fleet._SLOT_S", DEADLINE_S)
    hanging = [FakeServer(tmp_path, f"hangs{number}", hang_at="list") for number in range(3)]
    good = FakeServer(tmp_path, "good")
    async with fleet_of(*map(settings_of, (*hanging, good)), parallel_starts=2) as it:
        it.fleet.begin(StartPlan([fake.name for fake in (*hanging, good)], []))
        for fake in hanging[:2]:
            await fake.reached("tools/list")
        await settled()
        assert good.starts() == []
        await time_passes(DEADLINE_S)
        await it.fleet.first_listing(["good"])
        assert [name for name, _, _ in it.lists] == ["good"]
        assert it.fleet.listing_first == [fake.name for fake in hanging]


async def test_a_server_that_somebody_waits_for_is_started_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.downstream.fleet._SLOT_S", DEADLINE_S)
    first = FakeServer(tmp_path, "fake0", hold_at="list")
    fakes = [first, *(FakeServer(tmp_path, f"fake{number}") for number in range(1, 4))]
    async with fleet_of(*map(settings_of, fakes), parallel_starts=1) as it:
        it.fleet.begin(StartPlan([fake.name for fake in fakes], []))
        await first.reached("tools/list")
        it.fleet.prefer(["fake3"])
        first.let_go()
        await until(lambda: len(it.lists) == 4)
        assert [name for name, _, _ in it.lists] == ["fake0", "fake3", "fake1", "fake2"]


async def test_the_very_first_start_may_take_longer_than_later_ones(tmp_path: Path):
    slow = FakeServer(tmp_path, "slow", hold_at="initialize", eras=["legacy"])
    options = {"connect_timeout_s": DEADLINE_S, "protocol": "legacy"}
    async with fleet_of(settings_of(slow, **options), first_start_timeout_s=4 * DEADLINE_S) as it:
        it.fleet.begin(StartPlan(["slow"], []))
        await slow.reached("initialize")
        await time_passes(2 * DEADLINE_S)
        slow.let_go()
        await it.fleet.first_listing(["slow"])
        assert [name for name, _, _ in it.lists] == ["slow"]
        await it.is_in(State.SLEEPING, "slow")
        async with passing(DEADLINE_S, lambda: slow.reached("initialize", 2)):
            with pytest.raises(StartFailed, match=r"within 6 s"):
                await it.call("slow", "echo")


async def test_a_first_start_that_takes_too_long_says_which_limit_it_met(tmp_path: Path):
    slow = FakeServer(tmp_path, "slow", hang_at="initialize", eras=["legacy"])
    options = {"connect_timeout_s": DEADLINE_S, "protocol": "legacy"}
    async with fleet_of(settings_of(slow, **options), first_start_timeout_s=2 * DEADLINE_S) as it:
        it.fleet.begin(StartPlan(["slow"], []))
        async with passing(2 * DEADLINE_S, lambda: slow.reached("initialize")):
            await it.fleet.first_listing(["slow"])
        assert it.reason("slow").startswith("it did not answer within 12 s (limits.first_start_timeout_s)")


async def test_a_first_start_that_failed_is_tried_again_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.fleet._FIRST_RETRIES_S", (0.05, 0.05, 0.05))
    flaky = FakeServer(tmp_path, "flaky", exit_at="list", faulty_starts=2, eras=["legacy"])
    async with fleet_of(settings_of(flaky, protocol="legacy")) as it:
        it.fleet.begin(StartPlan(["flaky"], []))
        await it.fleet.first_listing(["flaky"])
        assert it.lists == []
        await until(lambda: len(it.lists) == 1)
        await it.is_in(State.SLEEPING, "flaky")
    assert len(flaky.starts()) == 3


async def test_who_comes_while_a_failed_server_is_tried_again_for_another_waits_too(tmp_path: Path):
    flaky = FakeServer(tmp_path, "flaky", exit_at="list", faulty_starts=1, hold_at="list", eras=["legacy"])
    seen: list[int] = []
    async with fleet_of(settings_of(flaky, protocol="legacy")) as it:

        async def try_again() -> None:
            await it.fleet.try_again("flaky")
            seen.append(len(it.lists))

        it.fleet.begin(StartPlan(["flaky"], []))
        await flaky.reached("tools/list")
        flaky.let_go()
        await it.fleet.first_listing(["flaky"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(try_again)
            await flaky.reached("tools/list", 2)
            tasks.start_soon(try_again)
            await settled()
            assert seen == []
            flaky.let_go()
    assert seen == [1, 1]


# -- eager ---------------------------------------------------------------------------------------


async def test_an_eager_server_is_started_at_once_and_again_when_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("toolcrib.downstream.fleet._KEEP_UP_PAUSE_S", 0.05)
    eager, lazy = FakeServer(tmp_path, "eager"), FakeServer(tmp_path, "lazy")
    async with fleet_of(settings_of(eager, start="eager"), settings_of(lazy)) as it:
        it.fleet.begin(StartPlan([], []))
        await it.is_in(State.READY, "eager")
        os.kill(eager.starts()[0], signal.SIGKILL)
        await until(lambda: len(eager.starts()) == 2)
        await it.is_in(State.READY, "eager")
        assert lazy.starts() == []


async def test_an_eager_server_that_was_never_listed_is_started_once(tmp_path: Path):
    eager = FakeServer(tmp_path, "eager")
    async with fleet_of(settings_of(eager, start="eager", idle_stop_s=DEADLINE_S), parallel_starts=1) as it:
        it.fleet.begin(StartPlan(["eager"], []))
        await it.fleet.first_listing(["eager"])
        await it.is_in(State.READY, "eager")
        await time_passes(2 * DEADLINE_S)
        assert it.states_of("eager") == ["starting", "ready"]
    assert len(eager.starts()) == 1


async def test_an_eager_server_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.downstream.fleet._KEEP_UP_PAUSE_S", 0.05)
    eager = FakeServer(tmp_path, "eager", exit_at="list", faulty_starts=1, eras=["legacy"])
    async with fleet_of(settings_of(eager, start="eager", protocol="legacy")) as it:
        it.fleet.begin(StartPlan([], []))
        await it.is_in(State.READY, "eager")
        assert it.states_of("eager") == ["starting", "failed", "starting", "ready"]


# -- idle ----------------------------------------------------------------------------------------


async def test_an_idle_server_is_stopped_and_started_again_by_the_next_call(tmp_path: Path):
    fake = FakeServer(tmp_path, stderr="hello")
    async with fleet_of(settings_of(fake, idle_stop_s=DEADLINE_S)) as it:
        await it.call("fake", "echo")
        await time_passes(DEADLINE_S)
        await it.is_in(State.SLEEPING)
        assert it.reason() == ""
        await until(lambda: not fake.survivors())
        assert await it.text("fake", "echo") == "{}"
    assert len(fake.starts()) == 2


async def test_a_server_with_a_call_under_way_is_not_idle(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["held"], hold_at="call")
    async with fleet_of(settings_of(fake, idle_stop_s=DEADLINE_S)) as it:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call, "fake", "held")
            await fake.reached("tools/call")
            await time_passes(2 * DEADLINE_S)
            fake.let_go()
        assert it.states_of() == ["starting", "ready"]
        await time_passes(DEADLINE_S)
        await it.is_in(State.SLEEPING)


async def test_a_server_in_use_is_not_idle(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake, idle_stop_s=2 * DEADLINE_S)) as it:
        for _ in range(4):
            await it.call("fake", "echo")
            await time_passes(DEADLINE_S)
        assert it.states_of() == ["starting", "ready"]


async def test_no_call_is_lost_to_a_server_that_is_just_being_stopped(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["counter"])
    async with fleet_of(settings_of(fake, idle_stop_s=0.02)) as it:
        for number in range(25):
            await it.text("fake", "counter")
            await anyio.sleep(0.015 + number % 5 / 400)  # any moment will do
    assert len(fake.calls()) == 25


async def test_a_slow_end_of_an_idle_server_is_waited_for_by_the_next_start(tmp_path: Path):
    fake = FakeServer(tmp_path, ignore_sigterm=True)
    async with fleet_of(settings_of(fake, idle_stop_s=DEADLINE_S), close_timeout_s=HURRIED_S) as it:
        await it.call("fake", "echo")
        await time_passes(DEADLINE_S)
        await it.is_in(State.SLEEPING)
        assert await it.text("fake", "echo") == "{}"
        assert len(fake.survivors()) == 1


async def call_held(it: Watched, answers: list[str]) -> None:
    """Call the tool at which the server waits until it is let go."""
    answers.append(await it.text("fake", "held"))


async def test_a_call_that_joined_a_listing_ends_before_its_server_does(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["held"], hold_at="call")
    answers, is_listing, go_on = list[str](), anyio.Event(), anyio.Event()

    async def hold(_server: ServerSettings, _offered: Offered) -> None:
        is_listing.set()
        await go_on.wait()

    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:
        server = it.fleet["fake"]
        server.offers.change(OfferSink(frozenset({"resource"}), hold))
        tasks.start_soon(partial(server.connection, wanted=False))
        await is_listing.wait()
        tasks.start_soon(call_held, it, answers)
        await fake.reached("tools/call")
        server.leave()
        go_on.set()
        await settled()
        fake.let_go()
        await until(lambda: not fake.survivors())
    assert answers == ["ran held {}"]


async def test_a_call_goes_on_where_nobody_takes_what_its_server_offers_any_more(tmp_path: Path):
    fake = FakeServer(tmp_path, tools=["held"], hold_at="call")
    answers, is_refused = list[str](), anyio.Event()

    async def refuse(server: ServerSettings, _offered: Offered) -> None:
        is_refused.set()
        raise StartFailed(server.key, "It was changed in the config.")

    async with fleet_of(settings_of(fake)) as it:
        it.fleet["fake"].offers.change(OfferSink(frozenset({"resource"}), refuse))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_held, it, answers)
            await fake.reached("tools/call")
            await is_refused.wait()
            await settled()
            fake.let_go()
    assert answers == ["ran held {}"]


async def test_a_server_that_is_stopped_during_a_start_that_fails_sleeps(tmp_path: Path):
    fake = FakeServer(tmp_path, hold_at="list", exit_at="list")

    async def call() -> None:
        with pytest.raises(StartFailed, match="it was stopped"):
            await it.call("fake", "echo")

    async with fleet_of(settings_of(fake, protocol="legacy")) as it, anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await fake.reached("tools/list")
        it.fleet["fake"].stop()
        fake.let_go()
        await it.is_in(State.SLEEPING)
        assert it.states_of() == ["starting", "sleeping"]


async def test_a_caller_that_is_cancelled_is_told_of_no_start_that_ended(tmp_path: Path):
    fake = FakeServer(tmp_path, hang_at="list")
    async with fleet_of(settings_of(fake)) as it, anyio.create_task_group() as tasks:
        tasks.start_soon(it.fleet["fake"].connection)
        await fake.reached("tools/list")
        it.fleet["fake"].stop()
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught


async def test_what_ends_with_all_else_has_not_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    is_starting = anyio.Event()

    @asynccontextmanager
    async def ends_badly(server: ServerSettings, limits: LimitsSection) -> AsyncGenerator[Streams]:
        is_starting.set()
        try:
            await anyio.sleep_forever()
            async with open_streams(server, limits) as streams:
                yield streams
        except anyio.get_cancelled_exc_class():
            raise OSError("the pipe of squeamish is gone") from None

    settings = settings_of(FakeServer(tmp_path), secrets=("squeamish",))
    with caplog.at_level(logging.DEBUG, "toolcrib.downstream"):
        async with fleet_of(settings, connector=ends_badly) as it, anyio.create_task_group() as tasks:
            tasks.start_soon(it.fleet["fake"].connection)
            await is_starting.wait()
            tasks.cancel_scope.cancel()
    assert it.states_of() == ["starting", "sleeping"]
    told = [each.getMessage() for each in caplog.records]
    assert told == ["the end of a connection to fake: the pipe of *** is gone"]


async def test_a_failure_is_told_once(tmp_path: Path):
    fake = FakeServer(tmp_path, exit_at="list")
    async with fleet_of(settings_of(fake, protocol="legacy")) as it:
        with pytest.raises(StartFailed):
            await it.call("fake", "echo")
        await until(lambda: not fake.survivors())
        assert it.states_of() == ["starting", "failed"]


async def test_what_is_to_be_listed_again_once_all_is_closed_is_not_and_breaks_nothing(tmp_path: Path):
    fake = FakeServer(tmp_path)
    async with fleet_of(settings_of(fake)) as it:
        pass
    it.fleet.list_again(["fake"])
    it.fleet.list_outdated("fake")
    assert fake.starts() == []
