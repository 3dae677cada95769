"""What holds for any query, and what a caller can never notice."""

from pathlib import Path

import pytest
from builders import GUEST, World, guests_without, listing, numbered, opened, record
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcrib.base.errors import BadRequest
from toolcrib.base.model import Ingest, LoadingMode, SearchType, SideEffects, Tool
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy
from toolcrib.search.documents import Found

NO_HIDDEN_ONES = guests_without("hidden*")

queries = st.text(st.characters(codec=None), min_size=1, max_size=80) | st.text(
    "ab*\"'():^-+{}[]\\ .|?", min_size=1, max_size=30
)
kinds = st.sampled_from(SearchType)
vocabulary = st.sampled_from("list get issue user file paint wall create delete repository search code".split())
phrases = st.lists(vocabulary, min_size=1, max_size=5)


@pytest.fixture(scope="module", params=["auto", "off"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    with opened(tmp_path_factory.mktemp("cache") / "tool_cache.db", fts=request.param) as world:
        world.listed(numbered("s", 60, "Lists a b c issues."), numbered("hidden", 5))
        yield world


@settings(deadline=None)
@given(query=queries, kind=kinds, whole=st.booleans())
@example(query='"', kind=SearchType.FTS, whole=True)
@example(query="NEAR(a b)", kind=SearchType.FTS, whole=True)
@example(query="name:x OR *", kind=SearchType.FTS, whole=True)
@example(query="-a ^b", kind=SearchType.FTS, whole=True)
@example(query="a" * 1_000_000, kind=SearchType.FTS, whole=True)
@example(query="a " * 500_000, kind=SearchType.EXACT, whole=True)
@example(query="𐵀 𞤀 İ ǅ", kind=SearchType.FTS, whole=True)
def test_any_query_has_an_answer(world: World, query: str, kind: SearchType, *, whole: bool):
    catalog = world.catalog()
    policy = Policy() if whole else NO_HIDDEN_ONES
    try:
        result = world.searcher.search(
            SearchRequest(query, kind, limit=20), catalog, catalog.permitted(policy.permissions(GUEST))
        )
    except BadRequest:
        assert kind is SearchType.REGEX
        return
    scores = [match.score for match in result.matches]
    assert all(0 <= score <= 1 for score in scores)
    ranked = [match.score for match in result.matches if match.match_type is not SearchType.EXACT]
    assert ranked == sorted(ranked, reverse=True)
    assert len({match.document.public_name for match in result.matches}) == len(scores) <= 20
    assert scores or result.confidence == "none"
    assert whole or all(match.document.server != "hidden" for match in result.matches)


@st.composite
def listings(draw: st.DrawFn, *servers: str) -> list[Ingest]:
    return [
        listing(
            server,
            *(
                record(
                    server,
                    "_".join(name),
                    " ".join(draw(phrases)) + ". " + " ".join(draw(phrases)),
                    mode=draw(st.sampled_from(LoadingMode)),
                    side_effects=draw(st.sampled_from([*SideEffects, None])),
                    tags=draw(st.lists(vocabulary, max_size=2)),
                )
                for name in draw(st.lists(st.lists(vocabulary, min_size=1, max_size=3), max_size=6, unique_by="_".join))
            ),
        )
        for server in servers
    ]


def seen(result: Found[Tool]) -> tuple:
    hits = [(match.document.public_name, match.score, match.match_type) for match in result.matches]
    return hits, result.count, result.confidence, result.strength, result.note


requests = st.builds(
    SearchRequest,
    query=phrases.map(" ".join),
    search_type=kinds,
    limit=st.integers(1, 8),
    include_always=st.booleans(),
    server=st.sampled_from([None, "git", "hidden"]),
)


@settings(deadline=None)
@given(
    visible=listings("git", "svn"),
    hidden=listings("hidden", "hidden-too", "hidden_3"),
    asked=st.lists(requests, min_size=1, max_size=3),
    fts=st.sampled_from(["auto", "auto", "off"]),
)
def test_hidden_tools_change_no_byte_of_an_answer(visible, hidden, asked, fts, tmp_path_factory):
    answers = []
    for ingests in (visible, [*hidden, *visible]):
        with opened(Path(tmp_path_factory.getbasetemp()), fts=fts) as world:  # a directory: kept in memory
            catalog = world.listed(*ingests)
            some = catalog.permitted(NO_HIDDEN_ONES.permissions(GUEST))
            spellings = [*(request.query for request in asked), "list", "hidden.list", "git.list"]
            found = [catalog.find(spelling, some) for spelling in spellings]
            results = [seen(world.searcher.search(request, catalog, some)) for request in asked]
            names = [tool.public_name if tool else None for tool in found]
            answers.append((results, names, some.deferred_count, some.whole))
    assert answers[0] == answers[1]
