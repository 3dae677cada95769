"""Arguments of ``tool_call``: read as the schema asks for them; what a server might take all the same is not lost."""

import json
from typing import Any

import pytest
from mcp.client import Client as SdkClient
from mcp.server.mcpserver import MCPServer
from repository import Person

import toolcrib
from fakes.menu import tool
from online import online
from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Caller
from toolcrib.server.sessions import SESSION_HEADER
from worlds import ERAS, MODERN, Client, JsonObject, MemoryServer, world

pytestmark = pytest.mark.anyio

NULL = {"type": "null"}
PARAMS: dict[str, Any] = {
    "tags": {"type": "array", "items": {"type": "string"}},
    "meta": {"anyOf": [{"type": "object"}, NULL]},
    "limit": {"type": "integer", "maximum": 100},
    "ratio": {"type": "number"},
    "pinned": {"type": "boolean"},
    "page": {"type": ["integer", "null"]},
    "size": {"enum": [1, 2, 3]},
    "mode": {"enum": ["on", "off", True]},
    "truth": {"anyOf": [{"type": "boolean"}, {"type": "integer"}]},
    "words": {"type": "object", "additionalProperties": {"type": "string"}},
    "short": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}, NULL]},
    "title": {"type": "string"},
    "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "filter": {"oneOf": [{"$ref": "#/$defs/by_number"}, {"$ref": "#/$defs/by_name"}]},
}
DEFS = {
    "id": {"type": "integer"},
    "by_number": {
        "type": "object",
        "properties": {"kind": {"const": "number"}, "value": {"type": "integer"}},
        "required": ["kind", "value"],
    },
    "by_name": {
        "type": "object",
        "properties": {"kind": {"const": "name"}, "value": {"type": "string"}},
        "required": ["kind", "value"],
    },
}
SAVE = tool("save_note", "Saves a note.", PARAMS)
SAVE["inputSchema"] |= {"$defs": DEFS, "additionalProperties": False}

