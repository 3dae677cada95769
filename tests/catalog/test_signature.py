"""Signatures: what a model reads of a tool's parameters."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.text import estimate_tokens, sanitize
from toolcrib.catalog.parameters import signature

CATALOG = Path(__file__).resolve().parents[3] / "shared" / "catalog"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs", "a"]
)
WORDS = st.sampled_from(["object", "array", "string", "null", "#", "#/$defs/a", "#/properties/a", "#/anyOf/0", "a"])
SCHEMA_LIKE = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=30,
)


def of(properties: dict, *required: str, **rest) -> str:
    return signature("f", {"type": "object", "properties": properties, "required": list(required), **rest})


def test_the_example_of_the_contract_is_spelled_as_there():
    properties = {
        "state": {"enum": ["open", "closed", "all"]},
        "labels": {"type": "array", "items": {"type": "string"}},
        "repo": {"type": "string"},
        "opts": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["a"],
        },
        "owner": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["owner", "repo"]}
    assert signature("name", schema) == (
        'name(owner: string, repo: string, state?: "open"|"closed"|"all", labels?: string[], '
        "opts?: {a: integer, b?: string})"
    )


@pytest.mark.parametrize(
    ("schema", "spelled"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({}, "any"),
        (True, "any"),
        (5, "any"),
        ({"type": "strin"}, "any"),
        ({"type": ["string", "null"]}, "string"),
        ({"type": ["string", "integer"]}, "string|integer"),
        ({"type": "null"}, "null"),
        ({"type": ["null"]}, "null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string"),
        ({"oneOf": [{"type": "string"}, {"type": "string"}, {"type": "number"}]}, "string|number"),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "object"),
        ({"const": "on"}, '"on"'),
        ({"const": None}, "null"),
        ({"const": {"a": 1}}, "object"),
        ({"const": [1]}, "any[]"),
        ({"enum": ["a", 2, True, None]}, '"a"|2|true'),
        ({"enum": ["x y"]}, '"x y"'),
        ({"type": "array"}, "any[]"),
        ({"items": {"type": "number"}}, "number[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a"|"b")[]'),
        ({"properties": {"q": {"type": "string"}}}, "{q?: string}"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(9)}}, "{p0?: any, p1?: any"),
        ({"allOf": [{"$ref": "#/$defs/Level"}]}, '"low"|"high"'),
        ({"allOf": [{"properties": {"q": {"type": "string"}}, "required": ["q"]}]}, "{q: string}"),
        ({"$ref": "#/$defs/Level", "description": "how loud"}, '"low"|"high"'),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "#/$defs/Missing"}, "any"),
        ({"$ref": "#Anchor"}, "any"),
        ({"$ref": "https://elsewhere.example/schema"}, "any"),
        ({"$ref": "#/$defs/a~1b/anyOf/0"}, "boolean"),
        ({"$ref": "#/$defs/a~1b/anyOf/7"}, "any"),
        ({"$ref": "#/$defs/a~1b/anyOf/x"}, "any"),
    ],
)
def test_a_type_is_spelled_in_few_characters(schema: object, spelled: str):
    definitions = {
        "Level": {"enum": ["low", "high"]},
        "Loop": {"$ref": "#/$defs/Loop"},
        "a/b": {"anyOf": [{"type": "boolean"}]},
    }
    assert of({"p": schema}, **{"$defs": definitions}).startswith(f"f(p?: {spelled}")


def test_objects_are_spelled_two_levels_deep():
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "object"}}}}}
    deeper = {"type": "object", "properties": {"x": {"type": "object", "properties": {"nested": nested}}}}
    assert of({"p": nested}) == "f(p?: {a?: {b?: object}})"
    assert of({"p": deeper}) == "f(p?: {x?: {nested?: object}})"


def test_a_long_union_is_cut():
    line = of({"p": {"enum": [f"value-{n}" for n in range(40)]}})
    assert line.startswith('f(p?: "value-0"|"value-1"')
    assert line.endswith("|…)")


def test_a_long_value_is_cut():
    assert of({"p": {"const": "x" * 100}}) == f'f(p?: "{"x" * 23}…")'


def test_required_parameters_come_first_in_the_order_of_required():
    assert of({"c": {}, "a": {}, "b": {}}, "b", "a", "ghost") == "f(b: any, a: any, c?: any)"


def test_optional_parameters_that_do_not_fit_become_an_ellipsis():
    line = of({"must": {"type": "string"}, **{f"optional_{n}": {"type": "string"} for n in range(40)}}, "must")
    assert line.startswith("f(must: string, optional_0?: string, ")
    assert line.endswith(", …)")


def test_types_of_required_parameters_are_shortened_before_one_is_left_out():
    wide = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(8)}}
    names = [f"parameter_{n}" for n in range(7)]
    line = of(dict.fromkeys(names, wide), *names)
    assert all(name in line for name in names)
    assert "{" not in line


def test_required_parameters_are_left_out_only_when_not_even_their_names_fit():
    names = [f"a_rather_long_parameter_{n}" for n in range(20)]
    line = of({name: {"type": "string"} for name in names}, *names)
    assert line.startswith("f(a_rather_long_parameter_0, ")
    assert line.endswith(", …)")


def test_odd_names_are_cleaned_and_quoted():
    assert of({"a b": {}, "x\u202ey\n": {}, "$top": {}}) == 'f("a b"?: any, "xy"?: any, $top?: any)'
    assert signature("a tool", {}) == '"a tool"()'


@given(SCHEMA_LIKE, st.text(max_size=80))
def test_any_json_gives_one_clean_line(schema: object, name: str):
    line = signature(name, {"type": "object", "properties": schema, "$defs": {"a": schema}})
    assert "\n" not in line
    assert sanitize(line) == line


@given(st.dictionaries(KEYWORDS, SCHEMA_LIKE, max_size=6))
def test_any_object_is_a_schema_and_keeps_the_limit(schema: dict):
    assert estimate_tokens(signature("tool", schema)) <= 45


def test_a_hostile_schema_takes_bounded_time():
    everything = {f"p{n}": {"$ref": "#"} for n in range(10_000)}
    doubling = {"anyOf": [{"$ref": "#/properties/a"}] * 64}
    for schema in (
        {"properties": everything, "required": list(everything)},
        {"properties": {"a": doubling, "b": doubling}},
        {"allOf": [{"$ref": "#"}] * 10_000},
    ):
        started = time.thread_time()
        signature("tool", schema)
        assert time.thread_time() - started < 1


@pytest.mark.skipif(not CATALOG.is_dir(), reason="the catalog of real tool lists is not here")
def test_every_real_tool_has_a_signature_within_the_limit():
    for file in sorted(CATALOG.glob("*.json")):
        for tool in json.loads(file.read_bytes())["tools"]:
            assert estimate_tokens(signature(f"server__{tool['name']}", tool["inputSchema"])) <= 45
