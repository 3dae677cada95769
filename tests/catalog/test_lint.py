"""Which tools are found to be hard to find, by which code, and what is said about each."""

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import REAL_CATALOG, listing, opened, real_listing, record

from toolcrib.base.model import Caller, Example, Ingest, JsonObject, ToolRecord
from toolcrib.catalog.lint import TOOLS_LOOKED_AT, Described, Finding, Report, find_faults
from toolcrib.catalog.tool_search import SearchRequest
from toolcrib.policy.rules import Policy

Look = Callable[..., Report]

GOOD = "Opens a new ticket in the tracker of a project."


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Index some records, or whole lists of servers, and return what is wrong with them."""

    def look(*given: ToolRecord | Ingest, server: str | None = None) -> Report:
        lists = [each for each in given if isinstance(each, Ingest)]
        loose = [each for each in given if isinstance(each, ToolRecord)]
        servers = dict.fromkeys(each.server for each in loose)
        lists += [listing(key, *(each for each in loose if each.server == key)) for key in servers]
        with opened(tmp_path / "tool_cache.db") as world:
            catalog = world.listed(*lists)
            permitted = catalog.permitted(Policy().permissions(Caller()))
            definitions, cards = world.index.definitions(permitted.rows), world.index.cards(permitted.rows)

            def search(query: str) -> list[str]:
                request = SearchRequest(query, limit=TOOLS_LOOKED_AT, include_always=True)
                return [
                    match.document.public_name for match in world.searcher.search(request, catalog, permitted).matches
                ]

            described = [
                Described(
                    tool,
                    definitions[tool.row],
                    cards[tool.row].tags,
                    tuple(example.description for example in cards[tool.row].examples),
                )
                for tool in permitted.tools
            ]
            return find_faults(described, search, server)

    return look


def found(report: Report, code: str) -> dict[str, Finding]:
    """Return the findings of one code by the tools' names."""
    return {finding.described.tool.name: finding for finding in report.findings if finding.rule.code == code}


def with_schema(name: str, description: str, schema: JsonObject) -> ToolRecord:
    definition = {"name": name, "description": description, "inputSchema": {"type": "object", **schema}}
    return record("zoo", name, definition=definition)


def test_a_tool_with_words_of_its_own_is_found_first_and_nothing_is_said(look: Look):
    report = look(
        record("zoo", "feed_lion", "Gives meat to the lion in the morning."), record("desk", "open_ticket", GOOD)
    )
    assert report.findings == ()
    assert (report.by_name, report.by_first_sentence, report.by_request) == (1.0, 1.0, 1.0)
    assert [probe.source for probe in report.probes[1]] == ["name", "first sentence", "request"]
    assert [probe.query for probe in report.probes[1]] == [
        "feed lion",
        "Gives meat to the lion in the morning.",
        "gives meat morning",
    ]


def test_an_empty_catalog_has_nothing_to_find(look: Look):
    report = look()
    assert (report.tools, report.findings, report.by_name, report.by_first_sentence) == ((), (), None, None)


# -- by name -------------------------------------------------------------------------------------


def test_a_name_that_too_many_tools_have_is_an_error(look: Look):
    report = look(*(record(f"s{number:02}", "search", f"Searches room {number}.") for number in range(22)))
    lost = [finding for finding in report.findings if finding.rule.code == "not-found-by-name"]
    assert len(lost) == 2
    assert lost[0].rule.level == "error"
    assert lost[0].what == 'is not among the first 20 for "search"'
    assert report.by_name == 20 / 22


def test_a_name_without_a_letter_cannot_be_found(look: Look):
    assert "_" in found(look(record("zoo", "_", GOOD)), "not-found-by-name")


def test_of_tools_with_one_name_any_may_come_first(look: Look):
    report = look(record("a", "list_tables", "Tables of one base."), record("b", "list-tables", "Tables of another."))
    assert report.by_name == 1.0


def test_a_long_name_is_told_by_what_clients_make_of_it(look: Look):
    long, longer = "x" * 45, "y" * 70
    names = found(look(*(record("zoo", name, GOOD + name) for name in ("z" * 44, long, longer))), "long-name")
    assert {name: finding.rule.level for name, finding in names.items()} == {long: "info", longer: "info"}
    assert "50 characters; some clients take 49 only" in names[long].what
    assert "75 characters, so clients see a shortened one" in names[longer].what