READ_AS = [
    ({"tags": '["x", "y"]'}, {"tags": ["x", "y"]}),
    ({"meta": '{"k": 1}'}, {"meta": {"k": 1}}),
    ({"meta": "null"}, {"meta": None}),
    ({"limit": "3"}, {"limit": 3}),
    ({"limit": " 3.0 "}, {"limit": 3}),
    ({"limit": 3.0}, {"limit": 3.0}),
    ({"ratio": "0.5"}, {"ratio": 0.5}),
    ({"ratio": "9007199254740993"}, {"ratio": 9007199254740993}),
    ({"ratio": "3.14159265358979323846"}, {"ratio": 3.141592653589793}),
    ({"limit": "1e1"}, {"limit": 10}),
    ({"pinned": "true"}, {"pinned": True}),
    ({"pinned": "No"}, {"pinned": False}),
    ({"pinned": 1}, {"pinned": True}),
    ({"page": "2"}, {"page": 2}),
    ({"size": "2"}, {"size": 2}),
    ({"mode": "true"}, {"mode": True}),
    ({"truth": "5"}, {"truth": 5}),
    ({"truth": "on"}, {"truth": True}),
    ({"ids": ["1", 2, "3"]}, {"ids": [1, 2, 3]}),
    ({"ids": '["1", 2]'}, {"ids": [1, 2]}),
    ({"filter": {"kind": "number", "value": "7"}}, {"filter": {"kind": "number", "value": 7}}),
    ({"filter": '{"kind": "number", "value": "7"}'}, {"filter": {"kind": "number", "value": 7}}),
    ({"filter": {"kind": "name", "value": "7"}}, {"filter": {"kind": "name", "value": "7"}}),
    ({"limit": None, "title": "t"}, {"title": "t"}),
    # What the schema takes is never read as something else.
    ({"title": "3"}, {"title": "3"}),
    ({"title": '["x"]', "limit": "3"}, {"title": '["x"]', "limit": 3}),
    ({"either": "3"}, {"either": "3"}),
    ({"meta": None}, {"meta": None}),
    ({"page": None}, {"page": None}),
]
WRONG: list[tuple[JsonObject, str]] = [
    ({"tags": "x, y"}, "arguments.tags: must be array, not string"),
    ({"tags": '["x"'}, "arguments.tags: must be array, not string"),
    ({"tags": '{"x": 1}'}, "arguments.tags: must be array, not string"),
    ({"tags": [None]}, "arguments.tags[0]: must be string, not null"),
    ({"words": {"a": None}}, "arguments.words.a: must be string, not null"),
    ({"meta": '{"k": 1, "k": 2}'}, "arguments.meta: fits none of its alternatives"),
    ({"mode": "ON"}, 'arguments.mode: must be one of "on", "off", true'),
    ({"size": "2.0"}, "arguments.size: must be one of 1, 2, 3"),
    ({"truth": "1"}, "arguments.truth: fits none of its alternatives"),
    ({"short": "12345"}, "arguments.short: fits none of its alternatives"),
    ({"short": "null"}, "arguments.short: fits none of its alternatives"),
    ({"meta": "[NaN]"}, "arguments.meta: fits none of its alternatives"),
    ({"limit": "3.5"}, "arguments.limit: must be integer, not string"),
    ({"limit": ""}, "arguments.limit: must be integer, not string"),
    ({"limit": True}, "arguments.limit: must be integer, not boolean"),
    ({"limit": "101"}, "arguments.limit: must be at most 100"),
    ({"ratio": "1e999"}, "arguments.ratio: must be number, not string"),
    ({"ratio": "9" * 400}, "arguments.ratio: must be number, not string"),
    ({"ratio": "Infinity"}, "arguments.ratio: must be number, not string"),
    ({"pinned": "perhaps"}, "arguments.pinned: must be boolean, not string"),
    ({"pinned": 2}, "arguments.pinned: must be boolean, not integer"),
    ({"title": 3}, "arguments.title: must be string, not integer"),
    ({"limit": "3", "titel": "t"}, "arguments.titel: is not known here"),
]


def sent(server: MemoryServer) -> list[JsonObject]:
    return [call["arguments"] for call in server.calls()]


async def said(client: Client, arguments: JsonObject, name: str = "db__save_note") -> str:
    """Return what a model reads of a call that is refused; empty where it has run."""
    result = await client.tool_call(name, arguments)
    return result["content"][0]["text"] if result.get("isError") else ""


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_gets_what_its_schema_asks_for(tmp_path, era):
    async with world(tmp_path, {"db": [SAVE]}, listing="auto") as w, w.client(era) as client:
        for given, meant in READ_AS:
            assert await said(client, given) == "", given
            # As JSON, because True is 1 and 3 is 3.0 in Python.
            assert json.dumps(sent(w["db"])[-1]) == json.dumps(meant)


@pytest.mark.parametrize("era", ERAS)
async def test_only_what_is_certainly_wrong_is_refused(tmp_path, era):
    async with world(tmp_path, {"db": [SAVE]}, listing="auto") as w, w.client(era) as client:
        for given, problem in WRONG:
            problems = [line[2:] for line in (await said(client, given)).splitlines() if line.startswith("- ")]
            assert len(problems) == 1, given
            assert problems[0].startswith(problem)
        assert sent(w["db"]) == []


async def test_a_null_that_is_required_is_not_left_out(tmp_path):
    needs = tool("needs", params={"title": "string"}, required=["title"])
    async with world(tmp_path, {"db": [needs]}) as w, w.client() as client:
        assert "arguments.title: must be string, not null" in await said(client, {"title": None}, "db__needs")


