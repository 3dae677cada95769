"""Which strings of a definition are texts for a reader, and which mean something to a program."""

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.definitions import (
    DefinitionError,
    canonical_json,
    said,
    sanitized,
    texts_in,
    texts_in_value,
    with_text,
)

T = "a text"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": T,
    "$comment": T,
    "$ref": "no text",
    "properties": {
        "enum": {"title": T, "enum": ["no text"], "const": "no text", "default": {"x": "no text"}, "format": "no text"},
        "description": {"pattern": "no text", "examples": [T, {"const": T}], "example": T},
        "properties": {"type": ["no text"], "properties": {"default": {"description": T}}},
    },
    "required": ["no text"],
    "patternProperties": {"no text": {"description": T}},
    "$defs": {"no text": {"anyOf": [{"description": T}, {"not": {"title": T}}, True]}},
    "dependentSchemas": {"no text": {"description": T}},
    "x-unknown": {"deep": [T]},
    "discriminator": {"propertyName": "no text", "mapping": {"x": "no text"}},
}
DEFINITION: dict[str, Any] = {
    "name": "no text",
    "title": T,
    "description": T,
    "inputSchema": SCHEMA,
    "outputSchema": SCHEMA,
    "annotations": {"title": T, "readOnlyHint": True},
    "icons": [{"src": "no text"}],
    "execution": {"taskSupport": "no text"},
    "_meta": {"examples": [{"args": {"const": T}}], "n": 1},
    "unknown": [T],
}


def text_at(value: Any, path: Iterable[Any]) -> str:
    for step in path:
        value = value[step]
    return value


def test_what_a_reader_reads_is_a_text_and_what_a_program_reads_is_none():
    found = texts_in(DEFINITION)
    assert {text for _, text in found} == {T}
    assert len(found) == str(DEFINITION).count(f"'{T}'")
    assert all(text_at(DEFINITION, path) == T for path, _ in found)


@pytest.mark.parametrize("odd", ["x", ["x"], None, 5, {"properties": "x"}, {"properties": ["x"]}, {"items": ["x"]}])
def test_a_schema_that_is_none_has_texts_too(odd):
    found = texts_in({"inputSchema": odd})
    assert [text for _, text in found] == (["x"] if "x" in str(odd) else [])


KEYS = ("properties", "enum", "a", "$defs")
JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
)


@given(st.dictionaries(st.sampled_from(["title", "inputSchema", "_meta"]), JSON))
def test_a_text_can_be_put_where_one_was_and_nothing_else_changes(definition):
    before = copy.deepcopy(definition)
    for path, _ in texts_in(definition):
        changed = with_text(definition, path, "new")
        assert definition == before
        assert text_at(changed, path) == "new"
        assert with_text(changed, path, text_at(definition, path)) == definition


def test_every_string_of_a_value_is_a_text_and_no_key_is():
    assert [text for _, text in texts_in_value({"const": ["x", {"y": "z"}], "n": None})] == ["x", "z"]


HIDING = "\u200b\u202e\U000e0041\x07\ufe01\u3164"


def test_hidden_characters_go_from_texts():
    hostile = eval(str(DEFINITION).replace(f"'{T}'", repr(f"a{HIDING} text")))
    assert sanitized(hostile, canonical_json(hostile)) == DEFINITION
    assert sanitized(DEFINITION, canonical_json(DEFINITION)) is DEFINITION
    emoji = {**DEFINITION, "title": "\u26a0\ufe0f", "inputSchema": {"enum": ["1\ufe0f\u20e3"]}}
    assert sanitized(emoji, canonical_json(emoji)) is emoji


DATA: dict[str, dict[str, Any]] = {
    "name": {"name": "a\u3164"},
    "inputSchema.properties.a.enum.1": {"inputSchema": {"properties": {"a": {"enum": ["x", "a\u3164"]}}}},
    "inputSchema.properties.a.const": {"inputSchema": {"properties": {"a": {"const": "a\u3164"}}}},
    "inputSchema.default.x.0": {"inputSchema": {"default": {"x": ["a\u3164"]}}},
    "inputSchema.pattern": {"inputSchema": {"pattern": "a\u3164"}},
    "inputSchema.required.0": {"inputSchema": {"required": ["a\u3164"]}},
    "inputSchema.properties.a": {"inputSchema": {"properties": {"a\u3164": True}}},
    "inputSchema.default.a": {"inputSchema": {"default": {"a\u3164": 1}}},
    "outputSchema.$defs.a": {"outputSchema": {"$defs": {"a\u3164": {}}}},
    "icons.0.src": {"icons": [{"src": "a\u3164"}]},
    "_meta.a": {"_meta": {"a\u3164": 1}},
    "a": {"a\u3164": {}},
}


@pytest.mark.parametrize("place", DATA)
@pytest.mark.parametrize("hiding", ["\u3164", "\ufe0f", "\u200b", "\U000e0041", "\x07", "\r", "\x7f", "\ue000"])
def test_hidden_characters_that_a_call_needs_refuse_a_definition(place, hiding):
    hostile = eval(repr(DATA[place]).replace("\u3164", hiding.encode("unicode_escape").decode()))
    with pytest.raises(DefinitionError) as refused:
        sanitized(hostile, canonical_json(hostile))
    code = f"U+{ord(hiding):04X}"
    assert str(refused.value) == (
        f"has characters that a person cannot see in {place} ({code}), without which a call would be another one"
    )


@pytest.mark.parametrize(
    ("definition", "parts"),
    [
        ({"description": "One. Two.", "title": "No"}, ("One.", "Two.")),
        ({"description": "", "title": "One. Two."}, ("One.", "Two.")),
        ({}, ("", "")),
    ],
)
def test_a_definition_says_what_its_tool_does_in_its_description_or_its_title(definition, parts):
    assert said(definition) == parts
