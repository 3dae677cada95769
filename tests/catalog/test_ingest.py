"""A downstream's tool list made into records: repaired, refused, shaped by config and policy."""

import json
import time
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import mcp_types
import mcp_types.methods
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.base.model import Ingest, LoadingMode, Refused, SideEffects, ToolRecord
from toolcrib.base.names import name_digest, public_name
from toolcrib.catalog.definitions import TEXT_MAX
from toolcrib.catalog.index import EXAMPLES, ROW_FORMAT
from toolcrib.catalog.ingest import TAG_MAX, TAGS_MAX, Shaping, ingest
from toolcrib.config.schema import LimitsSection, ServerSection, ToolcribSection, ToolExamplesSection, ToolSearchSection
from toolcrib.config.settings import Place, ServerSettings, Settings, StdioTarget
from toolcrib.policy.rules import Policy, VisibilityRule

CATALOG = Path(__file__).resolve().parents[3] / "shared" / "catalog"
needs_catalog = pytest.mark.skipif(not CATALOG.is_dir(), reason="the catalog of real tool lists is not here")
ERAS = ("2025-11-25", "2026-07-28")

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["object", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)


def record_of(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    """An object that may have each of ``keys``, with any value."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, JSON))


SCHEMA = JSON | record_of("type", "properties", "required", "$schema", "anyOf", "schema_")
HINTS = record_of("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
TOOL = st.fixed_dictionaries(
    {"name": st.text(min_size=1, max_size=8)},
    optional={
        "title": JSON,
        "description": JSON,
        "inputSchema": SCHEMA,
        "outputSchema": SCHEMA,
        "annotations": JSON | HINTS,
        "icons": JSON | st.lists(record_of("src", "mimeType", "sizes", "theme"), max_size=2),
        "execution": JSON | record_of("taskSupport"),
        "_meta": JSON | record_of("io.modelcontextprotocol/x", "tags", "examples"),
        "extra": JSON,
    },
)


def shaping(policy: Policy | None = None, *, search: Any = None, limits: Any = None, examples: Any = None) -> Shaping:
    return Shaping(
        policy or Policy(),
        LimitsSection(**(limits or {})),
        ToolSearchSection(**(search or {})),
        ToolExamplesSection(**(examples or {})),
        fits=lambda *_: True,
    )


def take(tools: list[Any], shape: Shaping | None = None, key: str = "git", **options: Any) -> Ingest:
    section = ServerSection.model_validate(options)
    return ingest(ServerSettings(key, StdioTarget("x", (), {}, None), section, "f"), tools, shape or shaping())


def one(tool: dict[str, Any], shape: Shaping | None = None, **options: Any) -> ToolRecord:
    taken = take([{"name": "commit", **tool}], shape, **options)
    assert taken.refused == ()
    return taken.records[0]


def reason(tool: Any, **limits: Any) -> str:
    taken = take([tool], shaping(limits=limits))
    assert taken.records == ()
    return taken.refused[0].reason


def assert_listable(records: tuple[ToolRecord, ...]) -> None:
    """Every definition is valid for the SDK in both eras; a sessionful list leaves other output schemas out."""
    for era in ERAS:
        tools = [dict(record.definition) for record in records]
        for tool in tools:
            if era == ERAS[0] and tool.get("outputSchema", {}).get("type") != "object":
                tool.pop("outputSchema", None)
        extra = {} if era == ERAS[0] else {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        body = {"tools": tools, **extra}
        json.dumps(mcp_types.methods.serialize_server_result("tools/list", era, body), allow_nan=False).encode()
        mcp_types.ListToolsResult.model_validate(body, by_name=False).model_dump_json(by_alias=True)


# Admission


def test_a_good_tool_keeps_its_definition():
    definition = {
        "name": "commit",
        "title": "Commit",
        "description": "Records changes.",
        "inputSchema": {"type": "object", "properties": {"m": {"type": "string"}, "all": True}, "required": ["m"]},
        "outputSchema": {"type": "object"},
        "annotations": {"title": "Commit", "readOnlyHint": False, "category": "vcs"},
        "icons": [{"src": "data:x", "mimeType": "image/png", "sizes": ["any"], "theme": "dark"}],
        "execution": {"taskSupport": "optional"},
        "_meta": {"anyone/thing": 1},
        "unknown": {"kept": None},
    }
    record = one(definition)
    assert record.definition == definition
    assert (record.server, record.name, record.public_name) == ("git", "commit", "git__commit")


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (None, "is of type null, not object"),
        ([], "is of type array, not object"),
        ({}, "has no name"),
        ({"name": ""}, "has no name"),
        ({"name": 5}, "has no name"),
        ({"name": "x" * 257}, "has a name of 257 characters; at most 256 are allowed"),
        ({"name": "\ud800"}, "has a name that is not valid Unicode"),
    ],
)
def test_an_item_without_a_usable_name_is_refused_by_its_position(item: Any, said: str):
    taken = take([{"name": "good"}, item])
    assert [record.name for record in taken.records] == ["good"]
    assert taken.refused == (Refused("#2", said),)


@pytest.mark.parametrize("absent", [{}, {"inputSchema": None}, {"inputSchema": {}}, {"inputSchema": True}])
def test_an_absent_input_schema_allows_any_object(absent: dict):
    assert one(absent).definition["inputSchema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        ({"properties": {}}, {"properties": {}}),
        ({"type": None}, {}),
        ({"type": ["object", "null"]}, {}),
        ({"properties": 5}, {"properties": {}}),
        ({"properties": {"a": "string", "b": True}}, {"properties": {"a": {}, "b": True}}),
        ({"required": True}, {"required": []}),
        ({"required": ["a", 1]}, {"required": ["a"]}),
        ({"$schema": 7}, {}),
        ({"anyOf": [{"required": ["a"]}]}, {"anyOf": [{"required": ["a"]}]}),
    ],
)
def test_an_input_schema_is_repaired_where_it_is_clear_what_is_meant(broken: dict, repaired: dict):
    assert one({"inputSchema": broken}).definition["inputSchema"] == {**repaired, "type": "object"}


@pytest.mark.parametrize("schema", [False, 5, "object", []])
def test_an_input_schema_that_is_no_object_is_refused(schema: Any):
    assert "has an inputSchema of type" in reason({"name": "f", "inputSchema": schema})


@pytest.mark.parametrize("kind", ["string", ["string"], 5, {}])
def test_an_input_schema_for_something_else_is_refused(kind: Any):
    assert reason({"name": "f", "inputSchema": {"type": kind}}) == 'has an inputSchema whose type is not "object"'


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", 5),
        ("description", {}),
        ("outputSchema", True),
        ("annotations", []),
        ("icons", {}),
        ("icons", [5, {"src": 1}, {"src": "x", "theme": "blue"}, {"src": "x", "sizes": [1]}]),
        ("execution", {"taskSupport": "maybe"}),
        ("_meta", "x"),
    ],
)
def test_a_malformed_field_is_dropped(field: str, value: Any):
    assert field not in one({field: value}).definition


def test_hints_of_a_wrong_type_and_reserved_meta_keys_are_dropped():
    record = one(
        {"annotations": {"readOnlyHint": "yes", "title": 1, "x": 1}, "_meta": {"io.modelcontextprotocol/a": 1}}
    )
    assert record.definition["annotations"] == {"x": 1}
    assert record.definition["_meta"] == {}
    assert record.read_only is False


def test_what_json_cannot_carry_is_replaced_or_refused():
    assert one({"description": "a\ud800b"}).definition["description"] == "a?b"
    assert reason({"name": "f", "x": float("nan")}) == "holds a number that JSON cannot carry"


def test_a_definition_is_bounded_in_size_and_depth():
    deep: Any = {}
    for _ in range(3000):
        deep = {"a": deep}
    assert reason({"name": "f", "x": deep}) == "is nested deeper than 64 levels"
    assert "limits.definition_max_bytes is 1024" in reason({"name": "f", "x": "ü" * 512}, definition_max_bytes=1024)


def test_a_tool_listed_again_is_taken_once_and_another_of_its_name_is_refused():
    taken = take([{"name": "a"}, {"name": "b", "title": "B"}, {"name": "a"}, {"name": "b"}])
    assert [(record.name, record.definition.get("title")) for record in taken.records] == [("a", None), ("b", "B")]
    assert taken.refused == (Refused("b", "is listed again, and otherwise; the first is taken"),)


def test_a_bad_tool_takes_no_good_one_of_its_name_with_it():
    taken = take([{"name": "a", "inputSchema": {"type": "string"}}, {"name": "a"}, {"name": "b"}])
    assert [record.name for record in taken.records] == ["a", "b"]
    assert [each.name for each in taken.refused] == ["a"]


def test_tools_of_one_name_that_are_nested_too_deeply_to_compare_are_two():
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    taken = take([{"name": "a"}, {"name": "b", "x": deep}, {"name": "b", "x": {"a": deep}}])
    assert [record.name for record in taken.records] == ["a"]
    assert [each.name for each in taken.refused] == ["b", "b"]


def test_two_names_with_one_public_name_are_both_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolcrib.catalog.ingest.public_name", lambda _server, _tool, _limit: "git__same")
    taken = take([{"name": "a"}, {"name": "b"}])
    assert taken.records == ()
    assert [refused.name for refused in taken.refused] == ["a", "b"]
    assert all("git__same" in refused.reason for refused in taken.refused)


def test_tools_beyond_the_limit_are_refused_together():
    taken = take([{"name": str(n)} for n in range(5)], shaping(limits={"tools_per_server": 2}))
    assert [record.name for record in taken.records] == ["0", "1"]
    assert (taken.refused, taken.cut) == ((), "limits.tools_per_server is 2")


HIDDEN = [{"name": "secret"}, {"name": "secret"}, {"name": "secret_2", "inputSchema": 5}, {"name": "secret three"}]


@pytest.mark.parametrize("policy", [Policy(deny=("secret*",)), Policy(allow=("git.seen",)), Policy(deny=("*",))])
def test_a_tool_denied_to_everyone_leaves_no_trace_but_a_digest_of_its_name(policy: Policy):
    shape = shaping(policy, limits={"tools_per_server": 1})
    taken, without = take([*HIDDEN, {"name": "seen"}], shape), take([{"name": "seen"}], shape)
    assert (taken.records, taken.refused) == (without.records, without.refused)
    assert "secret" not in str(taken)


def test_names_that_the_policy_does_not_tell_are_known_by_their_digests():
    unusual = public_name("git", "secret three")
    for policy, names in (
        (Policy(deny=("secret", "secret_2")), set()),
        # Written as they are, and however their words are joined.
        (Policy(deny=("secret*",)), {"secret", "secret three", unusual, " secret2", " secretthree"}),
        (Policy(allow=("git.seen",)), {"secret", "secret_2", "secret three", unusual, " secret2", " secretthree"}),
    ):
        assert set(take(HIDDEN, shaping(policy)).withheld) == set(map(name_digest, names))
    assert len(take(HIDDEN, shaping(Policy(allow=()), limits={"tools_per_server": 2})).withheld) == 4


def test_a_tool_that_some_caller_may_see_is_indexed():
    policy = Policy(allow=(), rules=(VisibilityRule({"tenant_id": ("a",)}, allow=("git.*",)),))
    assert len(take([{"name": "commit"}], shaping(policy)).records) == 1


def test_a_refused_name_is_shown_clean_and_short():
    (refused,) = take([{"name": "x\n\u202e" + "y" * 200, "inputSchema": 5}]).refused
    assert refused.name.startswith("x y")
    assert len(refused.name) <= 80


# Loading modes, side effects, tags


@pytest.mark.parametrize(
    ("search", "options", "mode"),
    [
        ({}, {}, "deferred"),
        ({"default_loading_mode": "always"}, {}, "always"),
        ({"default_loading_mode": "always"}, {"default_loading_mode": "deferred"}, "deferred"),
        ({}, {"always_loaded_tools": ["comm*"]}, "always"),
        ({}, {"always_loaded_tools": ["commit"], "deferred_tools": ["commit"]}, "always"),
        ({"default_loading_mode": "always"}, {"deferred_tools": ["commit"]}, "deferred"),
        ({}, {"deferred_tools": ["push"]}, "always"),
        ({}, {"deferred_tools": []}, "always"),
        ({"always_loaded_patterns": ["git.*"]}, {"deferred_tools": ["commit"]}, "always"),
        ({"always_loaded_patterns": ["git__commit"]}, {}, "always"),
        ({"always_loaded_patterns": ["commit"]}, {}, "deferred"),
    ],
)
def test_the_first_rule_that_speaks_gives_the_loading_mode(search: dict, options: dict, mode: str):
    search = {key: LoadingMode(value) if isinstance(value, str) else tuple(value) for key, value in search.items()}
    assert one({}, shaping(search=search), **options).loading_mode == mode


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        ({}, None),
        ({"readOnlyHint": True, "openWorldHint": True}, SideEffects.READ),
        ({"openWorldHint": True, "destructiveHint": True}, SideEffects.EXTERNAL),
        ({"openWorldHint": False}, None),
        ({"destructiveHint": True}, SideEffects.WRITE),
        ({"destructiveHint": False}, SideEffects.WRITE),
        ({"readOnlyHint": False}, SideEffects.WRITE),
        ({"idempotentHint": True}, None),
    ],
)
def test_side_effects_are_derived_from_annotations(hints: dict, effect: SideEffects | None):
    assert one({"annotations": hints}).side_effects == effect


def test_configured_side_effects_win_and_the_exact_name_beats_a_glob():
    hints = {"annotations": {"readOnlyHint": True}}
    assert one(hints, side_effects={"*": "pure", "commit": "stateful"}).side_effects == SideEffects.STATEFUL
    assert one(hints, side_effects={"push": "write", "com*": "external"}).side_effects == SideEffects.EXTERNAL
    assert one(hints, side_effects={"push": "write"}).side_effects == SideEffects.READ


def test_tags_come_from_all_matching_globs_and_from_the_downstream():
    meta = {"tags": ["own", 5, " ", "vcs"], "fastmcp": {"tags": ["fast"]}, "_fastmcp": {"tags": ["older"]}}
    record = one({"_meta": meta}, tags={"*": ["vcs"], "com*": ["write"], "push": ["no"]})
    assert record.tags == ("vcs", "write", "own", "fast", "older")


def test_tags_are_bounded():
    tags = one({"_meta": {"tags": [f"{n}{'x' * 100}" for n in range(50)]}}).tags
    assert len(tags) == TAGS_MAX
    assert max(map(len, tags)) <= TAG_MAX


# Search text


def test_search_text_is_split_into_words():
    nested = {"type": "object", "properties": {"innerPart": {"description": "Deep inside"}}}
    schema = {"properties": {"repoPath": {"description": "Where the repoPath is"}, "opts": nested}}
    record = one({"name": "createPullRequest2", "description": "Opens one.\nMore of it.", "inputSchema": schema})
    assert record.name_text == "create pull request 2"
    assert (record.summary, record.body) == ("Opens one.", "More of it.")
    assert record.params_text == "repo path opts inner part"
    assert record.params_description_text.split() == "where the repo path is deep inside".split()


def test_examples_in_descriptions_of_parameters_stand_behind_the_rest():
    told = {
        "zone": "IANA name (e.g., 'Europe/London'). Use UTC if none is given.",
        "since": "Start of the period, for example yesterday. Optional.",
        "page": "Number of the page",
    }
    schema = {"type": "object", "properties": {name: {"description": text} for name, text in told.items()}}
    words, _, examples = one({"inputSchema": schema}).params_description_text.partition(EXAMPLES)
    assert words.split() == (
        "iana name use utc if none is given start of the period optional number of the page".split()
    )
    assert examples.split() == "e g europe london for example yesterday".split()


def test_parameters_of_list_items_are_searched_too():
    rows = {"type": "array", "items": {"$ref": "#/$defs/Row"}}
    schema = {"properties": {"rows": rows}, "$defs": {"Row": {"properties": {"column": {}}}}}
    assert one({"inputSchema": schema}).params_text == "rows column"


def test_the_title_stands_in_for_a_missing_description():
    assert one({"title": "Record changes"}).summary == "Record changes"


def test_what_is_searched_of_a_tool_depends_on_no_other_tool():
    def tool(n: int) -> dict:
        return {"name": f"t{n}", "inputSchema": {"properties": {"shared": {"description": "same"}, f"own_{n}": {}}}}

    alone, among = (take([tool(n) for n in range(size)]).records[0] for size in (1, 20))
    assert alone == among
    assert among.params_text == "shared own 0"


def test_search_text_is_clean_and_bounded():
    many = {"properties": {f"p{n}": {"description": "long " * 100} for n in range(300)}}
    record = one({"description": "a\u202eb" + "x" * 9000, "inputSchema": many})
    assert record.summary.startswith("abxx")
    for text in (record.summary, record.body, record.params_text, record.params_description_text):
        assert len(text) <= TEXT_MAX


# Fingerprint


@given(TOOL)
def test_the_fingerprint_is_that_of_one_canonical_document(tool: dict[str, Any]):
    for record in take([tool]).records:
        document = {
            "server": record.server,
            "name": record.name,
            "public_name": record.public_name,
            "loading_mode": record.loading_mode,
            "side_effects": record.side_effects,
            "tags": record.tags,
            "examples": [asdict(example) for example in record.examples],
            "definition": record.definition,
            "row_format": ROW_FORMAT,
        }
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
        assert record.fingerprint == sha256(canonical.encode()).hexdigest()


def test_the_fingerprint_does_not_depend_on_the_order_of_keys():
    first = one({"description": "d", "inputSchema": {"type": "object", "properties": {}}})
    second = one({"inputSchema": {"properties": {}, "type": "object"}, "description": "d"})
    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 64


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        ({"description": "other"}, {}),
        ({"extra": 1}, {}),
        ({}, {"default_loading_mode": "always"}),
        ({}, {"side_effects": {"*": "read"}}),
        ({}, {"tags": {"*": ["t"]}}),
        ({}, {"tool_examples": {"commit": [{"args": {}}]}}),
        ({}, {"key": "other"}),
    ],
)
def test_the_fingerprint_changes_with_everything_that_is_kept(tool: dict, options: dict):
    changed = take([{"name": "commit", **tool}], **options).records[0]
    assert changed.fingerprint != one({}).fingerprint


# All of it


def test_shaping_is_taken_from_the_settings(tmp_path: Path):
    section = ToolcribSection.model_validate({"limits": {"tools_per_server": 7}, "policy": {"deny": ["x"]}})
    shape = Shaping.from_settings(
        Settings("test", None, tmp_path, tmp_path, section, {}, Place(tmp_path)), lambda *_: True
    )
    assert shape.limits.tools_per_server == 7
    assert not shape.policy.anyone.permits("git", "x", "git__x")


@given(st.lists(TOOL | JSON, max_size=6))
def test_any_json_is_taken_and_what_is_kept_can_be_listed_in_both_eras(items: list[Any]):
    taken = take(items)
    assert_listable(taken.records)
    for record in taken.records:
        assert len(record.fingerprint) == 64


@pytest.mark.sampled
@needs_catalog
@pytest.mark.parametrize("file", sorted(CATALOG.glob("*.json")), ids=lambda file: file.stem)
def test_every_real_tool_is_taken_and_can_be_listed_in_both_eras(file: Path):
    tools = json.loads(file.read_bytes())["tools"]
    taken = take(tools)
    assert taken.refused == ()
    assert len(taken.records) == len(tools)
    assert_listable(taken.records)


@pytest.mark.slow
@needs_catalog
def test_real_definitions_are_unchanged_but_for_a_missing_type():
    for file in sorted(CATALOG.glob("*.json")):
        tools = json.loads(file.read_bytes())["tools"]
        for tool, record in zip(tools, take(tools).records, strict=True):
            assert record.definition == {**tool, "inputSchema": {**tool["inputSchema"], "type": "object"}}


def test_a_hostile_list_takes_bounded_time():
    branches = [{"properties": {f"p{n}_{m}": {"anyOf": [{"$ref": "#"}] * 8} for m in range(16)}} for n in range(40)]
    hostile = {"name": "f", "inputSchema": {"anyOf": branches, "allOf": branches, "oneOf": branches}}
    started = time.thread_time()
    assert len(take([hostile]).records) == 1
    assert time.thread_time() - started < 2
