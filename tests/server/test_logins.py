"""A person whose client shows addresses is asked to log in, and the call goes on: in both eras, by every door."""

from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest

from fakes.oauth_server import Guarded, guarded_server
from toolcrib.base.model import Caller
from toolcrib.gateway.tools import LoginRequests
from worlds import ERAS, Client, JsonObject, MemoryServer, world

pytestmark = pytest.mark.anyio

RUN = "Run `toolcrib login web` in a terminal."


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with guarded_server() as server:
        yield server


def at(server: Guarded) -> dict[str, MemoryServer]:
    """Return a server reached over HTTP, as the config has it: by its address."""
    return {"web": MemoryServer([], entry={"url": server.url})}


class Person:
    """Whoever sits in front of a client, with a browser beside it."""

    def __init__(self, action: Any = "accept", *, opens: bool = True) -> None:
        self.asked = list[Any]()
        self._action, self._opens = action, opens
        self.may_answer: anyio.Event | None = None

    async def __call__(self, _context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        if self.may_answer:
            await self.may_answer.wait()
        if self._opens and self._action == "accept":
            await anyio.to_thread.run_sync(_opened, params.url)
        return types.ElicitResult(action=self._action)


def _opened(url: str) -> None:
    with httpx2.Client(follow_redirects=True, trust_env=False) as browser:
        browser.get(url)


async def said(client: Client, door: str) -> str:
    whole: JsonObject = {"text": "a"}
    name = "web__echo"
    if door == "tool_call":
        name, whole = "tool_call", {"name": name, "arguments": whole}
    [block] = (await client.call_tool(name, whole)).content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_a_call_goes_on_after_the_login_that_its_person_makes(tmp_path, guarded, era, door):
    person = Person()
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert await said(client, door) == '{"text": "a"}'
        assert await said(client, door) == '{"text": "a"}'
    [asked] = person.asked
    assert asked.mode == "url"
    assert asked.url.startswith(guarded.url.removesuffix("/mcp") + "/authorize?")
    assert asked.message == "The server web requires you to log in, in the browser on this computer."


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_who_says_no_is_not_logged_in_and_the_call_says_what_to_run(tmp_path, guarded, era):
    person = Person("decline")
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert RUN in await said(client, "tool_call")
    assert len(person.asked) == 1
    assert not guarded.provider.access_tokens


async def test_a_client_that_shows_no_address_is_told_what_to_run(tmp_path, guarded):
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client() as client,
    ):
        assert RUN in await said(client, "tool_call")
        answer = await client.call("tool_search", {"query": "web echo"})
        assert f"Server web requires a login by a person. {RUN}" in str(answer)
    assert not guarded.asked("/register")


async def test_only_the_person_at_this_machine_is_asked(tmp_path, guarded):
    person = Person()
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client(caller=Caller("ann"), elicitation_callback=person) as client,
    ):
        assert RUN in await said(client, "tool_call")
    assert not person.asked


async def said_to_three_calls(client: Client) -> list[str]:
    """Call three times at once, and return what each of them was told."""
    answers: list[str] = []

    async def call() -> None:
        answers.append(await said(client, "tool_call"))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(call)
    return answers


async def test_calls_at_the_same_time_ask_once(tmp_path, guarded):
    person = Person()
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client(elicitation_callback=person) as client,
    ):
        assert await said_to_three_calls(client) == ['{"text": "a"}'] * 3
    assert len(person.asked) == 1


async def test_a_person_who_says_no_is_asked_once_for_calls_at_the_same_time_and_again_by_a_later_one(
    tmp_path, guarded, monkeypatch
):
    person, log_in = Person("decline"), LoginRequests.log_in
    person.may_answer, waiting = anyio.Event(), list[str]()

    async def counted(self: LoginRequests, request: Any, key: str) -> bool:
        waiting.append(key)
        if len(waiting) == 3:
            person.may_answer.set()
        return await log_in(self, request, key)

    monkeypatch.setattr(LoginRequests, "log_in", counted)
    # Nobody has to register, so nothing is kept.
    known = {"servers": {"web": {"auth": {"client_id": "known-to-it"}}}}
    async with (
        world(tmp_path, at(guarded), known, connector=None, wait=False, listing="auto") as w,
        w.client(elicitation_callback=person) as client,
    ):
        assert [RUN in each for each in await said_to_three_calls(client)] == [True] * 3
        assert len(person.asked) == 1
        assert RUN in await said(client, "tool_call")
    assert len(person.asked) == 2


async def test_a_login_that_ends_in_the_middle_is_asked_for_again(tmp_path, guarded):
    person = Person()
    async with (
        world(tmp_path, at(guarded), connector=None, wait=False, listing="auto") as w,
        w.client(elicitation_callback=person) as client,
    ):
        assert await said(client, "tool_call") == '{"text": "a"}'
        guarded.provider.revoke_all()
        assert await said(client, "tool_call") == '{"text": "a"}'
    assert len(person.asked) == 2