# -- by description ------------------------------------------------------------------------------


def test_a_tool_behind_others_for_its_own_first_sentence_is_hidden_and_they_are_named(look: Look):
    report = look(
        record("zoo", "delete_contact", "Deletes a contact from the contacts folder."),
        record("zoo", "erase", "Delete a contact. It cannot be undone, and nobody is asked; backups are kept a month."),
    )
    [finding] = found(report, "hidden-by-near-duplicate").values()
    assert finding.described.tool.name == "erase"
    assert finding.rule.level == "warning"
    told = 'by its first sentence it is number 2, after zoo__delete_contact; with the word "cannot" it is first'
    assert finding.what == told
    assert finding.others == ("zoo__delete_contact",)
    assert "servers.zoo.tags" in finding.advice
    assert report.by_first_sentence == 0.5


def test_a_tool_that_its_siblings_stand_before_is_told_the_word_that_would_help(look: Look):
    tools = look(
        record("zoo", "water", "Gives every animal of one big house clean fresh cold water, and rinses the trough."),
        record("zoo", "feed", "Gives every animal of one big house clean fresh hay."),
    ).tools

    def search(query: str) -> list[str]:
        return ["zoo__water", "zoo__feed"] if {"water", "trough"} & set(query.split()) else ["zoo__feed", "zoo__water"]

    [finding] = found(find_faults(tools, search), "hard-to-ask-for").values()
    assert (finding.described.tool.name, finding.rule.level, finding.others) == ("water", "info", ("zoo__feed",))
    asked = "gives every animal one big house clean fresh"
    assert finding.what == f'asked for as "{asked}" it is number 2, after zoo__feed; with the word "trough" it is first'


def test_a_request_leaves_out_what_a_tool_is_called_and_needs_three_words(look: Look):
    asked = {
        probe.query
        for tried in look(
            record("zoo", "feed_lion", "Feeds the lion of the zoo with fresh meat, twice a day, and notes the time."),
            record("zoo", "weigh_lion", "Weighs the old lion."),
        ).probes
        for probe in tried
        if probe.source == "request"
    }
    assert asked == {"fresh meat twice day notes time"}


def test_an_example_that_finds_other_tools_is_quoted(look: Look):
    example = Example({}, "Buy fresh hay for the horses")
    tool = record("zoo", "order", "Sends an order to a supplier.", examples=[example])
    hay = record("zoo", "buy_hay", "Buys fresh hay for horses.")
    [finding] = found(look(tool, hay), "hidden-by-near-duplicate").values()
    assert finding.what.startswith('by its example "Buy fresh hay for the horses" it is ')
    assert ", after zoo__buy_hay" in finding.what


def test_a_tool_that_a_search_does_not_show_at_all_is_told_so(look: Look):
    [described] = look(record("zoo", "order", "Sends an order to a supplier.")).tools
    report = find_faults([described], lambda query: ["a", "b", "c", "d"] if " " in query else ["zoo__order"])
    [finding] = [each for each in report.findings if each.rule.code == "hidden-by-near-duplicate"]
    assert finding.what == "by its first sentence it is not among the first 20, after a, b, c and 1 more"
    assert report.by_first_sentence == 0


def test_a_title_is_tried_too(look: Look):
    definition = {"name": "x1", "title": "Feed the lion", "description": GOOD, "inputSchema": {"type": "object"}}
    lion = record("zoo", "feed_lion", "Gives meat to the lion.")
    [finding] = found(look(record("zoo", "x1", definition=definition), lion), "hidden-by-near-duplicate").values()
    assert finding.what.startswith("by its title it is ")


@pytest.mark.parametrize("description", ["", "  \n"])
def test_no_description_is_said(look: Look, description: str):
    report = look(record("zoo", "feed", description))
    [finding] = report.findings
    assert (finding.rule.code, finding.rule.level) == ("no-description", "warning")
    assert report.by_first_sentence is None


def test_a_short_description_is_quoted(look: Look):
    report = look(record("zoo", "delete_contact", "Delete a contact."), record("zoo", "open_ticket", GOOD))
    short = found(report, "short-description")
    assert [*short] == ["delete_contact"]
    assert short["delete_contact"].what == 'says no more than "Delete a contact."'


def test_a_description_of_few_characters_without_spaces_is_not_short(look: Look):
    assert not found(look(record("zoo", "feed", "在动物园里喂狮子")), "short-description")


