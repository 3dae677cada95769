"""Whether arguments fit: what is told, within what time, and how odd arguments are read."""

import gc
import json
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.base.json_decoding import is_finite
from toolcrib.base.json_values import json_type
from toolcrib.catalog import coercion
from toolcrib.catalog.arguments import MISFITS_MAX, Misfit, SchemaChecker, is_kept, unwrap_arguments

CATALOG = Path(__file__).resolve().parents[3] / "shared" / "catalog"
keys = map(str, count())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
NUMBER = st.integers(0, 4)
SCHEMA = st.deferred(
    lambda: (
        st.booleans()
        | st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
                "enum": st.lists(JSON, min_size=1, max_size=3),
                "const": JSON,
                "properties": st.dictionaries(st.sampled_from("abc"), SCHEMA, max_size=3),
                "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
                "additionalProperties": SCHEMA,
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "."]), SCHEMA, max_size=2),
                "propertyNames": SCHEMA,
                "items": SCHEMA,
                "prefixItems": st.lists(SCHEMA, min_size=1, max_size=2),
                "contains": SCHEMA,
                "uniqueItems": st.booleans(),
                "anyOf": st.lists(SCHEMA, min_size=1, max_size=3),
                "oneOf": st.lists(SCHEMA, min_size=1, max_size=3),
                "allOf": st.lists(SCHEMA, min_size=1, max_size=2),
                "not": SCHEMA,
                "if": SCHEMA,
                "then": SCHEMA,
                "else": SCHEMA,
                "pattern": st.sampled_from(["^a+$", "b", "[0-9]{2}"]),
                "minimum": NUMBER,
                "exclusiveMaximum": NUMBER,
                "multipleOf": st.integers(1, 3),
                "minLength": NUMBER,
                "maxItems": NUMBER,
                "minProperties": NUMBER,
            },
        )
    )
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "ab"]),
    JSON | st.lists(st.integers(0, 5) | st.sampled_from(["a", "aa", "b"]), max_size=3),
    max_size=4,
)


def checker(deadline_ms: float = 2000) -> SchemaChecker:
    return SchemaChecker(deadline_ms, time.monotonic)


def told(schema: Any, value: Any, **rest: Any) -> list[str] | None:
    """Check one parameter ``p``; the problems as lines."""
    return lines({"type": "object", "properties": {"p": schema}, **rest}, {"p": value})


def lines(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str] | None:
    misfits = checker().check(next(keys), schema, arguments)
    return None if misfits is None else [str(misfit) for misfit in misfits]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "x", "must be integer, not string"),
        ({"type": ["string", "null"]}, 5, "must be string or null, not integer"),
        ({"type": "string"}, None, "must be string, not null"),
        ({"type": "string"}, True, "must be string, not boolean"),
        ({"type": "string"}, 1.5, "must be string, not number"),
        ({"type": "string"}, {}, "must be string, not object"),
        ({"enum": ["a", 2, None, [1]]}, "b", 'must be one of "a", 2, null, the array that the schema gives'),
        ({"enum": list(range(20))}, -1, f"must be one of {', '.join(map(str, range(12)))}, …"),
        ({"const": "on"}, "off", 'must be "on"'),
        ({"const": {"a": 1}}, 1, "must be the object that the schema gives"),
        ({"minimum": 3}, 2, "must be at least 3"),
        ({"maximum": 3}, 4, "must be at most 3"),
        ({"exclusiveMinimum": 3}, 3, "must be more than 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2"),
        ({"minLength": 2}, "a", "must have at least 2 characters"),
        ({"maxLength": 2}, "abc", "must have at most 2 characters"),
        ({"pattern": "^a+$"}, "b", 'must match the pattern "^a+$"'),
        ({"minItems": 1}, [], "must have at least 1 items"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1}], "must not have the same item twice"),
        ({"minProperties": 1}, {}, "must have at least 1 properties"),
        ({"maxProperties": 0}, {"a": 1}, "must have at most 0 properties"),
        ({"contains": {"type": "string"}}, [1], "does not satisfy contains"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            5,
            "fits none of its alternatives: must be string, not integer; must be null, not integer",
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"anyOf": [{"type": "string"}]}]},
            {},
            "fits none of its alternatives: a is required; fits none of more alternatives",
        ),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
            5,
            "fits more than one of its alternatives, and may fit only one",
        ),
    ],
)
def test_a_misfit_is_told_in_plain_words(schema: Any, value: Any, message: str):
    assert told(schema, value) == [f"arguments.p {message}"]