async def test_whatever_a_server_of_the_sdk_takes_is_taken_here():
    server = MCPServer("db")

    @server.tool()
    def keep(
        tags: list[str] | None = None,
        meta: dict[str, int] | None = None,
        limit: int = 1,
        ratio: float = 1.0,
        rows: list[dict[str, int]] | None = None,
        *,
        pinned: bool = False,
    ) -> str:
        """Keep something."""
        return repr((tags, meta, limit, ratio, pinned, rows))

    # pydantic takes them for 1000 and 1; a model would have to insist.
    unread = ["1_000", True]
    texts = [
        '["x"]',
        "[]",
        '{"k": 1}',
        '{"k": "1"}',
        '[{"k": "1"}]',
        "3",
        "3.0",
        " 3",
        "+3",
        "-3",
        "2.5",
        "1e3",
        "3.14159265358979323846",
        ".5",
        "5.",
    ]
    texts += ["true", "False", "ON", "0", "1", "n", "null", "None", "", "x", "[1", "1,2", "yes please"]
    taken = 0
    async with SdkClient(server) as direct, toolcrib.open(servers={"db": server}) as crib:
        for name in ("tags", "meta", "limit", "ratio", "pinned", "rows"):
            for value in (*texts, *unread, None, 0, 1, 3.0, 2.5, [], {}, ["x"], {"k": "1"}, [{"k": 2.0}]):
                answer = await direct.call_tool("keep", {name: value})
                try:
                    here = (await crib.call("db__keep", {name: value})).text
                except BadRequest:
                    assert answer.is_error or repr(value) in map(repr, unread), (name, value)
                else:
                    taken += not answer.is_error
                    assert answer.is_error or here == getattr(answer.content[0], "text", None), (name, value)
    assert taken > 40


# -- a call that is made again --------------------------------------------------------------------

LAX = tool("save_note", "Saves a note.", {"limit": "integer", "title": "string"})


@pytest.mark.parametrize("era", ERAS)
async def test_the_same_call_again_is_passed_on_as_it_is(tmp_path, era):
    async with world(tmp_path, {"db": [LAX]}) as w, w.client(era) as client:
        assert "make exactly the same call again" in await said(client, {"limit": "many", "title": 3})
        assert await said(client, {"limit": "more", "title": 3}) != "", "another call"
        assert await said(client, {"title": 3, "limit": "many"}, "save_note") == "", "however it is written"
        assert sent(w["db"]) == [{"title": 3, "limit": "many"}]
        # What could be read is not: the server gets what the model insists on.
        assert await said(client, {"limit": "3", "title": 3}) != ""
        assert await said(client, {"limit": "3", "title": 3}) == ""
        assert sent(w["db"])[-1] == {"limit": "3", "title": 3}


async def test_what_one_session_insists_on_is_new_in_another(tmp_path):
    async with world(tmp_path, {"db": [LAX]}) as w:
        for _ in range(2):
            async with w.client() as client:
                assert await said(client, {"title": 3}) != ""
        assert sent(w["db"]) == []


async def test_without_a_session_no_call_is_the_same_one(tmp_path):
    # Over HTTP, where nothing tells whose the next request is.
    async with world(tmp_path, {"db": [LAX]}, transport="http") as w, w.client(MODERN) as client:
        for _ in range(3):
            assert "same call" not in (refused := await said(client, {"title": 3}))
            assert "arguments.title" in refused
        assert sent(w["db"]) == []


async def test_what_one_named_session_insists_on_is_new_in_another(tmp_path):
    section = {"http": {"tokens": [{"token": "token-ann", "subject": "ann"}]}}
    db = MemoryServer([LAX])
    async with online(tmp_path, {"db": db}, section) as it:
        for name in ("a", "b"):
            async with it.client(MODERN, "token-ann", {SESSION_HEADER: name}) as client:
                assert "exactly the same call" in await said(client, {"title": 3})
                assert await said(client, {"title": 3}) == ""
        assert sent(db) == [{"title": 3}] * 2
        async with it.client(MODERN, "token-ann") as client:
            for _ in range(2):
                assert "arguments.title" in await said(client, {"title": 3})


