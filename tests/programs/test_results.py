"""What the result of a tool is in a program: its tool decides that, and never its data (R412)."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repository import ON, READS, ran

from fakes.memory import Call, JsonObject, MemoryServer, text
from fakes.menu import tool
from toolcrib.catalog.outputs import output_of
from worlds import ERAS, world

pytestmark = pytest.mark.anyio

IMPORTED = "from tools import s__read\n"
READ = f"{IMPORTED}value = await s__read()\n"
ITEM: JsonObject = {
    "type": "object",
    "properties": {"sha": {"type": "string"}, "author": {"type": "string"}},
    "required": ["sha"],
}
MANY: JsonObject = {"type": "object", "properties": {f"m{n}": {} for n in range(30)}}
IMAGE: JsonObject = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
LINK: JsonObject = {"type": "resource_link", "uri": "https://host/a", "name": "a"}


def wrapped(schema: JsonObject, member: str = "result") -> JsonObject:
    """Return the output schema of what has to be an object, as SDKs write it."""
    return {"type": "object", "properties": {member: schema}, "required": [member]}


def items(schema: JsonObject) -> JsonObject:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def serving(answer: Any, schema: JsonObject | None = None) -> MemoryServer:
    """Return a server with one tool, which declares this output."""
    read = tool("read", "Read it.", {}, annotations=READS)
    if schema is not None:
        read["outputSchema"] = schema
    return MemoryServer([read], answers={"read": answer})


def structured(value: Any, *blocks: JsonObject) -> JsonObject:
    """Return a result with structured content."""
    return {"content": list(blocks), "structuredContent": value}


@pytest.mark.parametrize("said", ["[1, 2]", '{"a": 1}', "{not json", "{'a': 1}", "(1, 2)", "1", "null", "", "# A\n\nb"])
@pytest.mark.sampled
async def test_a_tool_that_declares_nothing_returns_its_text_whatever_that_looks_like(tmp_path, said):
    async with world(tmp_path, {"s": serving(text(said))}, ON) as w, w.client() as client:
        assert json.loads(await ran(client, f"{READ}[type(value).__name__, value]")) == ["str", said]


LIST = wrapped(items(ITEM))
ROWS = structured({"result": [{"sha": "x"}]}, *text("other")["content"])
DECLARED: list[tuple[JsonObject, JsonObject, str, str]] = [
    (LIST, ROWS, "value[0]['sha']", "x"),
    (wrapped({"type": "string"}, "content"), structured({"content": "[1]"}), "value + '!'", "[1]!"),
    # Any other object is what it is, also one that may have more members.
    ({**wrapped(ITEM), "required": []}, ROWS, "list(value)", '["result"]'),
    ({**wrapped(ITEM), "additionalProperties": True}, ROWS, "list(value)", '["result"]'),
    (wrapped(items(ITEM), "rows"), structured({"rows": []}), "value", '{"rows":[]}'),
    ({"type": "object"}, ROWS, "list(value)", '["result"]'),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("schema", "answer", "code", "value"), DECLARED)
async def test_a_declared_structure_is_a_value_and_a_mere_wrapper_is_taken_off(
    tmp_path, schema, answer, code, value, era
):
    async with world(tmp_path, {"s": serving(answer, schema)}, ON) as w, w.client(era) as client:
        assert await ran(client, READ + code) == value


async def test_a_tool_that_is_changed_meanwhile_returns_what_the_program_was_told(tmp_path):
    now, changed = serving(ROWS, LIST), list[bool]()

    async def read(_call: Call) -> JsonObject:
        if not changed:
            changed.append(True)
            await w.change("s", *now.tools)
        return ROWS

    async with world(tmp_path, {"s": serving(read)}, ON) as w, w.client() as client:
        types = f"{IMPORTED}[type(await s__read()).__name__ for _ in range(3)]"
        searching = f"{READ}found = await search('read it')\n[type(await s__read()).__name__, found[0]['signature']]"
        assert json.loads(await ran(client, searching)) == ["str", "s__read() -> {sha, author?}[]"]
        assert json.loads(await ran(client, types)) == ["list"] * 3


MISSING: list[tuple[JsonObject, JsonObject]] = [
    (LIST, text("it was said only")),
    (LIST, structured({"results": []})),
    (LIST, structured({"result": {}})),
    (LIST, structured({"result": None})),
    ({}, text("it was said only")),
    ({}, structured(None)),
    ({"type": ["object", "null"]}, text("it was said only")),
    (wrapped({"type": "integer"}), structured({"result": True})),
    (wrapped({"type": "integer"}), structured({"result": 1.5})),
]


@pytest.mark.parametrize(("schema", "answer"), MISSING)
async def test_a_result_without_the_declared_structure_is_a_failure_that_says_what_is_missing(tmp_path, schema, answer):
    async with world(tmp_path, {"s": serving(answer, schema)}, ON) as w, w.client() as client:
        caught = f"{IMPORTED}try:\n    await s__read()\nexcept ToolError as error:\n    print(error)"
        said = await ran(client, caught)
    shown = output_of(schema).shown
    assert said.startswith(
        f"The call was made, but its result has no structured content as s__read declares it ({shown})"
    )
    assert ("it was said only" in said) == (answer == text("it was said only"))


async def test_a_call_that_failed_is_a_failure_with_its_own_text_whatever_is_declared(tmp_path):
    failed = {**structured({"result": []}, *text("no such file")["content"]), "isError": True}
    async with world(tmp_path, {"s": serving(failed, LIST)}, ON) as w, w.client() as client:
        assert "ToolError: no such file" in await ran(client, READ)


async def test_blocks_are_lines_of_one_text_and_those_without_a_text_their_json(tmp_path):
    inner = {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}}
    blob = {"type": "resource", "resource": {"uri": "https://host/c", "blob": "aGk=", "mimeType": "a/b"}}
    blocks = [*text("one", "two")["content"], IMAGE, LINK, inner, blob]
    async with world(tmp_path, {"s": serving({"content": blocks})}, ON) as w, w.client() as client:
        lines = json.loads(await ran(client, f"{READ}value.splitlines()"))
        assert [*lines[:2], lines[4]] == ["one", "two", "inside"]
        assert [json.loads(each)["type"] for each in (*lines[2:4], lines[5])] == ["image", "resource_link", "resource"]
        assert json.loads(lines[5])["resource"]["blob"] == "aGk="
        code = "import json\n" + READ + "import base64\nbase64.b64decode(json.loads(value.splitlines()[2])['data'])"
        assert "hi" in await ran(client, code)


async def test_structured_content_that_nothing_declares_is_the_text_where_there_is_no_other(tmp_path):
    answers = [
        structured({"a": 1}),
        structured({"a": 1}, *text('{"a": 1}')["content"]),
        structured({"a": 1}, *text(" ")["content"], IMAGE),
    ]

    async def read(_call: Call) -> JsonObject:
        return answers.pop(0)

    async with world(tmp_path, {"s": serving(read)}, ON) as w, w.client() as client:
        code = f"{IMPORTED}[await s__read() for _ in range(3)]"
        said = json.loads(await ran(client, code))
    assert said == ['{"a":1}', '{"a": 1}', f'{json.dumps(IMAGE, separators=(",", ":"))}\n{{"a":1}}']


async def test_a_literal_of_python_is_read_with_ast(tmp_path):
    async with world(tmp_path, {"s": serving(text("[{'id': 1, 'tags': ('a', None)}]"))}, ON) as w, w.client() as client:
        for line in ("import json, ast", "import ast as ast", "from ast import literal_eval"):
            function = "literal_eval" if line.startswith("from") else "ast.literal_eval"
            assert await ran(client, f"{line}\n{READ}{function}(value)[0]['tags']") == '["a",null]'
        assert await ran(client, "import ast\nast.literal_eval(node_or_string='\\n [1]\\n')") == "[1]"
        # What goes wrong after it is the program's own error.
        assert "line 3: KeyError: b" in await ran(client, "import ast\nv = ast.literal_eval('{}')\nv['b']")
        said = await ran(
            client, "import ast\ntry:\n    ast.literal_eval('f()')\nexcept ValueError as error:\n    print(error)"
        )
        assert said.startswith("this text is no literal of Python")
        failing = "import ast\ntry:\n    ast.literal_eval({})\nexcept {} as error:\n    print(error)"
        assert "literal_eval takes a text" in await ran(client, failing.format("'1' * 2_000_000", "ValueError"))
        assert "no literal of Python" in await ran(client, failing.format("'[1'", "SyntaxError"))
        assert "no literal of Python" in await ran(client, failing.format("r\"'\\ud800'\"", "ValueError"))
        assert "use [literal_eval(x) for x in xs]" in await ran(
            client, "import ast\nlist(map(ast.literal_eval, ['1']))"
        )
        assert "line 2: ast has no parse here" in await ran(client, "import ast\nast.parse('1')")
        assert "ast has no parse here" in await ran(client, "from ast import parse")
        assert await ran(client, "ast = {'a': 1}\nast.get('a')") == "1"


@pytest.mark.parametrize("name", ["s__read", "s__odd-name"])
async def test_a_signature_says_what_a_call_returns_where_programs_run(tmp_path, name):
    server = serving(text("a"), LIST)
    server.tools.append(tool("odd-name", "Read it oddly.", {}, annotations=READS))
    shown = {"s__read": "{sha, author?}[]", "s__odd-name": "str"}[name]
    async with world(tmp_path, {"s": server}, ON) as w, w.client() as client:
        answer = await client.call("tool_search", {"query": name, "search_type": "exact"})
        assert f"- {name}() -> {shown} [" in answer["content"][0]["text"]
        assert answer["structuredContent"]["tools"][0]["signature"] == f"{name}() -> {shown}"
        whole = await client.call("tool_search", {"query": name, "search_type": "exact", "detail": "schema"})
        assert f"- {name} -> {shown} [" in whole["content"][0]["text"]
        assert whole["structuredContent"]["tools"][0]["returns"] == shown
        found = json.loads(await ran(client, f"(await search({name!r}))[0]"))
        assert found["signature"] == f"{name}() -> {shown}"
    async with world(tmp_path, {"s": server}) as w, w.client() as client:
        for detail in ("signature", "schema"):
            answer = await client.call("tool_search", {"query": name, "search_type": "exact", "detail": detail})
            assert "->" not in str(answer["content"])
            assert "returns" not in answer["structuredContent"]["tools"][0]


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (None, "str"),
        ({}, "Any"),
        ({"type": "object"}, "dict"),
        (wrapped({"type": "integer"}), "int"),
        (wrapped({"anyOf": [{"type": "null"}, items(ITEM)]}), "{sha, author?}[] | None"),
        (wrapped({"anyOf": [items(ITEM), items({"type": "string"})]}), "{sha, author?}[] | str[]"),
        ({"anyOf": [ITEM, wrapped({})]}, "{sha, author?} | {result}"),
        (wrapped({"type": ["null", "number"]}), "float | None"),
        (wrapped({"anyOf": [{"type": "string"}, {}]}), "Any"),
        (wrapped(items({})), "list"),
        (wrapped(items({"type": ["string", "integer"]})), "(str | int)[]"),
        (wrapped({"$ref": "#/$defs/Item"}) | {"$defs": {"Item": ITEM}}, "{sha, author?}"),
        (wrapped({"$ref": "#"}), "{result: {result}}"),
        (wrapped({"type": "array", "items": {"$ref": "#/properties/result"}}), "list" + "[]" * 8),
        (wrapped({"anyOf": [*[{"type": "string"}] * 8, {"type": "integer"}]}), "Any"),
        ({**wrapped({"type": "string"}), "allOf": [{"properties": {"more": {}}}]}, "{result, more?}"),
        (
            {"type": "object", "properties": {"rows": items(ITEM), "odd name": {}}},
            '{rows?: {sha, author?}[], "odd name"?}',
        ),
        (
            {"type": "object", "properties": {f"member_{n}": ITEM for n in range(30)}},
            "{member_0?, member_1?, member_2?, member_3?, member_4?, member_5?, member_6?, member_7?, …}",
        ),
        (
            {"type": "object", "properties": {f"p{n}": {**MANY, "required": ["m0"]} for n in range(30)}},
            "{p0?, p1?, p2?, p3?, p4?, p5?, p6?, p7?, p8?, p9?, p10?, p11?, …}",
        ),
        ({"type": "object", "properties": {"x" * 99: {}}}, '{"' + "x" * 63 + '…"?}'),
        ({"type": "array", "items": {"type": "boolean"}}, "bool[]"),
        ({"type": "nonsense"}, "Any"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "additionalProperties": ITEM}, "dict[str, {sha, author?}]"),
        ({"type": "object", "additionalProperties": True}, "dict"),
        ({"type": "object", "properties": {"by": {"anyOf": [ITEM, {"type": "null"}]}}}, "{by?: {sha, author?} | None}"),
        # Our own words for what was learnt mean nothing where a server writes them.
        ({"type": "array", "items": {"type": "string", "x-toolcrib-varies": True}}, "str[]"),
        ({**ITEM, "x-toolcrib-more": True}, "{sha, author?}"),
    ],
)
def test_what_is_shown_of_a_declaration_is_short_and_as_python_names_it(schema, shown):
    assert output_of(schema).shown == shown
    assert len(shown) <= 100


async def test_one_tool_with_an_endless_or_a_huge_output_hides_no_other(tmp_path):
    node: JsonObject = {"type": "string"}
    many = {f"n{number}": {"anyOf": [items({"$ref": f"#/$defs/n{number - 1}"})] * 8} for number in range(1, 20)}
    outputs = {
        "endless": {"type": "array", "items": {"$ref": "#"}},
        "deep": wrapped({"type": "array", "items": {"$ref": "#/properties/result"}}),
        "many": {**wrapped({"$ref": "#/$defs/n19"}), "$defs": {"n0": node, **many}},
    }
    server = serving(text("a"))
    server.tools += [
        {**tool(name, "Read it too.", {}, annotations=READS), "outputSchema": outputs[name]} for name in outputs
    ]
    async with world(tmp_path, {"s": server}, ON) as w, w.client() as client:
        assert {"s__read", *(f"s__{name}" for name in outputs)} == set(await client.found("read it"))
        assert await ran(client, "from tools import s__endless, s__deep, s__many\nlen(await search('read it'))") == "4"


async def test_the_type_that_is_declared_is_checked_before_anything_runs(tmp_path):
    server = serving(structured({"result": 1}), wrapped({"type": "integer"}))
    server.tools.append(tool("take", "Take it.", {"given": "array"}, ["given"], annotations=READS))
    async with world(tmp_path, {"s": server}, ON) as w, w.client() as client:
        said = await ran(client, "from tools import s__read, s__take\nawait s__take(given=await s__read())")
        assert "line 2: s__take takes list[Any], not int" in said
        assert w["s"].calls() == []


async def test_a_text_is_given_to_a_tool_that_reads_it_as_what_it_asks_for(tmp_path):
    server = serving(text('{"a": 1}'))
    server.tools.append(tool("take", "Take it.", {"given": "object"}, ["given"], annotations=READS))
    async with world(tmp_path, {"s": server}, ON) as w, w.client() as client:
        await ran(client, "from tools import s__read, s__take\nawait s__take(given=await s__read())")
        assert w["s"].calls("take")[0]["arguments"] == {"given": {"a": 1}}
        assert "s__take takes" in await ran(client, "from tools import s__take\nawait s__take(given='a')")


@pytest.mark.parametrize(("kind", "sent"), [("integer", 3.0), ("number", 3)])
async def test_a_whole_number_is_an_int_where_that_is_declared_and_can_be_one_elsewhere(tmp_path, kind, sent):
    server = serving(structured({"result": sent}), wrapped({"type": kind}))
    async with world(tmp_path, {"s": server}, ON) as w, w.client() as client:
        assert await ran(client, READ + "list(range(value))") == "[0,1,2]"


# -- as a property -------------------------------------------------------------------------------

_KINDS: dict[str, str] = {
    "string": "str",
    "integer": "int",
    "boolean": "bool",
    "object": "dict",
    "array": "list",
    "null": "NoneType",
}
_LOOKS = st.sampled_from(["[1]", "{not json", '{"a": 1}', "{'a': 1}", "(1,)", "1", "null", "true", '"a"', "", " "])
_BLOCK = st.one_of(
    st.builds(lambda said: {"type": "text", "text": said}, st.one_of(_LOOKS, st.text(max_size=20))), st.just(IMAGE)
)
_VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), _LOOKS),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "result"]), inner)),
    max_leaves=4,
)
_RESULT = st.builds(
    lambda blocks, fields: {"content": blocks, **fields},
    st.lists(_BLOCK, max_size=3),
    st.one_of(
        st.just({}),
        st.builds(lambda value: {"structuredContent": value}, _VALUE),
        st.builds(lambda value: {"structuredContent": {"result": value}}, _VALUE),
    ),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.one_of(st.none(), st.sampled_from(sorted(_KINDS))), results=st.lists(_RESULT, min_size=1, max_size=20))
async def test_the_type_of_a_result_is_a_function_of_its_tool(tmp_path: Path, kind: str | None, results: Sequence[Any]):
    left = list(results)

    async def read(_call: Call) -> JsonObject:
        return left.pop(0)

    schema = None if kind is None else wrapped({"type": kind})
    code = (
        f"{IMPORTED}seen = []\nfor _ in range({len(results)}):\n"
        "    try:\n        seen.append(type(await s__read()).__name__)\n"
        "    except ToolError:\n        seen.append('ToolError')\nseen"
    )
    with TemporaryDirectory(dir=tmp_path) as folder:
        async with world(Path(folder), {"s": serving(read, schema)}, ON) as w, w.client() as client:
            seen = json.loads(await ran(client, code))
    if kind is None:
        assert seen == ["str"] * len(results)
    else:
        of_kind = [_has(each.get("structuredContent"), _KINDS[kind]) for each in results]
        assert seen == [_KINDS[kind] if fits else "ToolError" for fits in of_kind]


def _has(value: Any, kind: str) -> bool:
    return isinstance(value, dict) and "result" in value and type(value["result"]).__name__ == kind
