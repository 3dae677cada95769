"""Search: what is found, with which scores, in which order, and what is said when little is found."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builders import (
    GUEST,
    ISSUES,
    World,
    guests_without,
    listing,
    names,
    numbered,
    opened,
    permitted,
    record,
    replace,
    scores,
)

from toolcrib.base.model import LoadingMode, SearchType, SideEffects
from toolcrib.catalog.snapshot import Catalog
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy


class TestFullText:
    def test_the_best_match_comes_first_with_the_highest_score(self, world, ask):
        world.listed(ISSUES)
        result = ask(world, "please open a new issue")
        assert names(result)[0] == "github__create_issue"
        assert scores(result)[0] == 1.0 > scores(result)[1]
        assert scores(result)[-1] == 0.0
        assert {match.match_type for match in result.matches} == {SearchType.FTS}
        assert (result.confidence, result.note) == ("high", None)

    def test_words_match_by_their_stem_and_inside_identifiers(self, world, ask):
        world.listed(ISSUES)
        assert names(ask(world, "merging pullRequests"))[0] == "github__merge_pull_request"

    def test_one_hit_alone_scores_one_half(self, world, ask):
        world.listed(ISSUES)
        assert scores(ask(world, "merges")) == [0.5]

    def test_equal_hits_all_score_one_half(self, world, ask):
        world.listed(listing("s", *(record("s", f"t{letter}", "Paints walls.") for letter in "abc")))
        assert scores(ask(world, "paint")) == [0.5, 0.5, 0.5]

    def test_a_score_does_not_depend_on_the_limit(self, world, ask):
        world.listed(ISSUES)
        full = ask(world, "repository issue", limit=20)
        assert len(full.matches) > 2
        for limit in range(1, len(full.matches)):
            assert ask(world, "repository issue", limit=limit).matches == full.matches[:limit]

    def test_only_the_fifty_best_are_scored_against_each_other(self, world, ask):
        tools = [record("s", f"t{number:03}", "Paints " + "wall " * (number + 1)) for number in range(60)]
        world.listed(listing("s", *tools))
        result = ask(world, "paint", limit=60)
        assert len(result.matches) == 50
        assert scores(result)[-1] == 0.0

    def test_scores_have_two_decimals(self, world, ask):
        world.listed(numbered("s", 40, "Paints a wall."), ISSUES)
        for query in ("number 7 wall", "list issues of a repository", "paint issue 3"):
            for score in scores(ask(world, query, limit=50)):
                assert score == round(score, 2)
                assert 0 <= score <= 1

    def test_a_query_that_is_a_name_puts_that_tool_first(self, world, ask):
        world.listed(ISSUES, listing("other", record("other", "x", "Lists issues, lists issues: list issues!")))
        for query in ("list_issues", "listIssues", "List Issues", "github.list_issues", "GITHUB LIST ISSUES"):
            first, *rest = ask(world, query).matches
            assert (first.document.public_name, first.score, first.match_type) == (
                "github__list_issues",
                1.0,
                "exact",
            )
            assert rest
            assert all(match.match_type == "fts" for match in rest)
        without = [match.score for match in ask(world, "list issues", limit=20).matches[1:]]
        assert (max(without), min(without)) == (1.0, 0.0)

    def test_stop_words_count_only_when_there_is_nothing_else(self, world, ask):
        world.listed(listing("s", record("s", "who", "Tells who you are."), record("s", "paint", "Paints a wall.")))
        assert names(ask(world, "who are you")) == ["s__who"]
        assert names(ask(world, "can you paint")) == ["s__paint"]

    def test_stop_words_count_when_the_other_words_find_nothing(self, world, ask):
        world.listed(listing("s", record("s", "paint", "Will paint it for you.")))
        result = ask(world, "zebra for you")
        assert names(result) == ["s__paint"]
        assert result.confidence == "low"

    def test_nothing_found_is_said(self, world, ask):
        world.listed(ISSUES)
        for query in ("zebra", "!?", "🙂", "\0"):
            result = ask(world, query)
            assert (result.matches, result.confidence) == ((), "none")
            assert "No tool has any of these words" in result.note

    def test_a_weak_match_is_said_to_be_weak(self, world, ask):
        world.listed(ISSUES)
        result = ask(world, "zebra giraffe elephant repository")
        assert result.matches
        assert result.confidence == "none"
        assert "most of these words" in result.note

    def test_only_the_first_2000_characters_count(self, world, ask):
        world.listed(ISSUES)
        result = ask(world, "merge " + "x" * 2000 + " issue")
        assert names(result) == ["github__merge_pull_request"]
        assert "2000" in result.note

    def test_two_hundred_words_are_no_problem(self, world, ask):
        world.listed(ISSUES)
        many = " ".join(chr(0x4E00 + number) for number in range(250))
        assert ask(world, many).matches == ()
        assert names(ask(world, "merge " + many)) == ["github__merge_pull_request"]

    def test_an_answer_is_the_same_fifty_times_and_after_a_restart(self, path, ask):
        def answer(world: World) -> list[tuple]:
            return [
                (match.document.public_name, match.score, match.match_type)
                for match in ask(world, "list repository issue 3").matches
            ]

        with opened(path) as world:
            world.listed(ISSUES, numbered("s", 100, "Lists things."))
            first = answer(world)
            assert all(answer(world) == first for _ in range(50))
        with opened(path) as world:
            assert answer(world) == first


class TestFilters:
    def test_a_tool_that_is_denied_takes_no_place(self, world):
        world.listed(ISSUES)
        catalog = world.catalog()
        for kind, query in (("fts", "open a new issue"), ("regex", "issue"), ("exact", "create_issue")):
            request = SearchRequest(query, SearchType(kind), limit=1)
            some = catalog.permitted(guests_without("create_issue").permissions(GUEST))
            found = names(world.searcher.search(request, catalog, some))
            assert found == ([] if kind == "exact" else ["github__list_issues"])

    def test_always_loaded_tools_are_found_only_on_request(self, world, ask):
        always = [record("s", f"a{number}", "Paints walls.", mode=LoadingMode.ALWAYS) for number in range(60)]
        world.listed(listing("s", *always, record("s", "deferred", "Paints walls and does very many other things.")))
        for kind in ("fts", "regex"):
            assert names(ask(world, "paint", kind, limit=1)) == ["s__deferred"]
            assert len(ask(world, "paint", kind, limit=50, include_always=True).matches) == 50
        assert ask(world, "a1", "exact").matches == ()
        assert ask(world, "a1", "exact", include_always=True).matches

    def test_one_server_can_be_asked_for(self, world, ask):
        world.listed(
            numbered("big", 60, "Paints walls."),
            listing("small", record("small", "x", "Paints, among other things.")),
        )
        for kind in ("fts", "regex"):
            assert names(ask(world, "paint", kind, server="small")) == ["small__x"]

    def test_why_there_is_nothing_to_find_is_said(self, world, ask):
        assert ask(world, "x").note == "No tools are known."
        world.listed(listing("s", record("s", "x", "Paints.", mode=LoadingMode.ALWAYS)))
        assert "always loaded" in ask(world, "paint").note
        assert "always loaded" in ask(world, "paint", server="s").note
        assert "no tool of such a server" in ask(world, "paint", server="t").note

    def test_a_hidden_server_is_no_server(self, world):
        world.listed(numbered("s", 2), numbered("hidden", 2))
        catalog = world.catalog()
        some = catalog.permitted(guests_without("hidden.*").permissions(GUEST))
        results = [
            world.searcher.search(SearchRequest("x", server=server), catalog, some) for server in ("hidden", "nonesuch")
        ]
        assert results[0] == results[1]

    def test_rows_that_are_in_no_catalog_take_no_place(self, world):
        catalog = world.listed(listing("s", record("s", "x", "Paints, among other things.")))
        replace(world.index, numbered("later", 60, "Paints walls."))
        result = world.searcher.search(SearchRequest("paint"), catalog, permitted(catalog))
        assert names(result) == ["s__x"]

    def test_rows_that_are_gone_do_no_harm(self, world, ask):
        catalog = world.listed(ISSUES)
        world.index.clear()
        for policy, kind in itertools.product((Policy(), guests_without("none")), SearchType):
            request = SearchRequest("zebra", kind)
            assert world.searcher.search(request, catalog, catalog.permitted(policy.permissions(GUEST))).matches == ()


class TestExact:
    def test_the_spelling_as_written_wins(self, world, ask):
        world.listed(listing("s", record("s", "getUser"), record("s", "get_user")))
        assert names(ask(world, "get_user", "exact")) == ["s__get_user"]
        assert names(ask(world, "getUser", "exact")) == ["s__getUser"]
        assert names(ask(world, "GET USER", "exact")) == ["s__getUser", "s__get_user"]
        assert scores(ask(world, "s.get_user", "exact")) == [1.0]

    def test_no_such_name_is_said(self, world, ask):
        world.listed(ISSUES)
        result = ask(world, "issue", "exact")
        assert (result.matches, result.confidence) == ((), "none")
        assert "search_type fts" in result.note

    def test_a_name_is_certain(self, world, ask):
        world.listed(ISSUES)
        result = ask(world, "github/list_issues", "exact")
        assert (result.confidence, result.note) == ("high", None)


class TestOrder:
    """R54, one key after the other; all tools here match equally well."""

    def test_preferred_servers_come_first(self, path):
        with opened(path, preferred_namespaces=["c", "b", "c"]) as world:
            world.listed(*(listing(server, record(server, "paint_it", "Paints.")) for server in "abcd"))
            for kind in ("fts", "regex"):
                assert [name[0] for name in world.names("paint", kind)] == ["c", "b", "a", "d"]

    def test_then_milder_side_effects(self, world, ask):
        effects = [*SideEffects, None]
        tools = [
            record("s", f"paint_{letter}", "Paints.", side_effects=effect)
            for letter, effect in zip("gfedcb", effects, strict=True)
        ]
        world.listed(listing("s", *tools))
        for kind in ("fts", "regex"):
            assert [match.document.side_effects for match in ask(world, "paint", kind).matches] == effects

    def test_then_shorter_names(self, world, ask):
        world.listed(listing("s", *(record("s", f"paint_{letters}", "Paints.") for letters in ("aaa", "bb", "c"))))
        for kind in ("fts", "regex"):
            assert names(ask(world, "paint", kind)) == ["s__paint_c", "s__paint_bb", "s__paint_aaa"]

    def test_then_the_alphabet(self, world, ask):
        world.listed(listing("s", *(record("s", f"paint_{letter}", "Paints.") for letter in "cab")))
        for kind in ("fts", "regex"):
            assert names(ask(world, "paint", kind)) == ["s__paint_a", "s__paint_b", "s__paint_c"]

    def test_the_order_follows_the_rounded_score(self, world, ask):
        fillers = [record("s", f"zebra{number}", "wall " * number) for number in range(1, 30)]
        close = [
            record("s", "a_pure_but_longer_name", "Paint " + "word " * 300, side_effects=SideEffects.PURE),
            record("s", "b_write_but_longer_name", "Paint " + "word " * 299, side_effects=SideEffects.WRITE),
            record("s", "paint", "Paint. Paint."),
        ]
        world.listed(listing("s", *fillers, *close))
        first, second, third = ask(world, "paint now").matches
        assert (first.document.name, second.score) == ("paint", third.score)
        assert second.document.side_effects is SideEffects.PURE


class TestOwnRows:
    def test_what_is_quick_is_known(self, world):
        catalog = world.listed(ISSUES)
        everything = catalog.permitted(Policy().permissions(GUEST))
        assert world.searcher.is_quick(SearchRequest("x", SearchType.EXACT), catalog, everything)
        assert not world.searcher.is_quick(SearchRequest("x", SearchType.REGEX), catalog, everything)
        assert not world.searcher.is_quick(SearchRequest("x"), catalog, everything)
        world.searcher.search(SearchRequest("x"), catalog, everything)
        assert world.searcher.is_quick(SearchRequest("x"), catalog, everything)
        assert not world.searcher.is_quick(SearchRequest("x\ny"), catalog, everything)
        some = Catalog(catalog.tools).permitted(guests_without("list_issues").permissions(GUEST))
        assert not world.searcher.is_quick(SearchRequest("x"), catalog, some)

    def test_several_threads_get_the_same_answer_while_the_ranking_is_made(self, world):
        catalog = world.listed(ISSUES, numbered("s", 300, "Lists things of a repository."))
        everything = catalog.permitted(Policy().permissions(GUEST))
        request = SearchRequest("list the isues of a repository")
        with ThreadPoolExecutor(8) as threads:
            searches = [threads.submit(world.searcher.search, request, catalog, everything) for _ in range(16)]
            assert len({search.result() for search in searches}) == 1


class TestWithoutFullText:
    """The ranking is made of postings in memory and needs no FTS5 (R33, R34)."""

    def test_an_answer_is_the_same_as_with_it(self, tmp_path: Path):
        answers = []
        for fts in ("auto", "off"):
            with opened(tmp_path / f"{fts}.db", fts=fts) as world:
                everything = permitted(catalog := world.listed(ISSUES, numbered("s", 60, "Lists things.")))
                requests = [
                    SearchRequest(query, kind)
                    for query in (
                        "please merge it (now)",
                        "create issue",
                        "lst the isues",
                        "tool_1",
                        "search\nmerge",
                        "*",
                    )
                    for kind in SearchType
                    if (query, kind) != ("*", SearchType.REGEX)
                ]
                answers.append([world.searcher.search(request, catalog, everything) for request in requests])
                assert world.searcher.is_quick(SearchRequest("merge"), catalog, everything)
        assert answers[0] == answers[1]
        assert names(answers[1][0]) == ["github__merge_pull_request"]