def test_tools_with_one_description_are_named_and_not_called_hidden_too(look: Look):
    report = look(*(record("zoo", name, GOOD) for name in ("create", "open", "start")))
    same = found(report, "same-description")
    assert same["open"].others == ("zoo__create", "zoo__start")
    assert same["open"].what == "has the same description as zoo__create, zoo__start"
    assert not found(report, "hidden-by-near-duplicate")


# -- by words ------------------------------------------------------------------------------------

OTHERS = "Sends a mail message number {} to somebody."


def test_words_that_ten_others_have_tell_a_tool_from_none_and_rarer_ones_are_offered(look: Look):
    others = [record("mail", f"send_message_{number}", OTHERS.format(number)) for number in range(10)]
    vague = record("mail", "send_message", "Sends a message to somebody. Carries encrypted attachments.")
    shared = found(look(vague, *others), "words-shared-with-many")
    assert [*shared] == ["send_message"]
    assert shared["send_message"].rule.level == "warning"
    assert shared["send_message"].what == (
        "each of its words (sends, message, somebody) is in 10 other tools or more; "
        "the rest of its description has words that few others have: carries, encrypted, attachments"
    )


def test_where_no_word_is_rare_none_is_offered(look: Look):
    others = [record("mail", f"send_message_{number}", OTHERS.format(number)) for number in range(10)]
    vague = record("mail", "send_message", "Sends a message to somebody.")
    what = found(look(vague, *others), "words-shared-with-many")["send_message"].what
    assert what.endswith("is in 10 other tools or more")


@pytest.mark.parametrize(("others", "tags"), [(9, ()), (10, ("newsletter",))], ids=["nine others", "a tag of its own"])
def test_one_rare_word_is_enough(look: Look, others: int, tags: tuple[str, ...]):
    crowd = [record("mail", f"send_message_{number}", OTHERS.format(number)) for number in range(others)]
    vague = record("mail", "send_message", "Sends a message to somebody.", tags=tags)
    assert not found(look(vague, *crowd), "words-shared-with-many")


def test_a_name_that_few_others_have_all_words_of_is_enough(look: Look):
    senders = [record("mail", f"send_{number}", "Sends to somebody.") for number in range(10)]
    readers = [record("mail", f"message_{number}", "Reads a message.") for number in range(10)]
    vague = record("mail", "send_message", "Sends a message to somebody.")
    assert not found(look(vague, *senders, *readers), "words-shared-with-many")


# -- by parameters -------------------------------------------------------------------------------


def test_parameters_without_a_single_description_are_named(look: Look):
    bare = {"properties": {"owner": {"type": "string"}, "repo": {"type": "string"}}}
    told = {"properties": {"owner": {"type": "string", "description": "Who has it."}, "repo": {"type": "string"}}}
    report = look(with_schema("bare", GOOD, bare), with_schema("told", GOOD + " It is told.", told))
    silent = found(report, "no-parameter-descriptions")
    assert [*silent] == ["bare"]
    assert silent["bare"].rule.level == "info"
    assert silent["bare"].what == "none of its parameters (owner, repo) is described"


# -- a whole catalog -----------------------------------------------------------------------------


def test_one_server_is_looked_at_among_all_the_others(look: Look):
    report = look(*(record(key, "feed", GOOD) for key in ("a", "b")), server="b")
    assert [each.tool.server for each in report.tools] == ["b"]
    [finding] = report.findings
    assert finding.others == ("a__feed",)


def test_a_hostile_name_cannot_steer_what_is_told(look: Look):
    schema = {"properties": {"a\x1b[2J\nb": {}}}
    silent = found(look(with_schema("feed", GOOD, schema)), "no-parameter-descriptions")
    assert silent["feed"].what == "none of its parameters (a[2J b) is described"


@pytest.mark.slow
def test_nearly_every_tool_of_the_real_servers_is_found_by_its_name(look: Look):
    files = sorted(REAL_CATALOG.glob("*.json"))
    if not files:
        pytest.skip(f"there are no tool lists of real servers in {REAL_CATALOG}")
    report = look(*map(real_listing, files))
    assert len(report.tools) > 1000
    assert report.by_name is not None
    assert report.by_name >= 0.99
    assert report.by_first_sentence is not None
    assert report.by_first_sentence >= 0.9
