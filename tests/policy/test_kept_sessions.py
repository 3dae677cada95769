"""Activations that outlive a process: whose they are, how many, and when they are forgotten."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from builders import watched

from policy import state_files
from toolcrib.base.errors import StoreError
from toolcrib.policy.sessions import Activate, Active, ActiveSkill, Change, Deactivate, SharedActivations
from toolcrib.policy.state import SessionBounds, StoredSessions
from waiting import settled

HOUR = 3600.0
DAY = 24 * HOUR


def opened(path: Path, **bounds: Any) -> AbstractContextManager[StoredSessions]:
    kept = SessionBounds(**{"sessions": 9, "activations": 9, "age_s": 30 * DAY, **bounds})
    return state_files.opened(path, lambda store: StoredSessions(store, kept))


def test_activations_belong_to_one_caller_and_one_session(path: Path):
    with opened(path) as kept:
        kept.record("ann", "one", "s__a", 1.0)
        kept.record("ann", "one", "s__b", 1.0)
        kept.record("ann", "one", "s__a", 2.0)
        kept.record("bob", "one", "s__c", 1.0)
    with opened(path) as kept:
        assert kept.activated("ann", "one", 2.0) == {"s__a", "s__b"}
        assert kept.activated("bob", "one", 2.0) == {"s__c"}
        assert kept.activated("ann", "two", 2.0) == set()


def active(*names: str) -> tuple[ActiveSkill, ...]:
    return tuple(ActiveSkill(f"id-{each}", each, "repo", f"skill://repo/{each}", each, ("s__a",)) for each in names)


def joining(*names: str) -> list[Change]:
    return [Activate(each) for each in active(*names)]


def leaving(*names: str) -> list[Change]:
    return [Deactivate(tuple(each.id for each in active(*names)))]


def test_active_skills_are_kept_in_order(path: Path):
    with opened(path) as kept:
        assert kept.active_skills("ann", "one") is None
        assert kept.change_skills("ann", "one", joining("b", "x", "a"), 1.0) == active("b", "x", "a")
        assert kept.change_skills("ann", "one", leaving("x"), 1.0) == active("b", "a")
        kept.change_skills("ann", "two", joining("c"), 1.0)
        kept.change_skills("ann", "two", leaving("c"), 2.0)
        kept.record("ann", "one", "s__a", 1.0)
    with opened(path) as kept:
        assert kept.active_skills("ann", "one") == active("b", "a")
        assert (kept.active_skills("ann", "two"), kept.active_skills("bob", "one")) == ((), None)
        assert kept.activated("ann", "one", 1.0) == {"s__a"}
        kept.expire(31 * DAY)
        assert kept.active_skills("ann", "one") is None


def test_sessions_with_active_skills_alone_are_bounded_too(path: Path):
    with opened(path, sessions=2) as kept:
        for number in range(3):
            kept.change_skills("ann", str(number), joining("a"), float(number))
        assert [kept.active_skills("ann", str(number)) for number in range(3)] == [None, active("a"), active("a")]


@pytest.mark.parametrize("written", ["", "{}", "[7]", '[{"id": "x"}]', '[{"id": 1, "name": 2}]'])
def test_active_skills_that_another_program_has_written_are_none(path: Path, written: str):
    with opened(path) as kept:
        kept.change_skills("ann", "one", joining("a"), 1.0)
        kept._store.change(lambda connection: connection.execute("UPDATE sessions SET skills = ?", (written,)))
        assert kept.active_skills("ann", "one") == ()


def test_what_two_processes_change_of_one_session_is_all_kept(path: Path):
    with opened(path) as one, opened(path) as other:
        one.change_skills("ann", "one", joining("a", "b"), 1.0)
        assert other.change_skills("ann", "one", joining("c"), 1.0) == active("a", "b", "c")
        assert one.change_skills("ann", "one", leaving("a"), 1.0) == active("b", "c")
        [alone] = active("d")
        assert other.change_skills("ann", "one", [Activate(alone, exclusive=True)], 1.0) == active("d")
        assert one.active_skills("ann", "one") == active("d")


def test_a_change_that_changes_nothing_is_not_written(path: Path):
    with opened(path) as kept, watched(path) as written:
        kept.change_skills("ann", "one", joining("a"), 1.0)
        assert written()
        kept.change_skills("ann", "one", [*joining("a"), *leaving("b")], 2.0)
        assert not written()


def test_activations_expire_when_their_session_is_not_used(path: Path):
    with opened(path, age_s=HOUR) as kept:
        kept.record("ann", "used", "s__a", 0.0)
        kept.record("ann", "forgotten", "s__a", 0.0)
        assert kept.activated("ann", "used", 2 * HOUR) == {"s__a"}
        kept.expire(2 * HOUR)
        assert kept.activated("ann", "used", 2 * HOUR) == {"s__a"}
        assert kept.activated("ann", "forgotten", 2 * HOUR) == set()


def test_a_session_in_steady_use_is_written_once_an_hour(path: Path):
    with opened(path) as kept, watched(path) as written:
        kept.record("ann", "one", "s__a", 0.0)
        assert written()
        kept.activated("ann", "one", HOUR - 1)
        kept.record("ann", "one", "s__a", HOUR - 1)
        assert not written()
        kept.activated("ann", "one", HOUR)
        assert written()


def test_of_one_session_the_newest_activations_are_kept(path: Path):
    with opened(path, activations=3) as kept:
        for number in range(5):
            kept.record("ann", "one", f"s__{number}", 1.0)
        kept.record("ann", "one", "s__3", 2.0)
        kept.record("ann", "two", "s__0", 1.0)
        assert kept.activated("ann", "one", 2.0) == {"s__2", "s__3", "s__4"}
        assert kept.activated("ann", "two", 2.0) == {"s__0"}


def test_of_one_caller_the_sessions_used_last_are_kept(path: Path):
    with opened(path, sessions=2) as kept, watched(path):
        for day, session in enumerate(("old", "middle", "new")):
            kept.record("ann", session, "s__a", day * DAY)
            kept.record("bob", "only", "s__a", 0.0)
        assert [bool(kept.activated("ann", each, 0.0)) for each in ("old", "middle", "new")] == [False, True, True]
        assert kept.activated("bob", "only", 0.0) == {"s__a"}


# -- in a process --------------------------------------------------------------------------------


class Refusing(StoredSessions):
    """A store that cannot be used."""

    def __init__(self) -> None:
        self.asked = 0

    def activated(self, principal: str, session_id: str, now: float) -> set[str]:
        self.asked += 1
        raise StoreError("no", detail="locked")

    def record(self, principal: str, session_id: str, name: str, now: float) -> None:
        self.asked += 1
        raise StoreError("no", detail="locked")

    def active_skills(self, principal: str, session_id: str) -> Active:
        self.asked += 1
        raise StoreError("no", detail="locked")

    def change_skills(
        self, principal: str, session_id: str, changes: Sequence[Change], now: float, known: Active = ()
    ) -> Active:
        self.asked += 1
        raise StoreError("no", detail="locked")


@pytest.mark.anyio
async def test_a_store_that_cannot_be_used_stops_no_session(caplog: pytest.LogCaptureFixture):
    store = Refusing()
    kept = SharedActivations(store, lambda: 0.0)
    activations = await kept.resolve("ann", "one")
    assert [await activations.add("s__a"), await activations.add("s__a")] == [True, False]
    assert "s__a" in (await kept.resolve("ann", "one")).names
    assert store.asked == 2
    await activations.change_skills(activations.skills, joining("a"))
    assert (await kept.resolve("ann", "one")).skills.skills == active("a")
    assert store.asked == 3
    assert [record.getMessage() for record in caplog.records] == [
        "the activations of a session cannot be read: locked",
        "an activation cannot be kept: locked",
        "which skills are active cannot be kept: locked",
    ]


@pytest.mark.anyio
async def test_a_session_that_others_have_pushed_out_of_the_file_keeps_its_active_skills(path: Path):
    now = 0.0
    with opened(path, sessions=2) as store:
        kept = SharedActivations(store, lambda: now)
        mine = await kept.resolve("ann", "one")
        await mine.change_skills(mine.skills, joining("a"))
        for now in (1.0, 2.0, 3.0):
            other = await kept.resolve("ann", f"other {now}")
            await other.change_skills(other.skills, joining("x"))
        now = 2 * HOUR
        await mine.ready()
        assert mine.skills.skills == active("a")
        await mine.change_skills(mine.skills, joining("b"))
        assert mine.skills.skills == store.active_skills("ann", "one") == active("a", "b")


@pytest.mark.anyio
async def test_a_change_whose_request_is_cancelled_is_kept_with_the_next(path: Path):
    with opened(path) as store:
        mine = await SharedActivations(store, lambda: 0.0).resolve("ann", "one")
        threads = anyio.to_thread.current_default_thread_limiter()
        before, threads.total_tokens = threads.total_tokens, 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mine.change_skills, mine.skills, joining("a"))
            await settled()
            tasks.cancel_scope.cancel()
        threads.total_tokens = before
        await mine.change_skills(mine.skills, joining("b"))
        assert mine.skills.skills == store.active_skills("ann", "one") == active("a", "b")


@pytest.mark.anyio
async def test_connections_of_one_session_share_what_it_has_activated(path: Path):
    with opened(path) as store:
        kept = SharedActivations(store, lambda: 0.0)
        found: list[object] = []

        async def connect() -> None:
            found.append(await kept.resolve("ann", "one"))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(connect)
        assert len(set(map(id, found))) == 1


@pytest.mark.anyio
async def test_a_session_in_use_for_a_month_in_one_process_is_known_to_be_in_use(path: Path):
    now = 0.0
    with opened(path) as store:
        kept = SharedActivations(store, lambda: now)
        await (await kept.resolve("ann", "one")).add("s__a")
        for now in (20 * DAY, 40 * DAY):  # noqa: B007 - the clock
            await kept.resolve("ann", "one")
        store.expire(40 * DAY)
    with opened(path) as store:
        assert store.activated("ann", "one", 40 * DAY) == {"s__a"}