def test_a_path_leads_to_the_problem():
    item = {"type": "object", "properties": {"name": {"type": "string"}, "odd key": {"type": "string"}}}
    misfits = told({"type": "array", "items": item}, [{"name": "ok"}, {"name": 1, "odd key": 2}])
    assert misfits == [
        "arguments.p[1].name must be string, not integer",
        'arguments.p[1]["odd key"] must be string, not integer',
    ]


def test_a_missing_parameter_is_told_by_its_name():
    assert lines({"required": ["owner", "repo"]}, {"owner": "x"}) == ["arguments.repo is required"]


def test_an_unknown_parameter_is_told_with_the_known_ones():
    schema = {"properties": {"owner": {}, "repo": {}}, "additionalProperties": False}
    assert lines(schema, {"ownr": 1}) == ["arguments.ownr is not known here; known are owner, repo"]
    assert lines({"additionalProperties": False}, {"a": 1}) == ["arguments.a is not known here"]


def test_additional_properties_may_have_a_schema_or_a_pattern():
    schema = {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    assert lines(schema, {"x-a": "s", "b": 1}) == []
    assert lines(schema, {"x-a": 1, "b": "s"}) == [
        "arguments.x-a must be string, not integer",
        "arguments.b must be integer, not string",
    ]


def test_what_a_schema_forbids_is_told():
    assert told(False, 1) == ["arguments holds something that is not allowed"]
    assert told({"anyOf": [False]}, 1) == [
        "arguments.p fits none of its alternatives: holds something that is not allowed"
    ]


def test_at_most_ten_problems_are_told():
    names = [f"p{n}" for n in range(30)]
    assert lines({"required": names}, {}) == [f"arguments.p{n} is required" for n in range(10)]


def test_values_that_were_sent_are_not_repeated():
    secret = "s3cret" * 100
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"pattern": "^x$"}, "c": {"not": {}}}}
    misfits = lines(schema, dict.fromkeys("abc", secret))
    assert misfits is not None
    assert len(misfits) == 3
    assert "s3cret" not in "".join(misfits)


def test_a_message_is_short_and_clean():
    hostile = {"pattern": "^\u202e" + "x" * 900 + "$"}
    (misfit,) = checker().check("k", {"properties": {"p": hostile}}, {"p": "a"}) or []
    assert len(misfit.message) <= 240
    assert "\u202e" not in misfit.message
    (misfit,) = checker().check("k", {"additionalProperties": False}, {"y\n" * 200: 1}) or []
    assert "\n" not in misfit.path
    assert len(misfit.path) < 120


def test_a_message_has_up_to_240_characters():
    def message(size: int) -> str:
        alternatives = {"anyOf": [{"const": "a" * 60}, {"const": "b" * 60}, {"const": "c" * size}]}
        (misfit,) = checker().check(next(keys), {"properties": {"p": alternatives}}, {"p": 1}) or []
        return misfit.message

    assert len(message(55)) == 240
    assert message(55).endswith('c"')
    assert len(message(56)) <= 240
    assert message(56).endswith("…")


def test_of_many_alternatives_three_are_told():
    assert told({"anyOf": [{"const": letter} for letter in "abcd"]}, 1) == [
        'arguments.p fits none of its alternatives: must be "a"; must be "b"; must be "c"'
    ]


