"""``tool_search`` as a client sees it: its schema, its bounds, what it finds, and how it says so (R48 to R70)."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.generated import tools as generated
from fakes.menu import tool
from toolcrib.base.model import JsonObject
from toolcrib.search.confidence import explained
from worlds import BUILTINS, DEADLINE_S, ERAS, PATIENCE_S, SCHEMAS, MemoryServer, passing, until, world

pytestmark = pytest.mark.anyio

GITHUB = [
    tool("create_issue", "Create an issue in a repository.", {"owner": "string", "repo": "string"}, ["owner", "repo"]),
    tool("list_issues", "List the issues of a repository.", annotations={"readOnlyHint": True}),
    tool("delete_repo", "Delete a repository for good."),
]
FILES = [
    tool("read_file", "Read a file from the disk.", annotations={"readOnlyHint": True}),
    tool("list_files", "List the files of a folder."),
]
BOTH = {"github": GITHUB, "files": FILES}


async def failed(client, arguments) -> str:
    """Return the text of a search that is refused."""
    result = await client.call("tool_search", arguments)
    assert result["isError"] is True
    assert "structuredContent" not in result
    [block] = result["content"]
    return block["text"]


# -- the definition ------------------------------------------------------------------------------


async def definition(client) -> dict:
    return (await client.tools())[0]


async def test_its_input_schema_is_the_required_one(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        schema = (await definition(client))["inputSchema"]
        properties = schema["properties"]
        assert schema["required"] == ["query"]
        assert list(properties) == ["query", "search_type", "limit", "include_always_loaded", "detail", "server"]
        assert all(entry["description"] for entry in properties.values())
        bare = {name: {**entry} for name, entry in properties.items()}
        assert [entry.pop("description") for entry in bare.values()]
    assert bare == {
        "query": {"type": "string"},
        "search_type": {"type": "string", "enum": ["fts", "regex", "exact"], "default": "fts"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8},
        "include_always_loaded": {"type": "boolean", "default": False},
        "detail": {"type": "string", "enum": ["signature", "schema"], "default": "signature"},
        "server": {"type": "string"},
    }


def test_the_schema_of_its_answer_requires_what_is_always_there():
    schema = SCHEMAS["tool_search"]
    item = schema["properties"]["tools"]["items"]
    assert schema["required"] == ["tools", "query", "search_type"]
    assert item["required"] == ["name", "description", "score", "match_type", "loading_mode"]
    assert item["properties"]["match_type"]["enum"] == ["exact", "regex", "fts"]
    assert schema["properties"]["search_type"]["enum"] == ["fts", "regex", "exact"]
    assert set(item["properties"]["side_effects"]["enum"]) == {"pure", "read", "write", "external", "stateful"}
    assert item["properties"]["status"]["enum"] == ["starting", "failed", "needs_login"]


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_built_in_tools_say_what_they_do_to_the_world_and_are_never_deferred(tmp_path, era):
    async with world(tmp_path, BOTH, listing="auto") as w, w.client(era) as client:
        search, call, call_read = await client.tools()
        instructions = client.instructions or ""
    assert search["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
    assert call["annotations"] == {"destructiveHint": True, "openWorldHint": True}
    assert call_read["annotations"]["readOnlyHint"] is True
    assert all(entry["_meta"] == {"anthropic/alwaysLoad": True} for entry in (search, call, call_read))
    assert [entry["description"].count("- args:") for entry in (search, call, call_read)] == [2, 1, 0]
    assert "<tool_discovery>" in instructions
    assert len(instructions.encode()) < 1000


async def test_the_examples_in_its_description_are_searches_that_work(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        lines = (await definition(client))["description"].splitlines()
        for line in lines:
            if line.startswith("- args: "):
                given_ones = json.loads(line.removeprefix("- args: "))
                assert await client.found(given_ones.pop("query"), **given_ones), line


async def test_more_results_than_twenty_can_be_configured(tmp_path):
    many = {"db": generated(60)}
    async with world(tmp_path, many, {"tool_search": {"max_search_results": 50}}) as w, w.client() as client:
        assert (await definition(client))["inputSchema"]["properties"]["limit"]["maximum"] == 50
        assert len(await client.found("_", search_type="regex", limit=50)) == 50
        assert "limit: must be from 1 to 50" in await failed(client, {"query": "x", "limit": 51})


# -- what is refused -----------------------------------------------------------------------------


MISFITS = [
    ({}, "query"),
    ({"query": ""}, "query"),
    ({"query": " \n\t\u00a0"}, "query"),
    ({"query": 7}, "query"),
    ({"query": None}, "query"),
    ({"query": "x", "limit": 0}, "limit"),
    ({"query": "x", "limit": 21}, "limit"),
    ({"query": "x", "limit": -1}, "limit"),
    ({"query": "x", "limit": "5.5"}, "limit"),
    ({"query": "x", "limit": True}, "limit"),
    ({"query": "x", "limit": 2.5}, "limit"),
    ({"query": "x", "limit": 10**30}, "limit"),
    ({"query": "x", "search_type": "semantic"}, "search_type"),
    ({"query": "x", "search_type": "FTS"}, "search_type"),
    ({"query": "x", "include_always_loaded": "perhaps"}, "include_always_loaded"),
    ({"query": "x", "include_always_loaded": 2}, "include_always_loaded"),
    ({"query": "x", "detail": "all"}, "detail"),
    ({"query": "x", "server": 1}, "server"),
    ({"query": "x", "tenant_id": "red"}, "tenant_id"),
]


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_do_not_fit_are_refused_by_name(tmp_path, era):
    async with world(tmp_path, BOTH, listing="auto") as w, w.client(era) as client:
        for arguments, field in MISFITS:
            assert field in await failed(client, arguments), arguments


BAD_PATTERNS = [
    ("[", "missing"),
    ("(?=x)", "invalid perl operator"),
    (r"(a)\1", "invalid escape sequence"),
    ("x" * 257, "257 characters"),
    ("((a{100}){100}){100}", "invalid repetition size"),
    (r"(\pL{30}|\pN{30}){30}", "too large"),
]


async def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for pattern, reason in BAD_PATTERNS:
            assert reason in await failed(client, {"query": pattern, "search_type": "regex"})


async def test_a_pattern_that_would_hang_others_answers_at_once(tmp_path):
    long = tool("long", "a" * 999 + "!")
    async with world(tmp_path, {"db": [long]}) as w, w.client() as client:
        with anyio.fail_after(PATIENCE_S):
            assert await client.found("(a+)+$", search_type="regex") == []


# -- full text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_words_find_the_tool_that_does_what_they_say(tmp_path, era):
    async with world(tmp_path, BOTH, listing="auto") as w, w.client(era) as client:
        answer = await client.search("please create an issue for me")
    best = answer["tools"][0]
    assert best == {
        "name": "github__create_issue",
        "description": "Create an issue in a repository.",
        "score": 1.0,
        "match_type": "fts",
        "loading_mode": "deferred",
        "signature": "github__create_issue(owner: string, repo: string)",
    }
    assert answer["tools"][0]["score"] > answer["tools"][1]["score"]
    assert answer["query"] == "please create an issue for me"
    assert answer["search_type"] == "fts"
    assert answer["confidence"] == "high"
    assert answer["total_deferred"] == 5
    assert "tool_call" in answer["usage"]


async def test_bm25_is_another_word_for_fts(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        assert await client.search("issues", search_type="bm25") == await client.search("issues", search_type="fts")


async def test_at_most_ten_are_found_unless_more_are_configured(tmp_path):
    async with world(tmp_path, {"db": generated(60)}) as w, w.client() as client:
        assert len(await client.found("tool collection")) == 8
        assert len(await client.found("tool collection", limit=20)) == 10
        assert len(await client.found("tool collection", limit=3)) == 3


@pytest.mark.sampled
@pytest.mark.parametrize("era", ERAS)
async def test_the_same_search_gives_the_same_answer_byte_for_byte_also_after_a_restart(tmp_path, era):
    async def answers() -> set[str]:
        async with world(tmp_path, {"db": generated(60)}, listing="auto") as w, w.client(era) as client:
            return {json.dumps(await client.search("export the invoice", limit=10)) for _ in range(20)}

    assert len(await answers() | await answers()) == 1


async def test_the_score_of_a_hit_does_not_depend_on_the_limit(tmp_path):
    async with world(tmp_path, {"db": generated(60)}) as w, w.client() as client:
        scores = [
            {hit["name"]: hit["score"] for hit in (await client.search("export invoice", limit=limit))["tools"]}
            for limit in (1, 5, 10)
        ]
    assert scores[0].items() <= scores[1].items() <= scores[2].items()


async def test_a_lone_hit_scores_half_and_equal_hits_too(tmp_path):
    twins = [tool("alpha", "Grow a baobab."), tool("gamma", "Grow a baobab."), tool("zebra", "Draw stripes.")]
    async with world(tmp_path, {"db": twins}) as w, w.client() as client:
        assert [hit["score"] for hit in (await client.search("stripes"))["tools"]] == [0.5]
        assert [hit["score"] for hit in (await client.search("baobab"))["tools"]] == [0.5, 0.5]


async def test_words_in_another_form_are_found(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        assert "github__delete_repo" in await client.found("deleting repositories")


async def test_a_query_that_is_a_tools_name_puts_that_tool_first(tmp_path):
    others = [tool(f"create_issue_{number}", "create issue create issue") for number in range(5)]
    async with world(tmp_path, {"github": GITHUB, "db": others}) as w, w.client() as client:
        for name in ("github__create_issue", "createIssue", "github.create_issue", "GitHub Create-Issue"):
            first, *others = (await client.search(name))["tools"]
            assert (first["name"], first["score"], first["match_type"]) == ("github__create_issue", 1.0, "exact")
            assert {hit["match_type"] for hit in others} == {"fts"}
            assert max(hit["score"] for hit in others) <= 1.0


async def test_no_query_is_syntax(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for query in (
            '"',
            "NEAR(",
            "name:x",
            "*",
            "-",
            "AND OR NOT",
            "(",
            "'); DROP TABLE tools; --",
            "\x00",
            "🦆",
            "^a",
        ):
            for kind in ("fts", "exact"):
                await client.search(query, search_type=kind)


ANSWER_SCORES = {"exact": {1.0}, "regex": {0.95, 0.90, 0.85, 0.75}}


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from(["fts", "exact", "regex"])), min_size=1, max_size=20))
async def test_any_query_gets_an_answer_with_scores_in_order_or_a_reason(queries):
    with TemporaryDirectory() as folder:
        async with world(Path(folder), BOTH) as w, w.client() as client:
            for query, kind in queries:
                result = await client.call("tool_search", {"query": query, "search_type": kind, "limit": 20})
                if result["isError"]:
                    assert result["content"][0]["text"]
                    continue
                scores = [hit["score"] for hit in result["structuredContent"]["tools"]]
                assert scores == sorted(scores, reverse=True)
                assert all(0 <= score <= 1 and round(score, 2) == score for score in scores)
                assert set(scores) <= ANSWER_SCORES.get(kind, set(scores))


async def test_only_the_first_2000_characters_count_and_the_note_says_so(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        answer = await client.search("create issue " + "x" * 10_000 + " delete_repo")
        assert answer["tools"][0]["name"] == "github__create_issue"
        assert "github__delete_repo" not in [hit["name"] for hit in answer["tools"] if hit["score"] > 0.5]
        assert len(answer["query"]) == 2000
        assert "2000" in answer["note"]
        assert "note" not in await client.search("create issue")


async def test_white_space_around_a_query_means_nothing(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for kind, query in (("fts", "create issue"), ("exact", "create_issue"), ("regex", "create_.*")):
            padded = f"  \n{query}\t "
            assert await client.search(padded, search_type=kind) == await client.search(query, search_type=kind)


# -- exact and regex -----------------------------------------------------------------------------


SPELLINGS = [
    "create_issue",
    "github__create_issue",
    "github.create_issue",
    "github/create_issue",
    "github:create_issue",
    "CREATE_ISSUE",
    "createIssue",
    "Create Issue",
    "GITHUB.createIssue",
]


async def test_exact_search_understands_every_spelling(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for spelling in SPELLINGS:
            answer = await client.search(spelling, search_type="exact")
            [hit] = answer["tools"]
            assert (hit["name"], hit["score"], hit["match_type"]) == ("github__create_issue", 1.0, "exact")
            assert answer["search_type"] == "exact"


async def test_exact_search_prefers_the_name_as_written(tmp_path):
    async with world(tmp_path, {"db": [tool("Run"), tool("run")]}) as w, w.client() as client:
        assert await client.found("Run", search_type="exact") == ["db__Run"]
        assert await client.found("RUN", search_type="exact") == ["db__Run", "db__run"]


async def test_exact_search_for_no_tool_says_what_else_to_try(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        answer = await client.search("no_such_tool", search_type="exact")
    assert (answer["tools"], answer["confidence"]) == ([], "none")
    assert "search_type fts" in answer["note"]
    assert "usage" not in answer


async def test_a_pattern_scores_by_where_it_matches(tmp_path):
    planted = [
        tool("sync", "x"),
        tool("sync_all", "x"),
        tool("do_sync", "x"),
        tool("backup", "Keeps two folders in sync."),
        tool("upload", "x"),
    ]
    config = {"servers": {"db": {"tags": {"upload": ["sync"]}}}}
    async with world(tmp_path, {"db": planted}, config) as w, w.client() as client:
        answer = await client.search("SYNC", search_type="regex")
    assert {hit["name"]: hit["score"] for hit in answer["tools"]} == {
        "db__sync": 0.95,
        "db__sync_all": 0.90,
        "db__do_sync": 0.85,
        "db__backup": 0.75,
        "db__upload": 0.75,
    }
    assert {hit["match_type"] for hit in answer["tools"]} == {"regex"}
    assert answer["search_type"] == "regex"


async def test_a_pattern_is_tried_on_every_form_of_the_name(tmp_path):
    github = {"github__create_issue", "github__list_issues", "github__delete_repo"}
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for pattern in (r"github\.\w+", r"github__\w+", "^(create|list)_issues?$|delete_repo"):
            hits = (await client.search(pattern, search_type="regex"))["tools"]
            assert {hit["name"] for hit in hits} == github
            assert {hit["score"] for hit in hits} == {0.95}


# -- without FTS5 --------------------------------------------------------------------------------


@pytest.mark.parametrize("fallback", [True, False])
async def test_without_full_text_search_an_answer_is_the_same_as_with_it(tmp_path, fallback):
    """Nothing falls back, so the key for it has no effect (R33, R34, R70)."""
    answers = []
    for fts in ("auto", "off"):
        config = {"tool_search": {"fts": fts, "fts_fallback_to_regex": fallback}}
        (folder := tmp_path / fts).mkdir()
        async with world(folder, BOTH, config) as w, w.client() as client:
            answers.append([await client.search(query) for query in ("create an isue", "read", "zebra")])
            assert await client.found("read_file", search_type="exact") == ["files__read_file"]
    assert answers[0] == answers[1]
    assert answers[1][0]["tools"][0]["name"] == "github__create_issue"
    assert {answer["search_type"] for answer in answers[1]} == {"fts"}


# -- which tools ---------------------------------------------------------------------------------


async def test_always_listed_tools_are_found_only_where_they_are_asked_for(tmp_path):
    config = {"tool_search": {"always_loaded_patterns": ["files.*"]}}
    async with world(tmp_path, BOTH, config) as w, w.client() as client:
        plain = await client.search("read a file")
        assert "files__read_file" not in [hit["name"] for hit in plain["tools"]]
        assert plain["total_deferred"] == 3
        wide = await client.search("read a file", include_always_loaded=True)
        assert (wide["tools"][0]["name"], wide["tools"][0]["loading_mode"]) == ("files__read_file", "always")
        assert wide["total_deferred"] == 3


async def test_where_all_is_listed_the_note_says_so(tmp_path):
    config = {"tool_search": {"default_loading_mode": "always"}}
    async with world(tmp_path, BOTH, config) as w, w.client() as client:
        answer = await client.search("read a file")
        assert answer["tools"] == []
        assert "include_always_loaded" in answer["note"]


async def test_a_search_can_be_limited_to_one_server(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        assert await client.found("list", server="files") == ["files__list_files"]
        assert set(await client.found(".", search_type="regex", server="github")) == {
            "github__create_issue",
            "github__delete_repo",
            "github__list_issues",
        }
        answer = await client.search("list", server="nobody")
        assert (answer["tools"], answer["note"]) == ([], "There is no tool of such a server.")


async def test_the_built_in_tools_are_never_found(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        for name in (*BUILTINS, "toolcrib"):
            for kind in ("fts", "regex", "exact"):
                found = await client.found(name, search_type=kind, include_always_loaded=True)
                assert not set(BUILTINS) & set(found)


async def test_without_any_server_the_answer_is_empty_and_says_so(tmp_path):
    async with world(tmp_path) as w, w.client() as client:
        answer = await client.search("create issue")
        assert (answer["tools"], answer["confidence"], answer["total_deferred"]) == ([], "none", 0)
        assert answer["note"] == "No tools are known."


async def test_ties_go_to_the_preferred_server_then_to_the_milder_tool_then_to_the_shorter_name(tmp_path):
    def twin(name: str, **hints: bool):
        return tool(name, "Grow a baobab.", annotations=hints)

    servers = {
        "a": [twin("write", destructiveHint=True), twin("read", readOnlyHint=True), twin("unknown")],
        "b": [twin("out", openWorldHint=True), twin("unkn")],
    }
    async with world(tmp_path, servers) as w, w.client() as client:
        plain = await client.found("baobab")
        effects = [hit.get("side_effects") for hit in (await client.search("baobab"))["tools"]]
    assert plain == ["a__read", "a__write", "b__out", "b__unkn", "a__unknown"]
    assert effects == ["read", "write", "external", None, None]
    (tmp_path / "preferring").mkdir()
    config = {"tool_search": {"preferred_namespaces": ["b"]}, "servers": {"b": {"side_effects": {"unkn": "pure"}}}}
    async with world(tmp_path / "preferring", servers, config) as w, w.client() as client:
        assert await client.found("baobab") == ["b__unkn", "b__out", "a__read", "a__write", "a__unknown"]


# -- what a hit tells ----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_schema_detail_gives_the_whole_schema_and_examples_instead_of_a_signature(tmp_path, era):
    example = {"args": {"owner": "o", "repo": "r"}, "description": "The least", "tags": ["minimal"]}
    config = {"servers": {"github": {"tool_examples": {"create_issue": [example]}}}}
    async with world(tmp_path, BOTH, config, listing="auto") as w, w.client(era) as client:
        result = await client.call("tool_search", {"query": "create_issue", "detail": "schema", "limit": 1})
    [hit] = result["structuredContent"]["tools"]
    assert hit["input_schema"] == GITHUB[0]["inputSchema"]
    assert hit["examples"] == [{"args": {"owner": "o", "repo": "r"}, "description": "The least"}]
    assert "signature" not in hit
    text = result["content"][0]["text"]
    assert json.dumps(GITHUB[0]["inputSchema"], separators=(",", ":")) in text
    assert '- args: {"owner":"o","repo":"r"}\n  # The least' in text


# The example of the first hit


def notes(name: str, *args: JsonObject) -> JsonObject:
    """Make a tool about notes with an example of these arguments each."""
    examples = [{"args": each, "description": "Do it"} for each in args]
    return tool(name, "Keeps notes.", params={"text": "string"}, _meta={"examples": examples})


@pytest.mark.parametrize("era", ERAS)
async def test_the_first_hit_carries_its_shortest_example(tmp_path, era):
    tools = [notes("keep_note", {"text": "a longer one"}, {"text": "a"}), notes("keep_notes_too", {"text": "b"})]
    async with world(tmp_path, {"db": tools}, listing="auto") as w, w.client(era) as client:
        first, second = (await client.search("keep note"))["tools"]
        assert first["examples"] == [{"args": {"text": "a"}}]
        assert "examples" not in second
        text = (await client.call("tool_search", {"query": "keep note"}))["content"][0]["text"]
        assert text.count("- args:") == 1
        assert '- args: {"text":"a"}' in text
        whole = (await client.search("keep note", detail="schema"))["tools"]
        assert [len(hit["examples"]) for hit in whole] == [2, 1]


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"text": "x" * 200}, {"text": "x" * 200}),
        ({"text": "x" * 400, "folder": "notes"}, {"text": f"{'x' * 79}…", "folder": "notes"}),
        ({"text": "a", "lines": ["x" * 90] * 9}, {"text": "a", "lines": [f"{'x' * 79}…"]}),
    ],
)
async def test_a_long_example_is_shown_in_brief_with_shorter_values(tmp_path, args, shown):
    async with world(tmp_path, {"db": [notes("keep_note", args)]}) as w, w.client() as client:
        [hit] = (await client.search("keep note"))["tools"]
        assert hit["examples"] == [{"args": shown}]
        [whole] = (await client.search("keep note", detail="schema"))["tools"]
        assert whole["examples"] == [{"args": args, "description": "Do it"}]


async def test_an_example_that_is_long_however_short_its_values_is_not_shown_in_brief(tmp_path):
    args = {"text": "a", **{f"number_{count}": count for count in range(40)}}
    async with world(tmp_path, {"db": [notes("keep_note", args)]}) as w, w.client() as client:
        [hit] = (await client.search("keep note"))["tools"]
        assert "examples" not in hit


async def test_an_example_has_less_room_among_many_hits(tmp_path):
    long = {"text": "x" * 180}
    tools = [notes(f"keep_note_{number}_for_somebody_who_asks_for_it", long) for number in range(8)]
    tools = [each | {"description": f"Keeps a note. {'It is long. ' * 9}".replace(". ", ", ")} for each in tools]
    async with world(tmp_path, {"db": tools}) as w, w.client() as client:
        hits = (await client.search("keep note", limit=8))["tools"]
        [alone] = (await client.search("keep note", limit=1))["tools"]
    assert alone["examples"] == [{"args": long}]
    assert hits[0]["examples"] == [{"args": {"text": f"{'x' * 79}…"}}]


async def test_an_example_that_does_not_fit_reaches_nobody(tmp_path):
    async with world(tmp_path, {"db": [notes("keep_note", {"text": 3}, {"text": "a"})]}) as w, w.client() as client:
        [hit] = (await client.search("keep note", detail="schema"))["tools"]
        assert [each["args"] for each in hit["examples"]] == [{"text": "a"}]


async def test_a_hits_description_is_its_first_sentence_without_hidden_characters(tmp_path):
    described = tool("grow", "Grow a\u202e bao\u200bbab.\x07 Then water it.\n\nMore " + "words " * 500)
    long = tool("shrink", "Shrink " + "very " * 100 + "much")
    async with world(tmp_path, {"db": [described, long]}) as w, w.client() as client:
        [short] = (await client.search("grow", search_type="exact"))["tools"]
        [whole] = (await client.search("grow", search_type="exact", detail="schema"))["tools"]
        [cut] = (await client.search("shrink", search_type="exact"))["tools"]
    assert short["description"] == "Grow a baobab."
    assert whole["description"].startswith("Grow a baobab. Then water it. More words")
    assert len(whole["description"]) <= 600
    assert len(cut["description"]) <= 120


async def test_text_and_structured_content_say_the_same(tmp_path):
    config = {"tool_search": {"always_loaded_patterns": ["files.read_file"]}}
    async with world(tmp_path, BOTH, config) as w, w.client() as client:
        await client.call("github__list_issues")
        result = await client.call("tool_search", {"query": "list open issues or files", "include_always_loaded": True})
        nothing = await client.call("tool_search", {"query": "teleport"})
    text, answer = result["content"][0]["text"], result["structuredContent"]
    lines = text.splitlines()
    assert lines[0] == f"{len(answer['tools'])} tools, {explained(answer['confidence'])}."
    for hit, line in zip(answer["tools"], lines[1:], strict=False):
        assert hit["signature"] in line
        assert hit["description"] in line
        assert ("always listed" in line) is (hit["loading_mode"] == "always")
        assert f"{hit['score']:.2f}" not in line
        assert hit.get("side_effects", "") in line
        assert ("activated" in line) is hit.get("activated", False)
    assert answer["query"] not in text
    assert answer["usage"] in text
    assert nothing["structuredContent"]["note"] in nothing["content"][0]["text"]


@pytest.mark.parametrize(("listing", "grows"), [("dynamic", True), ("stable", False)])
async def test_the_usage_says_how_to_call_now_and_what_happens_then(tmp_path, listing, grows):
    async with world(tmp_path, BOTH, listing=listing) as w, w.client() as client:
        usage = (await client.search("create issue"))["usage"]
    assert "tool_call" in usage
    assert ("listed" in usage) is grows


async def test_the_usage_promises_no_list_to_a_host_that_looks_at_its_own_only_once(tmp_path):
    async with world(tmp_path, BOTH, {"results": {"structured": "always"}}, listing="dynamic") as w:
        promised = {}
        for host in ("codex-mcp-client", "claude-code", "opencode", "somebody"):
            async with w.client(name=host) as client:
                promised[host] = "listed" in (await client.search("create issue"))["usage"]
    assert promised == {"codex-mcp-client": False, "claude-code": True, "opencode": True, "somebody": True}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("call_tools", "pattern", "doors"),
    [
        ("split", "list_issues", "toolcrib's tool_call_read"),
        ("split", "delete", "toolcrib's tool_call"),
        ("split", "issue", "toolcrib's tool_call_read if marked read, else tool_call"),
        ("single", "issue", "toolcrib's tool_call"),
    ],
)
async def test_the_usage_names_the_tool_that_calls_what_was_found(tmp_path, call_tools, pattern, doors):
    async with world(tmp_path, BOTH, {"gate": {"call_tools": call_tools}}, listing="stable") as w, w.client() as client:
        result = await client.call("tool_search", {"query": pattern, "search_type": "regex"})
    [block] = result["content"]
    assert result["structuredContent"]["usage"] == f"Call one now by name with {doors}."
    assert block["text"].endswith(f"Call one now by name with {doors}.")
    assert ("[read]" in block["text"]) == (pattern != "delete")


@pytest.mark.parametrize(
    ("query", "confidence", "which"),
    [
        ("create an issue", "high", "Call one now by name with"),
        ("repository folder", "low", "Call the one that fits by name with"),
        ("an issue of a magazine about gardens and ponds in winter", "none", "Search in other words, or call one"),
    ],
)
async def test_the_usage_asks_for_no_more_than_the_confidence_promises(tmp_path, query, confidence, which):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        answer = await client.search(query)
        text = (await client.call("tool_search", {"query": query}))["content"][0]["text"]
    assert answer["confidence"] == confidence
    assert answer["usage"].startswith(which)
    assert f"confidence {confidence}" in text
    assert ("Call one now" in text) is (confidence == "high")


async def test_nothing_is_to_be_called_where_all_that_was_found_is_of_a_failed_server(tmp_path):
    server = MemoryServer(GITHUB)
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        server.start_error = OSError("gone")
        await client.call("github__create_issue")
        answer = await client.search("issue")
    assert answer["tools"]
    assert "usage" not in answer


async def test_five_hits_take_at_most_about_five_hundred_tokens(tmp_path):
    async with world(tmp_path, {"db": generated(100)}) as w, w.client() as client:
        answer = await client.search("list calendar event", limit=5)
    assert len(answer["tools"]) == 5
    assert len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False)) < 4.2 * 500


async def test_a_hit_tells_of_a_failed_server_and_nothing_of_a_sleeping_one(tmp_path):
    server = MemoryServer(GITHUB)
    async with world(tmp_path, {"github": server, "files": FILES}) as w, w.client() as client:
        server.start_error = OSError("gone")
        await client.call("github__create_issue")
        answer = await client.search("list", limit=2)
    assert {hit["name"]: hit.get("status") for hit in answer["tools"]} == {
        "github__list_issues": "failed",
        "files__list_files": None,
    }


async def test_a_hit_tells_of_a_server_that_is_being_started(tmp_path):
    server = MemoryServer(GITHUB)
    async with world(tmp_path, {"github": server}):
        pass
    server.hangs_at = "start"
    async with world(tmp_path, {"github": server}, now=100_000, wait=False) as w, w.client() as client:
        await until(lambda: server.starts == 2)
        assert {hit.get("status") for hit in (await client.search("issue"))["tools"]} == {"starting"}


async def test_a_server_that_failed_is_named_where_it_may_have_been_meant(tmp_path):
    broken = MemoryServer([], start_error=OSError("no such program"))
    async with world(tmp_path, {"github": broken, "files": FILES}) as w, w.client() as client:
        assert "Server github has failed: no such program." in (await client.search("github issue"))["note"]
        assert (await client.search("read a file"))["note"].startswith("Failed to start: github;")


async def test_several_queries_on_lines_of_their_own_share_the_answer(tmp_path):
    async with world(tmp_path, BOTH) as w, w.client() as client:
        answer = await client.search("create issue\nread file\nteleport", limit=2)
    assert {hit["name"] for hit in answer["tools"]} == {"github__create_issue", "files__read_file"}
    assert answer["query"] == "create issue\nread file\nteleport"
    assert '"teleport"' in answer["note"]


# -- while servers are being indexed for the first time ------------------------------------------


async def test_a_search_waits_for_servers_that_were_never_listed(tmp_path):
    async with world(tmp_path, BOTH, wait=False) as w, w.client() as client:
        assert (await client.search("create issue"))["total_deferred"] == 5


async def test_a_search_does_not_wait_longer_than_configured_nor_for_failed_servers(tmp_path):
    hanging, failing = MemoryServer(GITHUB, hangs_at="tools/list"), MemoryServer([], start_error=OSError("no"))
    config = {"limits": {"first_index_wait_s": DEADLINE_S}}
    servers = {"github": hanging, "broken": failing, "files": FILES}
    async with world(tmp_path, servers, config, wait=False) as w, w.client() as client, passing(DEADLINE_S):
        assert (await client.search("list"))["total_deferred"] == 2


@pytest.mark.usefixtures("just_started")
async def test_where_nothing_is_indexed_in_time_the_answer_is_empty_and_says_so(tmp_path):
    hanging = MemoryServer(GITHUB, hangs_at="tools/list")
    config = {"limits": {"first_index_wait_s": 0}}
    async with world(tmp_path, {"github": hanging}, config, wait=False) as w, w.client() as client:
        answer = await client.search("create issue")
        assert answer["tools"] == []
        assert answer["note"] == (
            "No tools are known. 0 of 1 servers are listed. Not listed yet, 1: github (starting, 0 s so far). "
            "Ask again in 1 s."
        )


async def test_a_search_of_one_server_waits_for_that_one_only(tmp_path):
    servers = {"github": MemoryServer(GITHUB, hangs_at="tools/list"), "files": FILES}
    async with world(tmp_path, servers, wait=False) as w, w.client() as client:
        assert await client.found("list", server="files") == ["files__list_files"]


async def test_after_a_restart_a_search_answers_although_no_server_runs(tmp_path):
    server = MemoryServer(GITHUB)
    async with world(tmp_path, {"github": server}):
        pass
    server.start_error = OSError("no such program")
    async with world(tmp_path, {"github": server}) as w, w.client() as client:
        assert "github__create_issue" in await client.found("create issue")
        assert server.starts == 1
        result = await client.call("github__create_issue")
        assert result["isError"]
        assert "github" in result["content"][0]["text"]
