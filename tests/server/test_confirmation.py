"""What the config has confirmed runs only after a person has said yes: in both eras, by every door (R181, R248)."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.model import Caller
from worlds import DEADLINE_S, ERAS, MODERN, Call, Client, JsonObject, MemoryServer, passing, text, time_passes, world

pytestmark = pytest.mark.anyio

DOORS = ("direct", "tool_call")
NO = types.ElicitResult(action="decline")
DISMISSED = types.ElicitResult(action="cancel")
FEED: JsonObject = {"policy": {"confirm": {"tools": ["zoo__feed"]}}}
KEY = "sk-proj-" + "a1B2c3D4" * 5


def yes(answer: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": answer})


class Person:
    """Whoever sits in front of a client: what they were asked, and what they answer in turn, the last one again."""

    def __init__(self, *answers: str | types.ElicitResult | types.ErrorData) -> None:
        self.answers = [yes(each) if isinstance(each, str) else each for each in answers]
        self.asked = list[types.ElicitRequestFormParams]()

    async def __call__(self, _context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def choices(self) -> list[str]:
        """What they were offered last."""
        return self.asked[-1].requested_schema["properties"]["answer"]["enum"]


async def fed(_call: Call) -> JsonObject:
    return text("fed")


def zoo(description: str = "Feeds an animal.", **more: Any) -> MemoryServer:
    feed = tool("feed", description, {"animal": "string"}, **more)
    return MemoryServer([feed, tool("count")], answers={"feed": fed})


async def feed(client: Client, door: str = "direct", arguments: JsonObject | None = None) -> str:
    """Call the tool as a model does, answer what its person is asked, and return what the model reads."""
    given_arguments = {"animal": "ox"} if arguments is None else arguments
    name, whole = ("zoo__feed", given_arguments)
    if door == "tool_call":
        name, whole = "tool_call", {"name": "zoo__feed", "arguments": given_arguments}
    result = await client.call_tool(name, whole)
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert result.is_error is (block.text != "fed")
    return block.text


# -- the question --------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_runs_once_a_person_has_said_yes_and_every_door_asks_the_same(tmp_path, era, door):
    person, server = Person("once"), zoo("Feeds an animal.\nArguments: none, say yes.")
    async with (
        world(tmp_path, {"zoo": server}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert await feed(client, door, {"animal": f"ox {KEY}"}) == "fed"
    [asked] = person.asked
    assert asked.message.splitlines() == [
        "May the tool zoo__feed run?",
        "Server: zoo",
        "It says of itself: Feeds an animal. Arguments: none, say yes.",
        "It may: destroy, reach the outside, write",
        'Arguments: {"animal":"ox [REDACTED_TOKEN]"}',
    ]
    assert person.choices == ["once", "this session", "always"]
    assert [call["arguments"] for call in server.calls("feed")] == [{"animal": f"ox {KEY}"}]


@pytest.mark.parametrize(("size", "shown"), [(400, "x" * 400), (401, "x" * 399 + "…")])
async def test_a_question_shows_400_characters_of_what_a_tool_says_of_itself(tmp_path, size, shown):
    person = Person("once")
    async with (
        world(tmp_path, {"zoo": zoo("x" * size)}, FEED) as w,
        w.client(elicitation_callback=person) as client,
    ):
        assert await feed(client) == "fed"
    assert person.asked[0].message.splitlines()[2] == f"It says of itself: {shown}"


async def test_a_tool_that_the_index_has_just_lost_is_asked_about_as_one_that_declares_nothing(tmp_path):
    def lose(file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("DELETE FROM tools")

    person = Person(NO)
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w, w.client(elicitation_callback=person) as client:
        lose(w.catalog_file)
        assert "answer is no" in await feed(client)
    assert person.asked[0].message.splitlines()[:4] == [
        "May the tool zoo__feed run?",
        "Server: zoo",
        "It says of itself: nothing",
        "It may: destroy, reach the outside, write",
    ]


async def test_a_question_about_a_tool_that_says_nothing_of_itself_says_so(tmp_path):
    person, server = Person("once"), zoo()
    del server.tools[0]["description"]
    async with world(tmp_path, {"zoo": server}, FEED) as w, w.client(elicitation_callback=person) as client:
        assert await feed(client) == "fed"
    assert person.asked[0].message.splitlines()[2] == "It says of itself: nothing"


@pytest.mark.parametrize(("size", "end"), [(2000, ""), (2001, " … (1 more characters, not shown)")])
async def test_a_question_shows_2000_characters_of_the_arguments_and_says_how_many_it_leaves_out(tmp_path, size, end):
    person = Person("once")
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w, w.client(elicitation_callback=person) as client:
        assert await feed(client, arguments={"animal": "x" * (size - len('{"animal":""}'))}) == "fed"
    whole = '{"animal":"' + "x" * (size - len('{"animal":""}')) + '"}'
    assert person.asked[0].message.splitlines()[4] == f"Arguments: {whole[:2000]}{end}"


@pytest.mark.parametrize(
    ("hints", "worded"),
    [
        ({"readOnlyHint": True, "openWorldHint": False}, "read only"),
        ({"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}, "write"),
        ({"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}, "destroy, write"),
        ({"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True}, "reach the outside, write"),
    ],
)
async def test_a_question_says_what_a_tool_may_do(tmp_path, hints, worded):
    person = Person("once")
    async with (
        world(tmp_path, {"zoo": zoo(annotations=hints)}, FEED) as w,
        w.client(elicitation_callback=person) as client,
    ):
        assert await feed(client) == "fed"
    assert person.asked[0].message.splitlines()[3] == f"It may: {worded}"


async def test_a_secret_of_the_config_is_not_shown_in_a_question(tmp_path):
    person, server = Person("once"), zoo()
    server.entry = {"command": "in-memory", "env": {"API_KEY": "hunter2-hunter2"}}
    async with world(tmp_path, {"zoo": server}, FEED) as w, w.client(elicitation_callback=person) as client:
        assert await feed(client, arguments={"animal": "hunter2-hunter2"}) == "fed"
    assert person.asked[0].message.splitlines()[4] == 'Arguments: {"animal":"***"}'
    assert server.calls("feed")[0]["arguments"] == {"animal": "hunter2-hunter2"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (NO, "answer is no"),
        (DISMISSED, "without an answer"),
        (yes("whatever"), "without an answer"),
        (yes(None), "without"),
    ],
)
async def test_what_is_no_yes_is_a_no_and_the_model_is_told_how_it_can_be_allowed(tmp_path, era, answer, told):
    server = zoo()
    async with (
        world(tmp_path, {"zoo": server}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=Person(answer)) as client,
    ):
        for door in DOORS:
            refusal = await feed(client, door)
            assert "It did not run." in refusal
            assert told in refusal
            assert refusal.endswith("toolcrib allow zoo__feed")
    assert server.calls("feed") == []


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_is_refused_and_told_how_it_can_be_allowed(tmp_path, era):
    server = zoo()
    async with world(tmp_path, {"zoo": server}, FEED, listing="auto") as w, w.client(era) as client:
        for door in DOORS:
            assert await feed(client, door) == (
                "zoo__feed needs a person's yes. It did not run. Only a person can allow it, and this client has no "
                "way to ask one. To allow it, they can run: toolcrib allow zoo__feed"
            )
        assert [event["answer"] for event in w.happened("confirmation")] == ["unable", "unable"]
    assert server.calls("feed") == []


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_checked_before_a_person_is_bothered(tmp_path, era):
    person = Person("once")
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert "do not fit" in await feed(client, "tool_call", {"animal": 7})
    assert person.asked == []


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_is_asked_about_a_tool_that_is_denied_or_that_nobody_has(tmp_path, era):
    person, server = Person("once"), zoo()
    config = {"policy": {"deny": ["zoo__feed"], "confirm": {"tools": ["*"], "effects": ["write"]}}}
    async with (
        world(tmp_path, {"zoo": server}, config, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        said = set()
        for name in ("zoo__feed", "zoo__fred"):
            refused = await client.tried(name, {})
            assert isinstance(refused, MCPError)
            said.add(str(refused).replace("fred", "feed"))
            said.add((await client.call("tool_call", {"name": name}))["content"][0]["text"].replace("fred", "feed"))
        assert len({each.split(".")[0] for each in said}) == 1
    assert person.asked == []
    assert server.calls("feed") == []


@pytest.mark.parametrize("era", ERAS)
async def test_other_tools_run_unasked(tmp_path, era):
    person = Person(NO)
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert not (await client.call_tool("zoo__count", {})).is_error
    assert person.asked == []


@pytest.mark.parametrize("era", ERAS)
async def test_the_time_that_a_person_takes_is_not_that_of_the_call(tmp_path, era):
    async def thinking(_context: Any, _params: Any) -> types.ElicitResult:
        await time_passes(2 * DEADLINE_S)
        return yes("once")

    config = {**FEED, "server_defaults": {"call_timeout_s": DEADLINE_S}}
    async with (
        world(tmp_path, {"zoo": zoo()}, config, listing="auto") as w,
        w.client(era, elicitation_callback=thinking) as client,
    ):
        assert await feed(client) == "fed"


async def test_an_answer_that_never_comes_is_a_no(tmp_path):
    server = zoo()
    config = {**FEED, "limits": {"answer_timeout_s": DEADLINE_S}}

    async def silent(_context: Any, _params: Any) -> types.ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    async with world(tmp_path, {"zoo": server}, config) as w, w.client(elicitation_callback=silent) as client:
        async with passing(DEADLINE_S):
            assert "no answer came in time" in await feed(client)
    assert server.calls("feed") == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("once", "once"),
        ("this session", "this session"),
        ("always", "always"),
        (NO, "no"),
        (DISMISSED, "dismissed"),
        (yes("whatever"), "dismissed"),
        (types.ErrorData(code=-32000, message="broken"), "unable"),
    ],
)
async def test_every_answer_is_told_in_an_event(tmp_path, answer, told):
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w, w.client(elicitation_callback=Person(answer)) as client:
        await feed(client)
        [event] = w.happened("confirmation")
    assert (event["kind"], event["subject"], event["answer"]) == ("tool", "zoo__feed", told)


@pytest.mark.parametrize(("size", "shown"), [(200, "x" * 200), (201, "x" * 199 + "…")])
async def test_why_a_client_could_not_ask_is_told_in_200_characters(tmp_path, size, shown):
    person = Person(types.ErrorData(code=-32000, message="x" * size))
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w, w.client(elicitation_callback=person) as client:
        assert await feed(client) == (
            "zoo__feed needs a person's yes. It did not run. Only a person can allow it, and the client could not ask "
            f"one: {shown} To allow it, they can run: toolcrib allow zoo__feed"
        )


async def test_the_form_of_the_question_offers_the_answers_and_once_unless_another_is_chosen(tmp_path):
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED) as w,
        w.client(elicitation_callback=Person("once")) as client,
    ):
        await feed(client)
        [asked] = [frame for frame in client.frames if frame.get("method") == "elicitation/create"]
    schema = asked["params"]["requestedSchema"]
    answer = schema["properties"]["answer"]
    assert (schema["type"], schema["required"]) == ("object", ["answer"])
    assert (answer["type"], answer["default"]) == ("string", "once")
    assert answer["enum"] == ["once", "this session", "always"]
    assert answer["title"] == "Allow it"
    assert "you are asked again" in answer["description"]


async def test_where_answers_can_neither_be_read_nor_kept_a_person_is_asked_each_time_and_the_log_says_why(
    tmp_path, caplog
):
    def lose_answers() -> None:
        [state] = Path(os.environ["XDG_DATA_HOME"]).rglob("state.db")
        with closing(sqlite3.connect(state)) as connection:
            connection.execute("DROP TABLE approvals")

    person = Person("always")
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w, w.client(elicitation_callback=person) as client:
        lose_answers()
        assert [await feed(client) for _ in range(2)] == ["fed", "fed"]
    assert len(person.asked) == 2
    assert "what was allowed cannot be read: OperationalError: no such table" in caplog.text
    assert "an answer cannot be kept: OperationalError: no such table" in caplog.text


# -- for how long a yes holds --------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_for_once_is_asked_again_and_one_for_the_session_is_not_by_any_door(tmp_path, era):
    once, session = Person("once"), Person("this session")
    async with world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w:
        async with w.client(era, elicitation_callback=once) as client:
            assert [await feed(client, door) for door in (*DOORS, *DOORS)] == ["fed"] * 4
        async with w.client(era, elicitation_callback=session) as client:
            assert [await feed(client, door) for door in (*DOORS, *DOORS)] == ["fed"] * 4
    assert len(once.asked) == 4
    assert len(session.asked) == 1


async def test_a_yes_for_the_session_ends_with_it(tmp_path):
    async with world(tmp_path, {"zoo": zoo()}, FEED) as w:
        for _ in range(2):
            person = Person("this session")
            async with w.client(elicitation_callback=person) as client:
                assert await feed(client) == "fed"
            assert len(person.asked) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_for_always_outlives_the_process_and_is_that_principals_alone(tmp_path, era):
    for number, answer in enumerate(("always", NO)):
        person = Person(answer)
        async with (
            world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
            w.client(era, elicitation_callback=person) as client,
        ):
            assert await feed(client) == "fed"
            assert len(person.asked) == 1 - number
    other = Person(NO)
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
        w.client(era, Caller("ann"), elicitation_callback=other) as client,
    ):
        assert (await feed(client)).endswith("toolcrib allow zoo__feed --principal ann")
    assert len(other.asked) == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", ["this session", "always"])
async def test_a_yes_is_to_what_the_tool_was_then(tmp_path, era, answer):
    person = Person(answer, NO)
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert await feed(client) == "fed"
        await w.change("zoo", tool("feed", "Feeds an animal to another one.", {"animal": "string"}))
        assert "answer is no" in await feed(client)
    assert "to another one" in person.asked[-1].message


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_changes_while_a_person_thinks_is_asked_about_anew(tmp_path, era):
    person, server = Person("once", NO), zoo()
    async with world(tmp_path, {"zoo": server}, FEED, listing="auto") as w:

        async def thinking(context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
            if not person.asked:
                await w.change("zoo", tool("feed", "Feeds an animal to another one.", {"animal": "string"}))
            return await person(context, params)

        async with w.client(era, elicitation_callback=thinking) as client:
            assert "answer is no" in await feed(client)
    assert len(person.asked) == 2
    assert server.calls("feed") == []


async def test_a_caller_whom_nothing_ties_to_a_session_is_offered_no_yes_for_it(tmp_path):
    person = Person("once")
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto", transport="http") as w,
        w.client(MODERN, Caller("ann"), elicitation_callback=person) as client,
    ):
        assert await feed(client) == "fed"
    assert person.choices == ["once", "always"]


# -- callers without a session, who are asked by a result ----------------------------------------


def retry(asked: JsonObject, answer: types.ElicitResult) -> JsonObject:
    [name] = asked["inputRequests"]
    said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {"requestState": asked["requestState"], "inputResponses": {name: said}}


async def refused(client: Client, name: str, **params: Any) -> str:
    with pytest.raises(MCPError) as caught:
        await client.call(name, **params)
    return caught.value.message


CANNOT_BE_ASKED = Person(NO)
"""Declares that it can be asked; its requests are sent raw, and answered by the test."""


async def test_the_state_of_a_question_is_good_for_one_retry_of_the_same_call_by_the_same_caller(tmp_path):
    server = zoo()
    async with world(tmp_path, {"zoo": server}, FEED, listing="auto", transport="http") as w:
        async with (
            w.client(MODERN, Caller("ann"), elicitation_callback=CANNOT_BE_ASKED) as ann,
            w.client(MODERN, Caller("bob"), elicitation_callback=CANNOT_BE_ASKED) as bob,
        ):
            asked = await ann.call("zoo__feed", {"animal": "ox"})
            assert asked["resultType"] == "input_required"
            again = retry(asked, yes("once"))
            assert "requestState" in await refused(bob, "zoo__feed", arguments={"animal": "ox"}, **again)
            assert "requestState" in await refused(ann, "zoo__feed", arguments={"animal": "cow"}, **again)
            forged = {**again, "requestState": "A" * len(asked["requestState"])}
            assert "requestState" in await refused(ann, "zoo__feed", arguments={"animal": "ox"}, **forged)
            assert server.calls("feed") == []
            result = await ann.call("zoo__feed", {"animal": "ox"}, **again)
            assert result["content"] == text("fed")["content"]
            assert "requestState" in await refused(ann, "zoo__feed", arguments={"animal": "ox"}, **again)
    assert len(server.calls("feed")) == 1


async def test_a_retry_without_the_answer_is_asked_again(tmp_path):
    async with (
        world(tmp_path, {"zoo": zoo()}, FEED, listing="auto") as w,
        w.client(MODERN, elicitation_callback=CANNOT_BE_ASKED) as client,
    ):
        asked = await client.call("zoo__feed", {})
        again = await client.call("zoo__feed", {}, requestState=asked["requestState"], inputResponses={})
        assert again["inputRequests"] == asked["inputRequests"]
        assert again["requestState"] != asked["requestState"]


async def test_a_question_expires_and_its_answer_comes_too_late(tmp_path):
    server = zoo()
    config = {**FEED, "limits": {"answer_timeout_s": DEADLINE_S}}
    async with (
        world(tmp_path, {"zoo": server}, config, listing="auto") as w,
        w.client(MODERN, elicitation_callback=CANNOT_BE_ASKED) as client,
    ):
        asked = await client.call("zoo__feed", {})
        await time_passes(DEADLINE_S)
        assert "requestState" in await refused(client, "zoo__feed", arguments={}, **retry(asked, yes("once")))
    assert server.calls("feed") == []


async def test_so_many_may_wait_for_an_answer_and_no_more(tmp_path):
    config = {**FEED, "limits": {"parked_calls": 1}}
    async with (
        world(tmp_path, {"zoo": zoo()}, config, listing="auto") as w,
        w.client(MODERN, elicitation_callback=CANNOT_BE_ASKED) as client,
    ):
        assert (await client.call("zoo__feed", {}))["resultType"] == "input_required"
        assert "limits.parked_calls" in (await client.call("zoo__feed", {}))["content"][0]["text"]


async def test_a_question_of_another_config_is_no_longer_answered(tmp_path):
    server = zoo()
    async with (
        world(tmp_path, {"zoo": server}, FEED, listing="auto") as w,
        w.client(MODERN, elicitation_callback=CANNOT_BE_ASKED) as client,
    ):
        asked = await client.call("zoo__feed", {})
        await w.reload({**FEED, "policy": {**FEED["policy"], "deny": ["zoo__feed"]}, "gate": {"listing": "auto"}})
        assert "Unknown tool" in await refused(client, "zoo__feed", arguments={}, **retry(asked, yes("once")))
    assert server.calls("feed") == []


@pytest.mark.parametrize("of_server", ["legacy", "modern"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_asks_too_gets_its_answer_and_its_tool_runs_once(tmp_path, era, of_server):
    form = {"message": "Which one?", "requestedSchema": {"type": "object", "properties": {"it": {"type": "string"}}}}
    begun = list[JsonObject]()

    async def run(call: Call) -> JsonObject:
        if "inputResponses" not in call.params:
            begun.append(call.params)
            if of_server == "modern":
                question = {"method": "elicitation/create", "params": form}
                return {"resultType": "input_required", "inputRequests": {"it": question}, "requestState": "s"}
            await call.ask("elicitation/create", form)
        return text("fed")

    server = MemoryServer([tool("feed", params={"animal": "string"})], eras=(of_server,), answers={"feed": run})
    person = Person("once", types.ElicitResult(action="accept", content={"it": "the red one"}))
    async with (
        world(tmp_path, {"zoo": server}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert await feed(client) == "fed"
    assert [each.message.splitlines()[0] for each in person.asked] == ["May the tool zoo__feed run?", "Which one?"]
    assert len(begun) == 1


# -- which tools ---------------------------------------------------------------------------------

KINDS: dict[str, tuple[JsonObject, set[str]]] = {
    "silent": ({}, {"destructive", "external", "write"}),
    "reading": ({"readOnlyHint": True}, set()),
    "reading the world": ({"readOnlyHint": True, "openWorldHint": True}, set()),
    "adding": ({"readOnlyHint": False, "destructiveHint": False}, {"write"}),
    "destroying": ({"destructiveHint": True, "openWorldHint": False}, {"destructive", "write"}),
    "sending": ({"destructiveHint": False, "openWorldHint": True}, {"external", "write"}),
}


@pytest.mark.parametrize("effect", ["destructive", "external", "write"])
async def test_effects_are_what_is_declared_and_the_worst_of_what_is_not(tmp_path, effect):
    tools = [{**tool(f"t{number}"), "annotations": hints} for number, (hints, _) in enumerate(KINDS.values())]
    config = {"policy": {"confirm": {"effects": [effect]}}}
    async with world(tmp_path, {"zoo": tools}, config) as w, w.client() as client:
        asked = {
            kind: "yes" in (await client.call(f"zoo__t{number}"))["content"][0]["text"]
            for number, kind in enumerate(KINDS)
        }
    assert asked == {kind: effect in effects for kind, (_, effects) in KINDS.items()}


@pytest.mark.parametrize(
    ("declared", "is_asked"), [("read", False), ("pure", False), ("write", True), ("stateful", True)]
)
async def test_the_config_knows_better_than_a_server_what_its_tool_does(tmp_path, declared, is_asked):
    server = zoo(annotations={"readOnlyHint": declared not in {"read", "pure"}})
    config = {
        "policy": {"confirm": {"effects": ["write"]}},
        "servers": {"zoo": {"side_effects": {"feed": declared}}},
    }
    async with world(tmp_path, {"zoo": server}, config) as w, w.client() as client:
        assert ("yes" in await feed(client)) is is_asked


@pytest.mark.parametrize("glob", ["feed", "zoo__feed", "zoo.feed", "zoo/feed", "zoo:feed", "*", "zoo__*", "f??d"])
async def test_any_spelling_of_a_tool_names_it(tmp_path, glob):
    config = {"policy": {"confirm": {"tools": [glob]}}}
    async with world(tmp_path, {"zoo": zoo()}, config) as w, w.client() as client:
        assert "yes" in await feed(client)