async def test_a_changed_tool_refuses_once_more(tmp_path):
    async with world(tmp_path, {"db": [LAX]}) as w, w.client() as client:
        assert await said(client, {"title": 3}) != ""
        await w.change("db", tool("save_note", "Saves a short note.", {"limit": "integer", "title": "string"}))
        assert await said(client, {"title": 3}) != ""
        assert await said(client, {"title": 3}) == ""


async def test_no_arguments_at_all_cannot_be_insisted_on(tmp_path):
    async with world(tmp_path, {"db": [LAX]}) as w, w.client() as client:
        for _ in range(3):
            assert "must be a JSON object" in (await client.tool_call("db__save_note", "nothing"))["content"][0]["text"]
        assert sent(w["db"]) == []


@pytest.mark.parametrize("repo", ["theirs", 3])
async def test_nobody_insists_on_another_value_than_the_fixed_one(tmp_path, repo):
    make = tool("mk", params={"repo": "string", "title": "string"})
    make["inputSchema"]["additionalProperties"] = False
    config = {"servers": {"db": {"tools": {"mk": {"arguments": {"repo": {"fixed": "mine"}}}}}}}
    async with world(tmp_path, {"db": [make]}, config) as w, w.client() as client:
        for _ in range(3):
            refused = await said(client, {"repo": repo, "title": "t"}, "db__mk")
            assert "arguments.repo" in refused
            assert "same call" not in refused
        assert sent(w["db"]) == []
        for expected in (True, False):
            assert bool(await said(client, {"title": 3}, "db__mk")) is expected
        assert sent(w["db"]) == [{"title": 3, "repo": "mine"}]


async def test_nobody_insists_on_a_denied_tool(tmp_path):
    config = {"policy": {"deny": ["db.save_note"]}}
    async with world(tmp_path, {"db": [LAX, tool("other")]}, config) as w, w.client() as client:
        for _ in range(3):
            assert await said(client, {"title": 3}) == "Unknown tool: db__save_note"
        assert sent(w["db"]) == []


# -- the names of denied tools --------------------------------------------------------------------

RUN = tool(
    "run_actions",
    "Runs actions.",
    {
        "actions": {"type": "array", "items": {"enum": ["keep_row", "drop_everything"]}},
        "one": {"enum": ["keep_row", "drop_everything"]},
        "options": {"type": "object", "properties": {"one": {"enum": ["keep_row", "drop_everything"]}}},
        "times": "integer",
    },
)
RED = Caller("a", tenant_id="red")
HIDDEN = {"policy": {"visibility": [{"when": {"tenant_id": "red"}, "deny": ["drop_everything"]}]}}
NAMING = [
    {"actions": '["drop_everything"]'},
    {"actions": '["\\u0064rop_everything"]'},
    {"actions": ["drop_everything"], "times": "often"},
    {"actions": "drop_everything"},
    {"options": '{"one": "drop_everything", "one": "keep_row"}'},
    {"one": "drop_everything", "times": []},
    {"one": "drop_everything", "times": list(range(10_001))},
]


@pytest.mark.parametrize("door", ["direct", "tool_call"])
@pytest.mark.parametrize("given", NAMING)
async def test_no_wrong_form_takes_the_name_of_a_denied_tool_along(tmp_path, door, given):
    servers = {"db": [RUN, tool("drop_everything", "Drops.")]}
    unknown = json.loads(
        json.dumps(given).replace("drop_everything", "zorp_everything").replace("u0064rop", "u007aorp")
    )
    async with world(tmp_path, servers, HIDDEN) as w, w.client(caller=RED) as client:

        async def answer(arguments: JsonObject) -> JsonObject:
            if door == "direct":
                return await client.call("db__run_actions", arguments)
            return await client.tool_call("db__run_actions", arguments)

        refused = await answer(given)
        assert refused["isError"]
        # Nor does it help to insist, and a name of nothing gets the same answer.
        assert refused == await answer(given) == await answer(unknown) == await answer(unknown)
        assert "same call" not in refused["content"][0]["text"]
        assert sent(w["db"]) == []
        assert "isError" not in await answer({"actions": '["keep_row"]', "times": "2"})
        assert sent(w["db"]) == [{"actions": ["keep_row"], "times": 2}], "what was checked is what is sent"


