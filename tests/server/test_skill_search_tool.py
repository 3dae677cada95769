"""``skill_search`` as a client sees it: definitions, bounds, what it finds, how it says so (R131 to R133)."""

import json

import pytest
from shelving import found, put, refused, repo, skills, user

from fakes.menu import tool
from worlds import ERAS, OWN_TOOLS, world

pytestmark = pytest.mark.anyio

SERVERS = {"github": [tool("create_issue", "Create an issue.")]}


@pytest.fixture
def shelf(tmp_path):
    """A folder with four skills of the repository and one of the person's own."""
    put(repo(tmp_path), "pdf-forms", "Fills in forms of a PDF.", tags=["paper"], task_type="browser")
    put(repo(tmp_path), "pdf-merge", "Puts PDF files together.")
    put(repo(tmp_path), "git-bisect", "Finds the commit that broke a test.", task_type="code")
    put(repo(tmp_path), "csv-clean", "Cleans up a messy table.", body="Look out for quoted newlines.\n")
    put(user(tmp_path), "letters", "Writes letters.", triggers=["dear sir or madam"])
    return tmp_path


async def hits(client, query, **arguments):
    """Return the name, reason and score of each hit."""
    answer = await client.skill("search", query=query, **arguments)
    return [(hit["name"], hit["reason"], hit["score"]) for hit in answer["skills"]]


@pytest.mark.parametrize("query", ["writes letters", "dear madam"])
async def test_triggers_add_to_what_a_skill_is_found_and_shown_by(shelf, query):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        [hit] = (await client.skill("search", query=query, limit=1))["skills"]
        [listed] = [each for each in (await client.skill("list"))["skills"] if each["name"] == "letters"]
        given = (await client.skill("get", names=["letters"]))["formatted_context"]
        catalog = json.dumps(await client.ask("resources/read", {"uri": "toolcrib://skills"}))
    assert hit["trigger"] == listed["trigger"] == "Writes letters. dear sir or madam"
    assert "Writes letters.\n\nWhen: dear sir or madam\n" in given
    assert "Writes letters." in catalog


async def test_a_search_may_be_for_skills_of_one_source(shelf):
    async with world(shelf, {}, skills()) as w, w.client() as client:
        for source in ("repo", "user"):
            answer = await client.skill("search", query="letters table PDF commit", source=source)
            assert {hit["source"] for hit in answer["skills"]} == {source}


# -- definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_our_tools_are_listed_first_and_in_order(tmp_path, era):
    async with world(tmp_path, SERVERS, {"skills": {}}, listing="auto") as w, w.client(era) as client:
        assert (await client.names())[: len(OWN_TOOLS)] == OWN_TOOLS


