"""What use has taught, in a search: what it lifts, how far, and what it never changes."""

from builders import GUEST, World, guests_without, listing, names, permitted, record

from toolcrib.base.model import SearchType
from toolcrib.base.text import words
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.search.english import stem
from toolcrib.search.learned_words import NOTHING_LEARNT, Lesson, Vocabulary

CALENDAR = listing(
    "calendar",
    record("calendar", "create_event", "Adds an event to a calendar."),
    record("calendar", "list_events", "Lists the events of a week."),
    record("calendar", "delete_event", "Removes an event from a calendar."),
)
ISSUES = listing(
    "issues",
    record("issues", "create_issue", "Opens an issue in a project."),
    record("issues", "open_ticket", "Opens a ticket in a project."),
    record("issues", "search_issues", "Searches the issues of a project."),
)
EVENT = "calendar__create_event"


def taught(query: str, tool: str, times: int = 1) -> Vocabulary:
    vocabulary = NOTHING_LEARNT
    for number in range(times):
        vocabulary = vocabulary.after(Lesson(tuple(map(stem, words(query))), tool, 1.0, 1e9 + number))
    return vocabulary


def search(world: World, query: str, learnt: Vocabulary, kind: str = "fts", **options):
    catalog = world.catalog()
    request = SearchRequest(query, SearchType(kind), **options)
    return world.searcher.search(request, catalog, permitted(catalog), learnt)


def test_a_word_that_no_tool_has_finds_the_tool_that_it_was_taught_for_and_says_that_it_is_not_sure(world: World):
    world.listed(CALENDAR, ISSUES)
    assert names(search(world, "standup", NOTHING_LEARNT)) == []
    found = search(world, "standup", taught("standup", EVENT))
    assert names(found) == [EVENT]
    assert found.confidence == "low"


def test_among_tools_that_fit_about_equally_the_one_comes_first_that_was_used(world: World):
    world.listed(ISSUES)
    query = "file a problem in the project"
    before = search(world, query, NOTHING_LEARNT)
    assert before.confidence != "high"
    assert names(before)[0] != "issues__open_ticket"
    after = search(world, query, taught("file problem project", "issues__open_ticket", 4))
    assert names(after)[0] == "issues__open_ticket"
    assert after.confidence == "low"


def test_no_lesson_changes_what_a_name_finds_or_what_words_are_sure_of(world: World):
    world.listed(CALENDAR, ISSUES)
    for query in ("create_issue", "create issue", "searches issues of the project", "issues__create"):
        assert search(world, query, NOTHING_LEARNT).confidence == "high", query
        learnt = taught(query, EVENT, 1000)
        assert search(world, query, learnt) == search(world, query, NOTHING_LEARNT), query


def test_no_lesson_counts_for_patterns_or_exact_names(world: World):
    world.listed(CALENDAR, ISSUES)
    for kind in ("regex", "exact"):
        learnt = taught("ticket", EVENT, 4)
        assert search(world, "ticket", learnt, kind) == search(world, "ticket", NOTHING_LEARNT, kind)


def test_what_is_far_behind_is_found_by_a_lesson_and_never_comes_first_by_it(world: World):
    world.listed(CALENDAR, ISSUES)
    query = "something about a ticket for plumbers"
    before = search(world, query, NOTHING_LEARNT)
    after = search(world, query, taught("something ticket plumber", EVENT, 1000))
    assert names(before)[0] == names(after)[0] == "issues__open_ticket"
    assert EVENT in names(after)
    assert EVENT not in names(before)


def test_a_lesson_about_a_little_of_a_request_says_nothing_about_it(world: World):
    world.listed(CALENDAR, ISSUES)
    learnt = taught("zebra", EVENT, 1000)
    query = "zebra plumbing ticket gutters"
    assert search(world, query, learnt) == search(world, query, NOTHING_LEARNT)


def test_a_lesson_for_a_tool_that_is_hidden_gone_or_left_out_of_the_search_counts_for_nothing(world: World):
    world.listed(CALENDAR, ISSUES)
    learnt = taught("standup", EVENT, 4).after(Lesson(("standup",), "gone__tool", 1.0, 1e9))
    catalog = world.catalog()
    hidden = permitted(catalog, None)
    assert names(world.searcher.search(SearchRequest("standup"), catalog, hidden, learnt)) == [EVENT]
    only = SearchRequest("standup", server="issues")
    assert names(world.searcher.search(only, catalog, hidden, learnt)) == []
    guests = catalog.permitted(guests_without("calendar.create_event").permissions(GUEST))
    found = world.searcher.search(SearchRequest("standup"), catalog, guests, learnt)
    assert found == world.searcher.search(SearchRequest("standup"), catalog, guests, NOTHING_LEARNT)


def test_lessons_about_hidden_tools_make_those_about_others_no_older(world: World):
    world.listed(CALENDAR, ISSUES)
    catalog = world.catalog()
    guests = catalog.permitted(guests_without("calendar.create_event").permissions(GUEST))
    mine = taught("standup", "calendar__list_events")
    later = Lesson(("standup",), EVENT, 1.0, 1e9 + 90 * 86_400)

    def found(learnt: Vocabulary):
        return world.searcher.search(SearchRequest("standup of the week"), catalog, guests, learnt)

    assert found(mine) == found(mine.after(later))
    assert found(mine) != found(mine.after(Lesson(("standup",), "issues__open_ticket", 1.0, later.at)))


def test_each_line_of_several_requests_counts_what_it_was_taught(world: World):
    world.listed(CALENDAR, ISSUES)
    assert EVENT in names(search(world, "standup\nopen a ticket", taught("standup", EVENT)))