@pytest.mark.parametrize(("size", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…")])
def test_a_text_of_the_schema_is_shown_up_to_80_characters(size: int, shown: str):
    assert told({"const": "x" * size}, "y") == [f'arguments.p must be "{shown}"']
    known = {"properties": {"x" * size: {}}, "additionalProperties": False}
    assert lines(known, {"y": 1}) == [f"arguments.y is not known here; known are {shown}"]


def test_twelve_known_parameters_are_told_and_that_there_are_more():
    def problem(size: int) -> list[str] | None:
        return lines({"properties": {f"p{n}": {} for n in range(size)}, "additionalProperties": False}, {"y": 1})

    twelve = ", ".join(f"p{n}" for n in range(12))
    assert problem(12) == [f"arguments.y is not known here; known are {twelve}"]
    assert problem(13) == problem(99) == [f"arguments.y is not known here; known are {twelve}, …"]


def test_a_name_is_told_bare_where_it_is_plain_and_no_longer_than_80_characters():
    names = ["a-b", "$a_1", "x" * 80, "x" * 81, "a.b", "", "a\n"]
    assert lines({"properties": {name: {"type": "null"} for name in names}}, dict.fromkeys(names, 1)) == [
        f"arguments{place} must be null, not integer"
        for place in (".a-b", ".$a_1", f".{'x' * 80}", f'["{"x" * 79}…"]', '["a.b"]', '[""]', '["a"]')
    ]


def test_the_dialect_of_the_schema_counts():
    old = {"$schema": "http://json-schema.org/draft-04/schema#"}
    assert told({"minimum": 3, "exclusiveMinimum": True}, 3, **old) == ["arguments.p must be at least 3"]
    assert told({"minimum": 3, "exclusiveMinimum": True}, 4, **old) == []
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"s": {"type": "string"}}}
    assert told({"$ref": "#/definitions/s", "minLength": 9}, "x", **draft7) == []
    assert told({"$ref": "#/definitions/s", "minLength": 9}, "x", definitions=draft7["definitions"]) != []


def test_a_schema_that_refers_to_itself_is_read_with_our_patterns_throughout():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"child": {"$ref": "#"}, "name": {"type": "string", "pattern": "(?=a)b"}},
    }
    assert lines(schema, {"name": "z", "child": {"name": "z"}}) == []
    misfit = "arguments.child.child.name must be string, not integer"
    assert lines(schema, {"child": {"child": {"name": 1}}}) == [misfit]


def test_an_unknown_dialect_is_read_as_the_current_one():
    assert told({"type": "string"}, 1, **{"$schema": "urn:unknown"}) == ["arguments.p must be string, not integer"]


@pytest.mark.parametrize(
    "reference",
    [{"$ref": "#/$defs/s"}, {"$ref": "#anchor"}, {"allOf": [{"$ref": "#/$defs/s"}]}, {"$dynamicRef": "#anchor"}],
)
def test_references_inside_the_schema_are_followed(reference: dict):
    definitions = {"$defs": {"s": {"type": "string", "$anchor": "anchor"}}}
    assert told(reference, 1, **definitions) == ["arguments.p must be string, not integer"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://127.0.0.1:9/schema"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#missing"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "(a+)+$"},
        {"type": "strin"},
        {"type": [{}]},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"multipleOf": 0},
        5,
    ],
)
def test_what_cannot_be_checked_is_neither_right_nor_wrong(schema: Any):
    assert told(schema, {"a": 6}) is None or told(schema, 6) is None


def test_a_schema_with_a_dialect_that_is_no_text_is_checked_or_passed():
    assert lines({"$schema": 5}, {}) is None


@pytest.mark.parametrize("pattern", ["(?=a)b", "\\uD83D", "(", "a{100000}"])
def test_a_pattern_that_re2_cannot_compile_counts_as_matching(pattern: str):
    assert told({"pattern": pattern}, "zzz") == []
    schema = {"patternProperties": {pattern: {"type": "string"}}, "additionalProperties": False}
    assert lines(schema, {"anything": 1}) == []


def test_text_that_is_too_long_or_not_unicode_counts_as_matching():
    assert told({"pattern": "^a$"}, "b" * 1001) == []
    assert told({"pattern": "^a$"}, "\ud800") == []


def test_format_is_not_asserted():
    assert told({"type": "string", "format": "date-time"}, "tomorrow") == []


def test_unevaluated_properties_are_checked_unless_patterns_decide_about_them():
    schema = {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}
    assert lines(schema, {"a": 1, "b": 1}) == ["arguments does not satisfy unevaluatedProperties"]
    schema["allOf"].append({"patternProperties": {"(a+)+$": {}}})
    assert lines(schema, {"a" * 40 + "!": 1}) == []


def test_unevaluated_items_are_checked_unless_patterns_decide_about_anything():
    schema = {"prefixItems": [{}], "unevaluatedItems": False}
    assert told(schema, [1, 2]) == ["arguments.p does not satisfy unevaluatedItems"]
    assert told({**schema, "patternProperties": {"x": {}}}, [1, 2]) == []