async def test_the_skill_tools_say_that_they_only_read_and_are_never_deferred(tmp_path):
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        own = [entry for entry in await client.tools() if entry["name"].startswith("skill_")]
    for entry in own:
        assert entry["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
        assert entry["_meta"] == {"anthropic/alwaysLoad": True}
        assert all(each["description"] for each in entry["inputSchema"]["properties"].values())
    assert [entry["description"].count("- args:") for entry in own] == [2, 1, 1]


@pytest.mark.slow
async def test_what_a_model_reads_of_the_six_tools_is_small_however_many_servers_there_are(tmp_path):
    servers = {f"server-number-{number}": [tool("x")] for number in range(40)}
    async with world(tmp_path, servers, {"skills": {}}) as w, w.client() as client:
        own = (await client.tools())[: len(OWN_TOOLS)]
    read = [{key: entry[key] for key in ("name", "description", "inputSchema")} for entry in own]
    # Measured: such JSON has 4.17 characters a token of cl100k, and 1,000 tokens are allowed.
    assert sum(len(json.dumps(entry, separators=(",", ":"))) for entry in read) < 4170


async def test_the_input_schema_of_a_search_is_the_required_one(tmp_path):
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        [schema] = [entry["inputSchema"] for entry in await client.tools() if entry["name"] == "skill_search"]
    bare = {name: {**entry} for name, entry in schema["properties"].items()}
    for entry in bare.values():
        del entry["description"]
    assert schema["required"] == ["query"]
    assert bare == {
        "query": {"type": "string"},
        "search_type": {"type": "string", "enum": ["fts", "regex", "exact"], "default": "fts"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8},
        "task_type": {"type": "string", "enum": ["browser", "api", "code", "domain", "unknown"]},
        "source": {"type": "string"},
        "usable": {"type": "boolean", "default": False},
    }


async def test_the_examples_of_all_skill_tools_are_calls_that_fit(tmp_path):
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        for entry in await client.tools():
            for line in entry["description"].splitlines():
                if entry["name"].startswith("skill_") and line.startswith("- args: "):
                    result = await client.call(entry["name"], json.loads(line.removeprefix("- args: ")))
                    assert not result["isError"], line


async def test_the_limits_of_a_search_follow_the_config(shelf):
    config = skills(search={"default_limit": 2, "max_limit": 3})
    async with world(shelf, SERVERS, config) as w, w.client() as client:
        [schema] = [entry["inputSchema"] for entry in await client.tools() if entry["name"] == "skill_search"]
        assert schema["properties"]["limit"]["maximum"] == 3
        assert schema["properties"]["limit"]["default"] == 2
        assert len(await found(client, ".", search_type="regex")) == 2
        assert len(await found(client, ".", search_type="regex", limit=3)) == 3
        assert "limit" in await refused(client, "search", {"query": "x", "limit": 4})


# -- what is refused -----------------------------------------------------------------------------

MISFITS = [
    ({}, "query"),
    ({"query": " \n\t\u00a0"}, "query"),
    ({"query": 7}, "query"),
    ({"query": None}, "query"),
    ({"query": ["pdf"]}, "query"),
    ({"query": "x", "limit": 0}, "limit"),
    ({"query": "x", "limit": 21}, "limit"),
    ({"query": "x", "limit": "21"}, "limit"),
    ({"query": "x", "limit": True}, "limit"),
    ({"query": "x", "limit": 2.5}, "limit"),
    ({"query": "x", "limit": 10**30}, "limit"),
    ({"query": "x", "search_type": "FTS"}, "search_type"),
    ({"query": "x", "task_type": "chores"}, "task_type"),
    ({"query": "x", "task_type": ["code"]}, "task_type"),
    ({"query": "x", "tenant_id": "red"}, "tenant_id"),
    ({"query": "[", "search_type": "regex"}, "pattern"),
    ({"query": "x" * 257, "search_type": "regex"}, "257 characters"),
]


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_do_not_fit_are_refused_by_name(shelf, era):
    async with world(shelf, SERVERS, skills(), listing="auto") as w, w.client(era) as client:
        for arguments, field in MISFITS:
            assert field in await refused(client, "search", arguments), arguments


# -- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_words_find_skills_by_what_they_do(shelf, era):
    async with world(shelf, SERVERS, skills(), listing="auto") as w, w.client(era) as client:
        answer = await client.skill("search", query="fill in the form of a pdf")
        first, *others = answer["skills"]
    assert first["id"].startswith("sk_")
    assert {**first, "id": ""} == {
        "name": "pdf-forms",
        "trigger": "Fills in forms of a PDF.",
        "score": 1.0,
        "id": "",
        "title": "pdf-forms",
        "task_type": "browser",
        "scope": "project",
        "source": "repo",
        "reason": "text",
    }
    assert "task_type" not in others[0]
    assert {key: answer[key] for key in ("query", "search_type", "truncated", "confidence")} == {
        "query": "fill in the form of a pdf",
        "search_type": "fts",
        "truncated": False,
        "confidence": "high",
    }
    assert answer["count"] == 1 + len(others)


async def test_the_text_of_an_answer_has_what_its_structured_form_has(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        result = await client.call("skill_search", {"query": "pdf"})
        [block] = result["content"]
    for hit in result["structuredContent"]["skills"]:
        worth = f"[{hit['score']:.2f} {hit['reason']}]"
        assert f"- {hit['name']} ({hit['source']}) {worth} {hit['trigger']}" in block["text"]
    assert "skill_get" in block["text"]


async def test_the_body_a_tag_and_a_trigger_of_its_own_find_a_skill_too(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        assert await found(client, "quoted newlines") == ["csv-clean"]
        assert await found(client, "paper") == ["pdf-forms"]
        assert await found(client, "madam") == ["letters"]


@pytest.mark.sampled
@pytest.mark.parametrize("query", ["git-bisect", "$git-bisect", "Git Bisect", "GIT_BISECT"])
async def test_a_name_is_found_by_itself_however_it_is_spelled(shelf, query):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        for kind in ("fts", "exact"):
            assert (await hits(client, query, search_type=kind))[0] == ("git-bisect", "exact_name", 1.0)


async def test_a_place_or_an_id_is_found_as_such(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        [skill] = (await client.skill("search", query="git-bisect", search_type="exact"))["skills"]
        for query in ("repo/git-bisect", skill["id"], "skill://repo/git-bisect/SKILL.md"):
            assert (await hits(client, query))[0] == ("git-bisect", "exact_path", 1.0)


async def test_the_beginning_of_a_name_comes_after_a_name_and_before_words(shelf):
    put(repo(shelf), "pdf", "Says what a PDF is.")
    put(repo(shelf), "reader", "Reads a PDF aloud.")
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        answer = await hits(client, "pdf")
    assert answer[:3] == [("pdf", "exact_name", 1.0), ("pdf-forms", "prefix", 1.0), ("pdf-merge", "prefix", 1.0)]
    assert [(name, reason) for name, reason, _ in answer[3:]] == [("reader", "text")]


async def test_a_pattern_scores_by_where_it_matches(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        for pattern, score in (("git-bisect", 0.95), ("git", 0.9), ("bisect", 0.85), ("broke a", 0.75)):
            assert await hits(client, pattern, search_type="regex") == [("git-bisect", "text", score)]
        assert await hits(client, "paper", search_type="regex") == [("pdf-forms", "text", 0.75)]


async def test_an_exact_search_finds_nothing_that_is_only_near(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        answer = await client.skill("search", query="git", search_type="exact")
    assert answer["skills"] == []
    assert answer["confidence"] == "none"
    assert "search_type fts" in answer["note"]


async def test_bm25_is_another_word_for_fts(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        answer = await client.skill("search", query="pdf files", search_type="bm25")
        assert answer == await client.skill("search", query="pdf files", search_type="fts")
        assert answer["search_type"] == "fts"


async def test_a_kind_of_task_narrows_a_search(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        for kind, names in (("browser", ["pdf-forms"]), ("code", []), ("unknown", ["pdf-merge"])):
            assert await found(client, "pdf", task_type=kind) == names
        assert await found(client, "pdf-forms", search_type="exact", task_type="code") == []


async def test_a_limit_cuts_the_answer_and_not_the_count(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        whole = await client.skill("search", query="pdf commit table")
        cut = await client.skill("search", query="pdf commit table", limit=2)
    assert cut["skills"] == whole["skills"][:2]
    assert (cut["count"], cut["truncated"]) == (whole["count"], True)
    assert whole["truncated"] is False


async def test_scores_are_in_order_between_0_and_1_with_two_decimals(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        scores = [score for *_, score in await hits(client, "clean the forms of a table")]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 and round(score, 2) == score for score in scores)


async def test_a_search_without_a_good_hit_says_so(shelf):
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        nothing = await client.skill("search", query="zeppelin")
        little = await client.skill("search", query="zeppelin airship table ballast")
        long = await client.skill("search", query="pdf " * 501)
    assert (nothing["skills"], nothing["count"], nothing["confidence"]) == ([], 0, "none")
    assert "other words" in nothing["note"]
    assert little["confidence"] == "low"
    assert "2000 characters" in long["note"]
    assert len(long["query"]) == 2000


async def test_a_shelf_without_skills_is_searched_without_a_fault(tmp_path):
    async with world(tmp_path, SERVERS, skills()) as w, w.client() as client:
        answer = await client.skill("search", query="anything")
        assert (answer["skills"], answer["confidence"]) == ([], "none")
        assert answer["note"]


@pytest.mark.parametrize("fallback", [True, False])
async def test_without_full_text_search_an_answer_is_the_same_as_with_it(shelf, fallback):
    """Nothing falls back, so the key for it has no effect (R106)."""
    answers = []
    for fts in ("auto", "off"):
        config = {"tool_search": {"fts": fts}, **skills(fts_fallback_to_regex=fallback)}
        async with world(shelf, SERVERS, config) as w, w.client() as client:
            queries = ("who broke a test", "$pdf-forms", "pdf", "zeppelin")
            answers.append([await client.skill("search", query=query) for query in queries])
    assert answers[0] == answers[1]
    assert answers[1][0]["skills"][0]["name"] == "git-bisect"
    assert {answer["search_type"] for answer in answers[1]} == {"fts"}


async def test_skills_of_one_name_are_told_apart_by_spellings_that_load_them(shelf):
    put(user(shelf), "pdf-forms", "Another way to fill in forms.")
    async with world(shelf, SERVERS, skills()) as w, w.client() as client:
        names = await found(client, "pdf-forms", search_type="exact")
        assert names == ["repo/pdf-forms", "user/pdf-forms"]
        for name in names:
            assert len((await client.skill("get", names=[name]))["skills"]) == 1
