"""Examples of use: their sources, their order, and the block under a description."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.model import Example, JsonObject
from toolcrib.catalog.arguments import SchemaChecker
from toolcrib.catalog.definitions import collect, describe, render, shortest
from toolcrib.config.schema import ServerSection, ToolExamplesSection

SECTION = ToolExamplesSection()
CONFIGURED = ServerSection.model_validate({"tool_examples": {"f": [{"args": {"from": "config"}}]}})
IN_META = {"args": {"from": "meta"}}
IN_SCHEMA = {"from": "schema"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


def anything(_schema: JsonObject, _args: JsonObject) -> bool:
    return True


def fitting(schema: JsonObject, args: JsonObject) -> bool:
    return SchemaChecker(2000, time.monotonic).fits(schema, args)


def definition(meta: object = None, schema: object = None) -> dict:
    return {"name": "f", "_meta": {"examples": meta}, "inputSchema": {"type": "object", "examples": schema}}


def tagged(*tags: list[str]) -> dict:
    return definition([{"args": {"n": n}, "tags": each} for n, each in enumerate(tags)])


def sources(options: ServerSection, tool: dict) -> list[object]:
    return [example.args["from"] for example in collect("f", tool, options, SECTION, anything)]


def numbers(tool: dict, **section) -> list[int]:
    found = collect("f", tool, ServerSection(), ToolExamplesSection(**section), anything)
    return [example.args["n"] for example in found]


def test_the_first_source_that_has_examples_wins():
    assert sources(CONFIGURED, definition([IN_META], [IN_SCHEMA])) == ["config"]
    assert sources(ServerSection(), definition([IN_META], [IN_SCHEMA])) == ["meta"]
    assert sources(ServerSection(), definition([], [IN_SCHEMA])) == ["schema"]
    assert sources(ServerSection(), definition()) == []


def test_our_own_meta_key_is_preferred():
    tool = {"_meta": {"toolcrib/examples": [{"args": {"from": "ours"}}], "examples": [IN_META]}}
    assert sources(ServerSection(), tool) == ["ours"]


def test_schema_examples_can_be_switched_off():
    assert sources(ServerSection(inherit_from_schema=False), definition([], [IN_SCHEMA])) == []


def test_no_examples_when_they_are_switched_off():
    assert collect("f", definition([IN_META]), CONFIGURED, ToolExamplesSection(enabled=False), anything) == ()


def test_minimal_comes_before_common_before_edge_cases_before_the_rest():
    tool = tagged([], ["edge-case"], ["common"], ["minimal"], ["common"], ["other"])
    assert numbers(tool, max_examples_per_tool=10) == [3, 2, 4, 1, 0, 5]


def test_at_most_the_configured_number_is_kept():
    assert numbers(tagged(*[[]] * 5)) == [0, 1, 2]
    assert numbers(tagged(*[[]] * 5), max_examples_per_tool=0) == []


def test_a_tag_filter_keeps_examples_with_any_of_the_tags():
    tool = tagged(["minimal"], ["x", "y"], [], ["y"])
    assert numbers(tool, filter_tags=("y", "z")) == [1, 3]
    assert numbers(tool, filter_tags=()) == []


def test_entries_that_are_not_examples_are_passed_over():
    entries = [None, 5, {}, {"args": []}, {"args": {"from": "good"}, "description": 7, "tags": [1, "t", "t"]}]
    (example,) = collect("f", definition(entries), ServerSection(), SECTION, anything)
    assert example == Example({"from": "good"}, "", ("t",))


def test_a_huge_example_of_a_downstream_is_passed_over():
    assert sources(ServerSection(), definition([{"args": {"from": "x" * 3000}}, IN_META])) == ["meta"]


def test_the_block_shows_compact_arguments_and_a_comment_below_them():
    examples = [Example({"a": 1, "b": ["ü"]}, "Say it"), Example({})]
    block = 'Examples:\n- args: {"a":1,"b":["ü"]}\n  # Say it\n- args: {}'
    assert render(examples, include_descriptions=True) == block
    assert render(examples, include_descriptions=False) == block.replace("  # Say it\n", "")


def test_without_examples_the_description_is_unchanged():
    assert render([], include_descriptions=True) == ""
    assert describe("What it does.", "") == "What it does."
    assert describe("", "Examples:\n- args: {}") == "Examples:\n- args: {}"
    assert describe("What it does.", "Examples:") == "What it does.\n\nExamples:"


@pytest.mark.parametrize("char", ["\n", "\u202e", "\u200b", "\x1b", "\ud800"])
def test_an_example_cannot_forge_a_line_or_hide_text(char: str):
    entries = [{"args": {"a": f"x{char}y"}, "description": f"x{char}y", "tags": [f"t{char}"]}]
    examples = collect("f", definition(entries), ServerSection(), SECTION, anything)
    block = render(examples, include_descriptions=True)
    assert len(block.splitlines()) == 3
    assert char == "\n" or char not in block


@given(JSON, JSON)
def test_any_json_is_read_without_an_error(meta: object, schema: object):
    examples = collect("f", {"_meta": meta, "inputSchema": schema}, ServerSection(), SECTION, anything)
    examples += collect("f", definition(meta, schema), ServerSection(), SECTION, anything)
    for line in render(examples, include_descriptions=False).split("\n")[1:]:
        assert isinstance(json.loads(line.removeprefix("- args: ")), dict)


# -- of properties -------------------------------------------------------------------------------


def of_properties(required: list[str], **properties: JsonObject) -> list[object]:
    schema = {"type": "object", "properties": properties, "required": required}
    found = collect("f", {"name": "f", "inputSchema": schema}, ServerSection(), SECTION, fitting)
    return [example.args for example in found]


NAME = {"type": "string", "examples": ["ann", "bob"]}


def test_the_examples_of_properties_make_one_of_what_is_required():
    assert of_properties(["name"], name=NAME, age={"type": "integer", "examples": [3]}) == [{"name": "ann"}]
    assert of_properties(["name", "age"], name=NAME, age={"type": "integer", "examples": [3]}) == [
        {"name": "ann", "age": 3}
    ]


def test_what_is_required_may_be_given_by_a_constant_a_default_or_a_choice():
    assert of_properties(["name", "a", "b", "c"], name=NAME, a={"const": 1}, b={"default": 0}, c={"enum": ["x"]}) == [
        {"name": "ann", "a": 1, "b": 0, "c": "x"}
    ]


def test_of_optional_properties_the_first_with_an_example_stands_alone():
    assert of_properties([], since=NAME, until=NAME) == [{"since": "ann"}]
    assert of_properties(["a"], a={"default": 0}, since=NAME) == [{"a": 0, "since": "ann"}]


def test_there_is_none_where_something_required_has_no_value():
    assert of_properties(["name", "other"], name=NAME, other={"type": "string"}) == []
    assert of_properties(["a"], a={"default": 0}) == []


def test_examples_of_the_whole_schema_come_before_those_of_properties():
    schema = {"properties": {"from": NAME}, "examples": [IN_SCHEMA]}
    [example] = collect("f", {"inputSchema": schema}, ServerSection(), SECTION, anything)
    assert example.args == IN_SCHEMA


# -- that fit ------------------------------------------------------------------------------------


def test_an_example_that_does_not_fit_is_not_shown():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    meta = {"examples": [{"args": {"n": "one"}}, {"args": {}}, {"args": {"n": 3}}]}
    tool = {"_meta": meta, "inputSchema": schema}
    assert [each.args for each in collect("f", tool, ServerSection(), SECTION, fitting)] == [{"n": 3}]
    configured = ServerSection.model_validate({"tool_examples": {"f": [{"args": {"n": True}}, {"args": {"n": 4}}]}})
    assert [each.args for each in collect("f", tool, configured, SECTION, fitting)] == [{"n": 4}]


def test_of_very_many_examples_the_first_twenty_are_checked():
    asked: list[JsonObject] = []

    def nothing(_schema: JsonObject, args: JsonObject) -> bool:
        asked.append(args)
        return False

    assert collect("f", tagged(*[[]] * 50), ServerSection(), SECTION, nothing) == ()
    assert len(asked) == 20


def test_the_shortest_is_the_one_with_the_least_to_read():
    longer, short, equal = Example({"a": "xyz"}), Example({"a": 1}, "Say a lot about it"), Example({"b": 1})
    assert shortest([longer, short, equal]) is short
    assert shortest([]) is None
