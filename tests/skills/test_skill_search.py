"""Search over skills: what is found, with which scores, in which order, and why."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from skill_builders import NOW, Skills, file, opened, record, text

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import SearchType, Skill, TaskType
from toolcrib.search.documents import Found
from toolcrib.skills.formats.agent_skill import read_agent_skill
from toolcrib.skills.search import SkillQuery
from toolcrib.skills.visible import VisibleSkills

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "skills-dev"

SKILLS = (
    text("pdf-forms", "Fill in PDF forms and read their fields.", tags=("documents",)),
    text("pdf-merge", "Join several PDF files into one."),
    text("code-review", "Review a pull request.", task_type=TaskType.CODE, body="Look for races and leaks."),
    text("release-notes", "Write notes for a release.", title="Changelog writer", body="Review what has changed."),
    text("api-paging", "Walk through the pages of an API.", task_type=TaskType.API),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


@pytest.fixture
def skills(path: Path):
    with opened(path) as each:
        each.have(*SKILLS)
        yield each


def names(found: Found[Skill]) -> list[str]:
    return [match.document.name for match in found.matches]


def reasons(found: Found[Skill]) -> list[str]:
    return [match.reason for match in found.matches]


class TestFullText:
    def test_the_best_match_comes_first_with_the_highest_score(self, skills: Skills):
        found = skills.search("fill in the fields of a pdf")
        assert names(found) == ["pdf-forms", "pdf-merge"]
        assert [match.score for match in found.matches] == [1.0, 0.0]
        assert (found.confidence, found.note) == ("high", None)
        assert set(reasons(found)) == {"text"}

    def test_every_field_is_searched_by_stems(self, skills: Skills):
        for query, name in {
            "merging": "pdf-merge",
            "changelogs": "release-notes",
            "requested pulling": "code-review",
            "document": "pdf-forms",
            "leaking": "code-review",
        }.items():
            assert names(skills.search(query))[0] == name, query

    def test_a_word_in_the_description_beats_one_in_the_body(self, skills: Skills):
        assert names(skills.search("reviewing it")) == ["code-review", "release-notes"]

    def test_only_the_first_20000_characters_of_a_body_count(self, skills: Skills):
        skills.have(text("long", body="x " * 9_990 + "early " + "x " * 20 + "late"))
        assert names(skills.search("early")) == ["long"]
        assert names(skills.search("late")) == []

    def test_one_hit_alone_and_equal_hits_score_one_half(self, skills: Skills):
        assert [match.score for match in skills.search("walking").matches] == [0.5]
        skills.have(*(text(f"t{letter}", "Paints walls.") for letter in "abc"))
        assert [match.score for match in skills.search("paint").matches] == [0.5, 0.5, 0.5]

    def test_ties_go_by_source_then_name(self, path: Path):
        with opened(path) as skills:
            skills.roots = {"r": "user", "other": "repo"}
            skills.have(text("b", "Paints."), text("a", "Paints."), text("c", "Paints."))
            skills.have(text("d", "Paints."), root="other")
            assert names(skills.search("paint")) == ["a", "b", "c", "d"]
            skills.roots = {"other": "repo", "r": "user"}
            assert names(skills.search("paint")) == ["d", "a", "b", "c"]

    def test_a_score_does_not_depend_on_the_limit(self, skills: Skills):
        whole = skills.search("review a pdf release", limit=20)
        assert whole.count == len(whole.matches) == 4
        assert not whole.truncated
        for limit in (1, 2, 3):
            found = skills.search("review a pdf release", limit=limit)
            assert found.matches == whole.matches[:limit]
            assert (found.count, found.truncated) == (4, True)

    def test_fifty_are_scored_against_each_other(self, path: Path):
        with opened(path) as skills:
            skills.have(*(text(f"s{number:03}", "Paints " + "wall " * (number + 1)) for number in range(60)))
            found = skills.search("paint", limit=60)
            assert found.count == len(found.matches) == 50
            assert found.matches[-1].score == 0.0

    def test_only_skills_on_the_shelf_count(self, skills: Skills):
        alone = VisibleSkills([skill for skill in skills.all() if skill.name != "pdf-merge"])
        before = skills.searcher.search(SkillQuery("pdf forms of an api"), alone)
        skills.have(*(text(f"pdf{number}", "PDF, PDF, forms and API!") for number in range(20)))
        assert skills.searcher.search(SkillQuery("pdf forms of an api"), alone) == before

    def test_stop_words_count_only_when_there_is_nothing_else(self, skills: Skills):
        skills.have(text("who", "Tells who you are."))
        assert names(skills.search("who are you"))[0] == "who"
        assert "who" not in names(skills.search("who can merge"))

    def test_nothing_found_is_said(self, skills: Skills):
        for query in ("zebra", "!?", "🙂"):
            found = skills.search(query)
            assert (found.matches, found.count, found.confidence) == ((), 0, "none")
            assert "No skill has any of these words" in (found.note or "")

    def test_a_weak_match_is_said_to_be_weak(self, skills: Skills):
        found = skills.search("zebra giraffe elephant leaks")
        assert (names(found), found.confidence) == (["code-review"], "low")
        assert "No skill has most of these words" in (found.note or "")

    def test_only_the_first_2000_characters_count(self, skills: Skills):
        found = skills.search("merge " + "x" * 2000 + " release")
        assert names(found)[0] == "pdf-merge"
        assert "release-notes" not in names(found)
        assert "2000" in (found.note or "")

    def test_an_empty_shelf_is_said_to_be_empty(self, path: Path):
        with opened(path) as skills:
            assert skills.search("paint").note == "No skills are known."


class TestNames:
    @pytest.mark.parametrize("query", ["pdf-forms", "$pdf-forms", "PDF Forms", " pdf_forms "])
    def test_a_name_comes_first(self, skills: Skills, query: str):
        found = skills.search(query)
        assert names(found) == ["pdf-forms", "pdf-merge"]
        assert (reasons(found), found.matches[0].score) == (["exact_name", "text"], 1.0)
        assert found.confidence == "high"

    @pytest.mark.parametrize("where", ["repo/pdf-forms", "$repo/pdf-forms", "id"])
    def test_a_place_comes_first(self, skills: Skills, where: str):
        found = skills.search(skills.one("pdf-forms").id if where == "id" else where)
        assert (names(found)[0], reasons(found)[0]) == ("pdf-forms", "exact_path")
        assert (found.matches[0].score, found.matches[0].match_type) == (1.0, SearchType.EXACT)

    def test_the_beginning_of_a_name_comes_before_words(self, skills: Skills):
        skills.have(text("pdfs", "Everything."), text("writer", "Writes pdf pdf pdf."))
        found = skills.search("pdf")
        assert names(found) == ["pdfs", "pdf-forms", "pdf-merge", "writer"]
        assert reasons(found) == ["prefix", "prefix", "prefix", "text"]
        assert [match.score for match in found.matches] == [1.0, 1.0, 1.0, 0.0]
        assert "prefix" not in reasons(skills.search("pd"))

    def test_exact_search_finds_names_and_places_only(self, skills: Skills):
        found = skills.search("code review", "exact")
        assert (names(found), reasons(found)) == (["code-review"], ["exact_name"])
        assert skills.search("code", "exact").note.startswith("No skill has this name")
        assert skills.search("code", "exact").confidence == "none"

    def test_a_name_of_several_skills_finds_all_of_them(self, skills: Skills):
        skills.roots = {"r": "repo", "other": "user"}
        skills.have(text("code-review", "Mine."), root="other")
        found = skills.search("code-review", "exact")
        assert [match.document.source for match in found.matches] == ["repo", "user"]

    def test_copies_are_found_once_and_by_the_source_that_is_asked_for(self, skills: Skills):
        skills.roots = {"r": "repo", "other": "user"}
        skills.have(SKILLS[0], root="other")
        for query, kind in {"pdf-forms": "exact", "read fields": "fts", "forms$": "regex"}.items():
            assert [match.document.source for match in skills.search(query, kind).matches] == ["repo"], kind
            assert [match.document.source for match in skills.search(query, kind, source="user").matches] == ["user"], (
                kind
            )
        assert [match.document.source for match in skills.search("user/pdf-forms", "exact").matches] == ["repo"]


class TestSeveralQueries:
    def test_each_line_is_a_query(self, skills: Skills):
        found = skills.search("join pdf files\nwalk through pages", limit=2)
        assert set(names(found)) == {"pdf-merge", "api-paging"}
        assert (found.confidence, found.note, found.truncated) == ("high", None, True)

    def test_a_name_among_them_comes_first_and_one_without_an_answer_is_named(self, skills: Skills):
        found = skills.search("code review\nzebra")
        assert (names(found)[0], reasons(found)[0]) == ("code-review", "exact_name")
        assert (found.confidence, '"zebra"' in (found.note or "")) == ("low", True)


class TestFilters:
    def test_a_kind_of_task_leaves_the_others_out_before_the_limit(self, skills: Skills):
        found = skills.search("review a pdf api", task_type=TaskType.API, limit=1)
        assert (names(found), found.count) == (["api-paging"], 1)
        assert names(skills.search("code-review", task_type=TaskType.API)) == []
        assert names(skills.search("co", "regex", task_type=TaskType.CODE)) == ["code-review"]

    def test_nothing_of_that_kind_is_said(self, skills: Skills):
        assert "no skill of this kind" in (skills.search("pdf", task_type=TaskType.BROWSER).note or "")
        assert skills.search("pdf", source="nowhere").matches == ()


class TestRegex:
    def test_where_a_pattern_matches_decides_the_score(self, path: Path):
        with opened(path) as skills:
            skills.have(
                text("paint"),
                text("painter"),
                text("repaint"),
                text("described", "It can paint.", trigger="x"),
                text("triggered", trigger="When to paint."),
                text("tagged", tags=("paint",)),
                text("unrelated", body="paint", title="paint"),
            )
            found = skills.search("paint", "regex", limit=20)
            assert {match.document.name: match.score for match in found.matches} == {
                "paint": 0.95,
                "painter": 0.90,
                "repaint": 0.85,
                "described": 0.75,
                "triggered": 0.75,
                "tagged": 0.75,
            }
            assert {(match.match_type, match.reason) for match in found.matches} == {(SearchType.REGEX, "text")}
            assert found.confidence == "high"

    def test_the_qualified_name_counts_too(self, skills: Skills):
        assert skills.search("REPO/pdf-.*", "regex").matches[0].score == 0.95
        assert skills.search("^Walk", "regex").confidence == "low"

    def test_texts_are_not_looked_at_beyond_1000_characters(self, skills: Skills):
        skills.have(text("x", "y" * 1000 + "needle"))
        found = skills.search("needle", "regex")
        assert (found.matches, found.confidence) == ((), "none")
        assert "No name, description or tag" in (found.note or "")

    @pytest.mark.parametrize(("pattern", "reason"), [("(?=x)", "RE2"), ("x" * 257, "257 characters")])
    def test_a_pattern_that_cannot_be_used_is_a_bad_request(self, skills: Skills, pattern: str, reason: str):
        with pytest.raises(BadRequest, match=reason):
            skills.search(pattern, "regex")

    def test_a_slow_pattern_is_a_bad_request(self, path: Path):
        ticks = itertools.count()
        with opened(path, regex_ms=50, clock=lambda: 0.0 if next(ticks) < 4 else 1.0) as skills:
            skills.have(*SKILLS)
            with pytest.raises(BadRequest, match="longer than 50 ms"):
                skills.search("zebra", "regex")


def test_without_full_text_an_answer_is_the_same_as_with_it(tmp_path: Path):
    queries = ("please merge it (now)", "code review", "pdf", "fil frms\nrelease", "*")
    answers = []
    for fts in ("auto", "off"):
        with opened(tmp_path / f"{fts}.db", fts=fts) as each:
            each.have(*SKILLS)
            answers.append([each.search(query) for query in queries])
    assert answers[0] == answers[1]
    assert names(answers[1][0])[0] == "pdf-merge"


def test_a_row_that_went_meanwhile_does_no_harm(skills: Skills):
    visible = VisibleSkills(skills.all())
    skills.index.clear()
    for kind in SearchType:
        skills.searcher.search(SkillQuery("pdf-forms of a release", kind), visible)


def test_several_threads_may_search_at_once(skills: Skills):
    shelves = [VisibleSkills(skills.all(), generation) for generation in range(6)]
    queries = [SkillQuery(query, kind) for query in ("pdf forms", "review leaks") for kind in SearchType]
    expected = [skills.searcher.search(query, shelves[0]) for query in queries]
    with ThreadPoolExecutor(8) as threads:
        jobs = [
            (place, threads.submit(skills.searcher.search, query, visible))
            for _ in range(4)
            for visible in shelves
            for place, query in enumerate(queries)
        ]
        assert all(job.result(timeout=30) == expected[place] for place, job in jobs)


@pytest.fixture(scope="module", params=["auto", "off"])
def shared_skills(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    with opened(tmp_path_factory.mktemp("cache") / "skills.db", fts=request.param) as each:
        each.have(*SKILLS, *(text(f"list-{number}", "Lists a b c issues.") for number in range(60)))
        yield each


queries = st.text(st.characters(codec=None), min_size=1, max_size=60) | st.text(
    "abl-/$_*\"'():^+{}[]\\ .|?", min_size=1, max_size=20
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(query=queries, kind=st.sampled_from(SearchType), limit=st.integers(1, 20))
@example(query="NEAR(a b)", kind=SearchType.FTS, limit=8)
@example(query="a" * 1_000_000, kind=SearchType.FTS, limit=8)
@example(query="𐵀 𞤀 İ ǅ", kind=SearchType.FTS, limit=8)
def test_any_query_has_an_answer(shared_skills: Skills, query: str, kind: SearchType, limit: int):
    try:
        found = shared_skills.search(query, kind, limit=limit)
    except BadRequest:
        assert kind is SearchType.REGEX
        return
    scores = [match.score for match in found.matches]
    assert all(0 <= score <= 1 and score == round(score, 2) for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len({match.document.row for match in found.matches}) == len(scores) <= limit
    assert found.count >= len(scores)
    assert found.truncated == (found.count > len(scores))
    assert (found.confidence == "none") == (not scores)


@pytest.mark.slow
def test_natural_requests_find_the_right_one_among_real_skills(path: Path):
    if not CORPUS.is_dir():
        pytest.skip("the folder shared/skills-dev is not here")
    changed = []
    for each in sorted((CORPUS / "corpus").rglob("SKILL.md")):
        said, _ = read_agent_skill(each.read_bytes(), folder_name=each.parent.name, path=each.name)
        if said is not None:
            changed.append(file(record(said, each.parent.relative_to(CORPUS).as_posix())))
    lines = [json.loads(line) for line in (CORPUS / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    with opened(path) as skills:
        skills.index.apply("r", changed, (), now=NOW)
        visible = VisibleSkills(skills.all())
        found = [
            any(
                match.document.name in line["gold"]
                for match in skills.searcher.search(SkillQuery(line["query"]), visible).matches
            )
            for line in lines
            if line["gold"]
        ]
    assert sum(found) / len(found) >= 0.8