async def test_a_default_that_names_a_denied_tool_disallows_nothing(tmp_path):
    keep = tool("keep_rows", params={"next": {"type": "string", "default": "drop_everything"}, "times": "integer"})
    servers = {"db": [keep, tool("drop_everything", "Drops.")]}
    async with world(tmp_path, servers, HIDDEN) as w, w.client(caller=RED) as client:
        assert "exactly the same call" in await said(client, {"times": []}, "db__keep_rows")
        assert await said(client, {"times": []}, "db__keep_rows") == ""
        assert "isError" not in await client.call("db__keep_rows", {"times": "often"})


@pytest.mark.parametrize("door", ["direct", "tool_call"])
async def test_what_cannot_be_checked_takes_no_denied_name_along(tmp_path, door):
    odd = tool(
        "odd", params={"one": {"enum": ["keep_row", "drop_everything"]}, "other": {"$ref": "https://a.example/b"}}
    )
    servers = {"db": [odd, tool("drop_everything", "Drops.")]}
    async with world(tmp_path, servers, HIDDEN) as w, w.client(caller=RED) as client:
        for one in ("drop_everything", "zorp_everything"):
            call = client.call if door == "direct" else client.tool_call
            assert "could not be checked" in (await call("db__odd", {"one": one}))["content"][0]["text"]
        assert sent(w["db"]) == []


# -- what a person is asked -----------------------------------------------------------------------


def last_lines(person: Person) -> list[str]:
    """Return the last line of each question, which has the arguments."""
    return [asked.splitlines()[-1] for asked in person.asked]


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_is_asked_about_what_is_sent(tmp_path, era):
    person, config = Person("once"), {"policy": {"confirm": {"tools": ["db.save_note"]}}}
    async with world(tmp_path, {"db": [SAVE]}, config) as w, w.client(era, elicitation_callback=person) as client:
        call = {"name": "db__save_note", "arguments": {"tags": '["x"]', "limit": "3", "title": None}}
        assert not (await client.call_tool("tool_call", call)).is_error
        assert sent(w["db"]) == [{"tags": ["x"], "limit": 3}]
    assert last_lines(person) == ['Arguments: {"tags":["x"],"limit":3}']


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_is_asked_about_what_is_insisted_on(tmp_path, era):
    person, config = Person("once"), {"policy": {"confirm": {"tools": ["db.save_note"]}}}
    async with world(tmp_path, {"db": [LAX]}, config) as w, w.client(era, elicitation_callback=person) as client:
        call = {"name": "db__save_note", "arguments": {"title": 3}}
        assert (await client.call_tool("tool_call", call)).is_error
        assert person.asked == []
        assert not (await client.call_tool("tool_call", call)).is_error
        assert sent(w["db"]) == [{"title": 3}]
    assert last_lines(person) == ['Arguments: {"title":3}']


@pytest.mark.parametrize("era", ERAS)
async def test_a_person_is_asked_about_what_a_program_sends(tmp_path, era):
    person = Person("this call")
    words = {"save_note": {"arguments": {"title": {"fixed": "mine"}, "page": {"default": 1}}}}
    config = {"programs": {"enabled": "auto"}, "servers": {"db": {"tools": words}}}
    code = "await call('db__save_note', {'limit': '3'})"
    async with world(tmp_path, {"db": [SAVE]}, config) as w, w.client(era, elicitation_callback=person) as client:
        result = await client.call_tool("tool_run", {"code": code})
        assert not result.is_error, result.content
        assert sent(w["db"]) == [{"page": 1, "limit": 3, "title": "mine"}]
    assert last_lines(person) == ['Arguments: {"page":1,"limit":3,"title":"mine"}']