# Time


def hostile() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    doubled: dict[str, Any] = {"type": "string"}
    for _ in range(16):
        doubled = {"anyOf": [doubled, doubled]}
    yield "nested anyOf", {"properties": {"a": doubled}}, {"a": 1}
    steps: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 25):
        steps[f"d{n}"] = {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    yield "doubling references", {"$defs": steps, "$ref": "#/$defs/d24"}, {}
    yield "backtracking pattern", {"properties": {"a": {"pattern": "(a+)+$"}}}, {"a": "a" * 900 + "!"}
    patterns = {f"(x{n}|y)+z{{1,50}}$": {} for n in range(1500)}
    yield "many patterns", {"patternProperties": patterns}, {f"k{n}": 1 for n in range(1500)}
    yield "huge enum", {"properties": {"a": {"enum": list(range(9000))}}}, {"a": -1}
    yield "larger enum", {"properties": {"a": {"enum": list(range(100_000))}}}, {"a": -1}
    unique = {"properties": {"a": {"uniqueItems": True}}}
    yield "unique items", unique, {"a": [{"x": n} for n in range(4000)]}
    yield "very many unique items", unique, {"a": list(range(100_000))}
    names = {f"p{n}": {"type": "string"} for n in range(4900)}
    yield "dynamic loop", {"$dynamicAnchor": "x", "$dynamicRef": "#x", "properties": names}, {}
    yield "reference loop", {"$ref": "#"}, {}
    yield "loop by allOf", {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}
    yield "many required", {"anyOf": [{"required": [f"a{n}" for n in range(9000)]}] * 2}, {}
    yield "many empty items", {"properties": {"a": {"items": {}}}}, {"a": [1] * 9900}
    yield "long text", {"properties": {"a": {"anyOf": [{"type": "integer"}] * 3000}}}, {"a": "x" * 4_000_000}
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    yield "deep arguments", {}, deep
    yield "deep schema", deep, {}


@pytest.mark.parametrize(("schema", "arguments"), [pytest.param(s, a, id=name) for name, s, a in hostile()])
def test_a_hostile_schema_cannot_hold_the_checker(schema: dict, arguments: dict):
    check = checker(50)
    check.check("warm", {}, {})
    gc.disable()  # else a collection of what other tests left would count here
    try:
        for budget_ms in (50, 3):
            started = time.thread_time()
            check.check("hostile", schema, arguments, budget_ms)
            assert time.thread_time() - started < (budget_ms + 200) / 1000
    finally:
        gc.enable()


def test_a_schema_larger_than_any_real_one_is_checked_and_not_kept():
    check, text = checker(), json.dumps({"properties": {f"p{n}": {"type": "string"} for n in range(4000)}})
    check.check("warm", {}, {})
    gc.collect()
    before = len(gc.get_objects())
    assert check.check("huge", json.loads(text), {"p1": 1}) == [Misfit("arguments.p1", "must be string, not integer")]
    gc.collect()
    assert len(gc.get_objects()) - before < 1000
    assert check.check("huge", json.loads(text), {"p2": 1}) == [Misfit("arguments.p2", "must be string, not integer")]


@pytest.mark.parametrize(
    ("budget_ms", "later_ms", "is_checked"),
    [
        (None, 100, True),
        (None, 101, False),
        (500, 100, True),
        (500, 101, False),
        (40, 40, True),
        (40, 41, False),
    ],
)
def test_a_check_may_take_as_long_as_its_budget_and_never_longer_than_the_deadline(
    budget_ms: float | None, later_ms: float, is_checked: bool
):
    times = [0.0]
    check = SchemaChecker(100, lambda: times[0] if len(times) == 1 else times.pop(0))
    assert check.check("k", {"required": ["a"]}, {}) == [Misfit("arguments.a", "is required")]
    times[:] = [0.0, later_ms / 1000]
    misfits = check.check("k", {"required": ["a"]}, {}, budget_ms)
    assert (misfits is not None) is is_checked


def nested(depth: int) -> dict[str, Any]:
    """Return objects within each other, so many in all."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_what_is_nested_more_than_64_deep_is_not_checked():
    assert lines({}, nested(64)) == []
    assert lines({}, nested(65)) is None
    assert lines(nested(64), {}) == []
    assert lines(nested(65), {}) is None


def test_what_has_more_than_10_000_values_is_not_checked():
    def of_size(size: int) -> dict[str, Any]:
        return {"a": [0] * (size - 2), "b": []}

    assert lines({}, of_size(10_000)) == []
    assert lines({}, of_size(10_001)) is None
    assert lines({"default": of_size(9_999)}, {}) == []
    assert lines({"default": of_size(10_000)}, {}) is None


def test_a_schema_is_kept_that_has_up_to_a_thousand_objects_and_arrays():
    def of_size(size: int) -> dict[str, Any]:
        return {"enum": [[] for _ in range(size - 2)]}

    assert is_kept({})
    assert is_kept(of_size(1000))
    assert not is_kept(of_size(1001))


def test_arguments_fit_that_are_right_or_cannot_be_judged():
    check, schema = checker(), {"required": ["a"]}
    assert check.fits(schema, {"a": 1})
    assert not check.fits(schema, {})
    assert not check.fits({**schema, "description": "half \ud83d"}, {})
    assert check.fits(schema, nested(65))


def test_a_check_that_runs_out_of_time_is_neither_right_nor_wrong():
    ticks = count()
    slow = SchemaChecker(50, lambda: next(ticks) / 100)
    schema = {"properties": {f"p{n}": {"type": "string"} for n in range(9)}}
    assert slow.check("k", schema, {f"p{n}": 1 for n in range(9)}) is None


def test_a_small_budget_never_loads_the_library():
    check = SchemaChecker(2000, lambda: 0.0)
    assert check.check("k", {"required": ["a"]}, {}, 3) is None
    assert check.check("k", {"required": ["a"]}, {}) == [Misfit("arguments.a", "is required")]
    assert check.check("k", {"required": ["a"]}, {}, 3) == [Misfit("arguments.a", "is required")]


def test_a_cached_check_is_quick():
    check = checker()
    schema = {
        "type": "object",
        "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}, "state": {"enum": ["open", "closed"]}},
        "required": ["owner", "repo"],
    }
    arguments = {"owner": "a", "repo": "b", "state": "open"}
    check.check("k", schema, arguments)
    started = time.thread_time()
    for _ in range(200):
        assert check.check("k", schema, arguments) == []
    assert (time.thread_time() - started) / 200 < 0.001


def test_only_the_most_recent_schemas_are_kept():
    check = checker()
    for n in range(200):
        assert check.check(str(n), {"required": [f"p{n}"]}, {}) == [Misfit(f"arguments.p{n}", "is required")]
    assert len(check._cached) == 128
    assert check.check("199", {}, {}) == [Misfit("arguments.p199", "is required")]


@pytest.mark.parametrize(("size", "is_known"), [(1000, True), (1001, False)])
def test_a_schema_of_up_to_a_thousand_objects_and_arrays_is_known_again_by_its_key(size: int, is_known: bool):
    check = checker()
    schema = {"required": ["a"], "enum": [[]] * (size - 3)}
    assert is_kept(schema) is is_known
    assert check.check("k", schema, {"a": 1}) != []
    assert (check.check("k", {}, {"a": 1}) != []) is is_known


def test_threads_have_their_own_deadlines():
    check = checker(200)
    check.check("warm", {}, {})
    found: list[list[Misfit] | None] = []
    endless = dict(
        next(each for name, *each in ((n, s, a) for n, s, a in hostile()) if name == "doubling references")[0]
    )
    other = threading.Thread(target=lambda: found.append(check.check("endless", endless, {})))
    other.start()
    while other.is_alive():
        assert check.check("quick", {"required": ["a"]}, {}) == [Misfit("arguments.a", "is required")]
    other.join(5)
    assert found == [None]


# Agreement with the library


@settings(deadline=None)
@given(SCHEMA, ARGUMENTS)
def test_it_agrees_with_the_library(schema: Any, arguments: dict[str, Any]):
    whole = {"allOf": [schema]}
    misfits = SchemaChecker(2000, lambda: 0.0).check(next(keys), whole, arguments)  # however busy the machine is
    assert misfits is not None
    assert (not misfits) == jsonschema.Draft202012Validator(whole).is_valid(arguments)


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "required", "$ref", "enum", "items", "anyOf"]), JSON), JSON
)
def test_any_json_is_checked_without_an_error(schema: dict[str, Any], value: Any):
    misfits = checker().check(next(keys), schema, {"a": value})
    assert misfits is None or len(misfits) <= MISFITS_MAX


@pytest.mark.skipif(not CATALOG.is_dir(), reason="the catalog of real tool lists is not here")
def test_every_real_schema_can_be_checked():
    check = checker()
    for file in sorted(CATALOG.glob("*.json")):
        for tool in json.loads(file.read_bytes())["tools"]:
            schema = tool["inputSchema"]
            misfits = check.check(next(keys), schema, {})
            assert misfits is not None
            assert bool(misfits) == bool(schema.get("required"))


# Readings


def typed(value: Any) -> dict[str, Any]:
    """Return the schema of values of the same form, which takes no text but at the leaves that are text."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: typed(each) for key, each in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [typed(each) for each in value]}
    return {"type": json_type(value)}


def in_text(value: Any, *, whole: bool) -> Any:
    """Return a value with what is no text in it as its JSON, or as a whole."""
    if isinstance(value, str):
        return value
    if whole or not isinstance(value, (dict, list)):
        return json.dumps(value)
    if isinstance(value, list):
        return [in_text(each, whole=False) for each in value]
    return {key: in_text(each, whole=False) for key, each in value.items()}


@given(st.dictionaries(st.sampled_from("abc"), JSON.filter(is_finite), max_size=3), st.booleans())
def test_json_in_text_is_read_back_exactly(arguments: dict[str, Any], whole: bool):
    given = {key: in_text(value, whole=whole) for key, value in arguments.items()}
    read = checker().read(next(keys), typed(arguments), given)
    assert read.misfits == []
    assert json.dumps(read.arguments) == json.dumps(arguments)


@given(SCHEMA, ARGUMENTS)
def test_what_fits_is_never_read_otherwise_and_what_is_read_fits(schema: Any, arguments: dict[str, Any]):
    it, whole = checker(), {"properties": dict.fromkeys(["a", "b", "c"], schema)}
    before = json.dumps(arguments)
    misfits, read = it.check("k", whole, arguments), it.read("k", whole, arguments)
    assert json.dumps(arguments) == before
    if not misfits:
        assert read.arguments is arguments
        assert read.misfits == misfits
    if read.misfits == []:
        assert it.check("k", whole, read.arguments) == []


@given(
    st.dictionaries(st.sampled_from(["type", "properties", "required", "$ref", "enum", "items", "anyOf"]), JSON), JSON
)
def test_any_json_is_read_without_an_error(schema: dict[str, Any], value: Any):
    read = checker().read(next(keys), schema, {"a": value})
    assert read.misfits is None or len(read.misfits) <= MISFITS_MAX


@pytest.mark.parametrize(
    ("alternatives", "given", "meant"),
    [
        (["integer", "null"], "1", 1),
        (["boolean", "null"], "null", None),
        (["array", "object"], "[]", []),
        ([{"enum": [1, 2]}, {"enum": ["a"]}], "2", 2),
        ([{"const": True}, {"const": 0}], "true", True),
        ([{"properties": {"n": {"type": "integer"}}}, {"type": "null"}], {"n": "1"}, {"n": 1}),
        ([{"anyOf": [{"type": "integer"}]}, {"type": "null"}], "1", 1),
        # Two readings are none.
        (["integer", "boolean"], "1", "1"),
        ([{"anyOf": [{"type": "integer"}]}, {"type": "boolean"}], "1", "1"),
        ([{"properties": {"n": {"type": kind}}} for kind in ("integer", "boolean")], {"n": "1"}, {"n": "1"}),
        ([{"properties": {"n": {"type": kind}}} for kind in ("integer", "number")], {"n": "1"}, {"n": 1}),
    ],
)
def test_a_value_of_several_schemas_has_a_reading_if_all_are_the_same(alternatives, given, meant):
    schemas = [{"type": each} if isinstance(each, str) else each for each in alternatives]
    schema = {"properties": {"p": {"anyOf": schemas}}}
    read = checker().read(next(keys), schema, {"p": given})
    assert json.dumps(read.arguments) == json.dumps({"p": meant})


def test_two_schemas_of_one_value_that_ask_for_different_readings_have_none():
    schema = {"properties": {"p": {"type": "integer"}}, "allOf": [{"properties": {"p": {"type": "boolean"}}}]}
    assert checker().read("k", schema, {"p": "1"}).arguments == {"p": "1"}


def test_a_whole_number_of_an_older_dialect_is_read_as_one():
    dialect = "http://json-schema.org/draft-04/schema#"
    schema = {"$schema": dialect, "properties": {"p": {"type": ["boolean", "integer"]}}}
    assert json.dumps(checker().read("k", schema, {"p": 1.0}).arguments) == '{"p": 1}'


def test_half_of_a_character_in_json_is_replaced():
    schema = {"properties": {"p": {"type": "array"}}}
    read = checker().read("k", schema, {"p": '["\\ud800", "\\ud83d\\ude00"]'})
    assert read.arguments == {"p": ["\ufffd", "\U0001f600"]}


def test_the_name_of_a_property_is_never_read_as_something_else():
    schema = {"properties": {"p": {"propertyNames": {"type": "integer"}}}, "propertyNames": {"enum": [1]}}
    read = checker().read("k", schema, {"p": {"1": 1}})
    assert read.arguments == {"p": {"1": 1}}
    assert len(read.misfits or ()) == 2


def test_reading_ends_in_time(monkeypatch: pytest.MonkeyPatch):
    spent = [0.0]

    def slow(text: str, **options: Any) -> Any:
        spent[0] += 0.1
        return loads(text, **options)

    loads = json.loads
    monkeypatch.setattr(coercion.json, "loads", slow)
    alternatives = [{"properties": {"n": {"type": "array", "maxItems": most}}} for most in range(100)]
    schema, given = {"properties": {"p": {"anyOf": alternatives}}}, {"p": {"n": "[1]"}}
    read = SchemaChecker(1000, lambda: spent[0]).read("k", schema, given)
    assert read.misfits is None
    assert read.arguments is given
    assert spent[0] < 1.5, "of ten seconds"


def test_a_text_of_more_values_than_can_be_checked_is_not_decoded():
    schema = {"properties": {"p": {"type": "array"}}}
    for number, is_read in ((9_000, True), (11_000, False)):
        large = json.dumps([1] * number)
        read = checker().read("k", schema, {"p": large})
        assert (read.arguments["p"] is large) is not is_read
        assert [each.path for each in read.misfits or ()] == ([] if is_read else ["arguments.p"])


@pytest.mark.parametrize("name", ["if", "anyOf", "properties", "propertyNames", "$ref"])
def test_a_property_may_have_the_name_of_a_keyword(name: str):
    schema = {"properties": {name: {"type": "integer"}, "b": {"type": "integer"}}}
    assert checker().read(name, schema, {name: None, "b": 1}).arguments == {"b": 1}
    assert checker().read(name, schema, {name: "3", "b": 1}).arguments == {name: 3, "b": 1}


# Forgiving readings


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, {}),
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ({"arguments": {"a": 1}}, {"a": 1}),
        ({"arguments": '{"a": 1}'}, {"a": 1}),
        ('{"arguments": {"a": 1}}', {"a": 1}),
        ({"arguments": None}, {}),
        ({"arguments": 5}, {"arguments": 5}),
        ({"arguments": {"a": 1}, "b": 2}, {"arguments": {"a": 1}, "b": 2}),
        ([], None),
        (5, None),
        (True, None),
        ("", None),
        ("[1]", None),
        ("{", None),
        ("[" * 100_000, None),
        ('{"a": "' + "x" * 1024 * 1024 + '"}', None),
    ],
)
def test_arguments_are_read_forgivingly(value: Any, meant: Any):
    assert unwrap_arguments(value, {"type": "object"}) == meant


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"arguments": {"type": "object"}}},
        {"anyOf": [{"properties": {"arguments": {}}}]},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"properties": {"arguments": {}}}}},
    ],
)
def test_a_tool_with_a_parameter_called_arguments_gets_it(schema: dict):
    assert unwrap_arguments({"arguments": {"a": 1}}, schema) == {"arguments": {"a": 1}}
