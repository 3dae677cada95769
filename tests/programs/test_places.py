"""So many programs compute at a time, shared between callers; one that waits for a call leaves its place (R411)."""

import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from repository import configured, git, ran
from test_bounds import READ, Slow, children, workers

from fakes.memory import Call, JsonObject, text
from toolcrib.base.model import Caller
from toolcrib.programs.places import Place, Places, share_of_one
from worlds import DEADLINE_S, World, settled, time_passes, until, world

pytestmark = pytest.mark.anyio

COMPUTES = "while True: pass"
WAITS = READ + "await git__read(path='a')"
FULL = "all places for programs that compute are taken (programs.workers: 1)"
RESTS = "import asyncio\nfor n in range(20):\n    await asyncio.sleep(.001)\n'rested'"
LONG_S = 100 * DEADLINE_S


async def nothing(_message: str) -> None:
    """Report nothing."""


class Told:
    """What a client is told of the progress of its program."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        self.said.append(message or "")


async def run(w: World, code: str, said: list[str], *, caller: str = "", told: Told | None = None, **more: Any) -> None:
    """Run a program in a session of its own, and add what it came to."""
    async with w.client(caller=Caller(caller) if caller else None) as client:
        said.append(await ran(client, code, progress_callback=told, **more))


async def test_a_program_that_waits_leaves_its_place(tmp_path):
    slow, said = Slow(), list[str]()
    async with world(tmp_path, {"git": git(read=slow)}, configured(workers=1)) as w:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(run, w, WAITS, said)
            await until(lambda: slow.entered == 3)
            await run(w, RESTS, said)
            assert said == ["rested"]
            tasks.cancel_scope.cancel()


class Released:
    """A tool that answers once it is released, with as many characters as its path says; ``entered`` are its calls."""

    def __init__(self) -> None:
        self.entered, self.released = 0, anyio.Event()

    async def __call__(self, call: Call) -> JsonObject:
        self.entered += 1
        await self.released.wait()
        return text("x" * int(call.arguments["path"]))


async def test_a_program_that_cannot_begin_in_time_says_why_and_that_nothing_ran(tmp_path):
    said, told = list[str](), Told()
    async with world(tmp_path, {}, configured(workers=1, compute_s=60)) as w, anyio.create_task_group() as tasks:
        tasks.start_soon(run, w, COMPUTES, [])
        await until(lambda: len(workers()) == 1)
        async with anyio.create_task_group() as others:
            others.start_soon(lambda: run(w, "1", said, told=told, timeout_s=DEADLINE_S))
            await until(lambda: bool(told.said))
            await time_passes(DEADLINE_S)
        tasks.cancel_scope.cancel()
    bound = "(timeout_s, at most programs.timeout_s)"
    late = f"It has not begun in time {bound}, because {FULL}. Nothing ran; try later."
    assert said == [f"ERROR The program failed: {late}"]
    assert told.said == [f"It waits for its turn: {FULL}."]


@asynccontextmanager
async def held_up(tmp_path: Path, code: str, **bounds: Any) -> AsyncGenerator[tuple[World, list[str], Told, int]]:
    """Begin a program that calls a tool, and have it wait for its turn after that: another one computes."""
    tool, said, told = Released(), list[str](), Told()
    section = configured(workers=1, compute_s=60, **bounds)
    async with world(tmp_path, {"git": git(read=tool)}, section) as w, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run(w, READ + code, said, told=told))
        await until(lambda: tool.entered > 0)
        [pid] = workers()
        tasks.start_soon(run, w, COMPUTES, [])
        await until(lambda: len(workers()) == 2)
        tool.released.set()
        yield w, said, told, pid
        tasks.cancel_scope.cancel()


async def test_a_program_that_waited_for_its_turn_says_so_at_its_end(tmp_path):
    code = "await git__read(path='1')"
    async with held_up(tmp_path, code, timeout_s=DEADLINE_S) as (_, said, told, _pid):
        await until(lambda: len(told.said) > 1)
        assert told.said == ["git__read", f"It waits for its turn: {FULL}."]
        await time_passes(DEADLINE_S)
        await until(lambda: bool(said))
    assert "It took too long (timeout_s, at most programs.timeout_s). It waited" in said[0]
    assert f"for its turn, the last time because {FULL}." in said[0]


async def test_a_long_wait_is_reported_once_and_a_report_keeps_no_place():
    places, reports = Places(), list[str]()

    async def report(message: str) -> None:
        reports.append(message)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        with places.place("a", 1, report) as first, places.place("b", 1, report) as second:
            for _ in range(2):
                first.request()
                second.request()
                tasks.start_soon(second.wait)
                await time_passes(2)
                first.leave()
                await settled()
                assert second.given.is_set()
                second.leave()
    assert reports == [f"It waits for its turn: {FULL}."]


async def test_a_program_whose_process_ends_while_it_waits_for_its_turn_ends_at_once(tmp_path):
    async with held_up(tmp_path, "await git__read(path='1')", timeout_s=LONG_S) as (_, said, _told, pid):
        os.kill(pid, 9)
        await until(lambda: bool(said))
    assert "The process that ran it has ended" in said[0]


async def test_results_that_arrive_while_a_program_waits_for_its_turn_are_not_too_many(tmp_path):
    mib = 1024 * 1024
    code = (
        f"async def size():\n    return len(await git__read(path='{5 * mib}'))\n"
        "sum(await parallel([size() for n in range(8)]))"
    )
    bounds = {"memory_bytes": 32 * mib, "result_bytes": 8 * mib}
    async with held_up(tmp_path, code, **bounds) as (_, said, told, pid):
        await until(lambda: f"It waits for its turn: {FULL}." in told.said)
        assert said == []
        [other] = set(workers()) - {pid}
        os.kill(other, 9)
        await until(lambda: bool(said))
    assert said == [str(40 * mib)]


async def test_no_caller_has_all_places(tmp_path):
    said, told = list[str](), Told()
    bounds = configured(workers=4, compute_s=60)
    async with world(tmp_path, {}, bounds) as w, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: run(w, COMPUTES, [], caller="ana", told=told))
        await until(lambda: bool(told.said))
        assert "this caller's programs have their share of the places (half of programs.workers: 2)" in told.said[0]
        await run(w, "'at once'", said, caller="bo")
        assert said == ["at once"]
        tasks.cancel_scope.cancel()


async def test_no_caller_runs_all_programs(tmp_path):
    slow = Slow()
    async with world(tmp_path, {"git": git(read=slow)}, configured(runs=4)) as w, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: run(w, WAITS, [], caller="ana"))
        await until(lambda: slow.entered == 2)
        said: list[str] = []
        await run(w, "1", said, caller="ana")
        await run(w, "1", said, caller="bo")
        assert said[0].startswith(
            "ERROR As many programs run as may of one caller (half of programs.runs: 2). Nothing ran"
        )
        assert said[1] == "1"
        tasks.cancel_scope.cancel()


def test_the_next_place_is_for_the_caller_that_had_none_for_longest():
    places, order = Places(), list[str]()
    with places.place("a", 1, nothing) as first:
        first.request()
        waiting = [Place(places, caller, nothing) for caller in "aaaaabbbc"]
        for place in waiting:
            place.request()
        first.leave()
        while given := [place for place in waiting if place.given.is_set()]:
            [place] = given
            order.append(place.caller)
            waiting.remove(place)
            place.leave()
    assert "".join(order) == "bcababaaa"


class Shared(RuleBasedStateMachine):
    """Programs of three callers that want places, leave them, and give up, while there are more or fewer of these."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.most = Places(), 1
        self.wanted: list[Place] = []
        self.held_before: Counter[str] = Counter()

    def taken(self) -> Counter[str]:
        """Return how many places each caller has."""
        return Counter(place.caller for place in self.wanted if place.given.is_set())

    @rule(most=st.integers(1, 6))
    def change(self, most: int) -> None:
        """Read a config with another number of them."""
        with self.places.place("reads a config", most, nothing):
            self.most = most

    @rule(caller=st.sampled_from("abc"))
    def want(self, caller: str) -> None:
        """Want one."""
        self.wanted.append(Place(self.places, caller, nothing))
        self.wanted[-1].request()

    @rule(which=st.randoms(use_true_random=False))
    def leave(self, which: Any) -> None:
        """Leave one, or give up waiting; it goes to whoever has least."""
        if not self.wanted:
            return
        place = which.choice(self.wanted)
        before = self.waiting()
        self.wanted.remove(place)
        place.leave()
        taken = self.taken()
        for given in (each for each in before if each.given.is_set()):
            assert all(taken[given.caller] <= taken[each.caller] + 1 for each in self.waiting())

    def waiting(self) -> list[Place]:
        """Return those that have none, the oldest first."""
        return [place for place in self.wanted if not place.given.is_set()]

    def may_have(self, caller: str) -> bool:
        """Return whether there is one for a caller."""
        taken = self.taken()
        return taken.total() < self.most and taken[caller] < share_of_one(self.most)

    @invariant()
    def none_waits_for_what_is_free(self) -> None:
        """Each that could have one has one, in order of age among those of one caller."""
        assert not any(self.may_have(place.caller) for place in self.waiting())
        for caller in "abc":
            given = [place.given.is_set() for place in self.wanted if place.caller == caller]
            assert given == sorted(given, reverse=True)

    @invariant()
    def none_is_given_twice(self) -> None:
        """Nobody gets more than may be had; where a config takes some away, nothing is given until they are left."""
        taken = self.taken()
        for caller, count in taken.items():
            if count > self.held_before[caller]:
                assert count <= share_of_one(self.most)
                assert taken.total() <= self.most
        self.held_before = taken


def test_places_are_shared_whatever_order_programs_come_and_go_in():
    run_state_machine_as_test(Shared, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc, and processors are left on Linux")
async def test_programs_stand_back_where_others_want_to_compute(tmp_path):
    async with world(tmp_path, {}, configured()) as w, w.client() as client:
        await ran(client, "1")
        [runner] = workers()
        ours = sorted(os.sched_getaffinity(0))
        for pid in (runner, *children(runner)):
            assert sorted(os.sched_getaffinity(pid)) == (ours[1:] or ours)
            assert os.getpriority(os.PRIO_PROCESS, pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
