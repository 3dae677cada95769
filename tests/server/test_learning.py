"""Learning from use, as a client sees it: what a call after a search changes, for whom, and what never changes."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.base.text import QUERY_MAX
from toolcrib.policy.state import LessonFilter, StoredVocabularies
from toolcrib.search import learned_words
from toolcrib.search.learned_words import Lesson
from worlds import ERAS, Call, Client, MemoryServer, World, text, until, world

pytestmark = pytest.mark.anyio

LEARN: dict[str, Any] = {"tool_search": {"learn": True}}
EVENT, ISSUE = "calendar__create_event", "issues__create_issue"
ANN, BOB = Caller("ann"), Caller("bob")


def servers() -> dict[str, MemoryServer]:
    return {
        "calendar": MemoryServer(
            [tool("create_event", "Adds an event to a calendar."), tool("list_events", "Lists the events of a week.")]
        ),
        "issues": MemoryServer(
            [tool("create_issue", "Opens an issue in a project."), tool("open_ticket", "Opens a ticket.")]
        ),
    }


def kept(w: World) -> dict[str, Any]:
    """Return what stands in the file."""
    return dict(w.gateway.generation.offline.learning._kept.all())


async def written(w: World) -> dict[str, Any]:
    """Wait until all that counts now stands in the file, and return it."""
    learning = w.gateway.generation.offline.learning
    await until(lambda: kept(w) == learning._known != {})
    return kept(w)


async def teach(client: Client, query: str = "chair a standup", name: str = EVENT) -> None:
    await client.search(query)
    assert not (await client.call(name)).get("isError")


async def comes(client: Client, query: str, names: list[str]) -> None:
    """Wait until a search finds just this, as another process will have it soon."""
    with anyio.fail_after(30):
        while await client.found(query) != names:
            await anyio.sleep(0.01)


@pytest.mark.sampled
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_word_that_no_tool_has_is_learnt_by_the_call_after_a_search_and_kept(tmp_path, era, transport):
    section = {**LEARN, "gate": {"listing": "auto"}}
    async with world(tmp_path, servers(), section, transport=transport) as w, w.client(era) as client:
        assert await client.found("standup") == []
        await teach(client)
        answers = {json.dumps(await client.search("standup")) for _ in range(5)}
        await written(w)
        answers |= {json.dumps(await client.search("standup")) for _ in range(5)}
    async with world(tmp_path, servers(), section, transport=transport, now=40 * 86_400) as w, w.client(era) as client:
        answer = await client.search("standup")
        answer["tools"][0] |= {"activated": era == "legacy"}  # noted of the session, which is another one
        assert [hit["name"] for hit in answer["tools"]] == [EVENT]
        assert answer["confidence"] == "low"
    assert len(answers) == 1
    assert [hit["name"] for hit in json.loads(answers.pop())["tools"]] == [EVENT]


async def test_nothing_is_learnt_or_counts_unless_the_config_says_so(tmp_path):
    async with world(tmp_path, servers()) as w, w.client() as client:
        await teach(client)
        assert await client.found("standup") == []
        assert kept(w) == {}
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await teach(client)
        assert await client.found("standup") == [EVENT]
        await written(w)
    async with world(tmp_path, servers()) as w, w.client() as client:
        assert await client.found("standup") == []


async def test_only_the_first_call_that_did_soon_after_a_search_teaches(tmp_path):
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await client.search("chair a standup")
        w.clock.now += 301
        await client.call(EVENT)
        assert await client.found("standup") == [], "too late"
        await client.search("chair a standup")
        await client.call(ISSUE)
        await client.call(EVENT)
        assert await client.found("standup") == [ISSUE], "the first call settles it"
        await client.call(EVENT)
        await client.search("open a ticket")
        await client.call("issues__open_ticket")
        [known] = (await written(w)).values()
        assert {tool for _, tool, _ in known.pairs()} == {ISSUE, EVENT}, "the first hit teaches nothing"


async def test_who_searches_for_several_steps_first_teaches_nothing_of_one_by_the_call_for_another(tmp_path):
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await client.search("add an event to the calendar")
        await client.search("standup")
        await client.call(EVENT)
        assert await client.found("standup") == []
        await client.call(ISSUE)
        assert await client.found("standup") == [ISSUE], "the second step was still open"


async def test_a_call_teaches_nothing_of_a_search_that_was_made_while_it_ran(tmp_path):
    known_servers = servers()
    running, go_on, done = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(_call: Call) -> dict[str, Any]:
        running.set()
        await go_on.wait()
        return text("done")

    known_servers["calendar"].answers["create_event"] = slow
    async with world(tmp_path, known_servers, LEARN) as w, w.client() as client, anyio.create_task_group() as tasks:

        async def call() -> None:
            assert not (await client.call(EVENT)).get("isError")
            done.set()

        tasks.start_soon(call)
        await running.wait()
        await client.search("standup")
        go_on.set()
        await done.wait()
        assert await client.found("standup") == []


async def test_a_call_that_fails_or_is_refused_teaches_nothing_and_the_next_one_does(tmp_path):
    known_servers = servers()
    known_servers["issues"].answers["create_issue"] = text("no", isError=True)
    async with world(tmp_path, known_servers, LEARN) as w, w.client() as client:
        await client.search("chair a standup")
        assert (await client.call(ISSUE))["isError"]
        await client.tried("calendar__no_such_tool")
        await client.tool_call(EVENT, "not an object")
        await client.call(EVENT)
        assert await client.found("standup") == [EVENT]
        [known] = (await written(w)).values()
        assert {tool for _, tool, _ in known.pairs()} == {EVENT}


async def test_patterns_names_several_requests_and_long_ones_teach_nothing(tmp_path):
    long = "chair standup with plumbers electricians painters carpenters masons roofers glaziers tilers"
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        for query, kind in [
            ("standup", "regex"),
            ("standup", "exact"),
            ("issues__create_issue", "fts"),
            ("chair a standup\nplan a retro", "fts"),
            (long, "fts"),
        ]:
            await client.search(query, search_type=kind)
            await client.call(EVENT)
        assert await client.found("standup") == []
        assert kept(w) == {}


async def test_what_one_caller_teaches_changes_no_byte_of_what_others_get(tmp_path):
    async with world(tmp_path, servers(), LEARN) as w, w.client(caller=ANN) as ann, w.client(caller=BOB) as bob:
        queries = ("standup", "chair a standup", "open an issue")
        before = [await bob.search(query) for query in queries]
        for query in queries:
            await teach(ann, query)
        assert EVENT in await ann.found("standup")
        assert [await bob.search(query) for query in queries] == before
        async with w.client(caller=Caller("ann", tenant_id="other")) as namesake:
            assert await namesake.found("standup") == []


async def test_shared_lessons_count_for_everybody_who_may_use_the_tool(tmp_path):
    section = {
        "tool_search": {"learn": True, "learn_shared": True},
        "policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["calendar.create_event"]}]},
    }
    async with world(tmp_path, servers(), section) as w, w.client(caller=ANN) as ann, w.client(caller=BOB) as bob:
        async with w.client(caller=Caller("eve", tenant_id="red")) as eve:
            before = await eve.search("standup")
            await teach(ann)
            assert await bob.found("standup") == [EVENT]
            assert await eve.search("standup") == before


@pytest.mark.parametrize("shared", [True, False])
async def test_what_others_teach_of_hidden_tools_changes_no_byte_of_what_one_taught_oneself_finds(tmp_path, shared):
    section = {
        "tool_search": {"learn": True, "learn_shared": shared},
        "policy": {"visibility": [{"when": {"profile": "guest"}, "deny": ["calendar.create_event"]}]},
    }
    guest_ann = Caller("ann", profile="guest")
    async with (
        world(tmp_path, servers(), section) as w,
        w.client(caller=ANN) as ann,
        w.client(caller=guest_ann) as guest,
    ):
        await teach(guest, "standup", ISSUE)
        w.clock.now += 90 * 86_400
        before = await guest.search("standup")
        assert before["tools"]
        await teach(ann, "breakfast")
        assert await guest.search("standup") == before


async def test_however_much_is_taught_of_hidden_tools_takes_no_shared_word_from_others(tmp_path, monkeypatch):
    monkeypatch.setattr(learned_words, "ENTRIES_MAX", 10)
    hidden = {"when": {"profile": "guest"}, "deny": ["calendar.*"]}
    section = {"tool_search": {"learn": True, "learn_shared": True}, "policy": {"visibility": [hidden]}}
    guests = Caller("eve", profile="guest"), Caller("mallory", profile="guest")
    words = ("standup", "retro", "breakfast", "lunch", "dinner")
    async with world(tmp_path, servers(), section) as w, w.client(caller=ANN) as ann, w.client(caller=guests[0]) as eve:
        async with w.client(caller=guests[1]) as other:
            for word in words:
                await teach(eve, word, ISSUE)
            before = [await other.search(word) for word in words]
            assert all(answer["tools"] for answer in before)
            for word in ("monday", "tuesday", "wednesday"):
                for name in (EVENT, "calendar__list_events"):
                    await teach(ann, word, name)
            assert await ann.found("monday")
            assert [await other.search(word) for word in words] == before


async def test_a_denied_tool_is_found_by_no_lesson_and_its_name_is_never_learnt(tmp_path):
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await teach(client)
        assert await client.found("standup") == [EVENT]
        await written(w)
        deny = {**LEARN, "policy": {"deny": ["calendar.create_event"]}}
        assert not (await w.reload(deny)).failure
        assert await client.found("standup") == []
        await teach(client, "retro like create_event or calendar__create_event", ISSUE)
        assert await client.found("retro") == [ISSUE]
        [known] = (await written(w)).values()
        taught_now = {word for word, tool, _ in known.pairs() if tool == ISSUE}
    assert taught_now == {"retro"}


async def test_secrets_are_not_learnt(tmp_path):
    section = {**LEARN, "http": {"tokens": [{"token": "correcthorsebattery", "subject": "ann"}]}}
    async with world(tmp_path, servers(), section) as w, w.client() as client:
        await teach(client, "retro".ljust(QUERY_MAX - 5) + "correcthorsebattery")
        spelled = ("correcthorsebattery", "Correcthorsebattery", "CORRECTHORSEBATTERY", "correct horse", "Battery")
        for secret in (*spelled, "hunter2", "'my secret phrase'", "sk-live-abcdefgh"):
            await teach(client, f"standup {secret}")
        [known] = (await written(w)).values()
    assert set(known.entries) == {"standup"}


async def test_what_was_taught_just_before_another_config_is_found_under_it(tmp_path):
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await teach(client)
        assert not (await w.reload({**LEARN, "limits": {"ranked_in_memory": 19_999}})).failure
        await comes(client, "standup", [EVENT])


async def test_a_lesson_that_is_being_written_as_the_process_ends_is_written_once(tmp_path, monkeypatch):
    written: list[int] = []
    is_written, teach = threading.Event(), StoredVocabularies.teach

    def teach_and_return_late(kept: StoredVocabularies, lessons: list[tuple[str, Lesson]]) -> None:
        teach(kept, lessons)
        written.append(len(lessons))
        is_written.set()
        time.sleep(0.2)  # meanwhile the process ends

    monkeypatch.setattr(StoredVocabularies, "teach", teach_and_return_late)
    async with world(tmp_path, servers(), LEARN) as w, w.client() as client:
        await client.search("standup")
        await client.call(EVENT)
        await until(is_written.is_set)
    assert written == [1]


async def test_two_processes_learn_from_each_other_and_forget_together(tmp_path: Path):
    async with world(tmp_path, servers(), LEARN) as one, world(tmp_path, servers(), LEARN) as other:
        async with one.client() as here, other.client() as there:
            await teach(here)
            await until(lambda: bool(kept(one)))

            await comes(there, "standup", [EVENT])
            await there.call(EVENT)
            await teach(there, "retro")
            await comes(here, "retro", [EVENT])
            assert await here.found("standup") == [EVENT]
            one.gateway.generation.offline.learning._kept.forget(LessonFilter(words=["standup"]))
            await comes(there, "standup", [])
            assert await there.found("retro") == [EVENT]
